//! The configuration as a text: items with a comma between them.
//!
//! ```text
//! store /var/lib/weir/bng, key /etc/weir/bng.key, socket /run/weir/bng.sock,
//! port access1 mac 02:00:00:00:00:fe trusted relay 192.0.2.1,
//! pool main 100.64.0.2-100.64.0.99 100.64.1.0-100.64.1.9 router 100.64.0.1/16,
//! pool six 2001:db8:100::/48 router 2001:db8:100::1/48, ra interval 5m router 1h valid 1h preferred 30m,
//! plan basic down 20Mbit up 5Mbit timeout 24h idle 1h quota 100G quota-down 90G quota-up 20G, at-limit walled,
//! dns 192.0.2.53 192.0.2.54 2001:db8::53,
//! portal https://portal.example/, captive https://captive.example/api at 192.0.2.10:8080,
//! lease 1h renewal 30m rebinding 52m, offer 30s, quarantine 10m, grace 60s, moves refuse,
//! limit line 100 burst 200, limit subscriber 5 burst 20, limit sessions mac 4 line 100 replace vlan 4000 node 64000 subscriber 2 replace,
//! dynamic-authorization 192.0.2.1:3799 client 192.0.2.9 secret-file coa.secret require window 5m,
//! accounting interim 15m least-interim 10m swapped,
//! radius one 192.0.2.9:1812 secret-file one.secret realm isp ports 16 require status dead 10s accounting 1813 plan basic,
//! radius three tls://192.0.2.9:2083 ca ca.pem cert bng.pem key bng.key server-name aaa.example,
//! aaa local radius 5s, dhcp-radius user-name {mac} password {mac} reject 30s renewals, brown-out age 7d chap dhcp, nas identifier bng1 user-name {name} port-id {line} unsupported refuse,
//! pppoe name weir auth chap-md5 pap service gold strict delay 10ms mtu 1508 sessions mac 4 line 100 half-open 9 padi mac 1 burst 5,
//! subscriber anna mac 02:00:00:00:00:01 plan basic address 100.64.0.9 blocked
//! ```
//! `#` begins a comment, up to the end of its line.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

mod aaa;
mod accounting;
mod dynauth;
mod ipv6;
mod pppoe;
mod radius;

use weir_config::{Mistakes, Notes, did_you_mean, unit};

use super::{AtLimit, Config, Item, LeaseTimes, Moves, NodeFacts, Port};
use crate::account::Limits;
use crate::limit::Limit;
use crate::line::PortName;
use crate::mac::Mac;
use crate::name::Name;
use crate::places::{Over, SessionLimit, SessionLimits};
use crate::plan::Rates;
use crate::pool::Pool;
use crate::subscriber::Subscriber;
use crate::words::Words;

const ITEMS: [&str; 27] = [
    "store",
    "key",
    "socket",
    "port",
    "pool",
    "plan",
    "ra",
    "dns",
    "portal",
    "captive",
    "lease",
    "offer",
    "quarantine",
    "grace",
    "moves",
    "at-limit",
    "limit",
    "pppoe",
    "radius",
    "aaa",
    "dhcp-radius",
    "brown-out",
    "plan-attributes",
    "nas",
    "accounting",
    "dynamic-authorization",
    "subscriber",
];

/// Longest URI of option 114 (RFC 8910, section 2.1).
const MOST_URI_BYTES: usize = 255;

/// Reads what stands at `within` in the text of a file; see [`Item::read`].
pub(super) fn read(
    file: &str,
    text: &str,
    within: Range<usize>,
    node: Option<&NodeFacts>,
) -> Result<Item, Mistakes> {
    let notes = Notes::new("a bng", text);
    let mut read = Item::default();
    let (start_of_all, mut end) = (within.start, within.start);
    let without_comments = without_comments(text.get(within).unwrap_or_default());
    for item in without_comments.split(',') {
        let start = end + item.len() - item.trim_start().len();
        end += item.len() + 1;
        if item.trim().is_empty() {
            continue;
        }
        if let Err(wrong) = read_item(item, &mut read, node) {
            notes.add(Some(start..start), "", wrong);
        }
    }
    if notes.is_empty() {
        for wrong in read.config.contradictions() {
            notes.add(Some(start_of_all..start_of_all), "", wrong);
        }
    }
    if notes.is_empty() { Ok(read) } else { Err(notes.to_mistakes(file)) }
}

/// The text with blanks in place of comments, as long as it was.
fn without_comments(text: &str) -> String {
    let line = |line: &str| {
        let code = line.find('#').unwrap_or(line.len());
        let (code, comment) = line.split_at(code);
        let blank = comment.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' });
        format!("{code}{}", blank.collect::<String>())
    };
    text.split_inclusive('\n').map(line).collect()
}

fn read_item(item: &str, read: &mut Item, node: Option<&NodeFacts>) -> Result<(), String> {
    let words = &mut Words::new(item);
    let Item { config, subscribers, store, key, socket, captive_at } = read;
    match words.word("an item")? {
        "store" => said_once("store", store, words)?,
        "key" => said_once("key", key, words)?,
        "socket" => said_once("socket", socket, words)?,
        "port" => add_port(words, config, node)?,
        "pool" => add_pool(words, config, node)?,
        "plan" => add_plan(words, config)?,
        "dns" => add_name_servers(words, config)?,
        "ra" => config.advertise = ipv6::times(words)?,
        "portal" => once("portal", &mut config.portal, uri(words)?)?,
        "captive" => {
            once("captive", &mut config.captive, uri(words)?)?;
            if words.takes("at") {
                *captive_at = Some(words.number("address and port")?);
            }
        }
        "lease" => config.lease = lease(words)?,
        "offer" => config.offer = time(words, 1)?,
        "quarantine" => config.quarantine = time(words, 1)?,
        "grace" => config.grace = time(words, 0)?,
        "moves" => config.moves = moves(words)?,
        "limit" => match words.word("`line`, `subscriber` or `sessions`")? {
            "line" => config.line_limit = limit(words)?,
            "subscriber" => config.subscriber_limit = limit(words)?,
            "sessions" => session_limits(words, &mut config.session_limits)?,
            other => return Err(format!("`{other}` has no limit: use line, subscriber or sessions")),
        },
        "pppoe" => once("pppoe", &mut config.pppoe, pppoe::read(words)?)?,
        "at-limit" => config.at_limit = at_limit(words)?,
        "subscriber" if node.is_some() => {
            return Err(
                "subscribers do not stand in the file of a node: remove this one, and use `weir bng subscriber add`".into()
            );
        }
        "subscriber" => subscribers.push(Subscriber::read(words)?),
        other if read_aaa_item(other, config, words)? => {}
        other => return Err(format!("`{other}` is no item: {}", did_you_mean(other, &ITEMS))),
    }
    words.end()
}

fn add_port(words: &mut Words<'_>, config: &mut Config, node: Option<&NodeFacts>) -> Result<(), String> {
    let name: PortName = words.value("the name of the port")?;
    if let Some(node) = node {
        node.check_port(&name)?;
    }
    match config.ports.insert(name, port(words)?) {
        None => Ok(()),
        Some(_) => Err("there are two ports of this name: remove one".into()),
    }
}

fn add_pool(words: &mut Words<'_>, config: &mut Config, node: Option<&NodeFacts>) -> Result<(), String> {
    let name = words.value("the name of the pool")?;
    let names = config.pools.iter().map(|pool| &pool.name);
    if names.chain(config.prefix_pools.iter().map(|pool| &pool.name)).any(|other| *other == name) {
        return Err(format!("there are two pools of the name {name}: remove one"));
    }
    if words.peek().is_some_and(|word| word.contains(':')) {
        let pool = ipv6::pool(name, words)?;
        node.map_or(Ok(()), |node| node.check_router(&pool.name, pool.router, pool.router_len))?;
        config.prefix_pools.push(pool);
    } else {
        let pool = pool(name, words)?;
        node.map_or(Ok(()), |node| node.check_router(&pool.name, pool.router, pool.prefix_len))?;
        config.pools.push(pool);
    }
    Ok(())
}

fn add_plan(words: &mut Words<'_>, config: &mut Config) -> Result<(), String> {
    let name: Name = words.value("the name of the plan")?;
    if name.as_str() == "down" {
        return Err("a plan cannot have the name `down`: use another one".into());
    }
    let (rates, limits) = (Rates::read(words)?, plan_limits(words)?);
    if config.plans.insert(name.clone(), rates).is_some() {
        return Err("there are two plans of this name: remove one".into());
    }
    if limits != Limits::default() {
        config.plan_limits.insert(name, limits);
    }
    Ok(())
}

fn add_name_servers(words: &mut Words<'_>, config: &mut Config) -> Result<(), String> {
    while words.peek().is_some() {
        match words.number("address")? {
            IpAddr::V4(dns) => config.dns.push(dns),
            IpAddr::V6(dns) => config.dns6.push(dns),
        }
    }
    Ok(())
}

fn moves(words: &mut Words<'_>) -> Result<Moves, String> {
    match words.word("`replace` or `refuse`")? {
        "replace" => Ok(Moves::Replace),
        "refuse" => Ok(Moves::Refuse),
        other => Err(format!("`{other}` is no rule for moves: use replace or refuse")),
    }
}

fn at_limit(words: &mut Words<'_>) -> Result<AtLimit, String> {
    match words.word("`end` or `walled`")? {
        "end" => Ok(AtLimit::End),
        "walled" => Ok(AtLimit::Walled),
        other => Err(format!("`{other}` is no rule for limits: use end or walled")),
    }
}

/// Reads what is behind a word about AAA; false: it is none.
fn read_aaa_item(word: &str, config: &mut Config, words: &mut Words<'_>) -> Result<bool, String> {
    match word {
        "radius" => {
            let server = radius::read(words)?;
            if config.radius.iter().any(|other| other.name == server.name) {
                return Err(format!("there are two RADIUS servers of the name {}: remove one", server.name));
            }
            config.radius.push(server);
        }
        "dynamic-authorization" => {
            once("dynamic-authorization", &mut config.dynauth, dynauth::read(words)?)?;
        }
        "accounting" => config.accounting = accounting::read(words)?,
        "aaa" => config.aaa.order = aaa::order(words)?,
        "dhcp-radius" => once("dhcp-radius", &mut config.aaa.dhcp, aaa::dhcp(words)?)?,
        "brown-out" => config.aaa.brown_out = Some(aaa::brown_out(words)?),
        "plan-attributes" => said_once("plan-attributes", &mut config.aaa.plan_file, words)?,
        "nas" => aaa::nas(words, &mut config.aaa.nas, &mut config.aaa.unsupported)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn said_once(what: &str, path: &mut Option<PathBuf>, words: &mut Words<'_>) -> Result<(), String> {
    once(what, path, words.word("a path")?.into())
}

fn once<T>(what: &str, place: &mut Option<T>, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{what}` is said already: leave one of them out")),
    }
}

impl NodeFacts {
    fn check_port(&self, port: &PortName) -> Result<(), String> {
        if self.ports.contains(port) {
            return Ok(());
        }
        let names: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Err(format!("the node has no port `{port}`: {}", did_you_mean(&port.to_string(), &names)))
    }

    fn check_router(&self, pool: &Name, router: impl Into<IpAddr>, len: u8) -> Result<(), String> {
        let router = router.into();
        if self.gateways.contains(&router) {
            return Ok(());
        }
        let gateways: Vec<String> = self.gateways.iter().map(ToString::to_string).collect();
        let has = if gateways.is_empty() { "none".to_string() } else { gateways.join(", ") };
        Err(format!(
            "the router {router} of pool {pool} is no gateway of the node, which has {has}: write `access(gateway {router}/{len})`"
        ))
    }
}

/// A URI that an option of DHCP can hold. Clients use no other than https (RFC 8908, section 4.1).
fn uri(words: &mut Words<'_>) -> Result<String, String> {
    let word = words.word("a URI")?;
    let has_host =
        word.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    match has_host && word.len() <= MOST_URI_BYTES && word.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(word.to_string()),
        false => Err(format!(
            "`{word}` is no URI for clients: use https://portal.example/start, up to {MOST_URI_BYTES} bytes"
        )),
    }
}

fn port(words: &mut Words<'_>) -> Result<Port, String> {
    let mut port = Port::default();
    if words.takes("mac") {
        let mac: Mac = words.value("a MAC address")?;
        if !mac.is_station() {
            return Err(format!("{mac} is not the address of one port: use one like 02:00:00:00:00:fe"));
        }
        port.mac = Some(mac);
    }
    port.is_trusted = words.takes("trusted");
    while words.takes("relay") {
        port.relays.push(words.number("IPv4 address")?);
    }
    Ok(port)
}

fn pool(name: Name, words: &mut Words<'_>) -> Result<Pool, String> {
    let mut ranges = Vec::new();
    loop {
        let word = words.word("a range, or `router`,")?;
        if word == "router" {
            break;
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let ends = first.parse().ok().zip(last.parse().ok());
        ranges.push(ends.ok_or_else(|| format!("`{word}` is no range: use 100.64.0.2-100.64.0.99"))?);
    }
    let word = words.word("the address of the router")?;
    let wrong = || format!("`{word}` is no address of a router: use 100.64.0.1/16, or /32 behind it");
    let (router, len) = word.split_once('/').ok_or_else(wrong)?;
    let router: Ipv4Addr = router.parse().map_err(|_| wrong())?;
    let prefix_len = len.parse().ok().filter(|len| (8..=32).contains(len)).ok_or_else(wrong)?;
    Ok(Pool { name, ranges, router, prefix_len })
}

fn lease(words: &mut Words<'_>) -> Result<LeaseTimes, String> {
    let mut times = LeaseTimes::of(seconds(words)?);
    if words.takes("renewal") {
        times.renewal_s = seconds(words)?;
    }
    if words.takes("rebinding") {
        times.rebinding_s = seconds(words)?;
    }
    Ok(times)
}

/// At most a year: a lease of 2^32 - 1 s would be infinite (RFC 2131, section 3.3).
fn seconds(words: &mut Words<'_>) -> Result<u32, String> {
    Ok(u32::try_from(time(words, 1)?.as_secs()).unwrap_or(u32::MAX - 1))
}

fn time(words: &mut Words<'_>, least_s: u64) -> Result<Duration, String> {
    let most = Duration::from_secs(365 * 86_400);
    unit::time(words.word("a time")?, Duration::from_secs(least_s), most)
}

/// Reads `mac 4 line 100 replace`, with each kind once.
fn session_limits(words: &mut Words<'_>, limits: &mut SessionLimits) -> Result<(), String> {
    loop {
        let place = match words.word("`mac`, `line`, `vlan`, `node` or `subscriber`")? {
            "mac" => &mut limits.mac,
            "line" => &mut limits.line,
            "vlan" => &mut limits.vlan,
            "node" => &mut limits.node,
            "subscriber" => &mut limits.subscriber,
            other => {
                return Err(format!(
                    "`{other}` has no limit of sessions: use mac, line, vlan, node or subscriber"
                ));
            }
        };
        let word = words.word("a number of sessions")?;
        let most = word.parse().ok().filter(|most| (1..=1_048_576).contains(most));
        let most = most.ok_or_else(|| format!("`{word}` is no number of sessions: use 1 to 1048576"))?;
        let over = if words.takes("replace") { Over::Replace } else { Over::Refuse };
        *place = Some(SessionLimit { most, over });
        if words.peek().is_none() {
            return Ok(());
        }
    }
}

/// What a session of a plan may use.
fn plan_limits(words: &mut Words<'_>) -> Result<Limits, String> {
    let mut limits = Limits::default();
    while let Some(word) = words.peek() {
        match word {
            "timeout" => limits.session_timeout_s = Some(limit_time(words)?),
            "idle" => limits.idle_timeout_s = Some(limit_time(words)?),
            "quota" => limits.total_bytes = Some(volume(words)?),
            "quota-down" => limits.down_bytes = Some(volume(words)?),
            "quota-up" => limits.up_bytes = Some(volume(words)?),
            _ => break,
        }
    }
    Ok(limits)
}

/// The time behind the next word.
fn limit_time(words: &mut Words<'_>) -> Result<u32, String> {
    words.next();
    seconds(words)
}

/// The bytes behind the next word: a number, with k, M, G or T for powers of 1000.
fn volume(words: &mut Words<'_>) -> Result<u64, String> {
    words.next();
    let word = words.word("a number of bytes")?;
    let units = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((word.strip_suffix(name)?, *unit))).unwrap_or((word, 1));
    let bytes =
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("`{word}` is no number of bytes: use 100G, 500M or 2000000"))
}

fn limit(words: &mut Words<'_>) -> Result<Limit, String> {
    let number = |words: &mut Words<'_>| {
        let word = words.word("a number of messages")?;
        let number = word.parse().ok().filter(|number| (1..=1_000_000).contains(number));
        number.ok_or_else(|| format!("`{word}` is no limit: use 1 to 1000000 messages per second"))
    };
    let per_s = number(words)?;
    let burst = if words.takes("burst") { number(words)? } else { per_s };
    Ok(Limit { per_s, burst })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Accounting, Chap, KnownDevices, Renewals, Source};
    use crate::ppp::auth::Method;
    use crate::pppoe::concentrator::{self, ServiceNames};
    use crate::radius::access::Unsupported;
    use crate::radius::accounting::InputIs;
    use crate::radius::packet::Require;

    #[test]
    fn all_items_are_read() {
        let text = "port access1 mac 02:00:00:00:00:fe trusted relay 192.0.2.1, # the first one, with a comma
            pool main 100.64.0.2-100.64.0.99 100.64.1.1-100.64.1.9 router 100.64.0.1/16,
            plan basic down 20Mbit up 5Mbit, plan gold down 1Gbit up 1Gbit quota 100G idle 1h timeout 1d quota-up 2k quota-down 7,
            at-limit walled, dns 192.0.2.53
            192.0.2.54, lease 1h renewal 20m rebinding 40m, offer 5s, quarantine 1h, moves refuse,
            limit line 10 burst 20, limit subscriber 3, limit sessions mac 4 line 100 replace subscriber 2,
            pppoe name bng1 auth pap ms-chapv2 service gold service basic strict delay 10ms mtu 1508 sessions mac 1 line 9 half-open 50
                padi mac 2 burst 3 padi line 4,
            radius one 192.0.2.9:1812 secret-file /etc/weir/one.secret realm isp realm isp.example ports 4 require status accounting 1813
                plan basic,
            radius two [2001:db8::9]:1812 secret-file two.secret,
            dynamic-authorization 192.0.2.1:3799 client 192.0.2.9 secret-file a client 2001:db8::9 secret-file b require window 60s,
            accounting interim 15m least-interim 5m swapped,
            radius three tls://192.0.2.9:2083 ca ca.pem cert bng.pem key bng.key server-name aaa.example dead 5s,
            aaa radius 5s local, dhcp-radius user-name {line} password {mac} reject 1m renewals, brown-out age 7d chap dhcp, nas identifier bng1 address 192.0.2.1 user-name {mac} port-id {circuit} unsupported refuse,
            subscriber anna mac 02:00:00:00:00:01 plan basic";
        let (config, subscribers) = Config::read("x", text).unwrap();
        assert_eq!(config.lease, LeaseTimes { lease_s: 3600, renewal_s: 1200, rebinding_s: 2400 });
        let limits = Limits {
            session_timeout_s: Some(86_400),
            idle_timeout_s: Some(3600),
            interim_s: None,
            down_bytes: Some(7),
            up_bytes: Some(2000),
            total_bytes: Some(100_000_000_000),
        };
        let found: Vec<_> =
            config.plan_limits.iter().map(|(name, limits)| (name.as_str(), *limits)).collect();
        assert_eq!((found, config.at_limit), (vec![("gold", limits)], AtLimit::Walled));
        assert_eq!((config.ports.len(), config.dns.len(), config.pools[0].size()), (1, 2, 107));
        assert_eq!(config.subscriber_limit, Limit { per_s: 3, burst: 3 });
        let of = |most, over| Some(SessionLimit { most, over });
        let limits = (of(4, Over::Refuse), of(100, Over::Replace), None);
        let SessionLimits { mac, line, vlan, subscriber, .. } = config.session_limits;
        assert_eq!((mac, line, vlan), limits);
        assert_eq!(subscriber, of(2, Over::Refuse));
        let [one, two, three] = &*config.radius else { panic!("{:?}", config.radius) };
        assert_eq!((one.realms.len(), one.ports, one.require), (2, 4, Require::MessageAuthenticator));
        assert_eq!((two.ports, two.has_status, two.plan.clone()), (16, false, None));
        assert_eq!((one.accounting, two.accounting), (Some(1813), None));
        let accounting =
            Accounting { interim_s: Some(900), least_interim_s: 300, input: InputIs::ToSubscriber };
        assert_eq!(config.accounting, accounting);
        let dynauth = config.dynauth.unwrap();
        assert_eq!((dynauth.clients.len(), dynauth.window), (2, Duration::from_secs(60)));
        assert_eq!(config.aaa.order, [Source::Radius { most: Duration::from_secs(5) }, Source::Local]);
        assert!(config.aaa.is_local_after_radius() && config.aaa.unsupported == Unsupported::Refuse);
        let brown_out = config.aaa.brown_out.unwrap();
        assert_eq!((brown_out.age.as_secs(), brown_out.chap), (7 * 86_400, Chap::SameDevice));
        let dhcp = config.aaa.dhcp.unwrap();
        assert_eq!((dhcp.user_name.to_string(), dhcp.reject.as_secs()), ("{line}".into(), 60));
        assert_eq!((brown_out.dhcp, dhcp.renewals), (KnownDevices::Accepted, Renewals::Asked));
        assert_eq!(config.aaa.nas.user_name.to_string(), "{mac}");
        let tls = three.tls.clone().unwrap();
        assert_eq!(
            (three.ports, three.has_status, tls.server_name.as_deref()),
            (1, true, Some("aaa.example"))
        );
        let pppoe = config.pppoe.unwrap();
        assert_eq!(pppoe.methods, [Method::Pap, Method::MsChapV2]);
        let discovery = concentrator::Options {
            name: "bng1".into(),
            services: vec!["gold".into(), "basic".into()],
            service_names: ServiceNames::Strict,
            pado_delay: Duration::from_millis(10),
            mac_limit: Limit { per_s: 2, burst: 3 },
            line_limit: Limit { per_s: 4, burst: 4 },
            most_of_mac: 1,
            most_of_line: 9,
            most_half_open: 50,
            max_payload: 1500,
        };
        assert_eq!(pppoe.discovery, discovery);
        assert_eq!(subscribers[0].to_string(), "anna mac 02:00:00:00:00:01 plan basic");
        assert_eq!(Config::read("x", "").map(|(config, _)| config), Ok(Config::default()));
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines() {
        let texts = [
            "plan basic down 20Mbit up 5Mbit,\n# not here, é\npol main,\n  port access1,\n\nlease 10m renewal 20m",
            "pool main 100.64.0.2-100.64.0.99 router 100.64.0.1",
            "pool main 100.64.0.2-9 router 100.64.0.1/16",
            "pool main 100.64.0.9-100.64.0.2 router 100.64.0.1/16, lease 1h renewal 2h",
            "pool main 100.64.0.0-100.64.0.9 router 100.64.0.1/24",
            "pool main 100.64.0.9-100.64.0.255 router 100.64.0.1/24",
            "pool main 100.64.0.9-100.64.1.2 router 100.64.0.1/24",
            "pool a 100.64.0.9-100.64.0.12 router 100.64.0.1/24, pool b 100.64.0.12 router 100.64.0.1/24",
            "pool a 100.64.0.9 router 100.64.0.1/24, pool a 100.64.0.12 router 100.64.0.1/24",
            "pool a 2001:db8::/48 router 2001:db8::1/40, pool b 2001:db8:0:8000::/50 router 2001:db8::1/40",
            "pool a 2001:db8::/72 router 2001:db8::1/40, pool b 2001:db8::/48, pool c 2001:db8::1/48 router 2001:db8::1/48",
            "pool a 2001:db8:1::/48 router 2001:db8::1/48, ra interval 1h, ra interval 1s, ra router 10h, ra fast",
            "pool main 0.0.0.1-0.0.0.9 224.0.0.1 router 100.64.0.1/32",
            "port access1 mac ff:ff:ff:ff:ff:ff",
            "pppoe auth md5, pppoe mtu 1400, pppoe sessions mac 0, pppoe delay 1h, pppoe padi port 7, pppoe fast",
            "portal http://portal.example/, captive https://a.example/ at here, portal https://, captive https://x at 192.0.2.1:80 now",
            "radius one 192.0.2.9 secret-file x, radius one 192.0.2.9:1812, radius one 192.0.2.9:1812 secret-file x ports 0, \
             radius one 192.0.2.9:1812 secret-file x fast",
            "dynamic-authorization 192.0.2.1, dynamic-authorization 192.0.2.1:3799, dynamic-authorization 192.0.2.1:3799 client 192.0.2.9,\
             dynamic-authorization 192.0.2.1:3799 client 192.0.2.9 secret-file a client 192.0.2.9 secret-file b,\
             dynamic-authorization 192.0.2.1:3799 client 192.0.2.9 secret-file a fast",
            "radius one 192.0.2.9:1812 secret-file x accounting 0, accounting interim 5s, accounting fast, accounting interim",
            "plan a down 1Mbit up 1Mbit quota 0, plan b down 1Mbit up 1Mbit quota 7x idle 1h, plan c down 1Mbit up 1Mbit timeout, at-limit maybe",
            "radius one tls://192.0.2.9, radius one tls://192.0.2.9:2083 cert x, radius one tls://192.0.2.9:2083 ca x cert x, \
             radius one 192.0.2.9:1812 secret-file x ca x",
            "limit sessions, limit sessions port 1, limit sessions mac 0, limit sessions mac 1 line",
            "aaa, aaa local local, aaa remote, aaa radius 0s, brown-out, brown-out age 1s, nas fast, nas port-id {here}, nas unsupported drop",
            "dhcp-radius fast, dhcp-radius user-name {name}, dhcp-radius user-name {x}, dhcp-radius reject, dhcp-radius reject 1s user-name {mac}",
            "dhcp-radius user-name {line}",
            "moves maybe, limit port 7, limit line 0, offer never, dns here, plan down down 1M up 1M",
        ];
        weir_testkit::golden!(
            "src/config/mistakes.txt",
            &weir_testkit::mistakes(&texts, |text| Config::read("isp.node", text))
        );
    }

    #[test]
    fn an_item_fits_its_node() {
        let port = |name: &str| name.parse().unwrap();
        let node = NodeFacts {
            ports: vec![port("access1"), port("wan")],
            gateways: vec![IpAddr::from([100, 64, 0, 1])],
        };
        let read = |text: &str| {
            let end = text.len() - 1;
            Item::read("isp.node", text, 4..end, &node)
        };
        let item = read(
            "bng(store /var/lib/weir/bng, key bng.key, socket b.sock, port access1 trusted, pool main 100.64.0.2 router 100.64.0.1/16)",
        );
        let item = item.unwrap();
        assert_eq!(item.key, Some("bng.key".into()));
        assert_eq!((item.store, item.socket), (Some("/var/lib/weir/bng".into()), Some("b.sock".into())));
        assert_eq!(
            item.config.ports[&port("access1")],
            Port { mac: None, is_trusted: true, ..Port::default() }
        );
        let texts = [
            "bng(\nport acess1,\n\n pool main 100.65.0.2 router 100.65.0.1/16)",
            "bng(\n\nlease 1h renewal 2h)",
            "bng(store a, store b, subscriber anna mac 02:00:00:00:00:01 plan basic)",
        ];
        weir_testkit::golden!("src/config/mistakes-item.txt", &weir_testkit::mistakes(&texts, read));
    }
}
