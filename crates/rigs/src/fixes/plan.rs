//! The experiment `fixes`: which settings, and what each is before and after.

use std::time::Duration;

use weir_config::{Section, value};

/// The experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixes {
    pub(super) fixes: Vec<Fix>,
    /// Rounds, at least 1.
    pub rounds: u32,
    /// Length of a trial.
    pub trial: Duration,
}

/// A setting that is changed, with the load that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fix {
    /// Connections that wait to be accepted.
    Backlog,
    /// Ports of outgoing connections.
    Ports,
    /// Memory of a socket, against bandwidth times delay.
    Window,
    /// Slow start after a pause.
    Idle,
    /// CPUs that take the frames of an interface.
    Rps,
}

/// The value that a setting has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Before,
    After,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Before => "before",
            State::After => "after",
        }
    }
}

/// What a trial finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) name: &'static str,
    /// The same in a narrow column, and as what becomes shorter or more.
    pub(super) short: &'static str,
    pub(super) subject: &'static str,
    pub(super) unit: &'static str,
    /// Less is better.
    pub(super) is_cost: bool,
}

/// Bottleneck of the fixes that need a long way: bit/s, and one way, ms.
pub(super) const LINK: (u32, u32) = (300_000_000, 100);
/// The largest socket memory that the doctor proposes for it: bandwidth times delay, half of the memory being payload.
const NEEDED: &str = "4096 131072 15000000";

impl Fix {
    pub(super) const ALL: [(Fix, &'static str); 5] = [
        (Fix::Backlog, "backlog"),
        (Fix::Ports, "ports"),
        (Fix::Window, "window"),
        (Fix::Idle, "idle"),
        (Fix::Rps, "rps"),
    ];

    pub(super) fn name(self) -> &'static str {
        Fix::ALL.iter().find(|(fix, _)| *fix == self).map_or("", |(_, name)| name)
    }

    /// Files below /proc/sys/net, before and after; none of [`Fix::Rps`], whose file is an interface's. Values before are the
    /// kernel's defaults, of somaxconn that before Linux 5.4.
    pub(super) fn sysctls(self) -> &'static [(&'static str, [&'static str; 2])] {
        match self {
            Fix::Backlog => &[("core/somaxconn", ["128", "65535"])],
            Fix::Ports => &[("ipv4/ip_local_port_range", ["32768 60999", "1024 65535"])],
            Fix::Window => &[
                ("ipv4/tcp_rmem", ["4096 131072 6291456", NEEDED]),
                ("ipv4/tcp_wmem", ["4096 16384 4194304", NEEDED]),
            ],
            Fix::Idle => &[("ipv4/tcp_slow_start_after_idle", ["1", "0"])],
            Fix::Rps => &[],
        }
    }

    /// The setting and its value, as people read them.
    pub(super) fn text(self, state: State) -> (String, String) {
        if self == Fix::Rps {
            let value = if state == State::Before { "no CPU" } else { "all CPUs" };
            return ("rps_cpus of the server's interface".into(), value.into());
        }
        let all = self.sysctls().iter();
        let names: Vec<String> =
            all.clone().map(|(name, _)| format!("net.{}", name.replace('/', "."))).collect();
        let mut values: Vec<&str> = all.map(|(_, values)| values[state as usize]).collect();
        values.dedup();
        (names.join(", "), values.join(", "))
    }

    pub(super) fn quantity(self) -> Quantity {
        let seconds = |name, short, subject| Quantity { name, short, subject, unit: "s", is_cost: true };
        let rate = |name, unit| Quantity { name, short: name, subject: name, unit, is_cost: false };
        match self {
            Fix::Backlog => seconds(
                "99.9 % of the connections are answered within",
                "99.9 % within",
                "the wait of 99.9 % of the connections",
            ),
            Fix::Ports | Fix::Rps => rate("connections", "connections/s"),
            Fix::Window => rate("goodput", "bit/s"),
            Fix::Idle => seconds("1 MB after a pause", "1 MB", "the time of 1 MB after a pause"),
        }
    }

    /// The load, in words.
    pub(super) fn load(self) -> String {
        let (bits_per_s, one_way_ms) = LINK;
        let way = format!("{} Mbit/s, round trip {} ms", bits_per_s / 1_000_000, 2 * one_way_ms);
        match self {
            Fix::Backlog => "1,000 clients at a time, an event loop that answers".into(),
            Fix::Ports => "50 clients at a time that close first, over a wire".into(),
            Fix::Window => format!("one TCP connection: {way}"),
            Fix::Idle => format!("1 MB, a second of silence, 1 MB ... (reno): {way}"),
            Fix::Rps => "200 clients at a time over a wire".into(),
        }
    }
}

impl Fixes {
    /// Building namespaces, starting and ending programs.
    const AROUND_A_TRIAL: Duration = Duration::from_secs(1);

    pub(super) fn estimate(&self) -> Duration {
        let each = |fix: &Fix| self.length(*fix) + Fixes::AROUND_A_TRIAL;
        self.fixes.iter().map(each).sum::<Duration>() * 2 * self.rounds
    }

    /// Length of a trial: ports are used up only after some time.
    pub(super) fn length(&self, fix: Fix) -> Duration {
        match fix {
            Fix::Ports | Fix::Window => self.trial.max(Duration::from_secs(6)),
            Fix::Backlog | Fix::Idle | Fix::Rps => self.trial,
        }
    }
}

/// Reads `[fixes]`.
pub(super) fn read(section: Section<'_>) -> Option<Fixes> {
    let fixes = section.required_axis("fix", "[\"backlog\", \"window\"]", value::choice("fix", &Fix::ALL));
    let rounds = section.one("rounds", value::count(1..=1000)).unwrap_or(6);
    let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(8));
    section.finish();
    Some(Fixes { fixes: fixes?, rounds, trial })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    #[test]
    fn all_fixes_are_measured_and_the_short_form_is_short() {
        let plan = PLANS.load("fixes", &[]).unwrap();
        let full = plan.experiment.of::<Fixes>().expect("of this rig");
        assert_eq!(full.fixes, Fix::ALL.map(|(fix, _)| fix));
        let short = PLANS.load_short("fixes", &[]).unwrap().estimate();
        assert!(short <= Duration::from_secs(125), "{short:?}");
        golden!(
            "src/fixes/mistakes.txt",
            &set_mistakes(&["fixes.fix=backlok"], |sets| PLANS.load("fixes", sets))
        );
    }

    #[test]
    fn a_setting_is_named_with_its_value() {
        let window = Fix::Window.text(State::Before);
        assert_eq!(window.0, "net.ipv4.tcp_rmem, net.ipv4.tcp_wmem");
        assert_eq!(window.1, "4096 131072 6291456, 4096 16384 4194304");
        assert_eq!(Fix::Window.text(State::After).1, NEEDED);
    }
}
