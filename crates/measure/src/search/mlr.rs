//! MLRsearch (draft-ietf-bmwg-mlrsearch-15): the rates for several goals at once, in little trial time.
//!
//! Short trials find the region, longer ones decide; every trial counts for all goals. Where the draft
//! leaves the choice of trials open, the controller of the reference library (MLRsearch 1.2.1) is
//! followed. Beyond both: a load that the tester cannot offer is no verdict on the device, and neither is
//! a trial that cannot be believed.
//!
//! ```text
//! trials (classify) > bounds per goal > selector per goal > lowest load wanted > trial
//!    ^                                                                             |
//!    +-----------------------------------------------------------------------------+
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use super::interval::{End, Evidence, Seen, Sought};
use super::{Counted, GoalOutcome, Invalid, Irregular, Measured, Stop, invalid, parameter};
use crate::search::{GoalValue, RateInterval};
use classify::{Target, Trial};
use grid::{Grid, Steps};
use selector::{Candidate, Field, Selector, Stage};
use trials::{Bounds, Trials};

mod classify;
mod grid;
mod selector;
mod trials;

/// Unusable trials in a row after which the closest other load is tried instead.
const STRIKES: u32 = 3;
/// Loads given up after which the whole search is.
const GIVEN_UP_IN_ALL: usize = 4;

/// What is looked for: the highest load that loses little enough, often enough.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Name in the result (`NDR`).
    pub name: String,
    /// Loss ratio above which a trial is a high-loss trial, 0..1.
    pub loss_ratio: f64,
    /// Share of the trial time that high-loss trials may make up, 0..1; 0.5 is recommended.
    pub exceed_ratio: f64,
    /// Length of a full-length trial.
    pub final_trial: Duration,
    /// Trial time that decides a load.
    pub duration_sum: Duration,
    /// Length of the first, coarse trials; at most `final_trial` and `duration_sum`.
    pub initial_trial: Duration,
    /// Relative distance of the bounds at the end: (upper - lower) / upper. At least `loss_ratio`, or
    /// the conditional throughput may exceed the upper bound.
    pub width: f64,
}

/// A search for some goals.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The goals, at least one.
    pub goals: Vec<Goal>,
    /// Lowest load offered, frames/s.
    pub min_fps: f64,
    /// Highest load offered, frames/s.
    pub max_fps: f64,
    /// Length of a first trial at the highest load, which counts for nothing.
    pub warm_up: Option<Duration>,
    /// Sum of the intended durations of all trials.
    pub time_limit: Duration,
    /// Coarser stages before the final one; the reference uses 2.
    pub preceding_targets: u32,
    /// Factor by which a step grows when it did not find a bound; the reference uses 2.
    pub expansion: u32,
    /// When all goals are met, go on until the rate of each lies in an interval that holds it with a stated
    /// confidence. The reference does not.
    pub confident: bool,
}

impl Goal {
    /// Non-drop rate as FD.io CSIT measures it: no loss, 1 s trials, 21 s in all, half of them may exceed.
    pub fn ndr() -> Goal {
        Goal {
            name: Goal::name_of(0.0),
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            final_trial: Duration::from_secs(1),
            duration_sum: Duration::from_secs(21),
            initial_trial: Duration::from_secs(1),
            width: 0.005,
        }
    }

    /// Partial drop rate: as [`Goal::ndr`] with a loss ratio of 0.5 %.
    pub fn pdr() -> Goal {
        let loss_ratio = 0.005;
        Goal { name: Goal::name_of(loss_ratio), loss_ratio, ..Goal::ndr() }
    }

    /// What a goal is called that tolerates so much loss: `NDR`, `PDR 0.5%`.
    pub fn name_of(loss_ratio: f64) -> String {
        if loss_ratio == 0.0 { "NDR".into() } else { format!("PDR {}%", parameter::in_percent(loss_ratio)) }
    }

    /// The goal that is unconditionally compliant with RFC 2544 section 26.1 (draft, section "RFC 2544
    /// Goal"): one 60 s trial without loss decides.
    pub fn rfc2544() -> Goal {
        let minute = Duration::from_secs(60);
        let name = "throughput".into();
        Goal { name, exceed_ratio: 0.0, final_trial: minute, duration_sum: minute, ..Goal::ndr() }
    }

    fn sought(&self) -> Sought {
        let Goal { loss_ratio, exceed_ratio, final_trial: trial, .. } = *self;
        Sought { loss_ratio, exceed_ratio, trial }
    }

    fn mistakes(&self) -> Vec<Invalid> {
        let what = |parameter: &str| format!("{parameter} of goal {:?}", self.name);
        let too_long = |limit_name, limit| {
            let (what, value) = (what("initial trial"), self.initial_trial);
            (value > limit).then_some(Invalid::TooLong { what, value, limit_name, limit })
        };
        let found = [
            invalid::share(what("loss ratio"), self.loss_ratio),
            invalid::share(what("exceed ratio"), self.exceed_ratio),
            invalid::width(what("width"), self.width),
            invalid::time(what("final trial"), self.final_trial),
            invalid::time(what("duration sum"), self.duration_sum),
            invalid::time(what("initial trial"), self.initial_trial),
            too_long("the final trial", self.final_trial),
            too_long("the duration sum", self.duration_sum),
        ];
        found.into_iter().flatten().collect()
    }

    /// The stages from the first short trials to the goal itself. Sums grow geometrically, widths halve.
    fn chain(&self, preceding: u32, grid: &Grid) -> Vec<Stage> {
        let width = grid.width(self.width);
        let sum_s = self.duration_sum.as_secs_f64();
        let shrink = self.initial_trial.as_secs_f64() / sum_s;
        let stage = |coarser: u32| {
            let sum = match coarser {
                0 => self.duration_sum,
                n if n == preceding => self.initial_trial,
                n => Duration::from_secs_f64(sum_s * shrink.powf(f64::from(n) / f64::from(preceding))),
            };
            let trial = if coarser == 0 { self.final_trial } else { sum.min(self.final_trial) };
            let (loss_ratio, exceed_ratio) = (self.loss_ratio, self.exceed_ratio);
            let target = Target { loss_ratio, exceed_ratio, trial, sum };
            Stage { target, width: width << coarser }
        };
        (0..=preceding).rev().map(stage).collect()
    }
}

impl Config {
    pub(super) fn mistakes(&self) -> Vec<Invalid> {
        let mut found: Vec<Invalid> = [
            invalid::load_range(self.min_fps, self.max_fps),
            self.goals.is_empty().then_some(Invalid::NoGoal),
            self.warm_up.and_then(|warm_up| invalid::time("warm-up".into(), warm_up)),
            invalid::time("time limit".into(), self.time_limit),
            invalid::count("preceding targets", self.preceding_targets, 0..=10),
            invalid::count("expansion", self.expansion, 2..=1000),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut names = BTreeSet::new();
        for goal in &self.goals {
            found.extend(goal.mistakes());
            if !names.insert(&goal.name) {
                found.push(Invalid::SameName { name: goal.name.clone() });
            }
        }
        found
    }

    pub(super) fn run(&self, measurer: &mut Counted) -> Result<Vec<GoalOutcome>, Stop> {
        let mut controller = Controller::new(self, measurer);
        controller.warm_up()?;
        let start = controller.initial_trials()?;
        controller.main_loop(start)?;
        if self.confident {
            controller.make_sure()?;
        }
        Ok(controller.outcomes())
    }

    fn parameters(&self, goal: &Goal) -> Vec<(String, String)> {
        vec![
            parameter::percent("loss ratio", goal.loss_ratio),
            parameter::percent("exceed ratio", goal.exceed_ratio),
            parameter::seconds("final trial", goal.final_trial),
            parameter::seconds("duration sum", goal.duration_sum),
            parameter::seconds("initial trial", goal.initial_trial),
            parameter::percent("width", goal.width),
            parameter::fps("min load", self.min_fps),
            parameter::fps("max load", self.max_fps),
            parameter::seconds("warm-up", self.warm_up.unwrap_or_default()),
            parameter::seconds("time limit", self.time_limit),
            parameter::text("preceding targets", self.preceding_targets),
            parameter::text("expansion", self.expansion),
            parameter::text("until the interval is closed", if self.confident { "yes" } else { "no" }),
        ]
    }
}

/// A search under way.
struct Controller<'a, 'm> {
    config: &'a Config,
    measurer: &'a mut Counted<'m>,
    grid: Grid,
    /// One chain of stages per goal.
    chains: Vec<Vec<Stage>>,
    trials: Trials,
    /// What all valid trials say of each goal's rate, those that only make sure included.
    evidence: Vec<Evidence>,
    /// Highest load that can be offered, as far as is known; -1 when there is none.
    ceiling: Steps,
    /// Lowest load that the tester could not offer.
    refused: Option<Steps>,
    /// How far below a refused load the next attempt is, where the tester misjudges itself; doubles.
    retreat: Steps,
    /// Unusable trials since the last valid one.
    strikes: u32,
    /// Loads at which no valid trial could be had.
    given_up: BTreeSet<Steps>,
    out_of_time: bool,
}

impl<'a, 'm> Controller<'a, 'm> {
    fn new(config: &'a Config, measurer: &'a mut Counted<'m>) -> Self {
        let widths: Vec<f64> = config.goals.iter().map(|goal| goal.width).collect();
        let grid = Grid::new(config.min_fps, config.max_fps, &widths);
        let chains = config.goals.iter().map(|goal| goal.chain(config.preceding_targets, &grid)).collect();
        Controller {
            config,
            measurer,
            chains,
            trials: Trials::default(),
            evidence: config.goals.iter().map(|goal| Evidence::new(goal.sought())).collect(),
            ceiling: grid.top,
            refused: None,
            retreat: widths.iter().map(|width| grid.width(*width)).min().unwrap_or(1),
            grid,
            strikes: 0,
            given_up: BTreeSet::new(),
            out_of_time: false,
        }
    }

    /// Whatever comes of it, the device and the tester have run once.
    fn warm_up(&mut self) -> Result<(), Stop> {
        if let Some(duration) = self.config.warm_up {
            self.measurer.measure(self.config.max_fps, duration)?;
        }
        Ok(())
    }

    /// Up to three trials that let all goals start near the device's limit: at the highest load, at the
    /// rate that was forwarded there, and once more likewise or just above. Returns the last two loads.
    fn initial_trials(&mut self) -> Result<Bounds, Stop> {
        let first: Vec<&Stage> = self.chains.iter().map(|chain| &chain[0]).collect();
        let duration = first.iter().map(|stage| stage.target.trial).max().unwrap_or_default();
        let width = first.iter().map(|stage| stage.width).max().unwrap_or(1);
        let loss_goal = first.iter().map(|stage| stage.target.loss_ratio).fold(1.0, f64::min);

        let Some((top, loss)) = self.trial_at_top(duration)? else { return Ok(Bounds::default()) };
        let forwarded = self.forwarded(top, loss, loss_goal);
        let Some(second) = self.between(forwarded, width, None, top) else { return Ok(both(top, top)) };
        let Some(loss) = self.trial(second, duration)? else { return Ok(both(second, second)) };
        let third = if loss > loss_goal {
            self.between(self.forwarded(second, loss, loss_goal), width, None, second)
        } else {
            self.between(second + width, width, Some(second), top)
        };
        let Some(third) = third else { return Ok(both(second, second)) };
        self.trial(third, duration)?;
        Ok(both(second.min(third), second.max(third)))
    }

    /// The load of what was forwarded at `load`, allowing for the loss that the goal allows.
    fn forwarded(&self, load: Steps, loss: f64, loss_goal: f64) -> Steps {
        self.grid.at_or_below(self.grid.fps(load) * (1.0 - loss) / (1.0 - loss_goal)).max(0)
    }

    fn between(&self, load: Steps, width: Steps, lower: Option<Steps>, upper: Steps) -> Option<Steps> {
        self.field(0).place(load, width, Bounds { lower, upper: Some(upper) })
    }

    /// A trial at the highest load that the tester can offer: finds out which that is.
    fn trial_at_top(&mut self, duration: Duration) -> Result<Option<(Steps, f64)>, Stop> {
        while self.goes_on() {
            let free = (0..=self.ceiling).rev().find(|load| !self.given_up.contains(load));
            let Some(load) = free else { break };
            if let Some(loss) = self.trial(load, duration)? {
                return Ok(Some((load, loss)));
            }
        }
        Ok(None)
    }

    /// Makes the trial that a goal wants, the lowest load first, until none wants any.
    fn main_loop(&mut self, start: Bounds) -> Result<(), Stop> {
        let expansion = Steps::from(self.config.expansion);
        let new_selector = |chain: &Vec<Stage>| Selector::new(chain.clone(), expansion, start);
        let mut selectors: Vec<Selector> = self.chains.iter().map(new_selector).collect();
        let mut outward = start.lower.zip(start.upper).map_or(0, |(lower, upper)| upper - lower);
        while self.goes_on() {
            let field = self.field(outward);
            let wanted = selectors.iter_mut().enumerate().filter_map(|(i, s)| Some((i, s.nominate(&field)?)));
            let Some((winner, candidate)) = wanted.min_by_key(|(_, candidate)| urgency(candidate)) else {
                if self.raise_ceiling() {
                    continue;
                }
                break;
            };
            self.trial(candidate.load, candidate.duration)?;
            outward = candidate.outward;
            outward = selectors[winner].won(candidate.load, &self.trials).unwrap_or(outward);
        }
        Ok(())
    }

    /// Closes the intervals of all goals, where time allows.
    fn make_sure(&mut self) -> Result<(), Stop> {
        for goal in 0..self.config.goals.len() {
            let stage = &self.chains[goal][self.chains[goal].len() - 1];
            let (bounds, width) = (self.trials.bounds(&stage.target), stage.width);
            for (end, bound, outwards) in [(End::Low, bounds.lower, -width), (End::High, bounds.upper, width)]
            {
                if let Some(bound) = bound {
                    self.close(goal, end, bound, outwards)?;
                }
            }
        }
        Ok(())
    }

    /// Trials at a bound, and further outwards from each that speaks against it. They are no verdict on a load, or
    /// they would move the bounds.
    fn close(&mut self, goal: usize, end: End, bound: Steps, outwards: Steps) -> Result<(), Stop> {
        let (sought, duration) = (self.config.goals[goal].sought(), self.config.goals[goal].final_trial);
        let (mut load, mut step, mut strikes) = (bound, outwards, 0);
        while self.evidence[goal].end(end).is_none()
            && (0..=self.ceiling).contains(&load)
            && strikes < STRIKES
        {
            if self.measurer.time + duration > self.config.time_limit {
                return Ok(());
            }
            let load_fps = self.grid.fps(load);
            let Measured::Loss { loss_ratio, .. } = self.measurer.measure(load_fps, duration)? else {
                strikes += 1;
                continue;
            };
            let seen = Seen { load_fps, duration, loss_ratio };
            self.note(&seen);
            strikes = 0;
            if !sought.favours(end, &seen) {
                load += step;
                step *= 2;
            }
        }
        Ok(())
    }

    fn note(&mut self, seen: &Seen) {
        self.evidence.iter_mut().for_each(|evidence| evidence.add(seen));
    }

    fn field(&self, outward: Steps) -> Field<'_> {
        Field { trials: &self.trials, ceiling: self.ceiling, given_up: &self.given_up, outward }
    }

    fn goes_on(&self) -> bool {
        !self.out_of_time && self.ceiling >= 0 && self.given_up.len() < GIVEN_UP_IN_ALL
    }

    /// Makes a trial and takes note of what it says; the loss ratio if it was valid.
    fn trial(&mut self, load: Steps, duration: Duration) -> Result<Option<f64>, Stop> {
        if self.measurer.time + duration > self.config.time_limit {
            self.out_of_time = true;
            return Ok(None);
        }
        match self.measurer.measure(self.grid.fps(load), duration)? {
            Measured::Loss { loss_ratio, effective } => {
                // Time that is not there would never add up to the duration sum.
                let effective = effective.max(duration);
                self.strikes = 0;
                self.trials.add(load, Trial { duration, effective, loss_ratio });
                self.note(&Seen { load_fps: self.grid.fps(load), duration, loss_ratio });
                return Ok(Some(loss_ratio));
            }
            Measured::TesterLimited { achieved_fps } => self.refuse(load, achieved_fps),
            Measured::Unusable => {
                self.strikes += 1;
                if self.strikes == STRIKES {
                    self.strikes = 0;
                    self.given_up.insert(load);
                }
            }
        }
        Ok(None)
    }

    /// The tester could not offer `load`: lowers the ceiling to what it achieved, or, where it misjudges
    /// itself, to what it has offered before, or else further and further.
    fn refuse(&mut self, load: Steps, achieved_fps: f64) {
        self.refused = Some(self.refused.map_or(load, |refused| refused.min(load)));
        let achieved = self.grid.at_or_below(achieved_fps);
        let offered = self.trials.highest_below(load);
        let below = match offered {
            Some(offered) if achieved > load - self.finest_width() => offered,
            Some(offered) => achieved.max(offered),
            None => {
                let below = achieved.min(load - self.retreat);
                self.retreat *= 2;
                below
            }
        };
        // The lowest load is worth its own attempt.
        self.ceiling = if load > 0 { below.max(0) } else { -1 };
    }

    /// Where the ceiling was lowered further than needed and a goal ended there, goes half of the way back.
    fn raise_ceiling(&mut self) -> bool {
        let ends_here = |chain: &Vec<Stage>| {
            let stage = &chain[chain.len() - 1];
            self.irregular(self.trials.bounds(&stage.target), stage.width) == Some(Irregular::TesterLimited)
        };
        let gap = self.refused.map_or(0, |refused| refused - self.ceiling);
        let raise = gap > self.finest_width() && self.chains.iter().any(ends_here);
        if raise {
            self.ceiling += gap / 2;
        }
        raise
    }

    fn finest_width(&self) -> Steps {
        self.chains.iter().flatten().map(|stage| stage.width).min().unwrap_or(1)
    }

    fn outcomes(&self) -> Vec<GoalOutcome> {
        let goals = self.config.goals.iter().zip(&self.chains);
        let found = goals.zip(&self.evidence).map(|((goal, chain), evidence)| {
            self.outcome(goal, &chain[chain.len() - 1], evidence.interval())
        });
        found.collect()
    }

    fn outcome(&self, goal: &Goal, stage: &Stage, interval: RateInterval) -> GoalOutcome {
        let bounds = self.trials.bounds(&stage.target);
        let conditional = |lower: Steps| {
            let loss = stage.target.conditional_loss(self.trials.at(lower))?;
            Some(self.grid.fps(lower) * (1.0 - loss))
        };
        let value = GoalValue {
            fps: bounds.lower.and_then(conditional),
            lower_fps: bounds.lower.map(|lower| self.grid.fps(lower)),
            upper_fps: bounds.upper.map(|upper| self.grid.fps(upper)),
            irregular: self.irregular(bounds, stage.width).map(|reason| reason.to_string()),
            trials: self.measurer.trials,
            trial_s: self.measurer.time.as_secs_f64(),
            interval: Some(interval),
        };
        GoalOutcome { goal: goal.name.clone(), parameters: self.config.parameters(goal), value }
    }

    fn irregular(&self, bounds: Bounds, width: Steps) -> Option<Irregular> {
        let at_ceiling = bounds.lower.map_or(self.ceiling < 0, |lower| lower >= self.ceiling);
        if bounds.within(width) {
            None
        } else if bounds.upper == Some(0) {
            Some(Irregular::MinIsLossy)
        } else if at_ceiling && self.ceiling == self.grid.top {
            Some(Irregular::MaxIsNotUpper)
        } else if at_ceiling {
            Some(Irregular::TesterLimited)
        } else if self.out_of_time {
            Some(Irregular::TimeLimit)
        } else {
            Some(Irregular::NoValidTrial)
        }
    }
}

fn both(lower: Steps, upper: Steps) -> Bounds {
    Bounds { lower: Some(lower), upper: Some(upper) }
}

/// Order of candidates: lowest load, then longest trial, then widest step.
fn urgency(candidate: &Candidate) -> impl Ord + use<> {
    let Candidate { load, duration, outward } = *candidate;
    (load, std::cmp::Reverse(duration), std::cmp::Reverse(outward))
}

#[cfg(test)]
mod tests;
