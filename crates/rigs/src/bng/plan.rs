//! The experiment `bng`: which concentrators, how many sessions, which rates.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_config::{Section, value};
use weir_cpe::Lines;

use super::many::WINDOW;

/// Most trials of a search for a rate of set-ups: it doubles, then it is bisected.
pub(super) const SEARCH_TRIALS: u32 = 14;

/// How long sessions are idle after a cold start: after the first router advertisements, longer than between two looks of the control program
/// at 64,000 sessions.
pub(super) const COLD_HOLD: Duration = Duration::from_secs(75);

/// The experiment. Lists have at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Concentrators {
    pub(super) duts: Vec<Dut>,
    /// How devices come online.
    pub(super) access: Vec<Access>,
    /// Where passwords are checked.
    pub(super) aaa: Vec<Aaa>,
    /// What is measured of each, in this order.
    pub(super) trials: Vec<Kind>,
    /// Time of churn, and of each flood.
    pub(super) life: Duration,
    /// Frames/s of a flood.
    pub(super) flood_per_s: u32,
    /// Share of the requests that the lab's RADIUS server loses, 0 to 1.
    pub(super) radius_loss: f64,
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

/// How devices come online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// An address by DHCPv4.
    Dhcp,
    /// PPPoE with CHAP, IPv4 and IPv6.
    Pppoe,
    /// PPPoE with CHAP and IPv4 alone.
    PppoeIpv4,
}

impl Access {
    const ALL: [(Access, &'static str); 3] =
        [(Access::Dhcp, "dhcp"), (Access::Pppoe, "pppoe"), (Access::PppoeIpv4, "pppoe-ipv4")];

    pub(super) fn name(self) -> &'static str {
        match self {
            Access::Dhcp => "dhcp",
            Access::Pppoe => "pppoe",
            Access::PppoeIpv4 => "pppoe-ipv4",
        }
    }
}

/// Where passwords are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aaa {
    /// By the control program: it has a subscriber for each device.
    Local,
    /// By the RADIUS server of the lab, which answers after this time.
    Lab(Duration),
    /// By FreeRADIUS.
    FreeRadius,
}

impl Aaa {
    const ALL: [(Aaa, &'static str); 5] = [
        (Aaa::Local, "local"),
        (Aaa::Lab(Duration::ZERO), "radius-0ms"),
        (Aaa::Lab(Duration::from_millis(20)), "radius-20ms"),
        (Aaa::Lab(Duration::from_millis(200)), "radius-200ms"),
        (Aaa::FreeRadius, "freeradius"),
    ];

    pub(super) fn name(self) -> &'static str {
        Aaa::ALL.into_iter().find(|(aaa, _)| *aaa == self).map_or("", |(_, name)| name)
    }
}

/// A kind of trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The highest rate of set-ups without a failure, and the time to the first packet at half of it.
    SetUps,
    /// Frames in both directions with each number of sessions.
    Forwarding,
    /// The control program is killed and started again, then the node is.
    Restart,
    /// TCP through a plan of 20 Mbit/s.
    Tcp,
    /// TCP to 200 subscribers with plans of 1 Mbit/s.
    Many,
    /// All devices start at once; then they are idle.
    Cold,
    /// Sessions end and begin again.
    Churn,
    /// A flood of PADI beside sessions, then an equal flood of frames that the node drops at once.
    Storm,
}

impl Kind {
    const ALL: [(Kind, &'static str); 8] = [
        (Kind::SetUps, "set-ups"),
        (Kind::Forwarding, "forwarding"),
        (Kind::Restart, "restart"),
        (Kind::Tcp, "tcp"),
        (Kind::Many, "tcp-many"),
        (Kind::Cold, "cold"),
        (Kind::Churn, "churn"),
        (Kind::Storm, "storm"),
    ];
}

/// What a point measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) dut: Dut,
    pub(super) access: Access,
    pub(super) aaa: Aaa,
}

/// The interfaces of an external DUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct External {
    pub(super) on: String,
    pub(super) far: String,
    pub(super) far_address: Ipv4Addr,
}

impl Concentrators {
    /// What is measured, in its order. Only weir with PPPoE asks the servers of the plan.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut all = Vec::new();
        for &dut in &self.duts {
            for &access in &self.access {
                let asks = dut == Dut::Weir && access != Access::Dhcp;
                let aaa = if asks { &self.aaa[..] } else { &[Aaa::Local] };
                all.extend(aaa.iter().map(|&aaa| Entry { dut, access, aaa }));
            }
        }
        all
    }

    /// About how long it takes: set-ups, and as long for the releases.
    pub(super) fn estimate(&self) -> Duration {
        let of_kind = self.trials.iter().map(|kind| match kind {
            Kind::SetUps => self.trial * 2 * (SEARCH_TRIALS + 1),
            Kind::Forwarding => {
                self.sessions.iter().map(|sessions| self.trial + come_and_go(*sessions)).sum()
            }
            Kind::Restart | Kind::Tcp => Duration::from_secs(5),
            Kind::Many => WINDOW + Duration::from_secs(10),
            Kind::Cold => COLD_HOLD + come_and_go(self.most_sessions()),
            Kind::Churn => self.life + come_and_go(self.most_sessions()),
            Kind::Storm => self.life * 2,
        });
        of_kind.sum::<Duration>() * self.entries().len() as u32 * self.rounds
    }

    /// The highest number of sessions.
    pub(super) fn most_sessions(&self) -> u32 {
        self.sessions.iter().copied().max().unwrap_or(1)
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

/// So many set-ups and releases, at 4,000/s each.
fn come_and_go(sessions: u32) -> Duration {
    Duration::from_millis(u64::from(sessions) / 2) + Duration::from_secs(1)
}

/// Reads `[bng]`.
pub(super) fn read(section: Section<'_>) -> Option<Concentrators> {
    let duts = section.axis("dut", value::choice("concentrator", &Dut::ALL));
    let access = section.axis("access", value::choice("way to come online", &Access::ALL));
    let aaa = section.axis("aaa", value::choice("place to check passwords", &Aaa::ALL));
    let trials = section.axis("trials", value::choice("kind of trial", &Kind::ALL));
    let life = section.one("life_s", value::seconds_up_to::<3600>);
    let flood_per_s = section.one("flood_per_s", value::count(1..=1_000_000));
    let radius_loss = section.one("radius_loss", value::ratio);
    let lines = section.one("lines", value::parsed::<Lines>);
    let sessions = section.axis("sessions", value::count(1..=1_000_000));
    let first_per_s = section.one("first_per_s", value::count(1..=1_000_000));
    let most_per_s = section.one("most_per_s", value::count(1..=1_000_000));
    let trial = section.one("trial_s", value::seconds_up_to::<60>);
    let frame_bytes = section.one("frame_bytes", value::count(64..=1518));
    let offered_fps = section.one("offered_fps", value::fps);
    let rounds = section.one("rounds", value::count(1..=1000));
    let on = section.one("on", value::text);
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
    let external = match (on, far) {
        (Some(on), Some(far)) => {
            let far_address = far_address.unwrap_or(Ipv4Addr::new(198, 18, 0, 2));
            Some(External { on, far, far_address })
        }
        _ if duts.contains(&Dut::External) => {
            section.wrong("dut", "an external DUT needs its two interfaces: set on and far".into());
            None
        }
        _ => None,
    };
    section.finish();
    Some(Concentrators {
        duts,
        access: access.unwrap_or(vec![Access::Dhcp]),
        aaa: aaa.unwrap_or(vec![Aaa::Local]),
        trials: trials.unwrap_or(vec![Kind::SetUps, Kind::Forwarding, Kind::Restart, Kind::Tcp]),
        life: life.unwrap_or(Duration::from_secs(10)),
        flood_per_s: flood_per_s.unwrap_or(64_000),
        radius_loss: radius_loss.unwrap_or(0.0),
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
            "bng.access=ppp",
            "bng.aaa=radius",
        ];
        golden!("src/bng/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("bng", sets)));
    }

    #[test]
    fn each_way_in_and_place_of_passwords_is_a_point_of_weir() {
        let sets = ["bng.access=[dhcp,pppoe]", "bng.aaa=[local,radius-20ms,freeradius]"].map(String::from);
        let plan = PLANS.load("bng", &sets).unwrap();
        let entries = plan.experiment.of::<Concentrators>().unwrap().entries();
        let names = entries.iter().map(|e| format!("{} {} {}", e.dut.name(), e.access.name(), e.aaa.name()));
        let names: Vec<String> = names.collect();
        let weir = ["weir dhcp local", "weir pppoe local", "weir pppoe radius-20ms", "weir pppoe freeradius"];
        assert_eq!(names, [&["responder dhcp local", "responder pppoe local"], &weir[..]].concat());
    }

    #[test]
    fn the_short_form_is_short() {
        let short = PLANS.load_short("bng", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(120), "{:?}", short.estimate());
        let plan = PLANS.load("bng", &["bng.dut=external".into(), "bng.on=a".into(), "bng.far=c".into()]);
        let plan = plan.unwrap();
        let external = plan.experiment.of::<Concentrators>().unwrap().external.clone().unwrap();
        assert_eq!((external.on.as_str(), external.far_address), ("a", Ipv4Addr::new(198, 18, 0, 2)));
    }
}
