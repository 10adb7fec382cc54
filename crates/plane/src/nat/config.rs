//! What a NAT is to do, read from the arguments of `nat(...)`.
//!
//! | argument | meaning | default |
//! |---|---|---|
//! | `public 192.0.2.0/28 [ports 1024-65535 ...]` | public addresses, also `192.0.2.1-192.0.2.9`, with ports of their own; may be repeated | |
//! | `ports 1024-65535 [...]` | the ports of the other public addresses | 1024-65535 |
//! | `block 512` | ports of a block, each of one subscriber | 512 |
//! | `blocks 16` | blocks of a subscriber, at most | 16 |
//! | `deterministic 100.64.0.0/20 [dynamic 2]` | ports of these subscribers by RFC 7422, and dynamic blocks beside | |
//! | `parity` | an even port stays even, an odd one odd | no |
//! | `mapping address-and-port-dependent` | a mapping for each remote end | endpoint-independent |
//! | `filtering address-dependent` | which remote hosts may send inward; also `address-and-port-dependent` | endpoint-independent |
//! | `inbound-refresh` | frames that come in keep a mapping alive, too | no |
//! | `rate 100` | new mappings of a subscriber per second | no limit |
//! | `sessions 1000000` | sessions of all subscribers, at most | 1000000 |
//! | `subscriber-sessions 4000` | sessions of a subscriber, at most | no limit |
//! | `subscriber-calls 256` | TCP connections to a subscriber that others have begun and it has not answered, at most | 256 |
//! | `hold 120s`, `resting-ports 1000000` | how long a port rests before it is allocated again, and how many ports may rest | 120s, 1000000 |
//! | `udp-timeout 300s` ... | how long a session may be silent: see `timers.rs` | RFCs |
//! | `forward tcp 192.0.2.1:80 to 192.168.0.9:8080` | a port that leads inside; also `udp` | |
//! | `one-to-one 192.0.2.9 to 192.168.0.9` | all of an address | |
//! | `redirect udp any:53 [from 10.0.0.0/8] to 198.18.0.53:53` | packets to this port, of any address or of a network, go to a server | |
//! | `exclude 198.51.100.0/24` | destinations outside that see inside addresses | |
//! | `unsolicited silent` | no answer to a SYN from outside without a mapping | answer |
//! | `exhausted silent` | no answer to a host that gets no port | answer |
//! | `mss 1452` | largest TCP segment that a SYN may ask for | as it is |
//! | `pcp` | hosts with IPv4 may ask the node for ports (RFC 6887), at its addresses | no |
//! | `prefix64 64:ff9b::/96` | NAT64: this network stands for IPv4 (RFC 6146); this one for global addresses only, others, as 64:ff9b:1::/96, for private ones, too (RFC 6052, section 3.1) | |
//! | `log sessions` | what the event log tells; also `blocks`, `nothing` | blocks |

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{Notes, did_you_mean};

use super::block_set::Layout;
use super::deterministic::Deterministic;
use super::forwards::{Forward, Forwards};
use super::nat64::prefix::Prefix64;
use super::outside::LOW;
use super::pairs::{Pair, Pairs};
use super::ports;
use super::ranges::Ranges;
use super::redirect::Redirect;
use super::sharding::Sharding;
use super::words::{
    Dependence, Detail, Manner, address4, dependence, detail, end4, manner, network4, number, port_ranges,
    range4, redirect, seconds, transport,
};
use crate::drops::DropReason;
use crate::prefix::{Prefix, is_unicast4};
use crate::table::timers::{SETTINGS, Timeouts};
use crate::text::{Arg, Item};

/// A range of public addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Public {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Ports of each address, in order and disjoint.
    pub(crate) ports: Vec<RangeInclusive<u16>>,
}

impl Public {
    fn addresses(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }
}

/// The configuration of a NAT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// In order and disjoint.
    pub(crate) public: Vec<Public>,
    pub(crate) ports: ports::Config,
    /// How ports are shared by threads, if there are several: as when the node started, whatever the text says since.
    pub(crate) sharding: Option<Sharding>,
    /// If there are several threads, the NATs before this one, from inside: an inside end may be a port of theirs.
    pub(crate) before: Vec<Arc<Config>>,
    pub(crate) deterministic: Option<Deterministic>,
    pub(crate) mapping: Dependence,
    pub(crate) filtering: Dependence,
    pub(crate) inbound_refresh: bool,
    pub(crate) rate_per_s: Option<u32>,
    pub(crate) sessions: u32,
    pub(crate) subscriber_sessions: u32,
    pub(crate) subscriber_calls: u32,
    pub(crate) timeouts: Timeouts,
    pub(crate) forwards: Forwards,
    pub(crate) pairs: Pairs,
    /// The first redirect that matches is used.
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) exclude: Ranges,
    pub(crate) unsolicited: Manner,
    pub(crate) exhausted: Manner,
    pub(crate) mss: Option<u16>,
    pub(crate) pcp: bool,
    pub(crate) prefix64: Option<Prefix64>,
    pub(crate) log: Detail,
}

/// Most public addresses.
const MOST_PUBLIC: u64 = 32_768;
/// Most blocks of ports; each takes 60 bytes from the beginning.
const MOST_BLOCKS: u64 = 10_000_000;

/// Each argument as it may be written.
const FORMS: &[&str] = &[
    "public 192.0.2.0/28",
    "ports 1024-65535",
    "block 512",
    "blocks 16",
    "deterministic 100.64.0.0/24 dynamic 2",
    "parity",
    "mapping address-and-port-dependent",
    "filtering address-dependent",
    "inbound-refresh",
    "rate 100",
    "sessions 1000000",
    "subscriber-sessions 4000",
    "subscriber-calls 256",
    "hold 120s",
    "resting-ports 1000000",
    "forward tcp 192.0.2.1:80 to 192.168.0.9:8080",
    "one-to-one 192.0.2.9 to 192.168.0.9",
    "redirect udp any:53 to 198.18.0.53:53",
    "exclude 198.51.100.0/24",
    "unsolicited silent",
    "exhausted silent",
    "mss 1452",
    "pcp",
    "prefix64 64:ff9b::/96",
    "log sessions",
    "udp-timeout 300s",
    "icmp-timeout 60s",
    "tcp-timeout 7440s",
    "tcp-opening-timeout 240s",
    "tcp-closing-timeout 240s",
    "tcp-reset-timeout 240s",
    "other-timeout 300s",
];

/// Arguments that may be repeated.
const SEVERAL: &[&str] = &["public", "forward", "one-to-one", "redirect", "exclude"];

/// The arguments so far; some are valid only together.
#[derive(Default)]
struct Draft {
    config: Config,
    /// The ports of addresses without ports of their own.
    ports: Option<Vec<RangeInclusive<u16>>>,
    deterministic: Option<(Prefix, u32)>,
    forwards: Vec<Forward>,
    pairs: Vec<Pair>,
    exclude: Vec<(u32, u32)>,
}

impl Config {
    /// Reads an item; mistakes are noted.
    pub(crate) fn read(item: &Item, notes: &Notes<'_>) -> Config {
        let mut draft = Draft::default();
        for arg in &item.args {
            if let Err(text) = draft.argument(arg) {
                arg.wrong(notes, text);
            }
        }
        let once =
            FORMS.iter().filter_map(|form| form.split(' ').next()).filter(|name| !SEVERAL.contains(name));
        item.said_once(&once.collect::<Vec<_>>(), notes);
        draft.finish(&mut |text| item.wrong(notes, text))
    }
}

impl Config {
    /// Adds a forward.
    ///
    /// # Errors
    /// Another one has one of its ends.
    pub(super) fn add_forward(&mut self, forward: Forward) -> Result<(), String> {
        let of_outside = self.pairs.at(forward.outside.0).map(|pair| pair.outside);
        if let Some(end) = of_outside.or(self.pairs.of(forward.inside.0).map(|pair| pair.inside)) {
            let end = Ipv4Addr::from(end);
            return Err(format!("{end} is one-to-one, with all its ports: leave out the forward"));
        }
        self.forwards.insert(forward).map_err(|(address, port)| {
            let end = Ipv4Addr::from(address);
            format!("two forwards have the end {end}:{port}: each end has one, so leave one of them out")
        })
    }

    /// Adds a one-to-one address.
    ///
    /// # Errors
    /// One of its ends is in use already.
    pub(super) fn add_pair(&mut self, pair: Pair) -> Result<(), String> {
        let address = Ipv4Addr::from(pair.outside);
        if self.has_public(pair.outside) {
            return Err(format!("{address} is one-to-one and in the pool: take it out of `public`"));
        }
        if let Some(end) = self.forwards.meets(pair.outside, pair.inside) {
            return Err(format!("{end} is one-to-one, with all its ports: leave out the forward"));
        }
        self.pairs.insert(pair).map_err(|end| {
            let end = Ipv4Addr::from(end);
            format!("two one-to-one have the end {end}: each address has one, so leave one of them out")
        })
    }

    /// Whether the pool has an address.
    pub(super) fn has_public(&self, address: u32) -> bool {
        // In order and disjoint.
        let at = self.public.partition_point(|public| public.last < address);
        self.public.get(at).is_some_and(|public| public.first <= address)
    }

    /// The public addresses in order, each with the layout of its ports.
    pub(crate) fn layouts(&self) -> Vec<(u32, Arc<Layout>)> {
        let fixed = self.deterministic.as_ref().map_or(0, Deterministic::ratio);
        let all = self.public.iter().flat_map(|public| {
            let layout = Arc::new(Layout::new(&public.ports, self.ports.block, fixed, self.sharding));
            (public.first..=public.last).map(move |address| (address, layout.clone()))
        });
        all.collect()
    }

    /// How so many threads share its blocks.
    pub(crate) fn shard(&self, threads: u8) -> Sharding {
        Sharding::new(self.public.iter().flat_map(|public| &public.ports), self.ports.block, threads)
    }

    /// The prefix of NAT64, if it may stand for an address of IPv4.
    pub(super) fn prefix_for(&self, address: u32) -> Result<Prefix64, DropReason> {
        let prefix = self.prefix64.ok_or(DropReason::NatNoMapping)?;
        if prefix.may_stand_for(address) { Ok(prefix) } else { Err(DropReason::NatNotGlobal) }
    }

    /// Whether so many threads can be this NAT behind the NATs of `before`. Deterministic ports of an address belong to one
    /// thread.
    ///
    /// # Errors
    /// They cannot, and what to do about it.
    pub(crate) fn may_stand_behind(&self, before: &[&Config], threads: u8) -> Result<(), String> {
        let Some(fixed) = &self.deterministic else { return Ok(()) };
        let addresses = before.iter().flat_map(|nat| {
            let public = nat.public.iter().map(|public| public.first..=public.last);
            public.chain(nat.pairs.iter().map(|pair| pair.outside..=pair.outside))
        });
        match addresses.into_iter().find(|range| fixed.has_subscriber_in(range)) {
            Some(range) => Err(format!(
                "the NAT before gives {} to hosts of {threads} threads, and deterministic ports of that address are one thread's: \
                 give the node one CPU, and no `threads`",
                Ipv4Addr::from(*range.start())
            )),
            None => Ok(()),
        }
    }

    /// Whether there is a block of ports for each of so many threads.
    ///
    /// # Errors
    /// There is not, and what to do about it.
    pub(super) fn has_blocks_for(&self, threads: u8) -> Result<(), String> {
        let own = self.shard(threads);
        let sharding = self.sharding.unwrap_or(own);
        let dealt = Config { sharding: Some(sharding), ..self.clone() };
        let (mut blocks, mut has_block) = (0, vec![false; threads.into()]);
        for (address, layout) in dealt.layouts() {
            for first in layout.dynamic() {
                blocks += 1;
                has_block[usize::from(sharding.thread(address, first))] = true;
            }
            if has_block.iter().all(|has| *has) {
                return Ok(());
            }
        }
        match blocks {
            // One-to-one, or all ports are deterministic.
            0 => Ok(()),
            _ if sharding != own => Err(format!(
                "{threads} threads share the ports of a public address in fragments of {} since the node began, and some would have \
                 none of these: write more ports, or let it begin anew",
                sharding.ports
            )),
            blocks => Err(format!(
                "{threads} threads need blocks of ports each, and there are {blocks}: write a smaller `block`, or fewer threads"
            )),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            public: Vec::new(),
            ports: ports::Config {
                block: 512,
                blocks: 16,
                parity: false,
                hold: Duration::from_secs(120),
                resting: 1_000_000,
            },
            sharding: None,
            before: Vec::new(),
            deterministic: None,
            mapping: Dependence::Independent,
            filtering: Dependence::Independent,
            inbound_refresh: false,
            rate_per_s: None,
            sessions: 1_000_000,
            subscriber_sessions: u32::MAX,
            subscriber_calls: 256,
            timeouts: Timeouts::default(),
            forwards: Forwards::default(),
            pairs: Pairs::default(),
            redirects: Vec::new(),
            exclude: Ranges::default(),
            unsolicited: Manner::Answer,
            exhausted: Manner::Answer,
            mss: None,
            pcp: false,
            prefix64: None,
            log: Detail::Blocks,
        }
    }
}

impl Draft {
    fn argument(&mut self, arg: &Arg) -> Result<(), String> {
        let words = arg.words();
        let config = &mut self.config;
        match words[..] {
            ["public", addresses] => {
                let (first, last) = range4(addresses)?;
                config.public.push(Public { first, last, ports: Vec::new() });
            }
            ["public", addresses, "ports", ref ranges @ ..] if !ranges.is_empty() => {
                let (first, last) = range4(addresses)?;
                config.public.push(Public { first, last, ports: Vec::new() });
                config.public.last_mut().expect("just put there").ports = port_ranges(ranges)?;
            }
            ["ports", ref ranges @ ..] if !ranges.is_empty() => {
                self.ports = Some(port_ranges(ranges)?);
            }
            ["block", ports] => config.ports.block = number(ports, 1..=32_768)? as u16,
            ["blocks", blocks] => config.ports.blocks = number(blocks, 1..=65_535)? as u16,
            ["deterministic", prefix] => self.deterministic = Some((prefix.parse()?, 0)),
            ["deterministic", prefix, "dynamic", blocks] => {
                self.deterministic = Some((prefix.parse()?, number(blocks, 0..=1000)?));
            }
            ["parity"] => config.ports.parity = true,
            ["inbound-refresh"] => config.inbound_refresh = true,
            ["mapping", what] => match dependence(what)? {
                Dependence::Address => {
                    return Err("a mapping depends on the whole remote end or on nothing of it: write \
                                address-and-port-dependent"
                        .to_string());
                }
                mapping => config.mapping = mapping,
            },
            ["filtering", what] => config.filtering = dependence(what)?,
            ["rate", rate] => config.rate_per_s = Some(number(rate, 1..=1_000_000)?),
            ["sessions", most] => config.sessions = number(most, 1..=1_000_000_000)?,
            ["subscriber-sessions", most] => config.subscriber_sessions = number(most, 1..=1_000_000_000)?,
            ["subscriber-calls", most] => config.subscriber_calls = number(most, 1..=1_000_000_000)?,
            ["hold", time] => config.ports.hold = seconds(time, 0)?,
            ["resting-ports", ports] => config.ports.resting = number(ports, 0..=u32::MAX)?,
            ["held", ports] => {
                return Err(format!("`held` is called resting-ports: write resting-ports {ports}"));
            }
            ["forward", proto, outside, "to", inside] => {
                self.forwards.push(Forward {
                    proto: transport(proto)?,
                    outside: end4(outside)?,
                    inside: end4(inside)?,
                });
            }
            ["one-to-one", outside, "to", inside] => {
                self.pairs.push(Pair { outside: address4(outside)?, inside: address4(inside)? });
            }
            ["redirect", proto, asked, "to", server] => {
                config.redirects.push(redirect(proto, asked, "0.0.0.0/0", server)?);
            }
            ["redirect", proto, asked, "from", network, "to", server] => {
                config.redirects.push(redirect(proto, asked, network, server)?);
            }
            ["exclude", network] => self.exclude.push(network4(network)?.range4()),
            ["unsolicited", how] => config.unsolicited = manner(how)?,
            ["exhausted", how] => config.exhausted = manner(how)?,
            ["mss", bytes] => config.mss = Some(number(bytes, 88..=65_495)? as u16),
            ["pcp"] => config.pcp = true,
            ["prefix64", prefix] => config.prefix64 = Some(Prefix64::new(prefix.parse()?)?),
            ["log", what] => config.log = detail(what)?,
            [name, time] if SETTINGS.iter().any(|setting| setting.name == name) => {
                let setting = SETTINGS.iter().find(|setting| setting.name == name).expect("just seen");
                let why = |text| format!("{name}: {text} ({})", setting.source);
                config.timeouts.0[setting.class as usize] = seconds(time, setting.least_s).map_err(why)?;
            }
            [name, ..] => {
                let form = FORMS.iter().find(|form| form.split(' ').next() == Some(name));
                let names: Vec<&str> = FORMS.iter().filter_map(|form| form.split(' ').next()).collect();
                return Err(match form {
                    Some(form) => {
                        format!("`{}` is not how `{name}` is written: as in {form}", words.join(" "))
                    }
                    None => format!("`{name}` is no argument of nat: {}", did_you_mean(name, &names)),
                });
            }
            [] => unreachable!("an argument has a word"),
        }
        Ok(())
    }

    /// Combines the arguments, and checks what is valid only together.
    fn finish(self, wrong: &mut dyn FnMut(String)) -> Config {
        let Draft { mut config, ports, deterministic, forwards, pairs, exclude } = self;
        config.exclude = exclude.into_iter().collect();
        let ports = ports.unwrap_or_else(|| vec![1024..=65535]);
        for public in config.public.iter_mut().filter(|public| public.ports.is_empty()) {
            public.ports.clone_from(&ports);
        }
        if config.public.is_empty() && pairs.is_empty() {
            wrong("a NAT needs public addresses: write public 192.0.2.1".to_string());
        }
        config.public.sort_by_key(|public| public.first);
        if let Some(two) = config.public.windows(2).find(|two| two[0].last >= two[1].first) {
            wrong(format!(
                "the public address {} is there twice: write it once",
                Ipv4Addr::from(two[1].first)
            ));
        }
        let count: u64 = config.public.iter().map(Public::addresses).sum();
        if count > MOST_PUBLIC {
            wrong(format!("{count} public addresses are too many: a NAT has at most {MOST_PUBLIC}"));
            config.public.clear();
            return config;
        }
        let per_range = |range: &RangeInclusive<u16>| range.len().div_ceil(config.ports.block.into()) as u64;
        let per_address = |public: &Public| public.ports.iter().map(per_range).sum::<u64>();
        let blocks: u64 = config.public.iter().map(|public| public.addresses() * per_address(public)).sum();
        if blocks > MOST_BLOCKS {
            wrong(format!(
                "{blocks} blocks of ports are too many: a NAT has at most {MOST_BLOCKS}, so write a larger `block`"
            ));
        }
        for public in &config.public {
            if let Some(wrong_one) = [public.first, public.last].into_iter().find(|&end| !is_unicast4(end)) {
                wrong(format!("{} is no host's address: write others", Ipv4Addr::from(wrong_one)));
            }
        }
        for pair in pairs {
            config.add_pair(pair).unwrap_or_else(&mut *wrong);
        }
        for forward in forwards {
            config.add_forward(forward).unwrap_or_else(&mut *wrong);
        }
        if config.mapping == Dependence::AddressAndPort {
            // Such a mapping has one remote end: no other may send inward.
            config.filtering = Dependence::AddressAndPort;
            if config.pcp {
                wrong(
                    "pcp gives a port for all remote ends, and a mapping is to be for one: leave one out"
                        .into(),
                );
            }
        }
        if let Some((prefix, dynamic)) = deterministic {
            match deterministic_of(&config, prefix, dynamic) {
                Ok(deterministic) => {
                    config.ports.block = deterministic.share();
                    config.ports.blocks = dynamic as u16;
                    config.deterministic = Some(deterministic);
                }
                Err(text) => wrong(text),
            }
        }
        config
    }
}

fn deterministic_of(config: &Config, prefix: Prefix, dynamic: u32) -> Result<Deterministic, String> {
    let of_one_range = config.public.first().map_or(&[][..], |public| &public.ports);
    let [ports] = of_one_range else {
        return Err("deterministic ports are of one range: write ports 1024-65535".to_string());
    };
    if config.public.iter().any(|public| public.ports != of_one_range) {
        return Err("deterministic ports are the same of each public address: write them once, as \
                    ports 1024-65535"
            .to_string());
    }
    if *ports.start() < 1024 {
        return Err("deterministic ports begin at 1024 or above: write ports 1024-65535".to_string());
    }
    if *ports.start() < LOW {
        return Err("deterministic ports are no well-known ones: write ports 1024-65535".to_string());
    }
    let outside = config.public.iter().flat_map(|public| public.first..=public.last).collect();
    Deterministic::new(prefix, outside, ports.clone(), dynamic)
}

#[cfg(test)]
mod tests {
    use weir_testkit::{golden, mistakes};

    use super::*;
    use crate::text::items;

    fn read(text: &str) -> Result<Config, String> {
        let notes = Notes::new("a node", text);
        let config = Config::read(&items(text, &notes)[0], &notes);
        if notes.is_empty() { Ok(config) } else { Err(notes.to_mistakes("n").to_string()) }
    }

    #[test]
    fn arguments() {
        let config = read(
            "nat(public 192.0.2.0/30 ports 1-1023 2000-2999, public 198.51.100.7-198.51.100.8, block 64, blocks 2,\n\
             filtering address-dependent, udp-timeout 120s, forward tcp 192.0.2.1:80 to 192.168.0.9:8080,\n\
             one-to-one 203.0.113.1 to 192.168.0.8, exclude 10.0.0.0/8, hold 60s, rate 10, parity)",
        )
        .expect("right");
        let public =
            |first, last, ports: &[RangeInclusive<u16>]| Public { first, last, ports: ports.to_vec() };
        let own = public(0xc000_0200, 0xc000_0203, &[1..=1023, 2000..=2999]);
        assert_eq!(config.public, [own, public(0xc633_6407, 0xc633_6408, &[1024..=65535])]);
        assert_eq!(config.ports.block, 64);
        assert_eq!((config.filtering, config.mapping), (Dependence::Address, Dependence::Independent));
        assert_eq!(config.timeouts.0[0], Duration::from_secs(120));
        assert_eq!(config.forwards.iter().next().map(|one| one.inside), Some((0xc0a8_0009, 8080)));
        assert_eq!(config.pairs.of(0xc0a8_0008).map(|pair| pair.outside), Some(0xcb00_7101));
        let config = read("nat(public 192.0.2.1, mapping address-and-port-dependent)").expect("right");
        assert_eq!(config.filtering, Dependence::AddressAndPort);
        let config = read("nat(public 192.0.2.1, deterministic 198.51.100.0/28 dynamic 2)").expect("right");
        assert_eq!((config.ports.block, config.ports.blocks), (4032, 2));
    }

    #[test]
    fn all_mistakes_are_reported() {
        let texts = [
            "nat",
            "nat(public 192.0.2.1, public 192.0.2.0/24)",
            "nat(public 192.0.2.1 ports 5000-4000)",
            "nat(public 192.0.2.1, ports 1-9 5-6)",
            "nat(public 192.0.2.1, ports 2000, ports 3000)",
            "nat(public 192.0.2.1, block 512, block 512)",
            "nat(public 224.0.0.1)",
            "nat(public 192.0.2.1, exclude 2001:db8::/32)",
            "nat(one-to-one 192.0.2.9 to 10.0.0.9, one-to-one 192.0.2.9 to 10.0.0.8)",
            "nat(one-to-one 192.0.2.9 to 10.0.0.9, one-to-one 192.0.2.8 to 10.0.0.9)",
            "nat(public 192.0.2.1, one-to-one 192.0.2.9 to 10.0.0.9, forward tcp 192.0.2.1:80 to 10.0.0.9:80)",
            "nat(public 192.0.2.1, one-to-one 192.0.2.9 to 10.0.0.9, forward tcp 192.0.2.9:80 to 10.0.0.7:80)",
            "nat(public 192.0.2.1 ports 2000-2999, public 192.0.2.2, deterministic 10.0.0.0/30)",
            "nat(public 192.0.2.1, ports 512-65535, deterministic 10.0.0.0/28)",
            "nat(public 192.0.2.1, tcp-timeout 7200s)",
            "nat(public 192.0.2.1, udp-timeout 60s)",
            "nat(public 192.0.2.1, filtering none)",
            "nat(public 192.0.2.1, blok 5)",
            "nat(public 192.0.2.1, block 0)",
            "nat(public 192.0.2.1, held 5)",
            "nat(public 192.0.2.1, block)",
            "nat(public 192.0.2.1, one-to-one 192.0.2.1 to 10.0.0.1)",
            "nat(public 192.0.2.1, mapping address-dependent)",
            "nat(public 192.0.2.1, deterministic 10.0.0.0/8)",
            "nat(public 10.0.0.0/8)",
            "nat(public 10.0.0.0/24, block 1)",
            "nat(public 192.0.2.1, forward tcp 192.0.2.1:1 to 10.0.0.1:1, forward tcp 192.0.2.1:2 to 10.0.0.1:1)",
            "nat(public 192.0.2.1, pcp, mapping address-and-port-dependent)",
            "nat(public 192.0.2.1, redirect udp any to 192.0.2.53:53)",
            "nat(public 192.0.2.1, redirect udp any:53 from ::/0 to 192.0.2.53:53)",
            "nat(public 192.0.2.1, forward icmp 192.0.2.1:1 to 10.0.0.1:1)",
            "nat(public 1.2.3,\nblock x,\nhold y)",
        ];
        golden!("src/nat/mistakes.txt", &mistakes(&texts, read));
    }

    #[test]
    fn each_argument_can_be_written_as_it_is_shown() {
        for form in FORMS {
            read(&format!("nat(public 203.0.113.1, {form})")).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        for setting in SETTINGS {
            assert!(FORMS.iter().any(|form| form.starts_with(setting.name)), "{}", setting.name);
        }
    }
}
