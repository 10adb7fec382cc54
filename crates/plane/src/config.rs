//! The configuration of a node, read from its text: ports, stages, routes, in the order in which frames pass them.

mod align;
mod number;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{Mistakes, Notes};
use weir_packet::steer::Spread;

use crate::access::{self, AccessConfig, AccessPolicy, AccessSession, AccessSessions, SubscriberConfig};
use crate::dir::Dir;
use crate::frame::{MOST_PORTS, PortId};
use crate::limits::Limits;
use crate::nat::{self, Deterministic, Sharding};
use crate::neighbour::Translated;
use crate::port::{End, Port};
use crate::prefix::Prefix;
use crate::route::{self, Routes};
use crate::stage::Reading;
use crate::stages::{self, OneOf, StageConfig};
use crate::text::{self, FileOf, Item, MOST_STAGES};
use crate::threads::Share;
pub(crate) use align::align;

/// Bytes of frames of subscribers that wait in the memory that they came in; more of them wait as copies.
const SHAPED_BYTES: u64 = 8 << 20;

/// A node as its text describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The ports by their numbers: in the order of the text, or as [`Config::instead_of`] numbers them.
    pub ports: Vec<Port>,
    /// The numbers of the ports in the order of the text, those of the left end first.
    pub order: Vec<PortId>,
    /// Numbers below the end of `ports` that no port has and no frame names.
    pub(crate) free: Vec<PortId>,
    /// The stages between the ends.
    pub(crate) stages: Vec<StageConfig>,
    /// The routes of a router; without, the node is a bump in the wire.
    pub routes: Option<Routes>,
    /// Limits for what hosts share.
    pub(crate) limits: Limits,
    /// The small static table of subscribers.
    pub subscribers: Vec<SubscriberConfig>,
    /// The stage `access`, if there is one.
    pub(crate) access: Option<AccessConfig>,
    /// The sessions that the control program has added. They are not part of the text.
    pub(crate) sessions: AccessSessions,
    /// What a router does with options of IPv4.
    pub options: route::Options,
    /// What must not be predictable from outside follows from this seed: set it at random where that matters. It is not part of
    /// the text.
    pub seed: u64,
    /// The thread of the node that the plane is for. It is not part of the text.
    pub share: Share,
}

/// Names of what stands once between the ports, beside the stages of the list.
const ONCE: [&str; 2] = ["access", "route"];
/// Names of what stands beside the ports and stages.
const BESIDE: [&str; 2] = ["limits", "subscribers"];

/// Whether an item is one of what is between the ports.
fn is_stage(item: &Item) -> bool {
    let name = item.name.text.as_str();
    ONCE.contains(&name) || stages::NAMES.contains(&name)
}

impl Config {
    /// Reads the text of the node that the user calls `file`.
    ///
    /// # Errors
    /// All mistakes of the text, each with its line and what to do about it.
    pub fn read(file: &str, text: &str) -> Result<Config, Mistakes> {
        let file_of = |name: &str| {
            Err(format!("`{name}` cannot be read here: write what it says, or the text into a file"))
        };
        Config::read_with(file, text, &mut Beside { item: &mut |_, _| false, file: &file_of })
    }

    /// The same; items that are no matter of the plane are given to `beside`.
    ///
    /// # Errors
    /// All mistakes of the text, those that were noted beside among them.
    pub fn read_with(file: &str, text: &str, beside: &mut Beside<'_>) -> Result<Config, Mistakes> {
        let notes = Notes::new("a node", text);
        let mut items = text::items(text, &notes);
        items.retain(|item| !(beside.item)(item, &notes));
        let config = read(&items, beside.file, &notes);
        if notes.is_empty() { Ok(config) } else { Err(notes.to_mistakes(file)) }
    }
}

impl Config {
    /// Whether so many threads can run the node together.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    pub fn may_share(&self, threads: u8) -> Result<(), String> {
        if threads == 1 {
            return Ok(());
        }
        if self.access.is_some() {
            return Err("`access` limits and counts what each subscriber sends and receives, which several threads cannot share: \
                        run the node with one thread, or leave the access out"
                .into());
        }
        self.stages.iter().try_for_each(|stage| stage.may_share(threads))?;
        let nats: Vec<&nat::Config> = self.nats().collect();
        for (n, nat) in nats.iter().enumerate() {
            nat.may_stand_behind(&nats[..n], threads)?;
        }
        Ok(())
    }

    /// The same for so many threads, which share it from the start.
    pub fn shared_by(self, threads: u8) -> Config {
        self.dealt(threads, &[])
    }

    /// The same for so many threads, to replace `old`: what threads share already stays shared as it was from the start, and ports
    /// that stay keep their numbers.
    ///
    /// # Errors
    /// No number is free for a port that comes.
    pub fn instead_of(self, old: &Config, threads: u8) -> Result<Config, String> {
        let mut numbered = self.numbered_as(old)?;
        numbered.sessions = old.sessions.kept(|session| numbered.has_room_for(session));
        numbered.keep_profiles();
        Ok(numbered.shared_as(old, threads))
    }

    /// Whether a session can be at the ports, gateways and NATs of this text.
    fn has_room_for(&self, session: &AccessSession) -> bool {
        let port = self.ports.get(usize::from(session.line.port.0));
        let holds = |access: &AccessConfig| session.prefixes.iter().all(|prefix| access.holds(*prefix));
        port.is_some_and(|port| port.is_present() && port.is_access && port.vlan.accepts(session.line.tags))
            && self.access.as_ref().is_some_and(holds)
            && self.check_profile(session).is_ok()
    }

    /// Whether a session can be beside the subscribers of the text.
    pub(crate) fn check_fixed(&self, session: &AccessSession) -> Result<(), String> {
        let has = |one: &SubscriberConfig, wanted: &Prefix| {
            one.prefixes.iter().any(|prefix| prefix.network() == wanted.network())
        };
        for one in &self.subscribers {
            if one.line == session.line {
                let name = &one.name;
                return Err(format!(
                    "`subscribers` has {name} with this port, tags and Ethernet address: remove it there first"
                ));
            }
            if let Some(taken) = session.prefixes.iter().find(|prefix| has(one, prefix)) {
                return Err(format!("`subscribers` has {} with {taken}: remove it there first", one.name));
            }
        }
        Ok(())
    }

    fn shared_as(self, old: &Config, threads: u8) -> Config {
        let sharding = |from: Option<usize>| nat::Config::of(&old.stages[from?])?.sharding;
        let shardings: Vec<_> = align(&old.stages, &self.stages).into_iter().map(sharding).collect();
        self.dealt(threads, &shardings)
    }

    /// For several threads: tells each NAT how ports are shared, as `shardings` says by stage or as for a new node, and the NATs
    /// before it.
    fn dealt(mut self, threads: u8, shardings: &[Option<Sharding>]) -> Config {
        let mut before: Vec<Arc<nat::Config>> = Vec::new();
        for (n, stage) in self.stages.iter_mut().enumerate().filter(|_| threads > 1) {
            let Some(nat) = nat::Config::of_mut(stage) else { continue };
            nat.sharding = Some(shardings.get(n).copied().flatten().unwrap_or_else(|| nat.shard(threads)));
            let alone = Arc::new(nat.clone());
            nat.before = before.clone();
            before.push(alone);
        }
        self
    }

    /// Bytes of frames that queues may keep, and delays behind them; of subscribers those that are not copied.
    pub fn queued_bytes(&self) -> u64 {
        let shaped = if self.access.is_some() { SHAPED_BYTES } else { 0 };
        self.stages.iter().map(StageConfig::kept_bytes).fold(shaped, u64::saturating_add)
    }

    /// Whether a port is of the left end.
    pub fn is_left(&self, port: usize) -> bool {
        self.ports.get(port).is_some_and(Port::is_left)
    }

    /// The ports that there are, in the order of the text.
    pub fn ordered(&self) -> impl Iterator<Item = (PortId, &Port)> {
        self.order.iter().map(|&number| (number, &self.ports[usize::from(number.0)]))
    }

    /// The numbers of the sessions at an access port that the control program has added.
    pub fn sessions_at(&self, port: PortId) -> impl Iterator<Item = u64> {
        self.sessions.iter().filter(move |session| session.line.port == port).map(|session| session.session)
    }

    /// Whether the control program has added a session of this number.
    pub fn has_session(&self, session: u64) -> bool {
        self.sessions.get(session).is_some()
    }

    /// How long sessions stay whose access port has lost its link.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.sessions.grace.0.into())
    }

    /// The first port of the end at which frames of a direction leave.
    pub fn across(&self, dir: Dir) -> PortId {
        let end = if dir == Dir::Outward { End::Right } else { End::Left };
        let first = self.ordered().find(|(_, port)| port.end == Some(end));
        first.map_or(PortId(0), |(number, _)| number)
    }

    pub(crate) fn nats(&self) -> impl Iterator<Item = &nat::Config> {
        self.stages.iter().filter_map(nat::Config::of)
    }

    /// The deterministic ports, by NAT.
    pub fn deterministic(&self) -> impl Iterator<Item = &Deterministic> {
        self.nats().filter_map(|nat| nat.deterministic.as_ref())
    }

    /// By what frames of a port are best spread over threads: most of them then come to the thread that they belong to. It is
    /// used when ports are opened; if stages come and go later, more frames may be handed over.
    pub fn spread(&self, port: usize) -> Spread {
        let is_left = self.is_left(port);
        let spreads: Vec<Spread> = self.stages.iter().map(|stage| stage.spread(is_left)).collect();
        let wanted = [Spread::Sources, Spread::Ends].into_iter().find(|spread| spreads.contains(spread));
        wanted.unwrap_or(Spread::Flows)
    }

    /// What the text says of all subscribers at access ports.
    pub(crate) fn access_policy(&self) -> Option<&AccessPolicy> {
        self.access.as_ref().map(|access| &access.policy)
    }

    /// The addresses of IPv4 that the node translates to.
    pub(crate) fn translated(&self) -> Translated {
        let mut all = Translated::default();
        for nat in self.nats() {
            all.ranges.extend(nat.public.iter().map(|public| (public.first, public.last)));
            nat.pairs.iter().for_each(|pair| all.add(pair.outside));
        }
        all
    }
}

/// The parts of a text that are no matter of the plane.
pub struct Beside<'a> {
    /// Takes an item that is no matter of the plane, and returns whether it is one.
    pub item: &'a mut dyn FnMut(&Item, &Notes<'_>) -> bool,
    /// The text of a file that the text names, or what to do about it.
    pub file: FileOf<'a>,
}

fn read(items: &[Item], file: FileOf<'_>, notes: &Notes<'_>) -> Config {
    let (limits, items): (Vec<Item>, Vec<Item>) =
        items.iter().cloned().partition(|item| item.name.text == "limits");
    let (table, items): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| item.name.text == "subscribers");
    let items = &items[..];
    if let [_, again, ..] = &table[..] {
        again.wrong(notes, "there are `subscribers` already: write all in one".to_string());
    }
    if let [_, again, ..] = &limits[..] {
        again.wrong(notes, "there are `limits` already: write all in one".to_string());
    }
    let limits = limits.first().map(|item| Limits::read(item, notes)).unwrap_or_default();
    let first = items.iter().position(is_stage);
    let last = items.iter().rposition(is_stage);
    let (left, right) = match first.zip(last) {
        Some((first, last)) => (&items[..first], &items[last + 1..]),
        None => items.split_at(1.min(items.len())),
    };
    let no_ports = [&ONCE[..], stages::NAMES, &BESIDE[..]].concat();
    let ends = |items: &[Item], name: &str| match items {
        [] => vec![Port::plain(name)],
        items => items.iter().map(|item| Port::read(item, &no_ports, notes)).collect(),
    };
    let mut ports = ends(left, "lan");
    let right = ends(right, "wan").into_iter().map(|port| Port { end: Some(End::Right), ..port });
    ports.extend(right);
    let order = (0..ports.len()).map(|number| PortId(number as u16)).collect();
    check_ports(&ports, items, notes);
    let access = access::read(items, first, &mut ports, notes);
    let stages = items[first.unwrap_or(0)..last.map_or(0, |last| last + 1)].iter();
    let stages = stages.filter(|item| item.name.text != "access");
    let (routes, stages): (Vec<&Item>, Vec<&Item>) = stages.partition(|item| item.name.text == "route");
    if let [_, again, ..] = routes[..] {
        again.wrong(notes, "there is a `route` already: write all routes in one".to_string());
    }
    let subscribers = table.first().map(|item| access::read_fixed(item, &ports, notes)).unwrap_or_default();
    subscribers.iter().for_each(|one| ports[usize::from(one.line.port.0)].has_subscribers = true);
    let routes = routes.first().map(|item| route::read(item, &ports, notes));
    let (routes, options) =
        routes.map_or((None, route::Options::default()), |(all, options)| (Some(all), options));
    let beside = Reading { ports: &ports, file, notes };
    let stages: Vec<StageConfig> = stages.iter().filter_map(|item| StageConfig::read(item, beside)).collect();
    if stages.len() > MOST_STAGES {
        items[0].wrong(notes, format!("a node has at most {MOST_STAGES} stages: these are {}", stages.len()));
    }
    let share = Share::default();
    let free = Vec::new();
    let sessions = AccessSessions::default();
    Config {
        ports,
        order,
        free,
        stages,
        routes,
        limits,
        subscribers,
        access,
        sessions,
        options,
        seed: 0,
        share,
    }
}

fn check_ports(ports: &[Port], items: &[Item], notes: &Notes<'_>) {
    for (n, port) in ports.iter().enumerate() {
        if ports[..n].iter().any(|other| other.name == port.name) {
            let again = items.iter().rfind(|item| item.name.text == port.name);
            if let Some(item) = again {
                item.wrong(notes, format!("there is a port `{}` already: give each its own name", port.name));
            }
        }
    }
    for (n, port) in ports.iter().enumerate() {
        for network in
            port.addresses.iter().map(|local| local.network()).filter(|network| !is_of_link(network))
        {
            let has = |other: &&Port| other.addresses.iter().any(|local| local.network() == network);
            let item = items.iter().find(|item| item.name.text == port.name);
            if let Some((other, item)) = ports[..n].iter().find(has).zip(item) {
                item.wrong(
                    notes,
                    format!("{network} is the network of `{}` already: give it another", other.name),
                );
            }
        }
    }
    if ports.len() > MOST_PORTS {
        items[0].wrong(notes, format!("a node has at most {MOST_PORTS} ports: these are {}", ports.len()));
    }
}

/// Whether each link has the network (RFC 3927, RFC 4291).
fn is_of_link(network: &Prefix) -> bool {
    match network.address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_the_line_that_they_stand_in() {
        for (text, reported) in [
            ("lan\nfilter(\naccept udp,\npolicy dorp)\n> wan", "n:4: a policy is"),
            ("lan\nfilter(\naccept tcp to port 1,\n2,\n70000)\n> wan", "n:3: `70000`"),
            (
                "lan(198.18.0.1/24) > route(\ndefault via 198.18.0.2,\ndefault via 198.18.0.3)",
                "n:3: there is a route",
            ),
            ("lan(198.18.0.1/24) > route(\ndefault via 198.18.0.1)", "n:2: 198.18.0.1 is the node itself"),
            (
                "lan(198.18.0.1/24) > route\n> wan(198.18.0.9/24)",
                "n:2: 198.18.0.0/24 is the network of `lan` already",
            ),
            (
                "lan(2001:db8:1::1/64) > route(\ndefault via fe80::1)\n> wan(2001:db8:2::1/64, fe80::2/64)",
                "n:2: fe80::1 may be a neighbour at each port: write at which, as in `via fe80::1 on wan`",
            ),
            (
                "lan(2001:db8:1::1/64) > route(\ndefault via fe80::1 on wna)\n> wan(2001:db8:2::1/64)",
                "n:2: `wna` is no port of the node: use lan, wan",
            ),
            (
                "lan(2001:db8:1::1/64) > route(\ndefault via fe80::1 on wan)\n> wan(198.18.0.1/24)",
                "n:2: `wan` has no address of IPv6, from which fe80::1 can be asked for",
            ),
            (
                "lan(198.18.1.1/24) > route(\ndefault via 198.18.1.2 on wan)\n> wan(198.18.0.1/24)",
                "n:2: 198.18.1.2 is in no network of `wan`",
            ),
            ("lan(198.18.1.1/24) > route(\ndefault via)", "n:2: `default via` is no route"),
            ("lan(198.18.1.1/24) > route(\ndefault via 198.18.1.2 on)", "n:2: `on` takes a port"),
            ("lan(198.18.1.1/24) > route(\ndefault via 198.18.1.2 or)", "n:2: `or `: write `via`"),
            // A network of addresses that all links have holds no neighbour that is known without its port.
            ("lan(fe80::1/8) > route(\ndefault via fec0::5)", "n:2: fec0::5 is in the network of no port"),
            ("lan\n> route > wan\nlan", "n:3: there is a port `lan` already"),
            (
                "lan(198.18.0.1/24) > route(\n127.0.0.0/8 via 198.18.0.2)",
                "n:2: `127.0.0.0/8` holds no addresses",
            ),
            ("lan(\nmac 01:00:00:00:00:01) > wan", "n:2: `01:00:00:00:00:01` is no address of one host"),
            (
                "lan(198.18.0.1/24, vlan 7-9) > route(\ndefault via 198.18.0.2)",
                "n:2: `lan` has several lines, and 198.18.0.2 may be on each: give it a port with the tags",
            ),
            (
                "lan(fe80::1/64, vlan 7-9) > route(\ndefault via fe80::2 on lan)",
                "n:2: `lan` has several lines, and fe80::2 may be on each: give it a port",
            ),
            (
                "lan(198.18.0.1/24, vlan 7, untagged,\nneighbour 198.18.0.2 02:00:00:00:00:01) > route",
                "n:2: a port with several lines has no neighbours: give the neighbour a port",
            ),
            ("lan(vlan 9-7) > wan", "n:1: `9-7` is no VLAN: write a tag of 1 to 4094"),
            ("lan > wan\nsubscribers(anna lan)", "n:2: a subscriber is a name, a port, the tags of its line"),
            (
                "lan > wan\nsubscribers(anna lam untagged 02:00:00:00:00:01)",
                "n:2: `lam` is no port of the node: did",
            ),
            (
                "lan > wan\nsubscribers(anna lan 7 02:00:00:00:00:01)",
                "n:2: `lan` has no frames with these tags (7), but",
            ),
            (
                "lan(vlan 7-9) > wan\nsubscribers(anna lan 7-8 02:00:00:00:00:01)",
                "n:2: `7-8` are several lines: write the tags of one",
            ),
            (
                "lan > wan\nsubscribers(anna lan untagged 02:00:00:00:00:01 pppoe 7)",
                "n:2: `lan` has no PPPoE sessions: write `access` among its arguments",
            ),
            (
                "lan(access) > access(gateway 100.64.0.1/10) > route > wan\nsubscribers(anna lan untagged 02:00:00:00:00:01 pppoe 65535)",
                "n:2: `65535` is no id of a PPPoE session: write a number of 1 to 65534",
            ),
            (
                "lan > wan\nsubscribers(anna lan untagged 03:00:00:00:00:01)",
                "n:2: `03:00:00:00:00:01` is no address",
            ),
            (
                "lan > wan\nsubscribers(anna lan untagged 02:00:00:00:00:01,\nbob lan untagged 02:00:00:00:00:01)",
                "n:3: another subscriber has this port, tags, Ethernet address and PPPoE session",
            ),
            (
                "lan > wan\nsubscribers(anna lan untagged 02:00:00:00:00:01 192.0.2.1,\nbob lan untagged 02:00:00:00:00:02 192.0.2.1/32)",
                "n:3: another subscriber has 192.0.2.1/32: give each its own",
            ),
            (
                "lan > wan\nsubscribers(anna lan untagged 02:00:00:00:00:01,\nanna lan untagged 02:00:00:00:00:02)",
                "n:3: there is a subscriber `anna` already",
            ),
            (
                "lan > wan\nsubscribers(anna lan untagged 02:00:00:00:00:01 192.0.2.1/24)",
                "n:2: `192.0.2.1/24` has bits",
            ),
            ("lan > wan\nsubscribers\nsubscribers", "n:3: there are `subscribers` already: write all in one"),
            ("lan(\nrpf losse) > wan", "n:2: `losse`: rpf is strict, end, loose or off"),
        ] {
            let wrong = Config::read("n", text).expect_err(text).to_string();
            assert!(wrong.starts_with(reported) && wrong.lines().count() == 1, "{text}: {wrong}");
        }
        Config::read("n", "lan(fe80::1/64) > route > wan(fe80::2/64)").expect("each link has it");
        let rules = Beside { item: &mut |_, _| false, file: &|_| Ok("accept\n\npolicy dorp".to_string()) };
        let wrong =
            Config::read_with("n", "lan\nfilter(r.fw)\nwan", &mut { rules }).expect_err("wrong").to_string();
        assert!(wrong.starts_with("n:2: r.fw:3: a policy is"), "{wrong}");
    }

    /// A hundred thousand mistakes are reported in the time that it takes to read them.
    #[test]
    fn a_text_full_of_mistakes_is_read() {
        let text = format!("lan filter(\n{} policy drop) wan", "drop tcp to port 0-,\n".repeat(100_000));
        let wrong = Config::read("n", &text).expect_err("wrong");
        assert_eq!(wrong.list.len(), 100_000);
    }
}
