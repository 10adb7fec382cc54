//! Forwarding capacity: the rate of each device in steady overload. Rounds go over all points of the plan, so that changes
//! of the machine's speed affect all of them alike.
//!
//! ```text
//! each point:  as fast as can be paced > 135 % of what was forwarded > again, until that is the load
//! each round:  kernel-nat 64   kernel-forward 1518   kernel-forward 64 ..    in random order, 0.2 s each
//!              | windows of 16 ms | > median                                 > median over the rounds; ratios within them
//! ```
//! Rounds are kept apart by where the CPUs were meanwhile ([`Place`]).

use std::time::Duration;

use weir_load::counts::Load;
use weir_measure::capacity::{self, Overload, Round, compared, places, rates};
use weir_measure::placement::{Place, Probes};

use super::CapacitySpec;
use super::measuring::{CEILING_SHARE, Measuring, WARM_UP};
use super::trials::Trials;
use weir_lab::error::RunError;
use weir_lab::frames::{Setup, load_parameters};
use weir_lab::run::Event;
use weir_measure::stats;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{Comparison, Owner, Point, ProcedureResult, Purpose, Statistic, Trial, Verdict};

/// The load is right between these shares of what is wanted.
const LOW: f64 = 0.89;
const HIGH: f64 = 1.11;

/// What a point has of its capacity.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacity {
    /// The next load, frames/s.
    next_fps: f64,
    /// What each round found.
    pub(super) rounds: Vec<Round>,
    /// What was probed around each round.
    probes: Vec<Probes>,
    /// Loads of the rounds, frames/s.
    loads_fps: Vec<f64>,
    /// Windows in which everything ran, and all of them.
    windows: (usize, usize),
    /// Reference cycles of the device for a frame, by round.
    cycles: Vec<Option<f64>>,
    /// Rounds in which the tester could not overload the device.
    short: usize,
}

/// A point in the rounds: its device, and what they have found so far.
pub(super) struct Overloaded<'e, 'a> {
    pub(super) point: &'e Point,
    pub(super) setup: &'e mut Setup,
    pub(super) trials: &'e mut Trials<'a>,
    /// What the tester manages with nothing in between, frames/s.
    pub(super) ceiling_fps: f64,
    pub(super) capacity: &'e mut Capacity,
}

/// What capacities are compared with: the first point of the plan with the same traffic, and the kernel's device that does the
/// same job.
pub(super) struct Reference<'a> {
    /// Its order in the run.
    pub(super) index: usize,
    /// What its rounds found.
    pub(super) rounds: &'a [Round],
}

impl Measuring<'_> {
    /// All rounds of all points: together as long as `ahead` of the `count` turns of the run.
    pub(super) fn capacity(
        &self,
        spec: &CapacitySpec,
        all: &mut [Overloaded<'_, '_>],
        (ahead, count): (usize, usize),
    ) -> Result<(), RunError> {
        let (n, rounds) = (all.len(), spec.rounds as usize);
        let observe = self.options.observe;
        let share = |done: usize| (ahead * done) as f64 / (n * (1 + rounds)) as f64;
        for (done, entrant) in all.iter_mut().enumerate() {
            observe(Event::Point { index: Some(share(done) as usize), count, point: entrant.point });
            self.approach(spec, entrant)?;
        }
        for round in 1..=rounds {
            for (done, i) in capacity::order(self.record.seed, round - 1, n).into_iter().enumerate() {
                let (done, point) = (share(n * round + done), all[i].point);
                observe(Event::Round { number: round, of: rounds, done, count, point });
                turn(spec, &mut all[i])?;
                let so_far = all[i].capacity.fps(&[None]);
                so_far.into_iter().for_each(|fps| observe(Event::SoFar(all[i].point, fps)));
            }
        }
        Ok(())
    }

    /// Finds the load of a point: so many times what the device forwards of it.
    fn approach(&self, spec: &CapacitySpec, point: &mut Overloaded<'_, '_>) -> Result<(), RunError> {
        let Overloaded { setup, trials, ceiling_fps, capacity, .. } = point;
        let overload = overload(spec, *ceiling_fps);
        let min = self.experiment.search.min_fps().min(*ceiling_fps);
        trials.one(setup, &Load::steady(min, WARM_UP), Purpose::WarmUp)?;
        let mut fps = overload.most_fps;
        for _ in 0..CapacitySpec::APPROACH {
            let trial = trials.one(setup, &Load::overload(fps, spec.trial), Purpose::Procedure)?;
            let Some(forwarded) = forwarded(&trial) else { continue };
            let next = overload.next_fps(fps, forwarded);
            if next == fps {
                break;
            }
            fps = next;
        }
        capacity.next_fps = fps;
        Ok(())
    }
}

fn turn(spec: &CapacitySpec, point: &mut Overloaded<'_, '_>) -> Result<(), RunError> {
    let Overloaded { setup, trials, ceiling_fps, capacity, .. } = point;
    let trial = trials.one(setup, &Load::overload(capacity.next_fps, spec.trial), Purpose::Procedure)?;
    capacity.note(&trial, &overload(spec, *ceiling_fps));
    Ok(())
}

fn overload(spec: &CapacitySpec, ceiling_fps: f64) -> Overload {
    let times = spec.percent / 100.0;
    Overload { times, least: times * LOW, most: times * HIGH, most_fps: ceiling_fps * CEILING_SHARE }
}

/// Is this one of the trials in which arrivals were noted, whatever else its load was?
fn is_of_capacity(trial: &Trial) -> bool {
    let load = Load { overload: true, ..Load::full_speed(Duration::ZERO) };
    trial.purpose == Purpose::Procedure && load_parameters(&load).iter().all(|one| trial.load.contains(one))
}

/// What a device forwarded in a trial, frames/s: over its windows, or, where arrivals are not noted, all of it. What the
/// tester could not send does not matter in overload, but what it lost itself does.
fn forwarded(trial: &Trial) -> Option<f64> {
    if trial.verdict == Verdict::Invalid || trial.dropped_by(Owner::Tester) > trial.counts().sent / 1000 {
        return None;
    }
    if trial.windows.is_empty() {
        Some(trial.counts().received as f64 / trial.duration_s).filter(|fps| *fps > 0.0)
    } else {
        capacity::rate(&trial.windows)
    }
}

impl Capacity {
    fn note(&mut self, trial: &Trial, overload: &Overload) {
        let fps = forwarded(trial);
        let offered = trial.sent_fps();
        self.short += usize::from(fps.is_some_and(|fps| !capacity::is_overloaded(offered, fps)));
        let noise = &trial.noise;
        let core_step_ns = noise.core_step_ns.map_or([None; 2], |steps| steps.map(Some));
        let core_distance_ns = [noise.handover_ns, noise.handover_after_ns];
        self.probes.push(Probes { core_distance_ns, core_step_ns });
        self.rounds.push(Round { fps, place: None });
        self.loads_fps.push(trial.counts().offered_fps);
        self.cycles.push(trial.cost.cycles_per_frame.filter(|_| fps.is_some()));
        self.windows.0 += trial.windows.iter().filter(|w| w.ran).count();
        self.windows.1 += trial.windows.len();
        if let Some(fps) = fps {
            self.next_fps = overload.next_fps(trial.counts().offered_fps, fps);
        }
    }

    /// That of a point of which an earlier part of this run made all rounds.
    pub(super) fn of_kept(spec: &CapacitySpec, trials: &[Trial]) -> Capacity {
        let mut capacity = Capacity::default();
        let made: Vec<&Trial> = trials.iter().filter(|trial| is_of_capacity(trial)).collect();
        let rounds = made.len().saturating_sub(spec.rounds as usize);
        // Loads of further rounds are of no interest.
        made[rounds..].iter().for_each(|trial| capacity.note(trial, &overload(spec, f64::INFINITY)));
        capacity
    }

    /// The shortest step of the probes of its core, ns.
    pub(super) fn shortest_step_ns(&self) -> Option<f64> {
        self.probes.iter().flat_map(|probes| probes.core_step_ns).flatten().reduce(f64::min)
    }

    /// Gives each round its place, where the shortest step of the run was this.
    pub(super) fn place(&mut self, shortest_ns: f64) {
        let rounds = self.rounds.iter_mut().zip(&self.probes);
        rounds.for_each(|(round, probes)| round.place = probes.place(shortest_ns));
    }

    /// Median of the rounds in the first of these places that it has, frames/s.
    pub(super) fn fps(&self, headline: &[Option<Place>]) -> Option<f64> {
        headline.iter().find_map(|place| stats::median(&rates(&self.rounds, *place)))
    }

    /// What the rounds found, and how it relates to the references, of which the first has a figure. `headline` are the places
    /// of the run, that of the headline first.
    pub(super) fn result(
        &self,
        spec: &CapacitySpec,
        headline: &[Option<Place>],
        references: &[Reference<'_>],
    ) -> ProcedureResult {
        let mut found = ProcedureResult {
            procedure: procedure::CAPACITY.into(),
            parameters: self.parameters(spec),
            irregular: self.irregular(),
            ..ProcedureResult::default()
        };
        for place in headline {
            let values = rates(&self.rounds, *place);
            if values.is_empty() {
                continue;
            }
            let label = name::at_place(name::CAPACITY, *place);
            found.figures.push(figure(label, unit::FRAMES_PER_S, Statistic::Median, values));
            let there = self.rounds.iter().zip(&self.cycles).filter(|(round, _)| round.place == *place);
            let cycles: Vec<f64> = there.filter_map(|(_, cycles)| *cycles).collect();
            if !cycles.is_empty() {
                let label = name::at_place(name::CYCLES, *place);
                found.figures.push(figure(label, unit::CYCLES, Statistic::Median, cycles));
            }
            found.comparisons.extend(references.iter().filter_map(|reference| {
                let (ratio, rounds) = compared(&self.rounds, reference.rounds, *place)?;
                let (point_index, interval) = (reference.index, ratio.interval);
                let ratio = ratio.value;
                Some(Comparison {
                    point_index,
                    place: *place,
                    ratio,
                    interval,
                    rounds,
                    ..Comparison::default()
                })
            }));
            let Some(reference) = references.first() else { continue };
            let by = name::at_place(name::CAPACITY_RATIO, *place);
            let pairs = self.rounds.iter().zip(reference.rounds);
            let there = |round: &Round| round.fps.filter(|_| round.place == *place);
            let ratios: Vec<f64> = pairs.filter_map(|(a, b)| Some(there(a)? / there(b)?)).collect();
            if !ratios.is_empty() {
                found.figures.push(figure(by, unit::TIMES, Statistic::Median, ratios));
            }
        }
        found
    }

    fn parameters(&self, spec: &CapacitySpec) -> Vec<(String, String)> {
        let (least, most) = self
            .loads_fps
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(low, high), fps| (low.min(*fps), high.max(*fps)));
        let mut list = vec![
            ("rounds".to_string(), self.rounds.len().to_string()),
            ("trial".into(), format!("{} s", spec.trial.as_secs_f64())),
            ("overload".into(), format!("{} % of what is forwarded", spec.percent)),
        ];
        if most > 0.0 {
            list.push(("load".into(), format!("{} to {} frames/s", least.round(), most.round())));
        }
        let (ran, all) = self.windows;
        list.push(("windows in which all ran".into(), format!("{ran} of {all}")));
        list
    }

    /// Was the device not in overload in half of the rounds? Then it may have more.
    fn is_short(&self) -> bool {
        2 * self.short >= self.rounds.len()
    }

    fn irregular(&self) -> Vec<String> {
        let mut list = Vec::new();
        if self.short > 0 {
            list.push(format!(
                "In {} of {} rounds the tester could not offer more than the device forwards{}.",
                self.short,
                self.rounds.len(),
                if self.is_short() { ": the capacity is a lower bound" } else { "" }
            ));
        }
        let lost = self.rounds.iter().filter(|round| round.fps.is_none()).count();
        if lost > 0 {
            list.push(format!("{lost} of {} rounds found no rate and were not used.", self.rounds.len()));
        }
        let known = self.rounds.iter().any(|round| round.place.is_some());
        let moved = self.rounds.iter().filter(|r| r.fps.is_some() && r.place.is_none()).count();
        if known && moved > 0 {
            list.push(format!(
                "In {moved} rounds a virtual CPU was moved, or the load of other guests on the device's core changed, or this is unknown: these rounds were not used."
            ));
        }
        list
    }
}

/// The places of all points together, that of the headline first.
pub(super) fn headline<'a>(all: impl IntoIterator<Item = &'a Capacity>) -> Vec<Option<Place>> {
    places(all.into_iter().flat_map(|capacity| &capacity.rounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::capacity::Window;
    use weir_measure::placement::Placement;
    use weir_record::fixture::clean_trial;
    use weir_record::record::{DropCounter, Noise};

    const SPEC: CapacitySpec = CapacitySpec { rounds: 4, trial: Duration::from_millis(200), percent: 135.0 };

    fn trial(fps: f64, core_distance_ns: [f64; 2]) -> Trial {
        let window = |i: u64| Window { at_ns: i, ns: 10_000_000, frames: (fps / 100.0) as u64, ran: i != 2 };
        let [before, after] = core_distance_ns.map(Some);
        let noise = Noise { handover_ns: before, handover_after_ns: after, ..Noise::default() };
        Trial { windows: (0..5).map(window).collect(), noise, ..clean_trial() }
            .counting(|c| c.offered_fps = 1.35e6)
    }

    fn at(placement: Placement) -> Option<Place> {
        Some(Place { disturbed: false, placement })
    }

    fn noted(trials: &[Trial]) -> Capacity {
        let mut capacity = Capacity { next_fps: 1.35e6, ..Capacity::default() };
        trials.iter().for_each(|trial| capacity.note(trial, &overload(&SPEC, 5e6)));
        capacity.place(1.0);
        capacity
    }

    #[test]
    fn rounds_are_figures_of_their_place_and_ratios_of_the_same_rounds() {
        let (near, far) = ([30.0, 31.0], [160.0, 150.0]);
        let one =
            noted(&[trial(1e6, near), trial(0.5e6, far), trial(1.1e6, near), trial(1e6, [30.0, 160.0])]);
        let two = noted(&[trial(0.8e6, near), trial(0.3e6, far), trial(0.88e6, near), trial(9e6, near)]);
        let classes = headline([&one, &two]);
        assert_eq!(classes, [at(Placement::NearCores), at(Placement::FarCores)]);
        let references =
            [Reference { index: 7, rounds: &one.rounds }, Reference { index: 8, rounds: &two.rounds }];
        let found = two.result(&SPEC, &classes, &references);
        let figures: Vec<_> =
            found.figures.iter().map(|f| (f.name.as_str(), f.value, f.values.len())).collect();
        assert_eq!(
            figures,
            [
                ("forwarding capacity (near cores)", Some(0.88e6), 3),
                ("capacity by the reference (near cores)", Some(0.8), 2),
                ("forwarding capacity (far cores)", Some(0.3e6), 1),
                ("capacity by the reference (far cores)", Some(0.6), 1),
            ]
        );
        let ratios: Vec<_> = found.comparisons.iter().map(|c| (c.point_index, c.ratio, c.rounds)).collect();
        assert_eq!(ratios, [(7, 0.8, 2), (8, 1.0, 3), (7, 0.6, 1), (8, 1.0, 1)]);
        let first = one.result(&SPEC, &classes, &[]);
        assert_eq!(first.figures[0].value, Some(1.05e6));
        assert_eq!(first.irregular.len(), 1, "one was moved: {:?}", first.irregular);
        assert!(first.parameters.contains(&("windows in which all ran".into(), "16 of 20".into())));
    }

    #[test]
    fn a_trial_that_says_nothing_of_the_device_does_not_count() {
        let own = |frames| {
            vec![DropCounter { name: "ring".into(), owner: Owner::Tester, frames, source: String::new() }]
        };
        let good = trial(1e6, [30.0; 2]);
        let sent = good.counts().sent;
        for (trial, expected) in [
            (good.clone(), Some(1e6)),
            (Trial { verdict: Verdict::TesterLimited, ..good.clone() }, Some(1e6)),
            (Trial { verdict: Verdict::Invalid, ..good.clone() }, None),
            (Trial { drop_counters: own(sent / 10), ..good.clone() }, None),
            (
                Trial { windows: Vec::new(), duration_s: 0.5, ..good.clone() }.counting(|c| c.received = 500),
                Some(1000.0),
            ),
        ] {
            assert_eq!(forwarded(&trial), expected, "{trial:?}");
        }
        let idle = noted(&[trial(1.34e6, [30.0; 2])]);
        assert_eq!(
            idle.result(&SPEC, &[at(Placement::NearCores)], &[]).irregular,
            [
                "In 1 of 1 rounds the tester could not offer more than the device forwards: the capacity is a lower bound."
            ]
        );
        assert_eq!(idle.next_fps, 1.34e6 * 1.35);
        let none = noted(&[]).result(&SPEC, &[], &[]);
        assert_eq!(none.figures, []);
    }
}
