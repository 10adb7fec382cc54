//! The rate of a method in overload, in times without stops of a CPU: the methods are compared by it. One stop of the host
//! decides what is captured without loss; the median over many short windows does not depend on it.
//!
//! ```text
//! each round, all methods, in random order:  full speed | windows of 16 ms, without those with a stop | > median
//!                                            median over the rounds, by where the CPUs were; ratios within the rounds
//! ```

use weir_measure::capacity::{Round, compared, places, rate, rates};
use weir_measure::placement::{Place, Probes};

use weir_measure::stats::median;
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::record::{Comparison, Figure, ProcedureResult, Statistic, Trial, Verdict};

/// The figure of a method.
const CAPTURED: &str = "captured in overload";
/// What the generator sent meanwhile.
const SENT: &str = "sent in overload";
/// A method that is sent less than this times what it captures is not in overload.
pub(super) const OVERLOADED: f64 = 1.05;

/// What a method has shown in the rounds so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Overload {
    rounds: Vec<Round>,
    probes: Vec<Probes>,
    /// What was sent in each round, frames/s.
    sent_fps: Vec<f64>,
    /// Windows in which everything ran, and all of them.
    windows: (usize, usize),
    /// Rounds in which the generator sent no more than was captured.
    short: usize,
}

/// A method that others are compared with.
pub(super) struct Reference<'a> {
    /// Its order in the run.
    pub(super) index: usize,
    pub(super) overload: &'a Overload,
}

/// What was captured of a trial, frames/s: over its windows, or, where stops are not looked for, all of it.
pub(super) fn captured(trial: &Trial) -> Option<f64> {
    match trial.windows.is_empty() {
        _ if trial.verdict == Verdict::Invalid => None,
        true => Some(trial.counts().received as f64 / trial.duration_s).filter(|fps| *fps > 0.0),
        false => rate(&trial.windows),
    }
}

impl Overload {
    /// Notes the trial of a round.
    pub(super) fn note(&mut self, trial: &Trial) {
        let (fps, sent_fps) = (captured(trial), trial.counts().offered_fps);
        let noise = &trial.noise;
        let core_step_ns = noise.core_step_ns.map_or([None; 2], |steps| steps.map(Some));
        let core_distance_ns = [noise.handover_ns, noise.handover_after_ns];
        self.probes.push(Probes { core_distance_ns, core_step_ns });
        self.rounds.push(Round { fps, place: None });
        self.sent_fps.push(sent_fps);
        self.short += usize::from(fps.is_some_and(|fps| sent_fps < OVERLOADED * fps));
        self.windows.0 += trial.windows.iter().filter(|window| window.ran).count();
        self.windows.1 += trial.windows.len();
    }

    /// Median of the rounds so far, wherever the CPUs were, frames/s.
    pub(super) fn so_far_fps(&self) -> Option<f64> {
        median(&self.rounds.iter().filter_map(|round| round.fps).collect::<Vec<_>>())
    }

    /// The figures in each of these places, and how they stand to those of the methods before it.
    pub(super) fn result(&self, headline: &[Option<Place>], references: &[Reference<'_>]) -> ProcedureResult {
        let mut found = ProcedureResult {
            procedure: procedure::CAPACITY.into(),
            parameters: self.parameters(),
            irregular: self.irregular(),
            ..ProcedureResult::default()
        };
        for &place in headline {
            found.figures.extend(self.figures(place));
            found.comparisons.extend(references.iter().filter_map(|reference| {
                let (ratio, rounds) = compared(&self.rounds, &reference.overload.rounds, place)?;
                let (ratio, interval) = (ratio.value, ratio.interval);
                Some(Comparison {
                    point_index: reference.index,
                    place,
                    ratio,
                    interval,
                    rounds,
                    ..Comparison::default()
                })
            }));
        }
        found
    }

    fn figures(&self, place: Option<Place>) -> Vec<Figure> {
        let of = |label: &str, values: Vec<f64>| {
            (!values.is_empty())
                .then(|| figure(name::at_place(label, place), unit::FRAMES_PER_S, Statistic::Median, values))
        };
        let there = self.rounds.iter().zip(&self.sent_fps).filter(|(round, _)| round.place == place);
        let sent = there.filter(|(round, _)| round.fps.is_some()).map(|(_, fps)| *fps).collect();
        of(CAPTURED, rates(&self.rounds, place)).into_iter().chain(of(SENT, sent)).collect()
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let (ran, all) = self.windows;
        vec![
            ("rounds".to_string(), self.rounds.len().to_string()),
            ("load".into(), "full speed".into()),
            ("windows in which all ran".into(), format!("{ran} of {all}")),
        ]
    }

    fn irregular(&self) -> Vec<String> {
        let all = self.rounds.len();
        let mut list = Vec::new();
        // As the figure is a median.
        if 2 * self.short >= all && self.short > 0 {
            list.push(format!(
                "In {} of {all} rounds the generator sent less than 1.05 times the captured frames: the captured rate \
                 is a lower bound.",
                self.short
            ));
        }
        let lost = self.rounds.iter().filter(|round| round.fps.is_none()).count();
        if lost > 0 {
            list.push(format!("{lost} of {all} rounds found no rate and were not used."));
        }
        let known = self.rounds.iter().any(|round| round.place.is_some());
        let moved = self.rounds.iter().filter(|round| round.fps.is_some() && round.place.is_none()).count();
        if known && moved > 0 {
            list.push(format!(
                "In {moved} of {all} rounds the host moved a virtual CPU, or used its core for other guests: these rounds were not used."
            ));
        }
        list
    }
}

/// Gives the rounds of all methods their places. Returns the places, that of the headline first.
pub(super) fn placed(all: &mut [&mut Overload]) -> Vec<Option<Place>> {
    let probes = all.iter().flat_map(|one| &one.probes).flat_map(|probes| probes.core_step_ns);
    let shortest_ns = probes.flatten().reduce(f64::min).unwrap_or(f64::INFINITY);
    for one in all.iter_mut() {
        let rounds = one.rounds.iter_mut().zip(&one.probes);
        rounds.for_each(|(round, probes)| round.place = probes.place(shortest_ns));
    }
    places(all.iter().flat_map(|one| &one.rounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::capacity::Window;
    use weir_measure::placement::Placement;
    use weir_record::fixture::clean_trial;
    use weir_record::record::Noise;

    /// A trial that captures so much in windows of 10 ms, in the third of which the host stops the reader.
    fn trial(fps: f64, sent_fps: f64, core_distance_ns: [f64; 2]) -> Trial {
        let window = |i: u64| {
            let frames = if i == 2 { 0 } else { (fps / 100.0) as u64 };
            Window { at_ns: i, ns: 10_000_000, frames, ran: i != 2 }
        };
        let [before, after] = core_distance_ns.map(Some);
        let noise = Noise { handover_ns: before, handover_after_ns: after, ..Noise::default() };
        Trial { windows: (0..5).map(window).collect(), noise, ..clean_trial() }
            .counting(|counts| counts.offered_fps = sent_fps)
    }

    fn noted(trials: &[Trial]) -> Overload {
        let mut overload = Overload::default();
        trials.iter().for_each(|trial| overload.note(trial));
        overload
    }

    const NEAR: [f64; 2] = [30.0; 2];
    const FAR: [f64; 2] = [160.0; 2];

    #[test]
    fn rounds_count_where_the_cpus_were_and_without_their_stops() {
        let of = |fps: f64| {
            noted(&[
                trial(fps, 9e6, NEAR),
                trial(fps / 2.0, 9e6, FAR),
                trial(1.2 * fps, 9e6, NEAR),
                // The host moved a CPU.
                trial(fps, 9e6, [30.0, 160.0]),
                trial(1.1 * fps, 9e6, NEAR),
            ])
        };
        let (mut ring, mut xdp) = (of(1e6), of(2e6));
        let places = placed(&mut [&mut ring, &mut xdp]);
        let near = Some(Place { disturbed: false, placement: Placement::NearCores });
        assert_eq!((places.len(), places[0]), (2, near));
        let found = xdp.result(&places, &[Reference { index: 4, overload: &ring }]);
        let figures: Vec<_> = found
            .figures
            .iter()
            .map(|figure| (figure.name.as_str(), figure.value, figure.values.len()))
            .collect();
        assert_eq!(
            figures,
            [
                ("captured in overload (near cores)", Some(2.2e6), 3),
                ("sent in overload (near cores)", Some(9e6), 3),
                ("captured in overload (far cores)", Some(1e6), 1),
                ("sent in overload (far cores)", Some(9e6), 1),
            ]
        );
        let ratios: Vec<_> = found.comparisons.iter().map(|c| (c.point_index, c.ratio, c.rounds)).collect();
        assert_eq!(ratios, [(4, 2.0, 3), (4, 2.0, 1)]);
        assert!(found.parameters.contains(&("windows in which all ran".into(), "20 of 25".into())));
        assert_eq!(found.irregular.len(), 1, "one was moved: {:?}", found.irregular);
    }

    #[test]
    fn a_method_that_gets_hardly_more_than_it_captures_has_a_bound() {
        for (sent_fps, bounds) in [([1.04e6, 1.04e6, 2e6], true), ([1.04e6, 2e6, 2e6], false)] {
            let found = noted(&sent_fps.map(|sent| trial(1e6, sent, NEAR))).result(&[None], &[]);
            assert_eq!(
                found.irregular.iter().any(|text| text.contains("a lower bound")),
                bounds,
                "{sent_fps:?}"
            );
        }
        let invalid = Trial { verdict: Verdict::Invalid, ..trial(1e6, 9e6, NEAR) };
        let whole = Trial { windows: Vec::new(), duration_s: 0.5, ..trial(1e6, 9e6, NEAR) }
            .counting(|counts| counts.received = 500);
        assert_eq!((captured(&invalid), captured(&whole)), (None, Some(1000.0)));
    }
}
