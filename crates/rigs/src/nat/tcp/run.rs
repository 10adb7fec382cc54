//! Runs the experiment at each point: the rate at which connections are established, the rate at which they are established,
//! used and closed while others are open, what becomes of those, and floods.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_load::counts::Load;
use weir_load::tcp::{Act, Part, Said};
use weir_packet::flow::Flow;
use weir_testbed::dut::DutKind;

use super::super::bench::{Bench, Given};
use super::super::sessions::highest;
use super::super::table;
use super::flood::{Mix, from_outside, named};
use super::name;
use super::plan::{Flood, TRIALS, TcpLoad};
use weir_lab::error::RunError;
use weir_lab::frames::{PointSpec, Setup};
use weir_record::figure::{figure, unit};
use weir_record::record::{
    Detail, Figure, Latency, PointResult, ProcedureResult, Purpose, Statistic, Translation, Trial, Verdict,
};
use weir_record::run_data::latency;
use weir_report::view::format::count;

/// One of the counts of a trial.
type Count = fn(&Said) -> u64;
run_of!(
    /// An experiment in progress.
    pub(super) Measuring, TcpLoad
);

/// What is measured beside a rate is so at this share of it: below it, whatever the machine does meanwhile.
const SAFE: f64 = 0.5;
/// The lowest rate of a search, connections/s, and the longest time in which those of a trial are begun, s.
const LEAST_CPS: f64 = 1000.0;
const LONGEST_S: f64 = 5.0;
/// The longest time in which those are begun that are held: a million at a rate that any device stands.
const LONGEST_HOLD_S: f64 = 40.0;
/// Of those that are held, this share must be open: a machine that stands still for some ms loses segments of a million.
const OPEN: f64 = 0.99;
/// A trial that the machine disturbed shows that a device stands a rate, if at most this share of it was missing.
const RATE_ERROR: f64 = 0.01;
/// Fewer connections are established in too short a time to say how fast.
const FEW: u32 = 1000;
/// So fast they are established then, connections/s.
const FEW_CPS: f64 = 5000.0;
/// Connections may be completed at so many times the rate at which those that are held were established.
const MORE: f64 = 4.0;
/// SYN that leave inside under a flood for each connection without one, at most.
const FLOOD_ROOM: u32 = 10;

/// Entries of the kernel's table after a part of the trials, by state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct States {
    /// After what.
    pub(super) after: String,
    /// State and number of entries.
    pub(super) entries: Vec<(String, u64)>,
}

impl Detail for States {
    const KEY: &'static str = "tcp_states";
}

/// A device, and the connections through it.
struct Talker<'e, 'a> {
    experiment: &'e TcpLoad,
    bench: Bench<'a>,
    /// Connections that are held, then those of so many trials.
    flows: Vec<Flow>,
    trials: u32,
    seed: u64,
    held: u32,
    /// So many of them are over: after the last one, connections are held anew.
    over: u32,
    /// So many of these are open.
    open: u64,
    /// SYN/s that the tester sends.
    ceiling_cps: f64,
    /// How fast connections are established that are held.
    hold_cps: f64,
    /// Those that are held were established by an earlier part of the run.
    are_kept: bool,
    /// Rates that were not tried in any valid trial.
    unjudged: u32,
}

/// The values of all repetitions, by name and unit of the figure.
#[derive(Default)]
struct Values {
    figures: Vec<(String, &'static str, Vec<f64>)>,
    irregular: Vec<String>,
}

impl Values {
    fn add(&mut self, name: impl Into<String>, unit: &'static str, value: Option<f64>) {
        let (name, Some(value)) = (name.into(), value) else { return };
        match self.figures.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., values)) => values.push(value),
            None => self.figures.push((name, unit, vec![value])),
        }
    }

    fn last(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(known, ..)| known == name)?.2.last().copied()
    }

    fn figures(self) -> Vec<Figure> {
        let all = self.figures.into_iter();
        all.map(|(name, unit, values)| figure(name, unit, Statistic::Median, values)).collect()
    }
}

impl Measuring<'_> {
    pub(super) fn all_points(mut self) -> Result<(), RunError> {
        self.settings.external = self.experiment.external.clone();
        let points = self.experiment.points();
        let own: Vec<_> = points.iter().enumerate().filter(|(index, _)| self.has(*index)).collect();
        own.iter().try_for_each(|(_, spec)| Setup::check(spec, &self.settings))?;
        own.iter().try_for_each(|(index, spec)| self.point_of(spec, (*index, own.len())))
    }

    fn point_of(&mut self, spec: &PointSpec, place: (usize, usize)) -> Result<(), RunError> {
        let (experiment, seed, held) = (self.experiment, self.settings.seed, spec.flows);
        let trials = trials(&spec.dut, held, experiment.connections);
        let flows = experiment.ranges(held, trials).list(spec.order, seed);
        let flooding = if experiment.floods.is_empty() { 1 } else { FLOOD_ROOM };
        let room = held + experiment.connections * flooding.max(trials);
        let given = Given { flows: flows.clone(), room, public: &experiment.public };
        let Some(bench) = Bench::open(self, spec, place, given)? else { return Ok(()) };
        let mut talker = Talker {
            experiment,
            bench,
            flows,
            trials,
            seed,
            held,
            over: 0,
            open: 0,
            ceiling_cps: 0.0,
            hold_cps: FEW_CPS,
            are_kept: false,
            unjudged: 0,
        };
        let result = talker.all()?;
        self.close(&talker.bench.point, result)
    }
}

impl Talker<'_, '_> {
    fn all(&mut self) -> Result<PointResult, RunError> {
        let mut values = Values::default();
        match self.too_many() {
            Some(text) => values.irregular.push(text),
            None => {
                self.ceiling_cps = self.bench.ceiling(Some(self.part(Act::Hold)))?;
                for _ in 0..self.experiment.repetitions {
                    self.repetition(&mut values)?;
                }
            }
        }
        if self.unjudged > 0 {
            let rates = count(self.unjudged as usize, "rate");
            let why = "because tester or machine was disturbed: the found rate may be too low";
            values.irregular.push(format!("{rates} {}, {why}", name::UNTRIED));
        }
        values.irregular.extend(self.bench.irregular());
        values.irregular.sort();
        values.irregular.dedup();
        let procedure = ProcedureResult {
            procedure: name::ID.into(),
            parameters: self.parameters(),
            irregular: std::mem::take(&mut values.irregular),
            figures: values.figures(),
            ..ProcedureResult::default()
        };
        let procedures = vec![procedure];
        Ok(PointResult { search: "bisection".into(), procedures, ..PointResult::default() })
    }

    /// Why the kernel's table has no room for the connections, if that is known.
    fn too_many(&self) -> Option<String> {
        let most = table::now("nf_conntrack_max").filter(|_| self.bench.spec.dut == DutKind::KERNEL_NAT)?;
        (self.flows.len() as u64 > most).then(|| {
            format!(
                "{} connections were not measured: they do not fit into the kernel's connection table of {most} entries; raise \
                 net.netfilter.nf_conntrack_max",
                self.flows.len()
            )
        })
    }

    fn repetition(&mut self, values: &mut Values) -> Result<(), RunError> {
        let (error, max, connections) =
            (self.experiment.error, self.ceiling_cps, self.experiment.connections);
        self.over = self.trials;
        if self.held >= FEW {
            let found =
                highest(max, (error, least(self.held, LONGEST_HOLD_S)), |rate| self.establishes(rate))?;
            values.add(name::ESTABLISHED, name::CPS, found);
            // Nearly all may be at a higher rate than all, which is halved until they are.
            self.hold_cps = found.map_or(least(self.held, LONGEST_HOLD_S) * 4.0, |rate| rate * SAFE);
            if found.is_none() && !self.hold_all()? {
                let text = "not all connections could be established at any rate: the table may be too small";
                values.irregular.push(text.into());
                return Ok(());
            }
        }
        // More segments are needed for them. Where no rate of those that are held is known, the one that was enough says where
        // to begin.
        let begin = if self.held >= FEW { (self.hold_cps * MORE).min(max) } else { max };
        let known = values.last(name::ESTABLISHED);
        let most = known.unwrap_or(begin);
        let found = highest(most, (error, least(connections, LONGEST_S)), |rate| self.completes(rate))?;
        values.add(name::WHOLE, name::CPS, found);
        let Some(rate) = found else {
            values.irregular.push("not all connections could be completed at any rate".into());
            return Ok(());
        };
        if rate >= max {
            let text = format!("{}: it begins {max:.0} connections/s at most", name::TESTER_ENDS);
            values.irregular.push(text);
        } else if rate >= begin && known.is_none() {
            let text = format!("{} {begin:.0} connections/s: the device may be faster", name::BEGIN_ENDS);
            values.irregular.push(text);
        }
        self.lives(rate * SAFE, values)?;
        let missing = u64::from(self.held).saturating_sub(self.open);
        if missing > 0 {
            let text = format!("{missing} of the connections to be held were not established");
            values.irregular.push(text);
        }
        for flood in &self.experiment.floods {
            self.flooded(rate * SAFE, flood, values)?;
        }
        Ok(())
    }

    /// This of all connections that it is for.
    fn part(&self, act: Act) -> Part {
        match act {
            Act::Whole => {
                let count = self.experiment.connections;
                Part { act, first: self.held + self.over * count, count }
            }
            Act::Hold | Act::Data | Act::Close | Act::Reset => Part { act, first: 0, count: self.held },
        }
    }

    fn load(&self, part: Part, rate: f64) -> Load {
        let sending = Duration::from_secs_f64(f64::from(part.count) / rate);
        Load {
            only: Some(0),
            max_frames: Some(part.count.into()),
            drain: Some(self.experiment.timeout),
            tcp: Some(part),
            ..Load::steady(rate, sending + Duration::from_millis(10))
        }
    }

    /// One part of the connections. Where those that are held are not there, they are established before it.
    fn one(&mut self, load: &Load) -> Result<Trial, RunError> {
        if self.are_kept && self.bench.is_new() {
            self.hold(self.hold_cps)?;
        }
        self.bench.one(load, Purpose::Procedure)
    }

    /// Establishes connections and keeps them, in a device without any.
    fn hold(&mut self, rate: f64) -> Result<Trial, RunError> {
        self.bench.forget()?;
        self.are_kept = !self.bench.is_new();
        let load = self.load(self.part(Act::Hold), rate);
        self.bench.one(&load, Purpose::Procedure)
    }

    /// Can connections be established at this rate?
    fn establishes(&mut self, rate: f64) -> Result<bool, RunError> {
        for _ in 0..=self.bench.retries() {
            let trial = self.hold(rate)?;
            if let Some(passes) = self.judged(&trial, self.held, |said| said.established) {
                return Ok(passes);
            }
        }
        self.unjudged += 1;
        Ok(false)
    }

    /// Establishes those that are held at a rate that they stand, nearly all of them; a machine that is busy may need a few
    /// trials.
    fn hold_all(&mut self) -> Result<bool, RunError> {
        for _ in 0..=self.bench.retries() {
            let trial = self.hold(self.hold_cps)?;
            self.open = said(&trial).established;
            if !is_wrong(&trial) && self.open as f64 >= f64::from(self.held) * OPEN {
                self.over = 0;
                return Ok(true);
            }
            // How fast they were established is no result, so that the machine may get more time for it.
            self.hold_cps = (self.hold_cps / 2.0).max(least(self.held, LONGEST_HOLD_S));
        }
        Ok(false)
    }

    /// Can connections be established, used and closed at this rate, while others are open?
    fn completes(&mut self, rate: f64) -> Result<bool, RunError> {
        for _ in 0..=self.bench.retries() {
            if self.over == self.trials && !self.hold_all()? {
                break;
            }
            let trial = self.one(&self.load(self.part(Act::Whole), rate))?;
            self.over += 1;
            if let Some(passes) = self.judged(&trial, self.experiment.connections, |said| said.closed) {
                return Ok(passes);
            }
        }
        self.unjudged += 1;
        Ok(false)
    }

    /// Follows connections from the first to the last segment, at a rate below the highest: how long one takes, and whether
    /// those that were open meanwhile still are. A machine that is busy may need a few trials.
    fn lives(&mut self, rate: f64, values: &mut Values) -> Result<(), RunError> {
        for _ in 0..=self.bench.retries() {
            if let Some(took) = self.life(rate)? {
                let [median, late] = [took.p50_ns, took.p99_ns].map(|ns| Some(ns as f64 / 1e9));
                values.add(name::TOOK_MEDIAN, unit::SECONDS, median);
                values.add(name::TOOK_P99, unit::SECONDS, late);
                return Ok(());
            }
        }
        let text =
            "not all connections lived from the first to the last segment, at half of the highest rate";
        values.irregular.push(text.into());
        Ok(())
    }

    /// How long connections took; `None` if any of them, or of those that are held, ended before its time.
    fn life(&mut self, rate: f64) -> Result<Option<Latency>, RunError> {
        if !self.hold_all()? {
            return Ok(None);
        }
        self.note_states("established")?;
        let whole = self.one(&self.load(self.part(Act::Whole), rate))?;
        if !self.is_complete(&whole, self.experiment.connections, |said| said.closed) {
            return Ok(None);
        }
        self.note_states("others opened, used, closed")?;
        let half = self.held.div_ceil(2);
        let parts = [
            ("held ones used", self.part(Act::Data)),
            ("half of them closed", Part { act: Act::Close, first: 0, count: half }),
            ("the others reset", Part { act: Act::Reset, first: half, count: self.held - half }),
        ];
        let (mut used, mut ended) = (0, 0);
        for (after, part) in parts.into_iter().filter(|(_, part)| part.count > 0) {
            let said = said(&self.one(&self.load(part, self.hold_cps))?);
            used += said.exchanged;
            ended += said.closed + said.reset;
            self.note_states(after)?;
        }
        let all = [used, ended].iter().all(|came| *came >= self.enough_of(self.open));
        Ok(latency(&whole.streams).filter(|_| all))
    }

    /// So many of these connections must come as far as they are to.
    fn enough_of(&self, connections: u64) -> u64 {
        (connections as f64 * (1.0 - self.experiment.failures)).ceil() as u64
    }

    /// Does the device stand this rate? Unknown where the trial cannot be believed; but what it does not stand at a lower rate
    /// than was to be sent, it does not stand, and what it stands while the machine is disturbed, it does stand.
    fn judged(&self, trial: &Trial, connections: u32, of: Count) -> Option<bool> {
        let passes = self.is_complete(trial, connections, of);
        match trial.verdict {
            Verdict::Valid => Some(passes),
            Verdict::TesterLimited => {
                (!passes && trial.counts().sent == u64::from(connections)).then_some(false)
            }
            Verdict::Noisy => (passes && trial.noise.rate_error >= -RATE_ERROR).then_some(true),
            Verdict::Invalid => None,
        }
    }

    /// Were enough of all connections answered inside, at the right host, and did enough come as far as this, with nothing
    /// translated wrongly?
    fn is_complete(&self, trial: &Trial, connections: u32, of: Count) -> bool {
        let (all, said) = (u64::from(connections), said(trial));
        let enough = said.answered.min(of(&said)) >= self.enough_of(all);
        trial.counts().sent == all && enough && !is_wrong(trial)
    }

    /// Keeps what the kernel's table has now, where it is the kernel that tracks.
    fn note_states(&mut self, after: &str) -> Result<(), RunError> {
        if self.bench.spec.dut != DutKind::KERNEL_NAT {
            return Ok(());
        }
        let after = after.to_string();
        self.bench.named("states", move |setup| {
            let entries = setup.tcp_states()?;
            Ok(Trial::default().with_detail(&States { after, entries }))
        })?;
        Ok(())
    }

    /// Which share of connections is established while a flood goes on.
    fn flooded(&mut self, rate: f64, flood: &Flood, values: &mut Values) -> Result<(), RunError> {
        let (inside, outside) = flood.sides();
        let fps = rate + inside + outside;
        if fps > self.ceiling_cps {
            let text =
                format!("the tester cannot send {fps:.0} SYN/s: a flood of {:.0} is left out", flood.fps);
            values.irregular.push(text);
            return Ok(());
        }
        let (held, connections) = (self.held, self.experiment.connections);
        let mix = Mix::of(connections, rate, inside, connections * FLOOD_ROOM);
        let split = held as usize;
        let subscribers = self.experiment.hosts.subscribers;
        let mut flows = self.flows[..split].to_vec();
        flows.extend(mix.flows(&self.flows[split..split + mix.connections as usize], subscribers, self.seed));
        self.take(flows)?;
        let room = held + connections * FLOOD_ROOM;
        let others = from_outside(self.bench.setup.public(), room, self.seed);
        self.bench.setup.flood(&others)?;
        if self.hold_all()? {
            let part = Part { act: Act::Whole, first: held, count: mix.all };
            let load = if outside > 0.0 {
                let duration = Duration::from_secs_f64(f64::from(mix.all) / (rate + inside));
                let share = Some((rate + inside) / fps);
                Load { only: None, max_frames: None, share, fps: Some(fps), duration, ..self.load(part, fps) }
            } else {
                self.load(part, fps)
            };
            let trial = self.one(&load)?;
            let share = said(&trial).answered as f64 / f64::from(mix.connections);
            values.add(name::flooded(flood), unit::RATIO, Some(share));
            self.note_states(&format!("flood of {:.0} SYN/s from {}", flood.fps, flood.from.name()))?;
        }
        let own = self.flows.clone();
        self.take(own)
    }

    /// From now on these are the flows.
    fn take(&mut self, flows: Vec<Flow>) -> Result<(), RunError> {
        self.bench.setup.check_translation(flows, &self.experiment.public)
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let TcpLoad { hosts, connections, timeout, error, failures, .. } = self.experiment;
        let public: Vec<String> = self.bench.setup.public().iter().map(|range| named(*range)).collect();
        let mut list: Vec<(String, String)> = [
            ("connections held", self.held.to_string()),
            ("connections of a trial", connections.to_string()),
            ("source addresses", hosts.subscribers.to_string()),
            ("destination addresses", hosts.destinations.to_string()),
            ("destination ports", format!("1 to {}", hosts.destination_ports)),
            ("public addresses", public.join(", ")),
            ("data", "8 bytes each way".to_string()),
            ("retransmissions", "none: a connection ends with its first segment that is lost".to_string()),
            ("timeout", format!("{} s", timeout.as_secs_f64())),
            ("error of a search", format!("{} % of the rate", error * 100.0)),
            ("connections that may fail", format!("{} %", failures * 100.0)),
            ("rate of floods and times", format!("{} % of the highest", SAFE * 100.0)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .to_vec();
        if self.bench.spec.dut == DutKind::KERNEL_NAT {
            for name in ["nf_conntrack_buckets", "nf_conntrack_max"] {
                list.extend(table::now(name).map(|value| (name.to_string(), value.to_string())));
            }
        }
        if self.bench.spec.dut.is_node() {
            list.push(("sessions of the node".into(), self.bench.setup.bed().spec().sessions.to_string()));
        }
        list
    }
}

/// So many trials follow each other beside the same held connections, each with connections that the device does not know yet: no
/// more than its table certainly has room for.
pub(super) fn trials(dut: &DutKind, held: u32, connections: u32) -> u32 {
    let most = match *dut {
        DutKind::KERNEL_NAT => table::now("nf_conntrack_max").unwrap_or(0),
        _ if dut.is_node() => u64::MAX,
        _ => 0,
    };
    let room = most.saturating_sub(held.into()).min(u64::from(held));
    (room as u32 / connections).clamp(1, TRIALS)
}

/// The lowest rate that is tried, if they are begun in this time at the latest.
fn least(connections: u32, longest_s: f64) -> f64 {
    LEAST_CPS.max(f64::from(connections) / longest_s)
}

/// Was anything translated wrongly?
fn is_wrong(trial: &Trial) -> bool {
    trial.detail::<Translation>().is_some_and(|seen| !seen.faults.is_empty())
}

fn said(trial: &Trial) -> Said {
    trial.detail().unwrap_or_default()
}
