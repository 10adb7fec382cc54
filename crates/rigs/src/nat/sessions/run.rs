//! Runs RFC 9693 at each point: both rates of establishing connections, throughput, tear-down, capacity.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_load::counts::Load;
use weir_packet::flow::Flow;
use weir_testbed::dut::{DutKind, Function, System};

use super::super::bench::{Bench, Given};
use super::super::table;
use super::plan::Rfc9693;
use super::report::name;
use super::search::{capacity, highest};
use weir_lab::error::RunError;
use weir_lab::frames::{PointSpec, Setup};
use weir_record::figure::{figure, unit};
use weir_record::record::{
    Detail, Figure, PointResult, ProcedureResult, Purpose, Statistic, Translation, Trial, Verdict,
};
use weir_report::view::format::significant;

run_of!(
    /// An experiment in progress.
    pub(super) Measuring, Rfc9693
);

/// Connections are established at this share of the maximum rate before something else is measured: it must be below it.
const SAFE: f64 = 0.5;
/// The lowest rate of a search, connections/s or frames/s: the error that implementations of the RFC search to.
const LEAST_FPS: f64 = 1000.0;
/// Longest phase 1, s.
const LONGEST_PHASE_S: f64 = 20.0;
/// A device that deletes its connections must be done after this time.
const TEAR_DOWN: Duration = Duration::from_secs(60);

/// How long it took to delete all connections, s.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct TornDown {
    seconds: f64,
}

impl Detail for TornDown {
    const KEY: &'static str = "torn_down";
}

/// A device with its sessions.
struct Bencher<'e, 'a> {
    experiment: &'e Rfc9693,
    bench: Bench<'a>,
    /// What the tester sends, frames/s.
    ceiling_fps: f64,
    seed: u64,
    sessions: u32,
}

/// The values of all repetitions, by figure.
#[derive(Default)]
struct Values {
    plain: Vec<f64>,
    validated: Vec<f64>,
    throughput: Vec<f64>,
    tear_down: Vec<f64>,
    capacity: Vec<f64>,
    irregular: Vec<String>,
}

impl Measuring<'_> {
    pub(super) fn all_points(mut self) -> Result<(), RunError> {
        self.settings.external = self.experiment.external.clone();
        let points = self.experiment.points();
        let own: Vec<_> = points.iter().enumerate().filter(|(index, _)| self.has(*index)).collect();
        own.iter().try_for_each(|(_, spec)| Setup::check(spec, &self.settings))?;
        own.iter().try_for_each(|(index, spec)| self.point_of(spec, *index, own.len()))
    }

    fn point_of(&mut self, spec: &PointSpec, index: usize, count: usize) -> Result<(), RunError> {
        let (experiment, seed, sessions) = (self.experiment, self.settings.seed, spec.flows);
        let given = Given {
            flows: experiment.ranges(sessions).list(spec.order, seed),
            // The search for the capacity needs room for more sessions than the point has.
            room: sessions.max(experiment.capacity.unwrap_or(0)),
            public: &experiment.public,
        };
        let Some(bench) = Bench::open(self, spec, (index, count), given)? else { return Ok(()) };
        let mut bencher = Bencher { experiment, bench, ceiling_fps: 0.0, seed, sessions };
        let result = bencher.all()?;
        self.close(&bencher.bench.point, result)
    }
}

impl Bencher<'_, '_> {
    fn all(&mut self) -> Result<PointResult, RunError> {
        self.ceiling_fps = self.bench.ceiling(None)?;
        let mut values = Values::default();
        for _ in 0..self.experiment.repetitions {
            self.repetition(&mut values)?;
        }
        values.irregular.extend(self.bench.irregular());
        values.irregular.sort();
        values.irregular.dedup();
        let procedure = ProcedureResult {
            procedure: name::ID.into(),
            parameters: self.parameters(),
            figures: values.figures(),
            irregular: values.irregular,
            ..ProcedureResult::default()
        };
        let procedures = vec![procedure];
        Ok(PointResult { search: "bisection".into(), procedures, ..PointResult::default() })
    }

    /// The lowest rate that is tried: below it, phase 1 alone would take too long.
    fn least_fps(&self) -> f64 {
        LEAST_FPS.max(f64::from(self.sessions) / LONGEST_PHASE_S)
    }

    fn repetition(&mut self, values: &mut Values) -> Result<(), RunError> {
        let (error, max, least) = (self.experiment.error, self.ceiling_fps, self.least_fps());
        let plain = highest(max, (error, least), |rate| self.establishes(rate))?;
        let validated = highest(plain.unwrap_or(max), (error, least), |rate| self.validates(rate))?;
        if plain.is_some_and(|rate| rate >= max) {
            values.irregular.push(format!("{}: it begins {max:.0} connections/s at most", name::TESTER_ENDS));
        }
        values.plain.extend(plain);
        values.validated.extend(validated);
        let Some(rate) = validated.map(|rate| rate * SAFE) else {
            let text = "not all connections could be established and validated at any rate";
            values
                .irregular
                .push(format!("{text}: the table may be too small for {} sessions", self.sessions));
            return Ok(());
        };
        values.throughput.extend(highest(max, (error, least), |load| self.passes(rate, load))?);
        values.tear_down.extend(self.tear_down(rate)?);
        if let Some(most) = self.experiment.capacity {
            let found = self.capacity(rate / SAFE, most)?;
            if let Some((_, true)) = found {
                values.irregular.push(format!("the capacity is {most} {}", name::CAPACITY_OR_MORE));
            }
            values.capacity.extend(found.map(|(connections, _)| f64::from(connections)));
        }
        Ok(())
    }

    /// Phase 1: the first frame of each session, to a device without connections. Repeated while it cannot be believed.
    fn phase_1(&mut self, rate: f64) -> Result<Trial, RunError> {
        let sessions = u64::from(self.sessions);
        let sending = Duration::from_secs_f64(self.sessions as f64 / rate);
        let load = Load {
            only: Some(0),
            max_frames: Some(sessions),
            drain: Some(self.experiment.timeout),
            ..Load::steady(rate, sending + Duration::from_millis(10))
        };
        self.repeated(|bencher| {
            bencher.bench.forget()?;
            bencher.bench.one(&load, Purpose::Procedure)
        })
    }

    fn repeated(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<Trial, RunError>,
    ) -> Result<Trial, RunError> {
        let mut trial = one(self)?;
        for _ in 0..self.bench.retries() {
            if !matches!(trial.verdict, Verdict::Noisy | Verdict::Invalid) {
                break;
            }
            trial = one(self)?;
        }
        Ok(trial)
    }

    /// Does each session's first frame pass at this rate?
    fn establishes(&mut self, rate: f64) -> Result<bool, RunError> {
        let trial = self.phase_1(rate)?;
        Ok(self.is_complete(&trial, |seen| seen.flows))
    }

    /// The same, and does an answer to each session then come back? A device that forwards without keeping state is found so.
    fn validates(&mut self, rate: f64) -> Result<bool, RunError> {
        if !self.establishes(rate)? || !self.learn(rate)? {
            return Ok(false);
        }
        let rate = rate * self.experiment.alpha;
        let sending = Duration::from_secs_f64(self.sessions as f64 / rate);
        let load = Load {
            only: Some(1),
            max_frames: Some(self.sessions.into()),
            drain: Some(self.experiment.timeout),
            ..Load::steady(rate, sending + Duration::from_millis(10))
        };
        let trial = self.bench.one(&load, Purpose::Procedure)?;
        Ok(self.is_complete(&trial, |seen| seen.flows_inside))
    }

    /// Throughput with established connections: does this load pass, both directions together?
    fn passes(&mut self, rate: f64, load_fps: f64) -> Result<bool, RunError> {
        let load =
            Load { drain: Some(self.experiment.timeout), ..Load::steady(load_fps, self.experiment.trial) };
        let trial = self.repeated(|bencher| {
            let established = bencher.phase_1(rate)?;
            if bencher.is_complete(&established, |seen| seen.flows) && bencher.learn(rate)? {
                bencher.bench.one(&load, Purpose::Procedure)
            } else {
                Ok(established)
            }
        })?;
        let is_phase_2 = trial.streams.len() == 2;
        let sent_all = matches!(trial.verdict, Verdict::Valid);
        Ok(is_phase_2
            && sent_all
            && trial.dut_loss_ratio() <= self.experiment.loss_ratio
            && !is_wrong(&trial))
    }

    /// Has the responder send to the tuples that it has learned; false if some are missing.
    fn learn(&mut self, rate: f64) -> Result<bool, RunError> {
        if !self.bench.is_new() {
            return Ok(true);
        }
        let mut learned = self.learned();
        if learned.len() < self.sessions as usize {
            // Phase 1 was made by an earlier part of the run.
            self.phase_1(rate)?;
            learned = self.learned();
        }
        if learned.len() < self.sessions as usize {
            return Ok(false);
        }
        self.bench.setup.answer_to(&learned)?;
        Ok(true)
    }

    fn learned(&self) -> Vec<(Flow, weir_load::translation::Outside)> {
        let setup = &self.bench.setup;
        let pairs = setup.flows().iter().zip(setup.outside_tuples());
        pairs.filter_map(|(flow, outside)| Some((*flow, outside?))).collect()
    }

    fn is_complete(&self, trial: &Trial, flows: fn(&Translation) -> u64) -> bool {
        let sessions = u64::from(self.sessions);
        let seen: Translation = trial.detail().unwrap_or_default();
        trial.verdict == Verdict::Valid
            && trial.counts().sent == sessions
            && flows(&seen) == sessions
            && !is_wrong(trial)
    }

    /// Connections/s that are deleted when all of them are at once.
    fn tear_down(&mut self, rate: f64) -> Result<Option<f64>, RunError> {
        let trial = self.phase_1(rate)?;
        if !self.is_complete(&trial, |seen| seen.flows) {
            return Ok(None);
        }
        let trial = self.bench.named("tear-down", |setup| {
            let begin = Instant::now();
            setup.forget_connections()?;
            while setup.connections()?.is_some_and(|left| left > 0) && begin.elapsed() < TEAR_DOWN {
                std::thread::yield_now();
            }
            let seconds = begin.elapsed().as_secs_f64();
            Ok(Trial { duration_s: seconds, ..Trial::default() }.with_detail(&TornDown { seconds }))
        })?;
        let sessions = f64::from(self.sessions);
        Ok(trial.detail::<TornDown>().filter(|torn| torn.seconds > 0.0).map(|torn| sessions / torn.seconds))
    }

    /// The most connections that can be established and validated, and whether the search ended at the most it may try.
    fn capacity(&mut self, max_rate: f64, most: u32) -> Result<Option<(u32, bool)>, RunError> {
        let (own, error) = (self.sessions, self.experiment.error);
        let found = capacity((own, most), (max_rate, error), |connections, max, stop| {
            self.take_sessions(connections)?;
            let stop = stop.max(self.least_fps());
            highest(max, (0.2, stop), |rate| self.validates(rate))
        });
        self.take_sessions(own)?;
        found
    }

    fn take_sessions(&mut self, sessions: u32) -> Result<(), RunError> {
        self.sessions = sessions;
        let flows = self.experiment.ranges(sessions).list(self.bench.spec.order, self.seed);
        self.bench.setup.check_translation(flows, &self.experiment.public)
    }

    /// All that RFC 9693 wants to be reported beside the results.
    fn parameters(&self) -> Vec<(String, String)> {
        let Rfc9693 { hosts, alpha, timeout, error, trial, loss_ratio, .. } = self.experiment;
        let is_nat64 = self.bench.spec.dut.function() == Function::Nat64;
        let ports = self.sessions.div_ceil(hosts.subscribers.min(self.sessions));
        let seconds = |time: &Duration| format!("{} s", time.as_secs_f64());
        let mut list: Vec<(String, String)> = [
            ("sessions N", self.sessions.to_string()),
            ("source addresses", hosts.subscribers.min(self.sessions).to_string()),
            ("source ports of each", ports.to_string()),
            ("destination addresses", hosts.destinations.to_string()),
            ("destination ports", format!("1 to {}", hosts.destination_ports)),
            ("tuples", "unique, in pseudo-random order (Fisher-Yates)".to_string()),
            ("validation rate alpha", alpha.to_string()),
            ("timeout T", seconds(timeout)),
            ("error e", format!("{} % of the rate", error * 100.0)),
            ("NAT", if is_nat64 { "NAT64: IPv6 inside, IPv4 outside" } else { "NAT44" }.to_string()),
            ("frames", format!("UDP, {} bytes as they are sent from each side", self.experiment.frame)),
            (
                "delay D from the begin of phase 1 to that of phase 2",
                "N / R + T, and the time to read the state table".into(),
            ),
            ("phase 1 before throughput", format!("{} % of the validated rate", SAFE * 100.0)),
            ("throughput trial", seconds(trial)),
            ("loss ratio", loss_ratio.to_string()),
            ("connections are deleted by", self.deleted_by().to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .to_vec();
        if self.bench.spec.dut == DutKind::KERNEL_NAT {
            for name in [
                "nf_conntrack_buckets",
                "nf_conntrack_max",
                "nf_conntrack_udp_timeout",
                "nf_conntrack_udp_timeout_stream",
            ] {
                list.extend(table::now(name).map(|value| (name.to_string(), value.to_string())));
            }
            let buckets = table::now("nf_conntrack_buckets").filter(|buckets| *buckets > 0);
            let load = buckets.map(|buckets| significant(f64::from(self.sessions) / buckets as f64));
            list.extend(load.map(|load| ("sessions per bucket".to_string(), load)));
        }
        if self.bench.spec.dut.is_node() {
            list.push(("sessions of the node".into(), self.bench.setup.bed().spec().sessions.to_string()));
        }
        list
    }

    fn deleted_by(&self) -> &'static str {
        match self.bench.spec.dut.system() {
            System::Kernel => "ctnetlink, all entries of the namespace at once (conntrack -F)",
            System::External => "the command external.reset",
            _ => "the program itself",
        }
    }
}

fn is_wrong(trial: &Trial) -> bool {
    trial.detail::<Translation>().is_some_and(|seen| !seen.faults.is_empty())
}

impl Values {
    fn figures(&self) -> Vec<Figure> {
        let all = [
            (name::PLAIN, name::CPS, &self.plain),
            (name::VALIDATED, name::CPS, &self.validated),
            (name::THROUGHPUT, unit::FRAMES_PER_S, &self.throughput),
            (name::TEAR_DOWN, name::CPS, &self.tear_down),
            (name::CAPACITY, name::CONNECTIONS, &self.capacity),
        ];
        let found = all.into_iter().filter(|(_, _, values)| !values.is_empty());
        found.map(|(name, unit, values)| figure(name, unit, Statistic::Median, values.clone())).collect()
    }
}
