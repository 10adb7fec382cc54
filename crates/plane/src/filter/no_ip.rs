//! Frames that are no packets of IP: a bump in the wire has them, and the policy is for them as for all others.
//!
//! ```text
//! frame > first rule that holds (in order) > accept, drop          count, log: from the next rule on again
//!       > none > ARP: accept                all else: policy
//! ```
//!
//! | rule | frames that are no packets of IP |
//! |---|---|
//! | with `arp`, `ethertype ...`, `pppoe`, `lldp`, `llc` | those of these EtherTypes |
//! | that asks for nothing of IP, but `in`, `outward`, `inward` | all but ARP |
//! | all others | none |
//!
//! A network without ARP, or neighbour discovery, is no network: where no rule decides about them they are accepted, whatever the
//! policy. Of neighbour discovery that is so for what never left its link (hop limit 255, whole: RFC 4861, section 7.1, RFC
//! 6980), and for solicitations and advertisements of neighbours alone: not for those of routers, and not for redirects.

use super::rules::Rule;
use super::ruleset::Act;
use super::{Count, Filter, classify};
use crate::batch::Set;
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::frame::{Fragment, Frame, Kind, PortId};
use crate::stage::Step;

/// The EtherType of ARP.
const ARP: u16 = 0x0806;
/// What is accepted where no rule decides, as `weir node show rules` names it.
pub(super) const DEFAULT: &str = "accept arp, neighbour discovery (where no rule decides)";

/// A rule that may hold for frames that are no packets of IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoIpRule {
    /// Its place among all rules.
    number: usize,
    port: Option<PortId>,
    dir: Option<Dir>,
    /// Ranges of EtherTypes; all but ARP, where there are none.
    ether_types: Vec<(u16, u16)>,
}

impl NoIpRule {
    /// Those of a file.
    pub(super) fn of(rules: &[Rule]) -> Vec<NoIpRule> {
        let all = rules.iter().enumerate().filter(|(_, rule)| !rule.asks_ip());
        let of = |(number, rule): (usize, &Rule)| NoIpRule {
            number,
            port: rule.port,
            dir: rule.dir,
            ether_types: rule.ether_types.clone(),
        };
        all.map(of).collect()
    }

    fn holds(&self, frame: &Frame<'_>, dir: Dir) -> bool {
        let ether_type = frame.ether_type();
        let is_of_type = match &self.ether_types[..] {
            [] => ether_type != ARP,
            ranges => ranges.iter().any(|&(first, last)| (first..=last).contains(&ether_type)),
        };
        is_of_type && self.port.is_none_or(|port| port == frame.port) && self.dir.is_none_or(|of| of == dir)
    }
}

/// What becomes of a frame.
enum Decision {
    Passes,
    Dropped(DropReason),
}

#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl Filter {
    /// Decides about frames that are no packets of IP; returns those that pass.
    pub(super) fn judge_all_no_ip(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        let mut passed = set;
        for i in set {
            if let Decision::Dropped(reason) = self.judge_no_ip(step, dir, i) {
                step.drop(i, reason);
                passed.remove(i);
            }
        }
        passed
    }

    fn judge_no_ip(&mut self, step: &mut Step<'_, '_>, dir: Dir, i: usize) -> Decision {
        let bytes = step.frames[i].ip_bytes();
        for n in 0..self.rules.no_ip.len() {
            let Some(rule) = self.rules.no_ip.get(n).filter(|rule| rule.holds(&step.frames[i], dir)) else {
                continue;
            };
            let number = rule.number;
            let (Some(act), Some(count)) =
                (self.rules.acts.get(number).copied(), self.rules.counts.get_mut(number))
            else {
                continue;
            };
            count.add(bytes);
            match act {
                Act::Accept { class } => {
                    classify(&mut step.frames[i], class);
                    return Decision::Passes;
                }
                // Its sender cannot be informed.
                Act::Drop | Act::Reject => return Decision::Dropped(DropReason::FilterDrop),
                Act::Count => {}
                Act::Log { every } => {
                    if count.frames % every == 1 % every {
                        self.log(step, i, number as u32);
                    }
                }
            }
        }
        let (policy, count) = &mut self.rules.policy;
        match policy {
            Act::Accept { .. } => count.add(bytes),
            _ if step.frames[i].kind() == Kind::Arp => self.rules.by_default.add(bytes),
            _ => {
                count.add(bytes);
                return Decision::Dropped(DropReason::FilterEthertype);
            }
        }
        Decision::Passes
    }
}

impl Count {
    /// One more frame, whose packet has so many bytes.
    pub(super) fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// Whether a packet is accepted where no rule decides.
#[cold]
pub(super) fn is_by_default(frame: &Frame<'_>) -> bool {
    const SOLICITATION: u8 = 135;
    const ADVERTISEMENT: u8 = 136;
    let is_of_neighbour = matches!(frame.icmp(), Some((SOLICITATION | ADVERTISEMENT, 0)));
    frame.kind() == Kind::V6 && is_of_neighbour && frame.ttl() == 255 && frame.fragment() == Fragment::Whole
}
