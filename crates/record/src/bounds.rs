//! Marks of capacities that are bounds: the tester was the limit, or the interval is too wide. They follow from the trials
//! and from the tester's ceiling, so that records of earlier versions have them, too.

use weir_measure::capacity::{self, Offer, is_lower_bound};

use crate::figure::{name, procedure};
use crate::record::{Bound, ProcedureResult, Trial};
use crate::run_data::{PointData, RunData, received_fps};

/// The settings of a point that the tester's ceiling depends on.
const TRAFFIC: [&str; 4] = ["frame_bytes", "ip", "transport", "direction"];

impl RunData {
    /// Marks each capacity, and each ratio of two, with how it relates to the true value.
    pub fn mark_bounds(&mut self) {
        let bounds: Vec<(usize, Bound)> =
            self.points.iter().map(|point| (point.point.index, self.bound_of(point))).collect();
        let of = |index: usize| bounds.iter().find(|(i, _)| *i == index).map_or(Bound::Exact, |(_, b)| *b);
        for point in &mut self.points {
            let own = of(point.point.index);
            let procedures = point.point.result.iter_mut().flat_map(|result| &mut result.procedures);
            for found in procedures.filter(|found| found.procedure == procedure::CAPACITY) {
                mark(found, own, of);
            }
        }
    }

    /// The tester's rate at the traffic of this point with no device in between, frames/s.
    pub fn ceiling_fps(&self, point: &PointData) -> Option<f64> {
        let has_traffic = |other: &&PointData| {
            other.point.frame == point.point.frame
                && TRAFFIC.iter().all(|name| other.setting(name) == point.setting(name))
        };
        self.points.iter().filter(|other| other.is_ceiling()).find(has_traffic)?.headline_fps()
    }

    /// How the capacity of a point relates to the true one, its interval aside.
    fn bound_of(&self, point: &PointData) -> Bound {
        let figure = point.capacity().and_then(|capacity| capacity.figures.first());
        let Some(fps) = figure.and_then(|figure| figure.value) else { return Bound::Exact };
        let offers: Vec<Offer> = point.trials.iter().filter_map(offer).collect();
        let is_bound = is_lower_bound(fps, self.ceiling_fps(point), &offers);
        if is_bound { Bound::AtLeast } else { Bound::Exact }
    }
}

/// What was offered and forwarded in a trial of the capacity.
fn offer(trial: &Trial) -> Option<Offer> {
    let is_of_capacity = trial.load.iter().any(|(name, _)| name == "arrivals");
    let forwarded_fps =
        if trial.windows.is_empty() { Some(received_fps(trial)) } else { capacity::rate(&trial.windows) };
    let forwarded_fps = forwarded_fps.filter(|fps| is_of_capacity && *fps > 0.0)?;
    Some(Offer { offered_fps: trial.sent_fps(), forwarded_fps })
}

fn mark(found: &mut ProcedureResult, own: Bound, of: impl Fn(usize) -> Bound) {
    for comparison in &mut found.comparisons {
        comparison.bound = own.over(of(comparison.point_index)).within(comparison.interval);
    }
    let ratio =
        found.comparisons.first().map_or(Bound::Exact, |comparison| own.over(of(comparison.point_index)));
    for figure in &mut found.figures {
        let bound = match figure.name.as_str() {
            name if name.starts_with(name::CAPACITY) => own,
            name if name.starts_with(name::CAPACITY_RATIO) => ratio,
            _ => continue,
        };
        figure.bound = bound.within(figure.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{figure, unit};
    use crate::fixture;
    use crate::record::{Comparison, FrameCounts, PointResult, Purpose, Statistic};

    /// Frames/s, for which a tester with a ceiling of 331k offers `offered` times as much.
    struct Device {
        name: &'static str,
        rounds: [f64; 6],
        offered: f64,
    }

    fn run(devices: &[Device]) -> RunData {
        let mut data = RunData { run: fixture::run(1), points: vec![fixture::point(0, "wire", 1518, 331e3)] };
        let mut other_size = fixture::point(9, "wire", 64, 4e6);
        other_size.point.index = 9;
        data.points.push(other_size);
        data.points.extend(devices.iter().zip(1..).map(|(device, index)| point(device, index)));
        data.mark_bounds();
        data
    }

    fn point(device: &Device, index: usize) -> PointData {
        let trial = |fps: &f64| {
            let frames = FrameCounts {
                received: *fps as u64,
                offered_fps: fps * device.offered,
                ..FrameCounts::default()
            };
            Trial {
                purpose: Purpose::Procedure,
                duration_s: 1.0,
                load: vec![("arrivals".into(), "counted in windows".into())],
                frames: Some(frames),
                ..Trial::default()
            }
        };
        let of = |name: &str, unit, values: &[f64]| figure(name, unit, Statistic::Median, values.to_vec());
        let mut data = fixture::point(index, device.name, 1518, 1e5);
        data.trials = device.rounds.iter().map(trial).collect();
        let result = ProcedureResult {
            procedure: procedure::CAPACITY.into(),
            figures: vec![
                of("forwarding capacity (near cores)", unit::FRAMES_PER_S, &device.rounds),
                of("cycles per frame (near cores)", unit::CYCLES, &[900.0; 6]),
                of("capacity by the reference (near cores)", unit::TIMES, &[1.0; 6]),
            ],
            comparisons: vec![Comparison { point_index: 1, ratio: 1.0, rounds: 6, ..Comparison::default() }],
            ..ProcedureResult::default()
        };
        data.point.result = Some(PointResult::without_search("rounds", result));
        data
    }

    #[test]
    fn what_the_tester_limits_is_a_lower_bound() {
        use Bound::{AtLeast, AtMost, Exact, NoResult};
        let device = |name, fps, offered| Device { name, rounds: [fps; 6], offered };
        let swinging = [5.7e3, 5.7e3, 200e3, 300e3, 327e3, 327e3];
        let data = run(&[
            device("kernel-forward", 323e3, 1.3),
            device("kernel-nat", 325e3, 1.3),
            device("kernel-stateful", 200e3, 1.04),
            device("kernel-stateless", 200e3, 1.3),
            Device { name: "node-nat", rounds: swinging, offered: 1.3 },
        ]);
        let marks: Vec<Vec<Bound>> = data.points[2..]
            .iter()
            .map(|point| {
                let capacity = point.capacity().expect("a capacity");
                let figures = capacity.figures.iter().map(|figure| figure.bound);
                figures.chain(capacity.comparisons.iter().map(|comparison| comparison.bound)).collect()
            })
            .collect();
        assert_eq!(
            marks,
            [
                [AtLeast, Exact, NoResult, NoResult],
                [AtLeast, Exact, NoResult, NoResult],
                [AtLeast, Exact, NoResult, NoResult],
                [Exact, Exact, AtMost, AtMost],
                [NoResult, Exact, AtMost, AtMost],
            ]
        );
        let unlimited = run(&[device("kernel-forward", 200e3, 1.3), device("kernel-nat", 100e3, 1.3)]);
        let figures =
            unlimited.points.iter().filter_map(PointData::capacity).flat_map(|found| &found.figures);
        assert!(figures.into_iter().all(|figure| figure.bound == Exact));
    }

    #[test]
    fn the_mark_is_in_the_json_where_it_says_something() {
        let data = run(&[Device { name: "kernel-forward", rounds: [323e3; 6], offered: 1.3 }]);
        let json = serde_json::to_string(&data).expect("JSON");
        assert_eq!(json.matches(r#""bound":"at-least""#).count(), 1, "{json}");
        assert_eq!(serde_json::from_str::<RunData>(&json).expect("a run"), data);
    }
}
