//! The experiment `peers-generator`: our frame generator and those of others alternately, round by round.
//!
//! ```text
//! round 1: weir  weir-packet  trafgen  tcpreplay  iperf3  pacing  receiver
//! round 2: weir-packet  trafgen  tcpreplay  iperf3  pacing  receiver  weir      ...
//! ```
//! A busy minute of the machine hits all of them, and ratios are formed round by round. Pacing and the
//! receiver are measured on the wire with the whole tester, in the same rounds.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_linux::lock::measuring_lock;
use weir_load::counts::Load;
use weir_load::{Control, TesterKind};
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;

use super::contestant::{Contestant, Failed, Generator, Outside, Sent};
use super::{command, result};

use crate::generators::plan::{Peer, Peers};
use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::Setup;
use weir_lab::frames::verdict::Accounting;
use weir_lab::run::rounds::{Interleaved, Rated, comparison, interleave};
use weir_lab::run::series::{Asked, Series};
use weir_lab::run::{Event, Options, programs};
use weir_linux::time;
use weir_record::record::{
    Comparison, DropCounter, Noise, Owner, Point, PointResult, Purpose, Trial, Verdict,
};
use weir_record::run_data::{MEASURES, Measures};

/// Before the first round: programs warm, pages in place.
const WARM_UP: Duration = Duration::from_millis(200);

run_of!(
    /// A comparison in progress.
    pub(super) Contest, Peers
);

/// One point and what it needs in each round.
struct Entrant<'a> {
    point: Point,
    source: Source,
    frame_bytes: u16,
    flows: u32,
    /// One per round.
    rates: Vec<Option<f64>>,
    series: Series<'a>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        !matches!(self.source, Source::Absent)
    }
}

impl Entrant<'_> {
    /// The trial of the next round.
    fn asked(&self, duration: Duration, purpose: Purpose) -> Asked<'static> {
        Asked::Named(format!("round {}", self.rates.len() + 1), purpose, duration)
    }

    fn generator(&self) -> Option<(Generator, u32)> {
        if let Source::Generator(generator, _) = &self.source { Some((*generator, self.flows)) } else { None }
    }
}

enum Source {
    /// As fast as it can, into an XDP drop.
    Generator(Generator, Box<Contestant>),
    /// The whole tester on the wire, at this load.
    Wire(Box<Setup>, WireLoad),
    /// Cannot take part; the point's notes say why.
    Absent,
}

/// What the whole tester sends itself.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WireLoad {
    /// Frames/s, to see how exactly they leave.
    Paced(f64),
    /// As much as generator and receiver manage together on one CPU.
    Full,
    /// More than the receiver takes on a CPU of its own: to see its ceiling, which is no fault of the trial.
    Overload,
}

impl WireLoad {
    fn fps(self) -> Option<f64> {
        if let WireLoad::Paced(fps) = self { Some(fps) } else { None }
    }

    fn measures(self) -> Measures {
        if let WireLoad::Paced(_) = self { Measures::Pacing } else { Measures::Receiver }
    }
}

impl<'a> Contest<'a> {
    pub(super) fn all_rounds(mut self) -> Result<(), RunError> {
        let mut entrants = self.entrants()?;
        let rounds = self.rounds(self.experiment.rounds, entrants.len());
        interleave(&rounds, &mut entrants, |entrant| {
            let (duration, purpose) = (self.experiment.trial, purpose(&entrant.source));
            let rate = self.trial(entrant, duration, purpose)?;
            entrant.rates.push(rate);
            Ok(())
        })?;
        for entrant in &entrants {
            self.close(&entrant.point, self.result(entrant, &entrants))?;
        }
        Ok(())
    }

    /// The generators that take part, and those that cannot.
    fn entrants(&mut self) -> Result<Vec<Entrant<'a>>, RunError> {
        let experiment = self.experiment;
        let mut list = Vec::new();
        for &frame_bytes in &experiment.frame_bytes {
            for (i, &flows) in experiment.flows.iter().enumerate() {
                for kind in [TesterKind::Xdp, TesterKind::Packet] {
                    self.enter(Generator::Weir(kind), frame_bytes, flows, &mut list)?;
                }
                // Peers repeat one frame: what they can do best.
                for &peer in experiment.names.iter().filter(|_| i == 0) {
                    self.enter(Generator::Peer(peer), frame_bytes, 1, &mut list)?;
                }
            }
        }
        let (frame_bytes, flows) = (experiment.frame_bytes[0], experiment.flows[0]);
        let loads = Peers::PACES_FPS.map(WireLoad::Paced).into_iter();
        for load in loads.chain([WireLoad::Full, WireLoad::Overload]) {
            self.enter_wire(load, (frame_bytes, flows), &mut list)?;
        }
        Ok(list)
    }

    fn enter(
        &mut self,
        generator: Generator,
        frame_bytes: u16,
        flows: u32,
        list: &mut Vec<Entrant<'a>>,
    ) -> Result<(), RunError> {
        let spec = PointSpec::plain(DutKind::WIRE, frame_bytes, flows);
        let mut settings = settings(Measures::Generator, generator.name(), frame_bytes, flows);
        settings.push(("sink", generator.sink().into()));
        let mut point = self.point_of(generator.name(), &spec, settings, list.len());
        let absent = absent(generator, frame_bytes);
        let source = match absent {
            Some(why) => Err(why),
            None => self.try_out(generator, &spec)?,
        };
        let source = match source {
            Ok(contestant) => {
                (point.cpus, point.notes) = (vec![contestant.cpu()], notes(generator));
                point.cpus.extend(contestant.other_cpus());
                Source::Generator(generator, Box::new(contestant))
            }
            Err(why) => {
                let note = format!("{} is left out: {why}.", generator.name());
                (self.options.observe)(Event::Note(&note));
                point.notes.push(note);
                Source::Absent
            }
        };
        list.push(self.entrant(point, source, (frame_bytes, flows))?);
        Ok(())
    }

    /// Builds a generator and sends for a moment: some are installed and do not work with this kernel.
    fn try_out(
        &mut self,
        generator: Generator,
        spec: &PointSpec,
    ) -> Result<Result<Contestant, String>, RunError> {
        let mut contestant = Contestant::build(generator, spec, self.0.settings.seed, &mut self.0.journal)?;
        let mut outside =
            Outside { journal: &mut self.0.journal, stop: self.0.options.stop, progress: &|_, _| {} };
        Ok(match contestant.trial(WARM_UP, &mut outside) {
            Ok(_) => Ok(contestant),
            Err(Failed::Generator(why)) => Err(why),
            Err(Failed::Run(error)) => return Err(error),
        })
    }

    fn enter_wire(
        &mut self,
        load: WireLoad,
        (frame_bytes, flows): (u16, u32),
        list: &mut Vec<Entrant<'a>>,
    ) -> Result<(), RunError> {
        let spec = PointSpec::plain(DutKind::WIRE, frame_bytes, flows);
        let mut settings = settings(load.measures(), "weir", frame_bytes, flows);
        settings.extend(load.fps().map(|fps| ("offered_fps", fps.to_string())));
        let mut setup = Setup::build(&spec, &self.0.settings, &Faults::default(), &mut self.0.journal)?;
        let mut point = self.point_of("wire", &spec, settings, list.len());
        let own_cpu = load == WireLoad::Overload;
        if own_cpu {
            if setup.cpus().shared {
                return Ok(());
            }
            setup.receive_apart();
            point.notes.push("The receiver has a CPU of its own and is overloaded on purpose.".into());
        } else {
            point.notes.push("Generator and receiver share one CPU.".into());
        }
        point.notes.extend(setup.notes().iter().cloned());
        point.settings.push(("receiver_cpu".into(), if own_cpu { "own" } else { "the sender's" }.into()));
        point.cpus = setup.cpus().tester.clone();
        let source = Source::Wire(Box::new(setup), load);
        let mut entrant = self.entrant(point, source, (frame_bytes, flows))?;
        self.measured(&mut entrant, WARM_UP, Purpose::WarmUp)?;
        list.push(entrant);
        Ok(())
    }

    fn entrant(
        &self,
        mut point: Point,
        source: Source,
        (frame_bytes, flows): (u16, u32),
    ) -> Result<Entrant<'a>, RunError> {
        let kept = self.resumed.enter(&mut point, self.store)?;
        let series = Series::new(self, &point, kept);
        Ok(Entrant { point, source, frame_bytes, flows, rates: Vec::new(), series })
    }

    fn point_of(&self, dut: &str, spec: &PointSpec, settings: Vec<(&str, String)>, index: usize) -> Point {
        Point {
            frame: spec.frame.to_string(),
            frame_bytes_mean: spec.frame.mean(),
            ..self.point(index, dut, settings)
        }
    }

    /// One trial, or the one that an earlier part of this run made in its place; its rate in frames/s, if it has one.
    fn trial(
        &mut self,
        entrant: &mut Entrant<'a>,
        duration: Duration,
        purpose: Purpose,
    ) -> Result<Option<f64>, RunError> {
        match entrant.series.replay(&entrant.asked(duration, purpose)) {
            Some(trial) => Ok(rate(&trial)),
            None => self.measured(entrant, duration, purpose),
        }
    }

    /// One trial, kept and reported; its rate in frames/s, if it has one.
    fn measured(
        &mut self,
        entrant: &mut Entrant<'a>,
        duration: Duration,
        purpose: Purpose,
    ) -> Result<Option<f64>, RunError> {
        let Options { observe, stop, .. } = self.options;
        let offered_fps = if let Source::Wire(_, load) = &entrant.source { load.fps() } else { None };
        observe(Event::Trial { offered_fps, duration });
        let progress = |sent, received| observe(Event::Progress { sent, received });
        let mut trial = match &mut entrant.source {
            Source::Wire(setup, load) => {
                let load = Load { fps: load.fps(), ..Load::full_speed(duration) };
                setup.trial(&load, purpose, &Control::new(stop, &progress))?
            }
            Source::Generator(_, contestant) => {
                let Some(_turn) = measuring_lock(|| stop.load(Ordering::Relaxed))? else {
                    return Err(RunError::Interrupted(self.record.id));
                };
                let (begin, started) = (Instant::now(), time::now());
                let mut outside = Outside { journal: &mut self.journal, stop, progress: &progress };
                let sent = match contestant.trial(duration, &mut outside) {
                    Err(Failed::Run(error)) => return Err(error),
                    Err(Failed::Generator(why)) => Err(why),
                    Ok(sent) => Ok(sent),
                };
                let mut trial = self.judged(sent, duration);
                trial.started = started;
                trial.overhead_s = (begin.elapsed().as_secs_f64() - trial.duration_s).max(0.0);
                trial
            }
            Source::Absent => return Ok(None),
        };
        (trial.purpose, trial.key) = (purpose, entrant.asked(duration, purpose).key());
        if let Source::Wire(_, WireLoad::Overload) = entrant.source {
            excuse_overload(&mut trial);
        }
        Ok(rate(&entrant.series.keep(trial)?))
    }

    fn judged(&self, sent: Result<Sent, String>, duration: Duration) -> Trial {
        let nothing = Sent { offered: 0, sent: 0, received: 0, ring_full: 0, elapsed: duration, steal: 0.0 };
        let (sent, failure) = sent.map_or_else(|why| (nothing, Some(why)), |sent| (sent, None));
        let full = DropCounter {
            name: "ring full".into(),
            owner: Owner::Tester,
            frames: sent.ring_full,
            source: "tx_dropped of t0".into(),
        };
        let drop_counters: Vec<DropCounter> = Some(full).into_iter().filter(|line| line.frames > 0).collect();
        let accounting = Accounting {
            offered: sent.offered,
            sent: sent.sent,
            received: sent.received,
            drop_counters,
            ..Accounting::default()
        };
        let noise = Noise { steal: sent.steal, ..Noise::default() };
        let sent_fps = sent.sent as f64 / sent.elapsed.as_secs_f64();
        let mut trial =
            accounting.trial(&Load::full_speed(sent.elapsed), sent_fps, noise, &self.settings.limits);
        if let Some(why) = failure {
            (trial.verdict, trial.reasons) = (Verdict::Invalid, vec![why]);
        }
        trial
    }

    fn result(&self, entrant: &Entrant, all: &[Entrant]) -> PointResult {
        if entrant.rates.is_empty() {
            return PointResult { search: "left out".into(), ..PointResult::default() };
        }
        let trial_s = self.experiment.trial.as_secs_f64();
        let goal = result::goal(goal_name(&entrant.source), &entrant.rates, trial_s);
        let against = |other: &Entrant| -> Option<Comparison> {
            let alike = entrant.frame_bytes == other.frame_bytes
                && compares(entrant.generator()?, other.generator()?);
            let (own, others) = (entrant.rates.iter().copied(), other.rates.iter().copied());
            alike.then(|| comparison(own, Rated { point_index: other.point.index, rates: others }))?
        };
        let comparisons = all.iter().filter_map(against).collect();
        PointResult { search: "rounds".into(), goals: vec![goal], comparisons, ..PointResult::default() }
    }
}

/// Our generators against all peers, and with many flows against themselves with few.
fn compares((own, own_flows): (Generator, u32), (other, flows): (Generator, u32)) -> bool {
    match (own, other) {
        (Generator::Weir(_), Generator::Peer(_)) => true,
        (Generator::Weir(_), Generator::Weir(_)) => own == other && flows < own_flows,
        (Generator::Peer(_), _) => false,
    }
}

fn goal_name(source: &Source) -> &'static str {
    match source {
        Source::Wire(_, WireLoad::Paced(_)) => "pace",
        Source::Wire(..) => "received",
        Source::Generator(..) | Source::Absent => "rate",
    }
}

fn purpose(source: &Source) -> Purpose {
    if let Source::Wire(_, WireLoad::Paced(_)) = source { Purpose::Pacing } else { Purpose::FullSpeed }
}

/// The rate that a trial stands for: of departures where they were timed, else what arrived.
fn rate(trial: &Trial) -> Option<f64> {
    let departures = trial.noise.departures.as_ref().map(|d| d.rate_fps);
    let received = (trial.counts().received > 0).then(|| trial.counts().received as f64 / trial.duration_s);
    departures.or(received)
}

/// A receiver's ceiling is found by sending more than it takes; its losses are no fault.
fn excuse_overload(trial: &mut Trial) {
    if trial.verdict == Verdict::TesterLimited {
        trial.verdict = Verdict::Valid;
        trial.reasons.insert(0, "more was sent than the receiver takes, on purpose".into());
    }
}

/// Why a generator cannot take part, as far as can be said without trying.
fn absent(generator: Generator, frame_bytes: u16) -> Option<String> {
    let Generator::Peer(peer) = generator else { return None };
    command::cannot(peer, frame_bytes).or_else(|| programs::missing(peer.name(), super::PROGRAMS))
}

/// What a reader must know about how a generator was measured.
fn notes(generator: Generator) -> Vec<String> {
    let text = match generator {
        Generator::Weir(TesterKind::Xdp) => {
            "live frames from an XDP program, each with flow, number, time and checksums"
        }
        Generator::Weir(TesterKind::Packet) => "frames built one by one, sendmmsg on an AF_PACKET socket",
        Generator::Peer(Peer::Trafgen) => {
            "one prepared frame, one process, AF_PACKET ring without queueing discipline"
        }
        Generator::Peer(Peer::Tcpreplay) => "a capture of one frame, 1000 times, kept in memory, top speed",
        Generator::Peer(Peer::Iperf3) => {
            "UDP sockets, against its own server, which has another CPU; frames counted at the interface"
        }
        Generator::Peer(Peer::XdpTrafficgen) => "live frames from an XDP program, one prepared IPv6 frame",
    };
    vec![text.to_string()]
}

fn settings(
    measures: Measures,
    generator: &str,
    frame_bytes: u16,
    flows: u32,
) -> Vec<(&'static str, String)> {
    vec![
        (MEASURES, measures.name().to_string()),
        ("generator", generator.to_string()),
        ("frame_bytes", frame_bytes.to_string()),
        ("flows", flows.to_string()),
    ]
}

#[cfg(test)]
mod tests;
