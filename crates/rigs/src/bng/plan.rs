//! The experiment `bng`: which concentrators, how many sessions, which rates.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_config::{Section, value};
use weir_cpe::Lines;

/// Most trials of a search for a rate of set-ups: it doubles, then it is bisected.
pub(super) const SEARCH_TRIALS: u32 = 14;

/// The experiment. Lists have at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Concentrators {
    pub(super) duts: Vec<Dut>,
    pub(super) lines: Lines,
    /// Numbers of sessions with which frames are forwarded.
    pub(super) sessions: Vec<u32>,
    /// Rates of set-ups: the first one, and the highest.
    pub(super) first_per_s: f64,
    pub(super) most_per_s: f64,
    pub(super) trial: Duration,
    /// With FCS, without tags.
    pub(super) frame_bytes: u32,
    /// Frames/s that are offered in each direction.
    pub(super) offered_fps: f64,
    /// At least 1.
    pub(super) rounds: u32,
    /// Where the external DUT is.
    pub(super) external: Option<External>,
}

/// A concentrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dut {
    /// The smallest responder: the ceiling of the emulator.
    Responder,
    /// `weir node` and `weir-bngd`.
    Weir,
    /// Between two interfaces of this machine.
    External,
}

impl Dut {
    const ALL: [(Dut, &'static str); 3] =
        [(Dut::Responder, "responder"), (Dut::Weir, "weir"), (Dut::External, "external")];

    pub(super) fn name(self) -> &'static str {
        match self {
            Dut::Responder => "responder",
            Dut::Weir => "weir",
            Dut::External => "external",
        }
    }
}

/// The interfaces of an external DUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct External {
    pub(super) access: String,
    pub(super) far: String,
    pub(super) far_address: Ipv4Addr,
}

impl Concentrators {
    /// About how long it takes: set-ups, and as long for the releases.
    pub(super) fn estimate(&self) -> Duration {
        let set_ups = self.trial * 2 * (SEARCH_TRIALS + 1);
        let forwarding = self.sessions.iter().map(|sessions| {
            // At 4,000 set-ups/s.
            self.trial + Duration::from_millis(u64::from(*sessions) / 2) + Duration::from_secs(1)
        });
        (set_ups + forwarding.sum::<Duration>()) * self.duts.len() as u32 * self.rounds
    }

    /// Most devices of any trial.
    pub(super) fn most_devices(&self) -> u32 {
        let set_up = self.devices_at(self.most_per_s);
        self.sessions.iter().copied().chain([set_up]).max().unwrap_or(1)
    }

    /// Devices of a trial of set-ups at this rate.
    pub(super) fn devices_at(&self, rate_per_s: f64) -> u32 {
        (rate_per_s * self.trial.as_secs_f64()).clamp(1.0, 1e6) as u32
    }
}

/// Reads `[bng]`.
pub(super) fn read(section: Section<'_>) -> Option<Concentrators> {
    let duts = section.axis("dut", value::choice("concentrator", &Dut::ALL));
    let lines = section.one("lines", value::parsed::<Lines>);
    let sessions = section.axis("sessions", value::count(1..=1_000_000));
    let first_per_s = section.one("first_per_s", value::count(1..=1_000_000));
    let most_per_s = section.one("most_per_s", value::count(1..=1_000_000));
    let trial = section.one("trial_s", value::seconds_up_to::<60>);
    let frame_bytes = section.one("frame_bytes", value::count(64..=1518));
    let offered_fps = section.one("offered_fps", value::fps);
    let rounds = section.one("rounds", value::count(1..=1000));
    let access = section.one("access", value::text);
    let far = section.one("far", value::text);
    let far_address = section.one("far_address", |value: &toml_edit::Value| {
        let text = value::text(value)?;
        text.parse::<Ipv4Addr>().map_err(|_| format!("`{text}` is no IPv4 address: use 198.18.0.2"))
    });
    let (first_per_s, most_per_s) = (first_per_s.unwrap_or(500), most_per_s.unwrap_or(20_000));
    if first_per_s > most_per_s {
        section.wrong("first_per_s", format!("is above most_per_s, {most_per_s}: lower it"));
    }
    let duts = duts.unwrap_or(vec![Dut::Responder, Dut::Weir]);
    let external = match (access, far) {
        (Some(access), Some(far)) => {
            let far_address = far_address.unwrap_or(Ipv4Addr::new(198, 18, 0, 2));
            Some(External { access, far, far_address })
        }
        _ if duts.contains(&Dut::External) => {
            section.wrong("dut", "an external DUT needs its two interfaces: set access and far".into());
            None
        }
        _ => None,
    };
    section.finish();
    Some(Concentrators {
        duts,
        lines: lines.unwrap_or_default(),
        sessions: sessions.unwrap_or(vec![1, 1000, 64_000]),
        first_per_s: first_per_s.into(),
        most_per_s: most_per_s.into(),
        trial: trial.unwrap_or(Duration::from_secs(2)),
        frame_bytes: frame_bytes.unwrap_or(64),
        offered_fps: offered_fps.unwrap_or(200_000.0),
        rounds: rounds.unwrap_or(3),
        external,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "bng.dut=external",
            "bng.dut=responda",
            "bng.lines=4095",
            "bng.first_per_s=30000",
            "bng.sessions=0",
            "bng.far_address=here",
            "bng.frame_bytes=63",
        ];
        golden!("src/bng/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("bng", sets)));
    }

    #[test]
    fn the_short_form_is_short() {
        let short = PLANS.load_short("bng", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(120), "{:?}", short.estimate());
        let plan = PLANS.load("bng", &["bng.dut=external".into(), "bng.access=a".into(), "bng.far=c".into()]);
        let plan = plan.unwrap();
        let external = plan.experiment.of::<Concentrators>().unwrap().external.clone().unwrap();
        assert_eq!((external.access.as_str(), external.far_address), ("a", Ipv4Addr::new(198, 18, 0, 2)));
    }
}
