//! Rounds of the experiment `peers-generator`.
//!
//! ```text
//! round 1: weir  weir-packet  trafgen  tcpreplay  iperf3  pacing  receiver
//! round 2: weir-packet  trafgen  tcpreplay  iperf3  pacing  receiver  weir      ...
//! ```
//! Pacing and the receiver are measured on the wire with the whole tester, in the same rounds.

use std::time::Duration;

use weir_lab::error::RunError;
use weir_lab::frames::verdict::Accounting;
use weir_lab::frames::{Limits, PointSpec, Setup};
use weir_lab::run::rounds::{Rated, comparison};
use weir_lab::run::series::{Asked, Series};
use weir_lab::run::{Event, Running};
use weir_load::Control;
use weir_load::counts::Load;
use weir_record::figure::goal_result;
use weir_record::record::{
    Comparison, GoalResult, GoalValue, Noise, Owner, PointResult, Purpose, Trial, Verdict,
};
use weir_record::run_data::{MEASURES, Measures};
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;

use super::sender::{Generator, Sender, Sent};
use super::{GeneratorPeers, PROGRAMS};
use crate::peers::contest::{self, Contest, Entrant, Kind, drop_counters, fault_of};

/// Before the first round: programs warm, pages in place.
const WARM_UP: Duration = Duration::from_millis(200);

/// A generator with its frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) generator: Generator,
    pub(super) frame_bytes: u16,
    pub(super) flows: u32,
}

/// What an entrant sends in each round.
pub(super) enum Source {
    /// As fast as it can, into an XDP drop.
    Generator(Stream, Box<Sender>),
    /// The whole tester on the wire, at this load.
    Wire(Box<Setup>, WireLoad),
}

/// What the whole tester sends itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WireLoad {
    /// Frames/s, to see how exactly they leave.
    Paced(f64),
    /// As much as generator and receiver manage together on one CPU.
    Full,
    /// More than the receiver takes on its own CPU: to see its ceiling, which is no fault of the trial.
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

impl Kind for GeneratorPeers {
    type Work = Source;
    /// Its rate in frames/s, if it has one.
    type Round = Option<f64>;

    fn enter_all(contest: &mut Contest<'_, Self>) -> Result<(), RunError> {
        contest.run.experiment.streams().into_iter().try_for_each(|stream| enter(contest, stream))?;
        let loads = GeneratorPeers::PACES_FPS.map(WireLoad::Paced).into_iter();
        loads.chain([WireLoad::Full, WireLoad::Overload]).try_for_each(|load| enter_wire(contest, load))
    }

    fn turn(
        run: &mut Running<'_, Self>,
        source: &mut Source,
        series: &mut Series<'_>,
        round: usize,
    ) -> Result<Option<f64>, RunError> {
        let (duration, purpose) = (run.experiment.trial, purpose(source));
        let asked = Asked::Named(format!("round {round}"), purpose, duration);
        let trial = match source {
            Source::Generator(Stream { generator, .. }, sender) => series.one(&asked, |control| {
                let sent = fault_of(sender.trial(duration, control, &mut run.journal))?;
                if let (Generator::Peer(_), Ok(sent)) = (generator, &sent) {
                    let (sent, received) = (sent.sent, sent.received);
                    (run.options.observe)(Event::Progress { sent, received });
                }
                Ok(judged(sent, duration, &run.settings.limits))
            })?,
            Source::Wire(setup, load) => match series.replay(&asked) {
                Some(trial) => trial,
                None => series.keep(on_wire(run, (setup, *load), (duration, purpose), asked.key())?)?,
            },
        };
        Ok(rate(&trial))
    }

    fn result(&self, source: &Source, rates: &[Option<f64>], all: &[Entrant<'_, Self>]) -> PointResult {
        let goal = goal(goal_name(source), rates, self.trial.as_secs_f64());
        let against = |other: &Entrant<'_, Self>| -> Option<Comparison> {
            let alike = compares(source.stream()?, other.work.as_ref()?.stream()?);
            let others = Rated { point_index: other.point.index, rates: other.rounds.iter().copied() };
            alike.then(|| comparison(rates.iter().copied(), others))?
        };
        let comparisons = all.iter().filter_map(against).collect();
        PointResult { search: "rounds".into(), goals: vec![goal], comparisons, ..PointResult::default() }
    }
}

/// Enters a generator. It sends for a moment first: some are installed and do not work with this kernel.
fn enter(contest: &mut Contest<'_, GeneratorPeers>, stream: Stream) -> Result<(), RunError> {
    if contest.skips() {
        return Ok(());
    }
    let Stream { generator, frame_bytes, flows } = stream;
    let spec = PointSpec::plain(DutKind::WIRE, frame_bytes, flows);
    let mut settings = settings(Measures::Generator, generator.name(), &spec);
    settings.push(("sink", generator.sink().into()));
    let mut point = contest.point(generator.name(), &spec.frame, settings);
    let sender = match absent(generator, frame_bytes) {
        Some(why) => Err(why),
        None => {
            let run = &mut contest.run;
            let mut sender = Sender::build(generator, &spec, run.settings.seed, &mut run.journal)?;
            let control = Control::new(run.options.stop, &|_, _| ());
            fault_of(sender.trial(WARM_UP, &control, &mut run.journal))?.map(|_| sender)
        }
    };
    match sender {
        Ok(sender) => {
            (point.cpus, point.notes) = (sender.cpus(), vec![generator.how().to_string()]);
            contest.enter(point, Some(Source::Generator(stream, Box::new(sender))))
        }
        Err(why) => {
            point.notes.push(contest.left_out(generator.name(), &why));
            contest.enter(point, None)
        }
    }
}

/// Why a generator cannot take part, as far as can be said without a try.
fn absent(generator: Generator, frame_bytes: u16) -> Option<String> {
    let Generator::Peer(peer) = generator else { return None };
    peer.cannot(frame_bytes).or_else(|| contest::missing(peer.name, PROGRAMS))
}

/// Enters the whole tester on the wire.
fn enter_wire(contest: &mut Contest<'_, GeneratorPeers>, load: WireLoad) -> Result<(), RunError> {
    if contest.skips() {
        return Ok(());
    }
    let experiment = contest.run.experiment;
    let spec = PointSpec::plain(DutKind::WIRE, experiment.frame_bytes[0], experiment.flows[0]);
    let mut settings = settings(load.measures(), "weir", &spec);
    settings.extend(load.fps().map(|fps| ("offered_fps", fps.to_string())));
    let run = &mut contest.run;
    let mut setup = Setup::build(&spec, &run.settings, &Faults::default(), &mut run.journal)?;
    let own_cpu = load == WireLoad::Overload;
    if own_cpu && setup.cpus().shared {
        return Ok(());
    }
    settings.push(("receiver_cpu", if own_cpu { "own" } else { "the sender's" }.into()));
    let mut point = contest.point("wire", &spec.frame, settings);
    if own_cpu {
        setup.receive_apart();
        point.notes.push("The receiver has a CPU of its own and is overloaded on purpose.".into());
    } else {
        point.notes.push("Generator and receiver share one CPU.".into());
    }
    point.notes.extend(setup.notes().iter().cloned());
    point.cpus = setup.cpus().tester.clone();
    contest.enter(point, Some(Source::Wire(Box::new(setup), load)))?;
    contest.warm_up(|run, source, series| {
        let Source::Wire(setup, load) = source else { return Ok(()) };
        let key = Some("round 1".to_string());
        series.keep(on_wire(run, (setup, *load), (WARM_UP, Purpose::WarmUp), key)?).map(drop)
    })
}

/// A trial of the whole tester.
fn on_wire(
    run: &Running<'_, GeneratorPeers>,
    (setup, wire_load): (&mut Setup, WireLoad),
    (duration, purpose): (Duration, Purpose),
    key: Option<String>,
) -> Result<Trial, RunError> {
    let observe = run.options.observe;
    let load = Load { fps: wire_load.fps(), ..Load::full_speed(duration) };
    observe(Event::Trial { offered_fps: load.fps, duration });
    let progress = |sent, received| observe(Event::Progress { sent, received });
    let mut trial = setup.trial(&load, purpose, &Control::new(run.options.stop, &progress))?;
    (trial.purpose, trial.key) = (purpose, key);
    if wire_load == WireLoad::Overload && trial.verdict == Verdict::TesterLimited {
        // A receiver's ceiling is found by sending more than it takes; its losses are no fault.
        trial.verdict = Verdict::Valid;
        trial.reasons.insert(0, "more was sent than the receiver takes, on purpose".into());
    }
    Ok(trial)
}

fn judged(sent: Result<Sent, String>, duration: Duration, limits: &Limits) -> Trial {
    let sent = match sent {
        Ok(sent) => sent,
        Err(why) => return contest::invalid(why, &Load::full_speed(duration), limits),
    };
    let accounting = Accounting {
        offered: sent.offered,
        sent: sent.sent,
        received: sent.received,
        drop_counters: drop_counters(Owner::Tester, &[("ring full", sent.ring_full, "tx_dropped of t0")]),
        ..Accounting::default()
    };
    let noise = Noise { steal: sent.steal, ..Noise::default() };
    let sent_fps = sent.sent as f64 / sent.elapsed.as_secs_f64();
    accounting.trial(&Load::full_speed(sent.elapsed), sent_fps, noise, limits)
}

/// The result of rounds with one rate each; `None` where a round gave none.
pub(super) fn goal(name: &str, rates: &[Option<f64>], trial_s: f64) -> GoalResult {
    let value = |rate: &Option<f64>| GoalValue {
        fps: *rate,
        irregular: rate.is_none().then(|| "no rate".to_string()),
        trials: 1,
        trial_s,
        ..GoalValue::default()
    };
    let parameters = vec![
        ("trial".to_string(), format!("{trial_s} s")),
        ("order".to_string(), "all alternately within a round, rotated from round to round".to_string()),
    ];
    goal_result(name, parameters, rates.iter().map(value).collect())
}

impl Source {
    fn stream(&self) -> Option<Stream> {
        if let Source::Generator(stream, _) = self { Some(*stream) } else { None }
    }
}

/// Generators of weir are compared with all peers, and with themselves with fewer flows; all with frames of the same size.
pub(super) fn compares(own: Stream, other: Stream) -> bool {
    let alike = match (own.generator, other.generator) {
        (Generator::Weir(_), Generator::Peer(_)) => true,
        (Generator::Weir(own_kind), Generator::Weir(kind)) => own_kind == kind && other.flows < own.flows,
        (Generator::Peer(_), _) => false,
    };
    alike && own.frame_bytes == other.frame_bytes
}

fn goal_name(source: &Source) -> &'static str {
    match source {
        Source::Wire(_, WireLoad::Paced(_)) => "pace",
        Source::Wire(..) => "received",
        Source::Generator(..) => "rate",
    }
}

fn purpose(source: &Source) -> Purpose {
    if let Source::Wire(_, WireLoad::Paced(_)) = source { Purpose::Pacing } else { Purpose::FullSpeed }
}

/// The rate that a trial stands for: of departures where they were timed, else of arrivals.
fn rate(trial: &Trial) -> Option<f64> {
    let departures = trial.noise.departures.as_ref().map(|d| d.rate_fps);
    let received = (trial.counts().received > 0).then(|| trial.counts().received as f64 / trial.duration_s);
    departures.or(received)
}

fn settings(measures: Measures, generator: &str, spec: &PointSpec) -> Vec<(&'static str, String)> {
    vec![
        (MEASURES, measures.name().to_string()),
        ("generator", generator.to_string()),
        ("frame_bytes", spec.frame.to_string()),
        ("flows", spec.flows.to_string()),
    ]
}
