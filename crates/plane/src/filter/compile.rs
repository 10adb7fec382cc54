//! Rules become match ranges, and match ranges forests: one for each version of IP.

use std::net::IpAddr;

use weir_packet::headers::{ICMP, ICMP6};

use super::classify::{self, Forest};
use super::match_ranges::{ANY, Asked, LATER, MatchRange4, MatchRange6, Network6, STATES, Span};
use super::rules::{Rule, Rules, Version};
use crate::dir::Dir;
use crate::prefix::{Prefix, mask4, mask6};

/// Most match ranges of a file.
const MOST_RANGES: usize = 1 << 20;

/// Rules that can be asked.
#[derive(Debug)]
pub(crate) struct Program {
    v4: Forest<MatchRange4>,
    v6: Forest<MatchRange6>,
}

/// Match ranges of rules before they are forests.
#[derive(Debug, Default)]
pub(crate) struct MatchRanges {
    v4: Vec<MatchRange4>,
    v6: Vec<MatchRange6>,
}

impl Program {
    pub(crate) fn new(match_ranges: &MatchRanges) -> Program {
        Program { v4: Forest::grow(&match_ranges.v4), v6: Forest::grow(&match_ranges.v6) }
    }

    /// Finds the first rule of IPv4, as [`Forest::first`] says.
    pub(crate) fn first_v4(&self, asked: &mut classify::Asked) {
        self.v4.first(asked);
    }

    /// The same for IPv6.
    pub(crate) fn first_v6(&self, asked: &mut classify::Asked) {
        self.v6.first(asked);
    }

    /// Memory that frames read, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }
}

impl MatchRanges {
    /// The match ranges of these rules, up to one that decides about all frames.
    ///
    /// # Errors
    /// Their lists make too many combinations.
    pub(crate) fn of(rules: &Rules) -> Result<MatchRanges, String> {
        let mut match_ranges = MatchRanges::default();
        for (n, rule) in rules.rules.iter().enumerate() {
            match_ranges.add(n as u32, rule);
            if rule.ends_all() {
                break;
            }
            if match_ranges.v4.len() + match_ranges.v6.len() > MOST_RANGES {
                let line = rule.line;
                return Err(format!(
                    "up to line {line} the lists of the rules make more than {MOST_RANGES} combinations: use prefixes \
                     and ranges in place of long lists"
                ));
            }
        }
        Ok(match_ranges)
    }

    /// The match ranges of a rule: one for each combination of what its lists hold.
    fn add(&mut self, number: u32, rule: &Rule) {
        // Those that ask for an EtherType hold for no packet of IP, see `no_ip.rs`.
        let combinations = if rule.ether_types.is_empty() { combinations(number, rule) } else { Vec::new() };
        for asked in combinations {
            let (v4, v6) = (rule.version != Some(Version::V6), rule.version != Some(Version::V4));
            let is_for = |proto: u8| rule.protos.is_empty() || rule.protos.iter().any(|&p| p != proto);
            if v4 && is_for(ICMP6) {
                for src in networks4(&rule.from.networks) {
                    self.v4
                        .extend(networks4(&rule.to.networks).map(|dst| MatchRange4::new(src, dst, &asked)));
                }
            }
            if v6 && is_for(ICMP) {
                for src in networks6(&rule.from.networks) {
                    self.v6
                        .extend(networks6(&rule.to.networks).map(|dst| MatchRange6::new(src, dst, &asked)));
                }
            }
        }
    }
}

/// What a rule asks beside addresses, in all combinations.
fn combinations(number: u32, rule: &Rule) -> Vec<Asked> {
    let or_any = |list: &[(u16, u16)]| if list.is_empty() { vec![(0, u16::MAX)] } else { list.to_vec() };
    let sports = or_any(if rule.types.is_empty() { &rule.from.ports } else { &rule.types });
    let dports = or_any(&rule.to.ports);
    let protos = if rule.protos.is_empty() { vec![ANY] } else { rule.protos.clone() };
    let behind_ip = sports != [(0, u16::MAX)] || dports != [(0, u16::MAX)] || rule.flags.is_some();
    let states = if rule.states == 0 { (1 << STATES) - 1 } else { rule.states };
    let dirs = match rule.dir {
        None => 0b11,
        Some(Dir::Outward) => 0b01,
        Some(Dir::Inward) => 0b10,
    };
    let meta = states | dirs << STATES | if behind_ip { 0 } else { LATER } | 0x80;
    let asked = Asked {
        rule: number,
        proto: ANY,
        port: rule.port.map(|port| port.0),
        sport: (0, 0),
        dport: (0, 0),
        flags: rule.flags.unwrap_or((0, 0)),
        meta,
    };
    let mut all = Vec::new();
    for &proto in &protos {
        for &sport in &sports {
            all.extend(dports.iter().map(|&dport| Asked { proto, sport, dport, ..asked }));
        }
    }
    all
}

/// The networks of IPv4 of a list; if it is empty, all addresses.
fn networks4(list: &[Prefix]) -> impl Iterator<Item = Span> {
    let all = list.is_empty().then_some(Span::new(0, u32::MAX));
    let of = |network: &Prefix| match network.address {
        IpAddr::V4(address) => Some(Span::new(address.into(), !mask4(network.len))),
        IpAddr::V6(_) => None,
    };
    all.into_iter().chain(list.iter().filter_map(of))
}

/// The networks of IPv6 of a list; if it is empty, all addresses.
fn networks6(list: &[Prefix]) -> impl Iterator<Item = Network6> {
    let all = list.is_empty().then_some(Network6 { bits: 0, mask: 0 });
    let of = |network: &Prefix| match network.address {
        IpAddr::V6(address) => Some(Network6 { bits: address.into(), mask: mask6(network.len) }),
        IpAddr::V4(_) => None,
    };
    all.into_iter().chain(list.iter().filter_map(of))
}
