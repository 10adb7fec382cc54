//! Filter and NAT rules of the kernel DUTs: the same descriptions in every form that Linux offers for them.
//!
//! A filter of N rules describes N kinds of traffic and drops the rest. The first N-1 are single flows that the
//! test traffic has none of ([`others`]); only the last, the test networks, lets a test frame pass.
//!
//! ```text
//! chain   rule 1, rule 2, ... rule N-1, rule N       each frame is compared with N rules
//! set     one rule that looks up N-1 flows, rule N   one lookup, which finds nothing, and one rule
//! map     the same, and the element names a verdict
//! ```
//! Set and map stand there with one rule too, empty. Without rules there is no filter: no chain is entered, and a
//! stateful device only tracks. A stateless device is one in whose namespace nothing asks for connections, so that
//! the kernel tracks none. With tracking the last rule asks for the state too, and established flows take no
//! shortcut: the price of tracking is what the two differ in.
//!
//! nft and iptables (in its two kernels' variants) are different devices. Sets of iptables are ipset's, which has no
//! type with both ports: there a flow is described without its source port.

use std::fmt;

use weir_packet::flow::IpVersion;

use crate::error::{Error, Result};

mod iptables;
mod nft;
pub(crate) mod others;
mod tool;

use tool::Tool;

/// How many rules a filter may have.
pub const RULES: std::ops::RangeInclusive<u32> = 0..=10_000;

/// Form of the rules of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleForm {
    /// nftables: a rule each.
    NftChain,
    /// nftables: a set of concatenated addresses, protocol and ports.
    NftSet,
    /// nftables: a verdict map of the same.
    NftMap,
    /// iptables-legacy (xtables): a rule each.
    LegacyChain,
    /// iptables-legacy: a set of ipset.
    LegacySet,
    /// iptables-nft (xtables matches in nftables' chains): a rule each.
    CompatChain,
    /// iptables-nft: a set of ipset.
    CompatSet,
}

/// What becomes of the N-1 flows that are not the test's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Chain,
    Set,
    Map,
}

/// The program that has the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Nft,
    Iptables(iptables::Variant),
}

/// What the rules do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Filter frame by frame; nothing is tracked.
    Stateless(Filter),
    /// The same rules, with connection tracking.
    Stateful(Filter),
    /// No filter; frames that leave towards side b get the DUT's address there.
    Masquerade,
}

/// A filter's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// What they are made of.
    pub form: RuleForm,
    /// How many, see [`RULES`].
    pub rules: u32,
}

/// A rule set of one IP version in the DUT's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleSet {
    policy: Policy,
    ip: IpVersion,
}

/// A filter that has rules, as its maker wants it.
#[derive(Debug, Clone, Copy)]
struct Described {
    shape: Shape,
    rules: u32,
    tracked: bool,
    ip: IpVersion,
}

/// Counter of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleCounter {
    /// Position in the chain from 0; the last is the one that accepts the test traffic. The elements of a set or map
    /// count together, as the first.
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

impl RuleForm {
    /// All forms with their names in plans and records.
    pub const ALL: [(RuleForm, &'static str); 7] = [
        (RuleForm::NftChain, "nft-chain"),
        (RuleForm::NftSet, "nft-set"),
        (RuleForm::NftMap, "nft-map"),
        (RuleForm::LegacyChain, "iptables-legacy-chain"),
        (RuleForm::LegacySet, "iptables-legacy-ipset"),
        (RuleForm::CompatChain, "iptables-nft-chain"),
        (RuleForm::CompatSet, "iptables-nft-ipset"),
    ];

    fn parts(self) -> (Maker, Shape) {
        use iptables::Variant::{Legacy, Nft};
        match self {
            RuleForm::NftChain => (Maker::Nft, Shape::Chain),
            RuleForm::NftSet => (Maker::Nft, Shape::Set),
            RuleForm::NftMap => (Maker::Nft, Shape::Map),
            RuleForm::LegacyChain => (Maker::Iptables(Legacy), Shape::Chain),
            RuleForm::LegacySet => (Maker::Iptables(Legacy), Shape::Set),
            RuleForm::CompatChain => (Maker::Iptables(Nft), Shape::Chain),
            RuleForm::CompatSet => (Maker::Iptables(Nft), Shape::Set),
        }
    }
}

impl fmt::Display for RuleForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(RuleForm::ALL.iter().find(|(form, _)| form == self).expect("every form is in ALL").1)
    }
}

impl RuleSet {
    /// Describes a rule set.
    ///
    /// # Errors
    /// [`Error::Input`] for a number of rules outside [`RULES`].
    pub fn new(policy: Policy, ip: IpVersion) -> Result<RuleSet> {
        match policy {
            Policy::Stateless(Filter { rules, .. }) | Policy::Stateful(Filter { rules, .. })
                if !RULES.contains(&rules) =>
            {
                Err(Error::Input(format!("{rules} rules: use {} to {}", RULES.start(), RULES.end())))
            }
            _ => Ok(RuleSet { policy, ip }),
        }
    }

    /// Whether frames are tracked.
    pub fn tracks(&self) -> bool {
        !matches!(self.policy, Policy::Stateless(_))
    }

    /// Whether the programs that make these rules are there.
    ///
    /// # Errors
    /// [`Error::ToolMissing`].
    pub fn check_tools(&self) -> Result<()> {
        self.tools().iter().try_for_each(|tool| tool.find().map(drop))
    }

    fn tools(&self) -> Vec<Tool> {
        match self.filter() {
            None if self.tracks() => vec![nft::NFT],
            None => Vec::new(),
            Some((Maker::Nft, _)) => vec![nft::NFT],
            Some((Maker::Iptables(variant), filter)) => variant.tools(&filter),
        }
    }

    /// Installs the rules in the calling thread's namespace, all counters zero. In place of itself, this zeroes the
    /// counters.
    ///
    /// # Errors
    /// [`Error::ToolMissing`], [`Error::ToolRefused`].
    pub fn install(&self) -> Result<()> {
        match (self.filter(), self.policy) {
            (Some((Maker::Nft, filter)), _) => nft::install(&filter),
            (Some((Maker::Iptables(variant), filter)), _) => variant.install(&filter),
            (None, Policy::Masquerade) => nft::install_masquerade(self.ip),
            (None, Policy::Stateful(_)) => nft::install_tracking(self.ip),
            (None, Policy::Stateless(_)) => Ok(()),
        }
    }

    /// Counters of all rules, in order; empty where nothing is filtered. About 0.2 s for a chain of 10,000 rules.
    pub fn counters(&self) -> Result<Vec<RuleCounter>> {
        let counters = match self.filter() {
            None => Vec::new(),
            Some((Maker::Nft, filter)) => nft::counters(&filter)?,
            Some((Maker::Iptables(variant), filter)) => variant.counters(&filter)?.rules,
        };
        let counters = counters.into_iter().enumerate();
        Ok(counters.map(|(rule, (packets, bytes))| RuleCounter { rule, packets, bytes }).collect())
    }

    /// What the filter accepted and refused; None where nothing is filtered. Quick at any size.
    pub fn verdicts(&self) -> Result<Option<Verdicts>> {
        match self.filter() {
            None => Ok(None),
            Some((Maker::Nft, filter)) => nft::verdicts(&filter).map(Some),
            Some((Maker::Iptables(variant), filter)) => {
                let counters = variant.counters(&filter)?;
                let accepted = counters.rules.last().map_or(0, |&(packets, _)| packets);
                Ok(Some(Verdicts { accepted, refused: counters.refused }))
            }
        }
    }

    /// The filter and its maker; None without rules.
    fn filter(&self) -> Option<(Maker, Described)> {
        let (filter, tracked) = match self.policy {
            Policy::Stateless(filter) => (filter, false),
            Policy::Stateful(filter) => (filter, true),
            Policy::Masquerade => return None,
        };
        let (maker, shape) = filter.form.parts();
        let described = Described { shape, rules: filter.rules, tracked, ip: self.ip };
        (filter.rules > 0).then_some((maker, described))
    }
}

/// The networks of all test traffic.
pub(crate) fn test_network(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "198.18.0.0/15",
        IpVersion::V6 => "2001:db8::/32",
    }
}

#[cfg(test)]
mod tests;
