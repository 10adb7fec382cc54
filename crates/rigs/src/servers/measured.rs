//! Results of a trial, and figures of a point. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_apps::client::{Mode, Outcome};

use weir_lab::run::rounds;
use weir_record::figure::{figure, unit};
use weir_record::record::{Detail, Figure, PointResult, ProcedureResult, Statistic};

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "servers";

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) mode: Mode,
    pub(super) outcome: Outcome,
    /// CPU time of the server's process tree since it was ready, ns, of it in the kernel, and its context switches.
    pub(super) server_cpu_ns: u64,
    pub(super) server_switches: u64,
    pub(super) client_cpu_ns: u64,
    /// CPUs that each may use.
    pub(super) server_cpus: usize,
    pub(super) client_cpus: usize,
    /// The backlog of each socket as the kernel has it, and how many of them listen; 0: not known.
    pub(super) backlog: u32,
    pub(super) sockets: u32,
    /// Connections that the server has accepted and not ended, as a mean of looks and at most; `None`: it does not say.
    pub(super) open: Option<(f64, u64)>,
    /// The most that were seen waiting to be accepted.
    pub(super) waiting_max: u64,
    /// Connections that each worker has accepted.
    pub(super) shares: Vec<u64>,
    /// See [`weir_apps::Counts::gini`].
    pub(super) gini: Option<f64>,
    /// While connections were held: memory of the server beyond that of the idle server, KiB, and tasks beyond its own.
    pub(super) held_kib: Option<u64>,
    pub(super) held_tasks: Option<u64>,
    /// What the kernel counted in the namespace.
    pub(super) counters: BTreeMap<String, u64>,
}

impl Detail for Served {
    const KEY: &'static str = "served";
}

/// Which side is the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// The kernel dropped connections that the server had no room for.
    Backlog,
    Client,
    Server,
    /// The load that was asked for.
    Load,
    /// All wait for each other.
    Neither,
}

/// A side that uses more of its CPUs than this has no more to give.
const BUSY: f64 = 0.9;

/// Rate, latency and concurrency agree within this share where the load is steady.
const LITTLE: f64 = 0.1;

impl Served {
    pub(super) fn per_s(&self) -> Option<f64> {
        let Outcome { in_window, window_s, .. } = self.outcome;
        (!matches!(self.mode, Mode::Hold(_)) && window_s > 0.0).then(|| in_window as f64 / window_s)
    }

    fn per_connection(&self, sum: u64) -> Option<f64> {
        (self.outcome.answered > 0).then(|| sum as f64 / self.outcome.answered as f64)
    }

    /// CPU time of the server for a connection, s.
    pub(super) fn cpu_s(&self) -> Option<f64> {
        self.per_connection(self.server_cpu_ns).map(|ns| ns / 1e9)
    }

    pub(super) fn client_cpu_s(&self) -> Option<f64> {
        self.per_connection(self.client_cpu_ns).map(|ns| ns / 1e9)
    }

    pub(super) fn switches(&self) -> Option<f64> {
        self.per_connection(self.server_switches)
    }

    /// Memory of a connection that is held, KiB.
    pub(super) fn kib(&self) -> Option<f64> {
        let held = self.outcome.held;
        (held > 0).then(|| Some(self.held_kib? as f64 / held as f64))?
    }

    fn share(&self, cpu_ns: u64, cpus: usize) -> f64 {
        cpu_ns as f64 / 1e9 / self.outcome.worked_s.max(1e-9) / cpus.max(1) as f64
    }

    pub(super) fn server_busy(&self) -> f64 {
        self.share(self.server_cpu_ns, self.server_cpus)
    }

    pub(super) fn client_busy(&self) -> f64 {
        self.share(self.client_cpu_ns, self.client_cpus)
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    pub(super) fn limit(&self) -> Limit {
        let asked = match self.mode {
            Mode::Open(rate) => self.per_s().is_some_and(|per_s| per_s >= 0.99 * rate),
            Mode::Hold(n) => self.outcome.held >= u64::from(n),
            Mode::Closed(_) => false,
        };
        if self.counter("ListenOverflows") > 0 {
            Limit::Backlog
        } else if asked {
            Limit::Load
        } else if let Mode::Hold(_) = self.mode {
            Limit::Server
        } else if self.client_busy() >= BUSY && self.client_busy() >= self.server_busy() {
            Limit::Client
        } else if self.server_busy() >= BUSY {
            Limit::Server
        } else {
            Limit::Neither
        }
    }

    /// Little's law: rate x mean time in the system is the number in it. By how much the client's count of connections at a time
    /// differs from that; `None` where there is nothing to compare, or too little.
    fn little_error(&self) -> Option<f64> {
        let Outcome { in_flight_mean, latency, .. } = &self.outcome;
        let by_law = self.per_s()? * latency.mean as f64 / 1e9;
        (*in_flight_mean > 0.0 && latency.count as f64 > 20.0 * in_flight_mean)
            .then(|| by_law / in_flight_mean - 1.0)
    }

    /// What must be known of a trial that counts.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for name in ["ListenOverflows", "TCPSynRetrans", "SyncookiesSent", "TCPReqQFullDrop"] {
            if let n @ 1.. = self.counter(name) {
                remarks.push(format!(
                    "{name} is {n}: latencies include retransmission timeouts, or clients were refused"
                ));
            }
        }
        remarks.extend(self.outcome.failed.iter().map(|(why, n)| format!("{n} connections failed: {why}")));
        if let Some(error) = self.little_error().filter(|error| error.abs() > LITTLE) {
            let text = "rate x latency is not the number of connections at a time (Little's law): the load was not steady";
            remarks.push(format!("{text}, it differs by {:.0} %", error * 100.0));
        }
        if self.limit() == Limit::Client {
            remarks.push("the client is the limit: the server can do more".into());
        }
        remarks
    }
}

impl Limit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Limit::Backlog => "backlog",
            Limit::Client => "client",
            Limit::Server => "server",
            Limit::Load => "load asked",
            Limit::Neither => "none of them",
        }
    }
}

/// Names of figures.
pub(super) mod name {
    pub(in super::super) const RATE: &str = "connections per second";
    pub(in super::super) const CPU: &str = "CPU per connection";
    pub(in super::super) const KIB: &str = "memory per held connection";
    pub(in super::super) const HELD: &str = "held connections";
}

/// The result of a point.
pub(super) fn result(found: &[Served], rounds: u32) -> PointResult {
    let Some(first) = found.first() else {
        return PointResult { search: "left out".into(), ..PointResult::default() };
    };
    let of = |name: &str, unit: &str, value: &dyn Fn(&Served) -> Option<f64>| {
        figure(name, unit, Statistic::Median, found.iter().filter_map(value).collect())
    };
    let ns = |ns: u64| Some(ns as f64 / 1e9);
    let loop_name = match first.mode {
        Mode::Open(_) => "from when it was due",
        _ => "closed loop",
    };
    let mut figures: Vec<Figure> = match first.mode {
        Mode::Hold(_) => vec![
            of(name::HELD, "connections", &|s| Some(s.outcome.held as f64)),
            of(name::KIB, "KiB", &Served::kib),
            of("time until all are open", unit::SECONDS, &|s| {
                (s.limit() == Limit::Load).then_some(s.outcome.opened_s)
            }),
        ],
        _ => vec![
            of(name::RATE, "1/s", &Served::per_s),
            of(&format!("latency p50, {loop_name}"), unit::SECONDS, &|s| ns(s.outcome.latency.p50)),
            of(&format!("latency p99, {loop_name}"), unit::SECONDS, &|s| ns(s.outcome.latency.p99)),
            of(&format!("latency p99.9, {loop_name}"), unit::SECONDS, &|s| ns(s.outcome.latency.p999)),
            of(&format!("latency maximum, {loop_name}"), unit::SECONDS, &|s| ns(s.outcome.latency.max)),
        ],
    };
    figures.extend([
        of(name::CPU, unit::SECONDS, &Served::cpu_s),
        of("context switches per connection", "switches", &Served::switches),
        of("client's CPU per connection", unit::SECONDS, &Served::client_cpu_s),
        of("connections open at the server", "connections", &|s| s.open.map(|(mean, _)| mean)),
    ]);
    figures.retain(|figure| !figure.values.is_empty());
    let procedure = ProcedureResult { procedure: ID.into(), figures, ..Default::default() };
    rounds::result(procedure, rounds, found.iter().flat_map(Served::remarks).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn served(mode: Mode) -> Served {
        let outcome =
            Outcome { answered: 1000, in_window: 800, window_s: 0.8, worked_s: 1.0, ..Outcome::default() };
        Served {
            mode,
            outcome,
            server_cpu_ns: 500_000_000,
            server_switches: 2000,
            client_cpu_ns: 400_000_000,
            server_cpus: 1,
            client_cpus: 1,
            backlog: 128,
            sockets: 1,
            open: Some((3.0, 7)),
            waiting_max: 2,
            shares: vec![500, 500],
            gini: Some(0.0),
            held_kib: None,
            held_tasks: None,
            counters: BTreeMap::new(),
        }
    }

    #[test]
    fn a_connection_has_its_share_of_what_the_process_tree_used() {
        let served = served(Mode::Closed(8));
        assert_eq!((served.per_s(), served.cpu_s()), (Some(1000.0), Some(0.0005)));
        assert_eq!((served.switches(), served.client_cpu_s()), (Some(2.0), Some(0.0004)));
        let nothing = Served { outcome: Outcome::default(), ..served };
        assert_eq!((nothing.per_s(), nothing.cpu_s(), nothing.kib()), (None, None, None));
    }

    #[test]
    fn the_side_that_has_no_more_to_give_is_the_limit() {
        let closed = served(Mode::Closed(8));
        let of =
            |server_cpu_ns, client_cpu_ns| Served { server_cpu_ns, client_cpu_ns, ..closed.clone() }.limit();
        assert_eq!(of(950_000_000, 400_000_000), Limit::Server);
        assert_eq!(of(920_000_000, 980_000_000), Limit::Client);
        assert_eq!(of(100, 100), Limit::Neither);
        assert_eq!(served(Mode::Open(1005.0)).limit(), Limit::Load);
        assert_eq!(served(Mode::Open(2000.0)).limit(), Limit::Neither);
        let counters = BTreeMap::from([("ListenOverflows".to_string(), 1)]);
        let dropped = Served { counters, ..served(Mode::Open(1000.0)) };
        assert_eq!(dropped.limit(), Limit::Backlog);
        assert_eq!(
            dropped.remarks(),
            ["ListenOverflows is 1: latencies include retransmission timeouts, or clients were refused"]
        );
    }

    #[test]
    fn rate_and_latency_give_the_concurrency() {
        let with = |mean, in_flight_mean| {
            let mut served = served(Mode::Closed(8));
            (served.outcome.latency.mean, served.outcome.latency.count) = (mean, 1000);
            served.outcome.in_flight_mean = in_flight_mean;
            served.remarks()
        };
        assert_eq!(with(8_000_000, 8.0), Vec::<String>::new());
        assert_eq!(
            with(4_000_000, 8.0),
            [
                "rate x latency is not the number of connections at a time (Little's law): the load was not steady, it differs \
              by -50 %"
            ]
        );
        assert_eq!(with(4_000_000, 80.0), Vec::<String>::new(), "too few have ended to say");
    }

    #[test]
    fn what_is_held_has_its_share_of_the_memory() {
        let mut held = Served { held_kib: Some(5000), ..served(Mode::Hold(1000)) };
        held.outcome.held = 1000;
        assert_eq!((held.kib(), held.per_s(), held.limit()), (Some(5.0), None, Limit::Load));
        let result = result(&[held], 1);
        let figures: Vec<_> =
            result.procedures[0].figures.iter().map(|figure| figure.name.as_str()).collect();
        assert!(figures.contains(&name::KIB) && !figures.contains(&name::RATE), "{figures:?}");
    }
}
