//! What the engine has for a rig while a run goes on: its record, its log, its options, and what is reported of it.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_load::TesterKind;
use weir_testbed::journal::Journal;

use super::resume::KeptTrials;
use crate::error::RunError;
use crate::frames::Settings;
use weir_record::record::{Point, PointResult, Run, Trial};
use weir_record::store::RunLog;

/// What a run reports while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run has its number in the log.
    Run(&'a Run),
    /// A point begins.
    Point {
        /// Its number from 0; ceilings come before the points and have none.
        index: Option<usize>,
        /// Points of the plan.
        count: usize,
        /// The point.
        point: &'a Point,
    },
    /// The next point of a round begins, where rounds go over all points.
    Round {
        /// The round, from 1.
        number: usize,
        /// Rounds in all.
        of: usize,
        /// How many points are done, the rounds so far as a share of them.
        done: f64,
        /// Points of the plan, or turns where there is nothing but rounds.
        count: usize,
        /// The point.
        point: &'a Point,
    },
    /// What the rounds of a point have found so far, frames/s.
    SoFar(&'a Point, f64),
    /// A procedure begins at the point.
    Procedure {
        /// Its name, that of its section in the plan.
        name: &'static str,
        /// The share of the time at the point that has gone by, as far as the plan tells, 0..=1.
        done: f64,
    },
    /// A trial begins.
    Trial {
        /// Frames/s; `None`: as fast as possible.
        offered_fps: Option<f64>,
        /// How long it sends.
        duration: Duration,
    },
    /// Frames so far in this trial.
    Progress {
        /// Sent.
        sent: u64,
        /// Received.
        received: u64,
    },
    /// A trial has ended and is kept.
    Ended(&'a Trial),
    /// A point has its result.
    Result(&'a Point, &'a PointResult),
    /// Something that the user should know.
    Note(&'a str),
}

/// How to run a plan.
pub struct Options<'a> {
    /// Seed of all randomness.
    pub seed: u64,
    /// How to send and receive.
    pub tester: TesterKind,
    /// What is weaker than it could be, for the record.
    pub tester_limits: Vec<String>,
    /// Set to end the run.
    pub stop: &'a AtomicBool,
    /// Receives the events of the run.
    pub observe: &'a (dyn Fn(Event) + Sync),
}

/// A run in progress, of this experiment: what the engine has for a rig.
pub struct Running<'a, E = ()> {
    /// The record of the run.
    pub record: &'a Run,
    /// What an earlier part of the run has kept.
    pub resumed: &'a KeptTrials,
    /// The options of the experiment.
    pub experiment: &'a E,
    /// Where trials and results are kept.
    pub log: &'a RunLog,
    /// How the user wants it run.
    pub options: &'a Options<'a>,
    /// What trials with frames need.
    pub settings: Settings,
    /// What must be undone at the end.
    pub journal: Journal,
    /// Numbers of the points of a shard; `None`: all are measured.
    pub(crate) own: Option<BTreeSet<usize>>,
}

impl<'a> Running<'a> {
    /// The same with the options of its experiment.
    pub fn of<E>(self, experiment: &'a E) -> Running<'a, E> {
        let Running { record, resumed, experiment: (), log, options, settings, journal, own } = self;
        Running { record, resumed, experiment, log, options, settings, journal, own }
    }
}

impl<E> Running<'_, E> {
    /// Is the point of this number measured? In a shard only some are.
    pub fn has(&self, point: usize) -> bool {
        self.own.as_ref().is_none_or(|own| own.contains(&point))
    }

    /// A point of this run without a device under test.
    pub fn point(&self, index: usize, dut: &str, settings: Vec<(&str, String)>) -> Point {
        let settings = settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        Point { run_id: self.record.id, index, settings, dut: dut.into(), ..Point::default() }
    }

    /// Reports the result of a point, and keeps it unless an earlier part of this run has.
    pub fn close(&self, point: &Point, result: PointResult) -> Result<(), RunError> {
        if self.resumed.finished(point.index).is_none() {
            self.log.finish_point(point.key(self.record.uuid), &result)?;
        }
        (self.options.observe)(Event::Result(point, &result));
        Ok(())
    }
}
