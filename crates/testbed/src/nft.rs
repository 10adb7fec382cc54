//! nftables rule sets of the kernel DUTs, installed and read by nft(8) in the DUT's namespace.
//!
//! All N rules stand in one forward chain with policy drop. The first N-1 are allow rules for other
//! 5-tuples; only the last lets the test traffic pass, so that each frame is compared with each rule. With
//! connection tracking the last rule asks for the state too, and established flows take no shortcut: the
//! price of tracking is what the two differ in. A rule that does not match costs one comparison of the
//! source address and, now and then, of the destination.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use serde_json::Value;
use weir_packet::flow::IpVersion;

use crate::error::{Error, Result};
use crate::journal::dying_with_parent;

/// How many rules a filter may have.
pub const RULES: std::ops::RangeInclusive<u32> = 1..=10_000;

const TABLE: &str = "weir";
const CHAIN: &str = "forwarding";

/// What the rules do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Filter frame by frame; connection tracking is off.
    Stateless {
        /// Number of rules, see [`RULES`].
        rules: u32,
    },
    /// The same rules, with connection tracking.
    Stateful {
        /// Number of rules, see [`RULES`].
        rules: u32,
    },
    /// No filter; frames that leave towards side b get the DUT's address there.
    Masquerade,
}

/// A rule set of one IP version in the DUT's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleSet {
    policy: Policy,
    ip: IpVersion,
}

/// Counter of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleCounter {
    /// Position in the chain, 0 to N-1; N-1 is the one that accepts the test traffic.
    pub rule: usize,
    /// Frames that matched.
    pub packets: u64,
    /// Bytes that matched, from the IP header on.
    pub bytes: u64,
}

/// What the filter did with the frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Frames accepted by the last rule.
    pub accepted: u64,
    /// Frames that no rule accepted: dropped by the chain's policy.
    pub refused: u64,
}

impl RuleSet {
    /// Describes a rule set.
    ///
    /// # Errors
    /// [`Error::Input`] for a number of rules outside [`RULES`].
    pub fn new(policy: Policy, ip: IpVersion) -> Result<RuleSet> {
        match policy {
            Policy::Stateless { rules } | Policy::Stateful { rules } if !RULES.contains(&rules) => {
                Err(Error::Input(format!("{rules} rules: use {} to {}", RULES.start(), RULES.end())))
            }
            _ => Ok(RuleSet { policy, ip }),
        }
    }

    /// Whether frames are tracked.
    pub fn tracks(&self) -> bool {
        !matches!(self.policy, Policy::Stateless { .. })
    }

    /// Installs the rules in the calling thread's namespace in one transaction, all counters zero. In place
    /// of itself, this zeroes the counters.
    ///
    /// # Errors
    /// [`Error::NftMissing`], [`Error::NftRefused`].
    pub fn install(&self) -> Result<()> {
        nft(&["-f", "-"], &self.script()).map(drop)
    }

    /// Counters of all rules, in order; empty for NAT. About 0.2 s for 10,000 rules.
    pub fn counters(&self) -> Result<Vec<RuleCounter>> {
        let objects = self.list(&["table"])?;
        let accepted = named(&objects, "accepted");
        let rules =
            objects.iter().filter_map(|object| object.get("rule")).filter(|rule| rule["chain"] == CHAIN);
        let counters = rules.filter_map(|rule| rule_counter(rule, accepted)).enumerate();
        Ok(counters.map(|(rule, (packets, bytes))| RuleCounter { rule, packets, bytes }).collect())
    }

    /// What the filter accepted and refused; None for NAT, which filters nothing. Quick at any size.
    pub fn verdicts(&self) -> Result<Option<Verdicts>> {
        if self.policy == Policy::Masquerade {
            return Ok(None);
        }
        let objects = self.list(&["counters", "table"])?;
        Ok(Some(Verdicts { accepted: named(&objects, "accepted").0, refused: named(&objects, "refused").0 }))
    }

    fn list(&self, what: &[&str]) -> Result<Vec<Value>> {
        let text = nft(&[&["-j", "list"], what, &[self.family(), TABLE]].concat(), "")?;
        let mut json: Value = serde_json::from_str(&text)
            .map_err(|error| Error::NftRefused(format!("its list is not JSON: {error}")))?;
        match json["nftables"].take() {
            Value::Array(objects) => Ok(objects),
            other => Err(Error::NftRefused(format!("its list has no objects: {other}"))),
        }
    }

    fn family(&self) -> &'static str {
        match self.ip {
            IpVersion::V4 => "ip",
            IpVersion::V6 => "ip6",
        }
    }

    fn script(&self) -> String {
        let family = self.family();
        let body = match self.policy {
            Policy::Stateless { rules } => {
                let raw = "chain untracked {\n type filter hook prerouting priority raw; policy accept;\n notrack\n}";
                format!("{raw}\n{}", self.filter(rules, ""))
            }
            Policy::Stateful { rules } => self.filter(rules, "ct state new,established,related "),
            Policy::Masquerade => "chain source_nat {\n type nat hook postrouting priority srcnat; policy \
                                   accept;\n oifname \"d1\" masquerade\n}"
                .into(),
        };
        // Adding before deleting makes the deletion right whether the table is there or not.
        format!(
            "add table {family} {TABLE}\ndelete table {family} {TABLE}\ntable {family} {TABLE} {{\n{body}\n}}\n"
        )
    }

    /// The forward chain. The named counters can be read without listing all rules; the one after the last
    /// rule counts what the policy is about to drop and is never reached by accepted frames.
    fn filter(&self, rules: u32, last_state: &str) -> String {
        let family = self.family();
        let mut text = format!(
            "counter accepted {{ }}\ncounter refused {{ }}\nchain {CHAIN} {{\n type filter hook forward \
             priority filter; policy drop;\n"
        );
        for index in 0..rules - 1 {
            let (source, destination) = self.other_pair(index);
            let (protocol, port) = if index % 3 == 2 { ("tcp", 443) } else { ("udp", 53) };
            let source_port = 1024 + index;
            writeln!(
                text,
                " {family} saddr {source} {family} daddr {destination} {protocol} sport {source_port} \
                 {protocol} dport {port} counter accept"
            )
            .expect("a String takes all");
        }
        let test_net = match self.ip {
            IpVersion::V4 => "198.18.0.0/15",
            IpVersion::V6 => "2001:db8::/32",
        };
        text + &format!(
            " {family} saddr {test_net} {family} daddr {test_net} {last_state}counter name accepted \
             accept\n counter name refused\n}}"
        )
    }

    /// Addresses that no forwarded test frame has together: both on side b.
    fn other_pair(&self, index: u32) -> (String, String) {
        match self.ip {
            IpVersion::V4 => {
                let base = u32::from(Ipv4Addr::new(198, 19, 128, 0));
                (Ipv4Addr::from(base + index).to_string(), Ipv4Addr::from(base + 0x4000 + index).to_string())
            }
            IpVersion::V6 => {
                let base = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0x19, 0x8000, 0, 0, 0, 0));
                let (source, destination) = (base + u128::from(index), base + (1 << 64) + u128::from(index));
                (Ipv6Addr::from(source).to_string(), Ipv6Addr::from(destination).to_string())
            }
        }
    }
}

/// Packets and bytes of a counter object of this name.
fn named(objects: &[Value], name: &str) -> (u64, u64) {
    let counter = objects.iter().filter_map(|object| object.get("counter")).find(|c| c["name"] == name);
    counter.map_or((0, 0), packets_and_bytes)
}

/// Counter of a rule: its own, or the object `accepted`. None for the rule that counts what is refused.
fn rule_counter(rule: &Value, accepted: (u64, u64)) -> Option<(u64, u64)> {
    let counter = rule["expr"].as_array()?.iter().find_map(|expression| expression.get("counter"))?;
    match counter.as_str() {
        Some("accepted") => Some(accepted),
        Some(_) => None,
        None => Some(packets_and_bytes(counter)),
    }
}

fn packets_and_bytes(counter: &Value) -> (u64, u64) {
    (counter["packets"].as_u64().unwrap_or(0), counter["bytes"].as_u64().unwrap_or(0))
}

/// Runs nft in the calling thread's namespace and returns what it prints.
fn nft(arguments: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new("nft");
    // Debian keeps it in /usr/sbin, which is not in every user's PATH.
    command.args(arguments).env("PATH", search_path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = dying_with_parent(&mut command).spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::NftMissing,
        _ => Error::os("start nft")(error),
    })?;
    // nft reads all of its input before it writes; if it ends early, its own words are the better error.
    let written = child.stdin.take().expect("piped above").write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(Error::os("run nft"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Error::NftRefused(text.lines().take(4).collect::<Vec<_>>().join("; ")));
    }
    written.map_err(Error::os("write rules to nft"))?;
    String::from_utf8(output.stdout).map_err(|_| Error::NftRefused("its answer is not UTF-8".into()))
}

fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    if path.is_empty() { "/usr/sbin:/sbin:/usr/bin:/bin".into() } else { format!("{path}:/usr/sbin:/sbin") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::testing::need_root;

    #[test]
    fn the_number_of_rules_has_limits() {
        for rules in [0, 10_001] {
            let error = RuleSet::new(Policy::Stateful { rules }, IpVersion::V4).unwrap_err();
            assert_eq!(error.to_string(), format!("{rules} rules: use 1 to 10000"));
        }
    }

    #[test]
    fn each_rule_is_read_back_and_installing_again_replaces() {
        need_root!();
        let ns = Namespace::new().unwrap();
        ns.run(|| {
            for ip in [IpVersion::V4, IpVersion::V6] {
                for rules in [1, 25] {
                    for policy in [Policy::Stateless { rules }, Policy::Stateful { rules }] {
                        let set = RuleSet::new(policy, ip).unwrap();
                        set.install().unwrap();
                        let counters = set.counters().unwrap();
                        assert_eq!(counters.len(), rules as usize, "{policy:?} {ip}");
                        assert!(counters.iter().enumerate().all(|(n, c)| c.rule == n && c.packets == 0));
                        assert_eq!(set.verdicts().unwrap(), Some(Verdicts::default()));
                    }
                }
                let nat = RuleSet::new(Policy::Masquerade, ip).unwrap();
                nat.install().unwrap();
                assert_eq!((nat.counters().unwrap(), nat.verdicts().unwrap()), (vec![], None));
            }
        });
    }

    #[test]
    fn ten_thousand_rules_are_one_transaction() {
        need_root!();
        let ns = Namespace::new().unwrap();
        let set = RuleSet::new(Policy::Stateless { rules: 10_000 }, IpVersion::V6).unwrap();
        ns.run(|| set.install()).unwrap();
        assert_eq!(ns.run(|| set.counters()).unwrap().len(), 10_000);
    }

    #[test]
    fn a_refusal_repeats_nft_s_words() {
        need_root!();
        let ns = Namespace::new().unwrap();
        let error = ns.run(|| nft(&["-f", "-"], "table ip weir { nonsense }")).unwrap_err();
        assert!(matches!(&error, Error::NftRefused(text) if text.contains("nonsense")), "{error}");
    }
}
