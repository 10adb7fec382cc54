//! A point over time: rates, windows and the queue, in few samples; and the reaction to each change of the rate.

use serde::{Deserialize, Serialize};
use weir_queue::Time;
use weir_sim::{FlowSeries, Rate, Scenario, Series};

use weir_record::figure::{figure, unit};
use weir_record::record::{Detail, Figure, Statistic};

/// Samples that are kept; a drawing has no room for more.
const SAMPLES: usize = 150;
/// So many flows are kept one by one; of more, groups are.
const SINGLE_FLOWS: usize = 4;
/// The link counts as filled from here on, ..
const FILLED: f64 = 0.9;
/// .. in so many intervals one after another.
const INTERVALS: usize = 5;

/// Rates, windows and the queue over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct History {
    /// Time between two samples, each a mean of it.
    pub(super) interval_s: f64,
    pub(super) queue_bytes: Vec<f64>,
    pub(super) lines: Vec<Line>,
}

/// A flow, or the mean of a group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) bits_per_s: Vec<f64>,
    /// Segments.
    pub(super) cwnd: Vec<f64>,
}

impl Detail for History {
    const KEY: &'static str = "history";
}

impl History {
    /// Of flows in the order of the scenario's groups.
    pub(super) fn of(series: &Series, scenario: &Scenario) -> History {
        let every = series.queue_bytes.len().div_ceil(SAMPLES).max(1);
        let queue: Vec<f64> = series.queue_bytes.iter().map(|&bytes| bytes as f64).collect();
        let mut lines = Vec::new();
        let mut flows = &series.flows[..];
        let several_rtts = scenario.groups.iter().any(|group| group.rtt != scenario.groups[0].rtt);
        for group in &scenario.groups {
            let (own, rest) = flows.split_at(flows.len().min(group.flows as usize));
            flows = rest;
            let rtt = if several_rtts { format!(", {} ms", group.rtt.secs() * 1e3) } else { String::new() };
            let name = format!("{}{rtt}", group.cc.text());
            if series.flows.len() > SINGLE_FLOWS {
                lines.push(line(format!("{name}, mean of {}", own.len()), own, every));
                continue;
            }
            for (number, flow) in (1..).zip(own) {
                let number = if own.len() > 1 { format!(", flow {number}") } else { String::new() };
                lines.push(line(format!("{name}{number}"), std::slice::from_ref(flow), every));
            }
        }
        History { interval_s: series.interval_s * every as f64, queue_bytes: thinned(&queue, every), lines }
    }
}

fn line(name: String, flows: &[FlowSeries], every: usize) -> Line {
    let mean = |of: fn(&FlowSeries) -> &[f64]| {
        let samples = flows.iter().map(|flow| of(flow).len()).min().unwrap_or(0);
        let at = |i: usize| flows.iter().map(|flow| of(flow)[i]).sum::<f64>() / flows.len() as f64;
        thinned(&(0..samples).map(at).collect::<Vec<f64>>(), every)
    };
    Line { name, bits_per_s: mean(|flow| &flow.bits_per_s), cwnd: mean(|flow| &flow.cwnd) }
}

/// The mean of each so many values, to four digits.
fn thinned(values: &[f64], every: usize) -> Vec<f64> {
    let mean = |part: &[f64]| rounded(part.iter().sum::<f64>() / part.len() as f64);
    values.chunks(every).map(mean).collect()
}

fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let unit = 10f64.powf(value.abs().log10().floor() - 3.0);
    (value / unit).round() * unit
}

/// What followed a change of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Response {
    /// When it was, s.
    pub(super) at_s: f64,
    /// The new rate.
    pub(super) bits_per_s: u64,
    /// After which time flows filled 90 % of it for half a second; `None`: not before the next change.
    pub(super) filled_after_s: Option<f64>,
    /// The longest time that the queue needed at the new rate, until the next change.
    pub(super) longest_queue_s: f64,
}

impl Response {
    /// Of all changes that a scenario has.
    pub(super) fn all(series: &Series, scenario: &Scenario) -> Vec<Response> {
        let Rate::Trace(steps) = &scenario.rate else { return Vec::new() };
        let ends = steps.iter().skip(2).map(|step| step.0).chain([scenario.duration]);
        steps.iter().skip(1).zip(ends).map(|(&(at, rate), end)| Response::of(series, at, end, rate)).collect()
    }

    fn of(series: &Series, at: Time, end: Time, bits_per_s: u64) -> Response {
        let number = |time: Time| (time.secs() / series.interval_s).round() as usize;
        let until = number(end).min(series.queue_bytes.len());
        let own = number(at).min(until)..until;
        let sum = |i: usize| series.flows.iter().filter_map(|flow| flow.bits_per_s.get(i)).sum::<f64>();
        let filled: Vec<bool> = own.clone().map(|i| sum(i) >= FILLED * bits_per_s as f64).collect();
        let first = filled.windows(INTERVALS).position(|all| all.iter().all(|&filled| filled));
        let longest = series.queue_bytes[own].iter().max().copied().unwrap_or(0);
        Response {
            at_s: at.secs(),
            bits_per_s,
            filled_after_s: first.map(|intervals| intervals as f64 * series.interval_s),
            longest_queue_s: longest as f64 * 8.0 / bits_per_s as f64,
        }
    }

    /// Figures of changes: the time until the link is filled, ..
    pub(super) const FILLED: &'static str = "link filled";
    /// .. and the longest queue.
    pub(super) const LONGEST_QUEUE: &'static str = "longest queue";

    /// The name of a figure of the change at this time, s.
    pub(super) fn name(what: &str, at: impl std::fmt::Display) -> String {
        format!("{what} after the change at {at} s")
    }

    /// The figures of several repetitions.
    pub(super) fn figures<'a>(found: impl Iterator<Item = &'a [Response]>) -> Vec<Figure> {
        let found: Vec<&[Response]> = found.collect();
        let changes = found.iter().map(|responses| responses.len()).min().unwrap_or(0);
        let of = |change: usize| {
            let own = || found.iter().map(move |responses| responses[change]);
            let at = own().next().map_or(0.0, |response| response.at_s);
            let filled = own().filter_map(|response| response.filled_after_s).collect();
            let queue = own().map(|response| response.longest_queue_s).collect();
            let named = |what: &str, values| {
                figure(Response::name(what, at), unit::SECONDS, Statistic::Median, values)
            };
            [named(Response::FILLED, filled), named(Response::LONGEST_QUEUE, queue)]
        };
        (0..changes).flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_queue::Config;
    use weir_sim::cc::Name;
    use weir_sim::{Buffer, Group};

    use super::*;

    fn scenario() -> Scenario {
        let group = Group::new(2, Name::Cubic, Time::from_ms(20));
        let queue = Config::named("fifo").expect("in the catalogue");
        let mut scenario = Scenario::new(queue, 8000, Buffer::Bytes(3000), vec![group], Time::from_s(40));
        scenario.rate =
            Rate::Trace(vec![(Time::ZERO, 8000), (Time::from_s(10), 4000), (Time::from_s(30), 8000)]);
        scenario
    }

    /// Two flows with half of this rate each, and a queue.
    fn series(rate: impl Fn(usize) -> f64, queue: impl Fn(usize) -> u64) -> Series {
        let bits_per_s: Vec<f64> = (0..400).map(|i| rate(i) / 2.0).collect();
        let flow = FlowSeries { cwnd: vec![2.0; 400], srtt_s: vec![0.0; 400], bits_per_s };
        let queue_bytes = (0..400).map(queue).collect();
        Series { interval_s: 0.1, queue_bytes, flows: vec![flow; 2] }
    }

    #[test]
    fn a_history_has_few_samples_of_each_flow() {
        let history = History::of(&series(|i| i as f64, |i| i as u64), &scenario());
        let names: Vec<&str> = history.lines.iter().map(|line| &line.name[..]).collect();
        assert_eq!(names, ["cubic, flow 1", "cubic, flow 2"]);
        assert_eq!((history.queue_bytes.len(), history.interval_s), (134, 0.1 * 3.0));
        assert_eq!((history.queue_bytes[1], history.lines[0].bits_per_s[1]), (4.0, 2.0));
    }

    #[test]
    fn a_change_is_followed_until_the_next() {
        // Full at once after the drop, with a queue of 2 s; after the rise not before 33 s.
        let rate = |i: usize| if (300..330).contains(&i) { 4000.0 } else { 8000.0 };
        let series = series(rate, |i| if i == 120 { 1000 } else { 10 });
        let found = Response::all(&series, &scenario());
        let drop = Response { at_s: 10.0, bits_per_s: 4000, filled_after_s: Some(0.0), longest_queue_s: 2.0 };
        assert_eq!(found[0], drop);
        let rise = found[1].filled_after_s.expect("it is filled in the end");
        assert!((rise - 3.0).abs() < 1e-9 && found[1].longest_queue_s == 0.01, "{found:?}");
        let names: Vec<String> =
            Response::figures([&found[..]].into_iter()).into_iter().map(|figure| figure.name).collect();
        assert_eq!(names[0], "link filled after the change at 10 s");
        assert_eq!(names[3], "longest queue after the change at 30 s");
    }
}
