//! Progress of a plan: a bar with the remaining time on a terminal, plain lines in a log.

use std::collections::{BTreeMap, HashMap};
use std::io::IsTerminal;
use std::iter;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_config::plain;
use weir_lab::run::Event;
use weir_record::record::{GoalResult, Point, PointResult, Trial, Verdict};
use weir_report::view::axes::{self, Axes};
use weir_report::view::format::{significant, time_ns, unprefixed};
use weir_report::view::frame_name;

use weir_service::say::{say, terminal};
use weir_service::time::in_words;
use weir_service::units::rate;

/// More redraws do not help the reader, and fill a log of the terminal.
const REDRAWS_PER_S: u8 = 2;

/// Most points for which a terminal shows intermediate results.
const MOST_FOUND: usize = 12;

/// Prints progress to standard error.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    estimate: Duration,
    /// The settings in which the points of the plan differ.
    axes: Axes,
    /// Print each trial.
    verbose: bool,
    state: Mutex<State>,
}

/// The state of the run.
#[derive(Default)]
struct State {
    place: String,
    /// The procedure beyond the search.
    procedure: Option<&'static str>,
    /// The round, and how many there are.
    round: Option<(usize, usize)>,
    /// Intermediate results of the points, frames/s, in the order of the plan.
    found: BTreeMap<usize, (String, f64)>,
    /// Finished points, plus the finished share of the current one.
    done: f64,
    count: usize,
    /// Time of the last update of `done`, since the start.
    known: Duration,
    /// `done` at the first trial: a resumed run begins with some points done.
    begun: Option<f64>,
    /// Trials of each point by its number in the store, and how many of them are not valid: an experiment
    /// may take its points alternately.
    trials: HashMap<i64, (usize, usize)>,
    offered: String,
}

impl Progress {
    /// `estimate` is the longest time that the plan can take, `points` are the settings of its points; `verbose`: print a line
    /// for each trial.
    pub(crate) fn new(estimate: Duration, points: &[Vec<(String, String)>], verbose: bool) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            // The current point and the results, cut at the edge of the terminal; below them the bar.
            let style = ProgressStyle::with_template("{msg}\n{bar:40} {prefix}").expect("a valid template");
            ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_S))
                .with_style(style)
        } else {
            ProgressBar::hidden()
        };
        let axes = Axes::of_settings(points.iter().map(Vec::as_slice)).without(&["frame_bytes"]);
        Progress { bar, started: Instant::now(), estimate, axes, verbose, state: Mutex::default() }
    }

    /// Updates the progress with an event of the run.
    pub(crate) fn on_event(&self, event: Event) {
        let mut state = self.state.lock().expect("printing does not panic");
        match event {
            Event::Run(run) => self.line(&format!("run {}: {}", run.id, run.question)),
            Event::Point { index, count, point } => {
                (state.done, state.count) = (index.unwrap_or(0) as f64, count);
                state.known = self.started.elapsed();
                (state.place, state.procedure, state.round) = (self.place(point), None, None);
                self.show(&state);
            }
            Event::Round { number, of, done, count, point } => {
                let round = (of > 1).then_some((number, of));
                let next = round.is_some() && round != state.round;
                (state.done, state.count) = (done, count);
                state.known = self.started.elapsed();
                (state.place, state.procedure, state.round) = (self.place(point), None, round);
                if next && self.bar.is_hidden() {
                    self.line(&format!("round {number} of {of}, {}", self.time_left(&state)));
                }
                self.show(&state);
            }
            Event::SoFar(point, fps) => {
                state.found.insert(point.index, (self.place(point), fps));
            }
            Event::Procedure { name, done } => {
                state.done = state.done.floor() + done.min(0.99);
                state.known = self.started.elapsed();
                state.procedure = Some(name);
                if self.bar.is_hidden() {
                    self.line(&format!("{}: {name}, {}", state.place, self.time_left(&state)));
                }
                self.show(&state);
            }
            Event::Trial { offered_fps, .. } => {
                let done = state.done;
                state.begun.get_or_insert(done);
                state.offered = offered_fps.map_or("full speed".to_string(), rate);
                self.show(&state);
            }
            Event::Progress { .. } => self.show(&state),
            Event::Ended(trial) => self.ended(&mut state, trial),
            Event::Result(point, result) => {
                let trials = state.trials.remove(&point.id).unwrap_or_default();
                let trials = if self.verbose { Some(trials) } else { None };
                self.line(&result_line(&self.place(point), result, trials));
            }
            // Notes are in the report.
            Event::Note(note) if self.verbose => self.line(&format!("note: {note}")),
            Event::Note(_) => {}
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn place(&self, point: &Point) -> String {
        place(point, &self.axes)
    }

    fn ended(&self, state: &mut State, trial: &Trial) {
        let (trials, not_valid) = state.trials.entry(trial.point_id).or_default();
        *trials += 1;
        *not_valid += usize::from(trial.verdict != Verdict::Valid);
        if self.verbose {
            self.line(&trial_line(trial));
        }
        self.show(state);
    }

    fn show(&self, state: &State) {
        if self.bar.is_hidden() {
            return;
        }
        let count = state.count.max(1) as f64;
        self.bar.set_position((state.done / count * 1000.0) as u64);
        self.bar.set_prefix(self.time_left(state));
        // The last column stays free: some terminals begin a new line when it is written.
        let columns = terminal() - 1;
        let cut = |line: &String| plain(line).chars().take(columns).collect::<String>();
        self.bar.set_message(state.picture().iter().map(cut).collect::<Vec<_>>().join("\n"));
    }

    fn time_left(&self, state: &State) -> String {
        state.time_left(self.started.elapsed(), self.estimate)
    }

    fn line(&self, text: &str) {
        if self.bar.is_hidden() { say(text) } else { self.bar.println(plain(text)) }
    }
}

impl State {
    /// The current measurement, and below it the results so far.
    fn picture(&self) -> Vec<String> {
        let what = match self.round {
            Some((round, rounds)) => format!("round {round} of {rounds}"),
            None => format!("point {} of {}", self.done as usize + 1, self.count),
        };
        let procedure = self.procedure.map_or(String::new(), |name| format!(", {name}"));
        let load = if self.offered.is_empty() { String::new() } else { format!(" at {}", self.offered) };
        let mut lines = vec![format!("{what}: {}{procedure}{load}", self.place)];
        let width = self.found.values().map(|(place, _)| place.len()).max().unwrap_or_default();
        let found = self.found.values().take(MOST_FOUND);
        lines.extend(found.map(|(place, fps)| format!("  {place:width$}  {:>10}", rate(*fps))));
        if let more @ 1.. = self.found.len().saturating_sub(MOST_FOUND) {
            lines.push(format!("  and {more} more"));
        }
        lines
    }

    /// From the time that it took to do what is done, and from the plan, each with the weight of its share: the first trials of a
    /// run also find its ceilings, and are longer than others. Before anything is done, from the plan alone.
    fn time_left(&self, elapsed: Duration, estimate: Duration) -> String {
        let done = self.done - self.begun.unwrap_or(self.done);
        let left = self.count as f64 - self.done;
        let planned = estimate.mul_f64(left / self.count.max(1) as f64);
        if done > 0.0 {
            let weight = done / (done + left);
            let by_plan = planned.mul_f64(1.0 - weight);
            let by_time = self.known.mul_f64(left / done * weight);
            let left = (by_plan + by_time).saturating_sub(elapsed.saturating_sub(self.known));
            format!("about {} left", in_words(left))
        } else {
            format!("at most {} left", in_words(planned.saturating_sub(elapsed)))
        }
    }
}

/// Where a point is: its device, its frames and what tells it from the others of the plan; where there is no device, all
/// settings.
fn place(point: &Point, axes: &Axes) -> String {
    if point.frame.is_empty() && !axes.is_empty() {
        return axes.parts(&point.settings).join(", ");
    }
    if point.frame.is_empty() {
        // Versions are in the record.
        let is_shown = |name: &str| name != "measures" && !name.ends_with("version");
        let settings = point.settings.iter().filter(|(name, _)| is_shown(name));
        return settings.map(|(name, value)| axes::part(name, value)).collect::<Vec<_>>().join(", ");
    }
    let device = format!("{} {}", point.dut, frame_name(&point.frame));
    iter::once(device).chain(axes.parts(&point.settings)).collect::<Vec<_>>().join(", ")
}

/// What was found at a point; `trials`: how many there were, and how many of them are not valid.
fn result_line(place: &str, result: &PointResult, trials: Option<(usize, usize)>) -> String {
    let trials = match trials {
        None | Some((0, _)) => String::new(),
        Some((trials, 0)) => format!(" ({trials} trials)"),
        Some((trials, not_valid)) => format!(" ({trials} trials, {not_valid} not valid)"),
    };
    let goals: Vec<String> = result.goals.iter().map(goal).collect();
    let found =
        if goals.is_empty() { figures(result) } else { capacity(result).into_iter().chain(goals).collect() };
    let found = if found.is_empty() { result.search.clone() } else { found.join(", ") };
    format!("{place}: {found}{trials}")
}

/// The capacity of a point in overload, if it was measured.
fn capacity(result: &PointResult) -> Option<String> {
    let figure = result.procedures.iter().find(|p| p.procedure == "capacity")?.figures.first()?;
    let interval =
        figure.interval.map_or(String::new(), |(low, high)| format!(" ({} to {})", rate(low), rate(high)));
    Some(format!("capacity {}{interval}", rate(figure.value?)))
}

/// The first figures of a point without a search for its rate.
fn figures(result: &PointResult) -> Vec<String> {
    let figures = result.procedures.iter().flat_map(|procedure| &procedure.figures);
    let known = figures.filter_map(|figure| Some((&figure.name, figure.value?, &figure.unit)));
    known.take(2).map(|(name, value, unit)| format!("{name} {}", quantity(value, unit))).collect()
}

fn quantity(value: f64, unit: &str) -> String {
    let text = match unit {
        "s" => time_ns(value * 1e9),
        "1/s" => format!("{}/s", unprefixed(value)),
        "ratio" => significant(value),
        unit => format!("{} {unit}", unprefixed(value)),
    };
    text.replace('\u{202f}', " ")
}

fn trial_line(trial: &Trial) -> String {
    if let (None, Some(key)) = (&trial.frames, &trial.key) {
        let why = trial.reasons.first().map_or(String::new(), |reason| format!(": {reason}"));
        return format!("  trial {}: {key}, {}{why}", trial.index + 1, trial.verdict.name());
    }
    let lost = trial.counts().lost as f64 / trial.counts().sent.max(1) as f64 * 100.0;
    let why = trial.reasons.first().map_or(String::new(), |reason| format!(": {reason}"));
    format!(
        "  trial {}: {} for {} s, {} of {} frames lost ({lost:.4} %), {}{why}",
        trial.id,
        rate(trial.counts().offered_fps),
        trial.duration_s,
        trial.counts().lost,
        trial.counts().sent,
        trial.verdict.name()
    )
}

fn goal(goal: &GoalResult) -> String {
    let irregular = goal.repetitions.iter().find_map(|r| r.irregular.as_deref());
    let why = irregular.map_or(String::new(), |why| format!(" [{why}]"));
    format!("{} {}{why}", goal.goal, goal.fps_median.map_or("none found".to_string(), rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_names_the_round_and_what_was_found() {
        let mut state = State { place: "wire 64 bytes".into(), count: 3, done: 1.2, ..State::default() };
        assert_eq!(state.picture(), ["point 2 of 3: wire 64 bytes"]);
        (state.round, state.offered) = (Some((2, 12)), rate(1.5e6));
        state.found =
            BTreeMap::from([(5, ("kernel-nat 64 bytes".into(), 4.5e5)), (1, ("wire 64 bytes".into(), 2e6))]);
        let [now, wire, nat] = state.picture().try_into().unwrap();
        assert_eq!(now, format!("round 2 of 12: wire 64 bytes at {}", rate(1.5e6)));
        assert_eq!(wire.split_whitespace().collect::<Vec<_>>()[..3], ["wire", "64", "bytes"]);
        assert_eq!((wire.len(), nat.ends_with(&rate(4.5e5))), (nat.len(), true), "{wire}\n{nat}");
        state.found.extend((10..23).map(|n| (n, (n.to_string(), 1.0))));
        assert_eq!(state.picture().len(), 1 + MOST_FOUND + 1);
    }

    #[test]
    fn a_place_names_what_tells_points_of_the_plan_apart() {
        let settings = |flows: &str, buckets: &str| -> Vec<(String, String)> {
            [("dut", "kernel-nat"), ("cpus", "1"), ("flows", flows), ("nf_conntrack_buckets", buckets)]
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .to_vec()
        };
        let plan = [settings("10000", "16384"), settings("200000", "262144")];
        let axes = Axes::of_settings(plan.iter().map(Vec::as_slice)).without(&["frame_bytes"]);
        let point = |frame: &str| Point {
            dut: "kernel-nat".into(),
            frame: frame.into(),
            settings: plan[1].clone(),
            ..Point::default()
        };
        assert_eq!(place(&point("128"), &axes), "kernel-nat 128 bytes, flows 200k, buckets 262144");
        assert_eq!(place(&point("imix"), &Axes::default()), "kernel-nat imix");
        assert_eq!(place(&point(""), &axes), "flows 200k, buckets 262144");
        assert_eq!(place(&point(""), &Axes::default()), "kernel-nat, cpus 1, flows 200k, buckets 262144");
    }

    #[test]
    fn what_was_found_has_the_fitting_unit() {
        for (value, unit, text) in [
            (0.000_336, "s", "336 µs"),
            (24_856.25, "1/s", "24 900/s"),
            (10_000.0, "connections", "10 000 connections"),
            (0.0668, "KiB", "0.0668 KiB"),
            (0.98, "ratio", "0.980"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }

    #[test]
    fn the_time_left_follows_from_what_this_run_has_done_itself() {
        let seconds = Duration::from_secs;
        let left = |done, begun, elapsed_s| {
            let known = seconds(50);
            State { done, begun, count: 4, known, ..State::default() }
                .time_left(seconds(elapsed_s), seconds(400))
        };
        assert_eq!(left(0.0, None, 0), "at most 6 min 40 s left");
        assert_eq!(left(0.0, Some(0.0), 30), "at most 6 min 10 s left");
        assert_eq!(left(0.5, Some(0.0), 50), "about 5 min 50 s left");
        assert_eq!(left(0.5, Some(0.0), 60), "about 5 min 40 s left", "it becomes less until more is known");
        assert_eq!(left(3.0, Some(3.0), 1), "at most 1 min 39 s left", "three points were kept");
        assert_eq!(left(3.5, Some(3.0), 50), "about 50 s left");
    }

    #[test]
    fn a_long_first_trial_is_no_measure_of_all_others() {
        let seconds = Duration::from_secs;
        let left = |done, known_s| {
            let state =
                State { done, begun: Some(0.0), count: 4, known: seconds(known_s), ..State::default() };
            state.time_left(seconds(known_s), seconds(75))
        };
        // A fortieth of a plan of 75 s after 12 s: by the time alone it would be 8 min.
        assert_eq!(left(0.1, 12), "about 1 min 23 s left");
        assert_eq!(left(2.0, 80), "about 59 s left");
        assert_eq!(left(3.9, 150), "about 4 s left");
    }
}
