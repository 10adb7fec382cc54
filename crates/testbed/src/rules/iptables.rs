//! Filters of iptables, in either variant, and sets of ipset.
//!
//! The forward chain ends with a rule that only counts: what gets there is dropped by the policy. The counters of
//! both variants are read with their -save, which lists a chain of 10,000 rules in 15 to 60 ms.

use std::fmt::Write as _;

use weir_packet::flow::IpVersion;

use super::others::{Other, others};
use super::tool::Tool;
use super::{Described, Shape, test_network};
use crate::error::Result;

const PACKAGE: &str = "iptables";
const IPSET: Tool = Tool { program: "ipset", package: "ipset" };
const CHAIN: &str = "FORWARD";
const SET: &str = "weir";

/// Which part of the kernel the rules are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    /// xtables.
    Legacy,
    /// nftables.
    Nft,
}

/// Counters of a chain: packets and bytes.
pub(super) struct Counters {
    /// Of each rule, the accepting one last.
    pub(super) rules: Vec<(u64, u64)>,
    /// Frames that came past the last one.
    pub(super) refused: u64,
}

impl Variant {
    /// All programs that such a filter takes.
    pub(super) fn tools(self, filter: &Described) -> Vec<Tool> {
        let mut tools = vec![self.restore(filter.ip), self.save(filter.ip)];
        tools.extend((filter.shape == Shape::Set).then_some(IPSET));
        tools
    }

    fn restore(self, ip: IpVersion) -> Tool {
        let program = match (self, ip) {
            (Variant::Legacy, IpVersion::V4) => "iptables-legacy-restore",
            (Variant::Legacy, IpVersion::V6) => "ip6tables-legacy-restore",
            (Variant::Nft, IpVersion::V4) => "iptables-nft-restore",
            (Variant::Nft, IpVersion::V6) => "ip6tables-nft-restore",
        };
        Tool { program, package: PACKAGE }
    }

    fn save(self, ip: IpVersion) -> Tool {
        let program = match (self, ip) {
            (Variant::Legacy, IpVersion::V4) => "iptables-legacy-save",
            (Variant::Legacy, IpVersion::V6) => "ip6tables-legacy-save",
            (Variant::Nft, IpVersion::V4) => "iptables-nft-save",
            (Variant::Nft, IpVersion::V6) => "ip6tables-nft-save",
        };
        Tool { program, package: PACKAGE }
    }

    /// Installs everything in one go; what was in the table and the set is gone.
    pub(super) fn install(self, filter: &Described) -> Result<()> {
        if filter.shape == Shape::Set {
            IPSET.run(&["restore"], &set(filter))?;
        }
        self.restore(filter.ip).run(&[], &table(filter)).map(drop)
    }

    /// Reads all counters of the chain.
    pub(super) fn counters(self, filter: &Described) -> Result<Counters> {
        let tool = self.save(filter.ip);
        let text = tool.run(&["-c", "-t", "filter"], "")?;
        let mut rules = parse(&text).ok_or_else(|| tool.refused("its list has no counters".into()))?;
        let refused = rules.pop().map_or(0, |(packets, _)| packets);
        Ok(Counters { rules, refused })
    }
}

fn table(filter: &Described) -> String {
    let mut text = format!("*filter\n:{CHAIN} DROP [0:0]\n");
    match filter.shape {
        Shape::Set => {
            text += &format!("-A {CHAIN} -m set --match-set {SET} src,dst,dst -j ACCEPT\n");
        }
        Shape::Chain | Shape::Map => {
            for Other { source, destination, protocol, source_port, destination_port } in
                others(filter.ip, filter.rules - 1)
            {
                writeln!(
                    text,
                    "-A {CHAIN} -s {source} -d {destination} -p {protocol} -m {protocol} --sport {source_port} \
                     --dport {destination_port} -j ACCEPT"
                )
                .expect("a String takes all");
            }
        }
    }
    let network = test_network(filter.ip);
    let state = if filter.tracked { " -m conntrack --ctstate NEW,ESTABLISHED,RELATED" } else { "" };
    text + &format!("-A {CHAIN} -s {network} -d {network}{state} -j ACCEPT\n-A {CHAIN}\nCOMMIT\n")
}

fn set(filter: &Described) -> String {
    let family = match filter.ip {
        IpVersion::V4 => "inet",
        IpVersion::V6 => "inet6",
    };
    let mut text = format!("create {SET} hash:ip,port,ip family {family} -exist\nflush {SET}\n");
    for Other { source, destination, protocol, destination_port, .. } in others(filter.ip, filter.rules - 1) {
        writeln!(text, "add {SET} {source},{protocol}:{destination_port},{destination}")
            .expect("a String takes all");
    }
    text
}

/// The lines `[packets:bytes] -A FORWARD ...` in order; None without any.
fn parse(text: &str) -> Option<Vec<(u64, u64)>> {
    let rule = |line: &str| {
        let (counters, rule) = line.strip_prefix('[')?.split_once("] -A ")?;
        (rule.split(' ').next() == Some(CHAIN)).then_some(())?;
        let (packets, bytes) = counters.split_once(':')?;
        Some((packets.parse().ok()?, bytes.parse().ok()?))
    };
    let rules: Vec<_> = text.lines().filter_map(rule).collect();
    (!rules.is_empty()).then_some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_chain_are_read_in_order() {
        let text = "# by iptables-save\n*filter\n:FORWARD DROP [7:8]\n[1:20] -A INPUT -j ACCEPT\n\
                    [3:40] -A FORWARD -s 198.18.0.0/15 -j ACCEPT\n[5:60] -A FORWARD\nCOMMIT\n";
        assert_eq!(parse(text), Some(vec![(3, 40), (5, 60)]));
        assert_eq!(parse(""), None);
    }
}
