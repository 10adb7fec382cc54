//! `weir bng subscriber`.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use weir_bng::api::{Added, Plan, Subscriber, SubscriberPatch, SubscriberState, Subscribers};
use weir_bng::{self as bng, Name, Status};

use super::client::{Client, segment};
use super::write_json;
use crate::cli::{Listing, NewSubscriber, Said, SubscriberChange, SubscriberCommand};

/// Records of a page.
const PAGE: usize = 10_000;
/// Refused subscribers that are shown.
const SHOWN: usize = 10;

pub(super) fn run(command: &SubscriberCommand, out: &mut impl Write) -> Result<()> {
    match command {
        SubscriberCommand::Add(arguments) => add(arguments, out),
        SubscriberCommand::List { listing } => list(listing, out),
        SubscriberCommand::Show { name, socket, json } => {
            let state: SubscriberState = Client::of(socket).get(&target(name))?;
            if *json { write_json(&state, out) } else { Ok(writeln!(out, "{}", line(&state)?)?) }
        }
        SubscriberCommand::Change(arguments) => change(arguments, out),
        SubscriberCommand::Remove { name, socket } => {
            Client::of(socket).delete(&target(name))?;
            Ok(writeln!(out, "{name} is removed")?)
        }
        SubscriberCommand::Block { name, socket } => {
            set(&Client::of(socket), name, (Some(Status::Blocked), None), out)
        }
        SubscriberCommand::Unblock { name, socket } => {
            set(&Client::of(socket), name, (Some(Status::Active), None), out)
        }
        SubscriberCommand::Set { name, state, nat, socket } => {
            let nat = (!nat.is_empty()).then(|| nat.join(" ").parse()).transpose();
            set(&Client::of(socket), name, (*state, nat.map_err(anyhow::Error::msg)?), out)
        }
    }
}

fn target(name: &Name) -> String {
    format!("/v1/subscribers/{}", segment(name.as_str()))
}

fn set(
    client: &Client,
    name: &Name,
    (state, nat): (Option<Status>, Option<bng::Nat>),
    out: &mut impl Write,
) -> Result<()> {
    let (state, nat) = (state.map(|state| state.to_string()), nat.map(|nat| nat.to_string()));
    let patch = SubscriberPatch { state: state.clone(), nat: nat.clone(), ..SubscriberPatch::default() };
    let _: SubscriberState = client.send("PATCH", &target(name), &patch)?;
    let said: Vec<String> = state.into_iter().chain(nat.map(|nat| format!("nat {nat}"))).collect();
    Ok(writeln!(out, "{name} is {}", said.join(", "))?)
}

/// A subscriber, as the text of one is read.
fn read(text: &str) -> Result<Subscriber> {
    let subscriber: bng::Subscriber = text.parse().map_err(anyhow::Error::msg)?;
    Ok(Subscriber::with_password(&subscriber))
}

fn add(arguments: &NewSubscriber, out: &mut impl Write) -> Result<()> {
    let client = Client::of(&arguments.socket);
    if let Some(file) = &arguments.from {
        return add_all(&client, file, out);
    }
    let Some(name) = &arguments.name else {
        bail!("write the name of the subscriber in front of --plan, or use --from FILE")
    };
    let said = &arguments.said;
    let Said { mac, line, circuit, login, password_file, plan, address, prefix, group, .. } = said;
    let key = match (mac, line, circuit, login) {
        (Some(mac), ..) => format!("mac {mac}"),
        (_, Some(line), ..) => format!("line {line}"),
        (_, _, Some(circuit), _) => format!("circuit {circuit}"),
        (.., Some(login)) => format!("login {login}"),
        _ => bail!("say what identifies {name}: --mac, --line, --circuit or --login"),
    };
    if plan.is_empty() {
        bail!("say the plan of {name}: `--plan NAME`, or `--plan down 20Mbit up 5Mbit`");
    }
    let address = address.map(|address| format!(" address {address}")).unwrap_or_default();
    let prefix = prefix.map(|prefix| format!(" prefix {prefix}")).unwrap_or_default();
    let pools = [("pool", &said.pool), ("prefix-pool", &said.prefix_pool)];
    let pools = pools.into_iter().filter_map(|(word, pool)| Some(format!(" {word} {}", pool.as_ref()?)));
    let routes = said.route.iter().map(|route| format!(" route {route}"));
    let more: String = pools.chain(routes).collect();
    let group = group.as_ref().map(|group| format!(" group {group}")).unwrap_or_default();
    let text = format!("{name} {key} plan {}{address}{prefix}{more}{group}", plan.join(" "));
    let mut subscriber = read(&text)?;
    subscriber.password = password_file.as_deref().map(password).transpose()?;
    let _: SubscriberState = client.send("POST", "/v1/subscribers", &subscriber)?;
    Ok(writeln!(out, "{name} is added")?)
}

/// The password of a file or of standard input, as the API takes it: what stands in front of the end of its line.
fn password(file: &Path) -> Result<String> {
    let shown = file.display();
    let bytes = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().bytes().collect::<Result<Vec<u8>, _>>(),
        false => std::fs::read(file),
    };
    let bytes = bytes.with_context(|| format!("cannot read the password from {shown}"))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let password = line.strip_suffix(b"\r").unwrap_or(line);
    if !(1..=128).contains(&password.len()) || password.contains(&b'\n') {
        bail!("{shown} is no password: write 1 to 128 bytes in one line");
    }
    Ok(bng::password_word(password))
}

/// Those of a file, in one request. All mistakes of the file are reported before anything is added.
fn add_all(client: &Client, file: &Path, out: &mut impl Write) -> Result<()> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let (mut subscribers, mut mistakes) = (Vec::new(), Vec::new());
    for (n, line) in weir_config::without_bom(&text).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match read(line) {
            _ if line.is_empty() => {}
            Ok(subscriber) => subscribers.push((n + 1, subscriber)),
            Err(error) => mistakes.push(format!("{shown}:{}: {error}", n + 1)),
        }
    }
    if !mistakes.is_empty() {
        bail!("{}", mistakes.join("\n"));
    }
    let (lines, all): (Vec<usize>, Vec<Subscriber>) = subscribers.into_iter().unzip();
    let added: Added = client.send("POST", "/v1/subscribers", &all)?;
    writeln!(out, "subscribers added: {}, refused: {}", added.added, added.refused)?;
    if added.refused == 0 {
        return Ok(());
    }
    let refused = added.errors.iter().take(SHOWN).map(|refused| {
        let line = lines.get(refused.index).copied().unwrap_or_default();
        format!("{shown}:{line}: {}", refused.detail)
    });
    let refused: Vec<String> = refused.collect();
    let more = added.refused.saturating_sub(refused.len());
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    bail!("{}{more}", refused.join("\n"))
}

fn change(arguments: &SubscriberChange, out: &mut impl Write) -> Result<()> {
    let SubscriberChange { name, said, no_address, no_prefix, no_route, no_pool, socket } = arguments;
    let client = Client::of(socket);
    let SubscriberState { mut subscriber, .. } = client.get(&target(name))?;
    let Said { mac, line, circuit, login, password_file, plan, address, prefix, group, .. } = said;
    if mac.is_some() || line.is_some() || circuit.is_some() || login.is_some() {
        subscriber.mac = mac.map(|mac| mac.to_string());
        subscriber.line = line.as_ref().map(ToString::to_string);
        subscriber.circuit.clone_from(circuit);
        subscriber.login = login.as_ref().map(ToString::to_string);
    }
    if let Some(file) = password_file {
        subscriber.password = Some(password(file)?);
    }
    if !plan.is_empty() {
        // The form of the key does not matter here.
        subscriber.plan = read(&format!("{name} line a plan {}", plan.join(" ")))?.plan;
    }
    if address.is_some() || *no_address {
        subscriber.address = *address;
    }
    if prefix.is_some() || *no_prefix {
        subscriber.prefix = prefix.map(|prefix| prefix.to_string());
    }
    if !said.route.is_empty() || *no_route {
        subscriber.routes = said.route.iter().map(ToString::to_string).collect();
    }
    for (said, pool) in [(&said.pool, &mut subscriber.pool), (&said.prefix_pool, &mut subscriber.prefix_pool)]
    {
        if said.is_some() || *no_pool {
            *pool = said.as_ref().map(ToString::to_string);
        }
    }
    if let Some(group) = group {
        subscriber.group = Some(group.to_string());
    }
    let _: SubscriberState = client.send("PUT", &target(name), &subscriber)?;
    Ok(writeln!(out, "{name} is changed")?)
}

fn list(listing: &Listing, out: &mut impl Write) -> Result<()> {
    let client = Client::of(&listing.socket);
    let (mut all, mut after, mut total) = (Vec::new(), None::<String>, 0);
    let limit = listing.limit.unwrap_or(usize::MAX);
    loop {
        let most = PAGE.min(limit.saturating_sub(all.len()));
        if most == 0 {
            break;
        }
        let from = after.map(|name| format!("&after={}", segment(&name))).unwrap_or_default();
        let page: Subscribers = client.get(&format!("/v1/subscribers?most={most}{from}"))?;
        total = page.total;
        all.extend(page.subscribers);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if listing.json {
        return write_json(&Subscribers { total, subscribers: all, next: after }, out);
    }
    if all.is_empty() {
        writeln!(out, "no subscriber")?;
    }
    for state in &all {
        writeln!(out, "{}", line(state)?)?;
    }
    Ok(())
}

/// `anna  mac 02:00:00:00:00:01  down 20Mbit/s up 5Mbit/s  online 100.64.0.2`.
fn line(SubscriberState { subscriber, session }: &SubscriberState) -> Result<String> {
    let Subscriber { name, mac, line, circuit, login, plan, address, prefix, group, nat, state, .. } =
        subscriber;
    let routes: String = subscriber.routes.iter().map(|route| format!("  route {route}")).collect();
    let key = [("mac", mac), ("line", line), ("circuit", circuit), ("login", login)];
    let key = key.into_iter().find_map(|(what, key)| Some(format!("{what} {}", key.as_ref()?)));
    let plan = match plan {
        Plan::Named(name) => name.clone(),
        Plan::Own(rates) => {
            let (down_bits_per_s, up_bits_per_s) = (rates.down_bits_per_s, rates.up_bits_per_s);
            bng::Rates { down_bits_per_s, up_bits_per_s }.to_string()
        }
    };
    let online = session.as_ref().map(|session| match &session.prefix {
        Some(prefix) if session.address.is_unspecified() => format!("online {prefix}"),
        Some(prefix) => format!("online {} {prefix}", session.address),
        None => format!("online {}", session.address),
    });
    let state = match (online, state.as_str()) {
        (Some(online), "active") => online,
        (Some(online), state) => format!("{online} {state}"),
        (None, "active") => "offline".into(),
        (None, state) => state.into(),
    };
    let fixed = address.map(|address| format!("  address {address}")).unwrap_or_default();
    let prefix = prefix.as_ref().map(|prefix| format!("  prefix {prefix}")).unwrap_or_default();
    let group = group.as_ref().map(|group| format!("  group {group}")).unwrap_or_default();
    let nat = nat.as_ref().map(|nat| format!("  nat {nat}")).unwrap_or_default();
    Ok(format!("{name}  {}  {plan}  {state}{fixed}{prefix}{routes}{group}{nat}", key.unwrap_or_default()))
}
