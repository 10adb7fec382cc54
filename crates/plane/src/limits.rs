//! Limits for what all hosts share: `limits(...)`, anywhere in a text.
//!
//! ```text
//! lan(192.168.0.1/16) > nat(public 192.0.2.1) > route > wan(192.0.2.1/24)  limits(fragments 1024)
//! ```
//!
//! | argument | limit | else |
//! |---|---|---|
//! | `fragments N` | fragments that wait for their first one, in each direction at each stage that needs it | 256 |
//! | `fragmented-packets N` | packets whose first fragment has come, likewise | 4096 |
//! | `unresolved N` | neighbours that are asked about and have not answered, at each port in each direction | 1024 |
//! | `questions N` | neighbours that are asked for per second, likewise | 1000 |
//! | `errors N` | errors of ICMP per second because of frames of a port: as many that say too big, time exceeded and all else, and as many resets (RFC 1812, section 4.3.2.8, RFC 4443, section 2.4 f) | 1000 |
//! | `local-neighbours N` | ARP and neighbour discovery for the machine that the node runs on, frames per second | 1000 |
//! | `local-routing N` | what routing protocols tell it, from the link of a port, and from elsewhere | 40000 |
//! | `local-icmp N` | all other ICMP for it | 1000 |
//! | `local N` | all else for it | 40000 |
//! | `punt-ppp-control N` | PPP of PPPoE sessions for the control program, frames per second | 60000 |
//! | `punt-pppoe-discovery N` | PPPoE discovery for it | 12000 |
//! | `punt-dhcp4 N` | DHCP for it | 20000 |
//! | `punt-nd N`, `punt-arp N`, `punt-dhcp6 N`, `punt-unknown-source N` | the other reasons to punt, see `punter.rs`, likewise | 1000 |
//!
//! For one host there is a quarter of each rate, of errors a twentieth; of punts there is a half for one line, too. Of what is not a rate: where there are more, the oldest of the host that has most gives way (with IPv6: of the /64, see `table/shares.rs`).
//! Threads share each limit. What a NAT or a filter limits beside stands in their arguments.

use std::ops::RangeInclusive;

use weir_config::{Notes, did_you_mean};

use crate::punt::PuntReason;
use crate::table::fragments::Room;
use crate::table::quota::{Rate, Rates};
use crate::text::{Arg, Item};
use crate::threads::Share;

/// What there is of each, for all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    fragments: u32,
    fragmented_packets: u32,
    unresolved: u32,
    questions: u32,
    errors: u32,
    local_neighbours: u32,
    local_routing: u32,
    local_icmp: u32,
    local: u32,
    /// By reason, in the order of [`PuntReason::ALL`].
    punts: [u32; PuntReason::ALL.len()],
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            fragments: 256,
            fragmented_packets: 4096,
            unresolved: 1024,
            questions: 1000,
            errors: 1000,
            local_neighbours: 1000,
            local_routing: 40_000,
            local_icmp: 1000,
            local: 40_000,
            punts: PuntReason::ALL.map(|reason| match reason {
                // Eight for each subscriber that comes online by PPPoE, and echoes.
                PuntReason::PppControl => 60_000,
                // PADI, PADR and PADT.
                PuntReason::PppoeDiscovery => 12_000,
                // Two for each subscriber that comes online.
                PuntReason::Dhcp4 => 20_000,
                _ => 1000,
            }),
        }
    }
}

/// What may come at once, as a part of a second's.
const QUESTIONS_AT_ONCE: u32 = 4;
const LOCAL_AT_ONCE: u32 = 32;
const PUNTS_AT_ONCE: u32 = 8;
const PUNTS: RangeInclusive<u32> = 1..=10_000_000;

/// Rates of a reason to punt: what each line has of that of all, and what each sender has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PuntRates {
    pub(crate) of_line: Rates,
    pub(crate) of_sender: Rates,
}

/// A limit that can be set.
struct Setting {
    name: &'static str,
    range: RangeInclusive<u32>,
    of: fn(&mut Limits) -> &mut u32,
}

const SETTINGS: &[Setting] = &[
    Setting { name: "fragments", range: 1..=1_000_000, of: |limits| &mut limits.fragments },
    Setting {
        name: "fragmented-packets",
        range: 1..=10_000_000,
        of: |limits| &mut limits.fragmented_packets,
    },
    Setting { name: "unresolved", range: 1..=100_000, of: |limits| &mut limits.unresolved },
    Setting { name: "questions", range: 1..=1_000_000, of: |limits| &mut limits.questions },
    Setting { name: "errors", range: 1..=1_000_000, of: |limits| &mut limits.errors },
    Setting { name: "local-neighbours", range: 1..=10_000_000, of: |limits| &mut limits.local_neighbours },
    Setting { name: "local-routing", range: 1..=10_000_000, of: |limits| &mut limits.local_routing },
    Setting { name: "local-icmp", range: 1..=10_000_000, of: |limits| &mut limits.local_icmp },
    Setting { name: "local", range: 1..=10_000_000, of: |limits| &mut limits.local },
    Setting { name: "punt-ppp-control", range: PUNTS, of: |limits| limits.punt(PuntReason::PppControl) },
    Setting { name: "punt-nd", range: PUNTS, of: |limits| limits.punt(PuntReason::Nd) },
    Setting { name: "punt-arp", range: PUNTS, of: |limits| limits.punt(PuntReason::Arp) },
    Setting { name: "punt-dhcp4", range: PUNTS, of: |limits| limits.punt(PuntReason::Dhcp4) },
    Setting { name: "punt-dhcp6", range: PUNTS, of: |limits| limits.punt(PuntReason::Dhcp6) },
    Setting {
        name: "punt-pppoe-discovery",
        range: PUNTS,
        of: |limits| limits.punt(PuntReason::PppoeDiscovery),
    },
    Setting {
        name: "punt-unknown-source",
        range: PUNTS,
        of: |limits| limits.punt(PuntReason::UnknownSource),
    },
];

impl Limits {
    /// Reads an item; mistakes are noted.
    pub(crate) fn read(item: &Item, notes: &Notes<'_>) -> Limits {
        let mut limits = Limits::default();
        for arg in &item.args {
            if let Err(text) = limits.argument(arg) {
                arg.wrong(notes, text);
            }
        }
        item.said_once(&SETTINGS.iter().map(|setting| setting.name).collect::<Vec<_>>(), notes);
        limits
    }

    fn argument(&mut self, arg: &Arg) -> Result<(), String> {
        let words = arg.words();
        let name = words.first().copied().unwrap_or_default();
        let Some(Setting { range, of, .. }) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            return Err(format!("`{name}` is no limit: {}", did_you_mean(name, &names)));
        };
        let number = match words[..] {
            [_, number] => number.parse().ok().filter(|number| range.contains(number)),
            _ => None,
        };
        let wrong = || format!("{name} takes a number from {} to {}", range.start(), range.end());
        *of(self) = number.ok_or_else(wrong)?;
        Ok(())
    }

    /// Neighbours that a thread asks about at a time.
    pub(crate) fn unresolved(&self, share: Share) -> usize {
        share.part(self.unresolved) as usize
    }

    /// How often threads ask for one more.
    pub(crate) fn questions(&self, share: Share) -> Rates {
        Rates::quarters(self.questions, QUESTIONS_AT_ONCE, share)
    }

    /// How often threads send an error because of frames of a port. The default is what Linux has for all (`icmp_msgs_per_sec`, `icmp_msgs_burst`).
    pub(crate) fn errors(&self, share: Share) -> Rates {
        let rate = |per_s: u64, at_once: u64| Rate { burst: per_s.div_ceil(at_once), per_s };
        let per_s = u64::from(self.errors);
        Rates { of_host: rate(per_s.div_ceil(20), 5), of_all: rate(per_s, 20), threads: share.of }
    }

    /// How often threads give the machine a frame: about neighbours, of routing protocols, of ICMP, and all else.
    pub(crate) fn local(&self, share: Share) -> [Rates; 4] {
        [self.local_neighbours, self.local_routing, self.local_icmp, self.local]
            .map(|per_s| Rates::quarters(per_s, LOCAL_AT_ONCE, share))
    }

    fn punt(&mut self, reason: PuntReason) -> &mut u32 {
        &mut self.punts[reason as usize]
    }

    /// How often threads punt a frame to the control program for this reason.
    pub(crate) fn punts(&self, reason: PuntReason, share: Share) -> PuntRates {
        let of_sender = Rates::quarters(self.punts[reason as usize], PUNTS_AT_ONCE, share);
        let Rate { burst, per_s } = of_sender.of_all;
        let half = Rate { burst: burst.div_ceil(2), per_s: per_s.div_ceil(2) };
        PuntRates { of_line: Rates { of_host: half, ..of_sender }, of_sender }
    }

    /// Room for packets in fragments in a thread.
    pub(crate) fn fragments(&self, share: Share) -> Room {
        let part = |all| share.part(all) as usize;
        Room { packets: part(self.fragmented_packets), waiting: part(self.fragments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn limits_stand_anywhere_in_a_text() {
        let read =
            |text: &str| Config::read("n", text).map(|config| config.limits).map_err(|m| m.to_string());
        let expected = Limits { fragments: 9, ..Limits::default() };
        for text in
            ["limits(fragments 9) lan > wan", "lan limits(fragments 9) > wan", "lan wan\nlimits(fragments 9)"]
        {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for (text, wrong) in [
            ("lan wan limits(fragments 0)", "n:1: fragments takes a number from 1 to 1000000"),
            ("lan wan limits(fragment 9)", "n:1: `fragment` is no limit: did you mean `fragments`?"),
            ("lan wan limits(fragments 9)\nlimits", "n:2: there are `limits` already: write all in one"),
        ] {
            assert_eq!(read(text), Err(wrong.to_string()), "{text}");
        }
    }
}
