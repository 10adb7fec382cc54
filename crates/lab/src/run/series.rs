//! The trials of a point in their order: those that an earlier part of the run made, then new ones, each recorded and reported as
//! it ends; and how a search without loss reads them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_linux::lock::measuring_lock;
use weir_load::Control;
use weir_load::counts::Load;

use super::resume::is_same;
use super::running::{Event, Options, Running};
use crate::error::RunError;
use weir_linux::time;
use weir_measure::search::Measured;
use weir_record::record::{Point, PointKey, Purpose, Trial, Verdict};
use weir_record::store::RunLog;

/// What a trial is to measure; a kept one is known by it.
pub enum Asked<'a> {
    /// Frames at this load.
    Load(&'a Load, Purpose),
    /// Something else, as long as this, by a name that no other trial of the point has: its round.
    Named(String, Purpose, Duration),
}

impl Asked<'_> {
    fn purpose(&self) -> Purpose {
        match self {
            Asked::Load(_, purpose) | Asked::Named(_, purpose, _) => *purpose,
        }
    }

    fn load(&self) -> (Option<f64>, Duration) {
        match self {
            Asked::Load(load, _) => (load.fps, load.duration),
            Asked::Named(_, _, duration) => (None, *duration),
        }
    }

    /// By what a kept trial is found again.
    pub fn key(&self) -> Option<String> {
        match self {
            Asked::Load(..) => None,
            Asked::Named(key, ..) => Some(key.clone()),
        }
    }

    fn is(&self, trial: &Trial) -> bool {
        match self {
            Asked::Load(load, purpose) => is_same(trial, load, *purpose),
            Asked::Named(key, purpose, _) => trial.key.as_ref() == Some(key) && trial.purpose == *purpose,
        }
    }
}

/// The trials of one point.
pub struct Series<'a> {
    log: &'a RunLog,
    options: &'a Options<'a>,
    run_id: i64,
    point_id: i64,
    point: PointKey,
    /// Trials of an earlier part of this run that are still to be asked for.
    kept: VecDeque<Trial>,
    /// The number of the next trial.
    next: usize,
}

impl<'a> Series<'a> {
    /// Of a point that is in the log, with the trials that it has there.
    pub fn new<E>(run: &Running<'a, E>, point: &Point, kept: VecDeque<Trial>) -> Series<'a> {
        let Running { log, options, record, .. } = *run;
        let (run_id, point_id, point) = (record.id, point.id, point.key(record.uuid));
        Series { log, options, run_id, point_id, point, next: kept.len(), kept }
    }

    /// Have all trials of an earlier part been asked for?
    pub fn is_new(&self) -> bool {
        self.kept.is_empty()
    }

    /// The trial that an earlier part of this run made in this place. Where it made another one, the run goes another way from
    /// here on, and all others are of no use. Warm-ups belong to the part that made them.
    pub fn replay(&mut self, asked: &Asked<'_>) -> Option<Trial> {
        while asked.purpose() != Purpose::WarmUp && self.kept.front()?.purpose == Purpose::WarmUp {
            self.kept.pop_front();
        }
        let trial = self.kept.pop_front()?;
        if !asked.is(&trial) {
            self.kept.clear();
            return None;
        }
        (self.options.observe)(Event::Ended(&trial));
        Some(trial)
    }

    /// One trial, or the one that an earlier part of this run made in its place. `measure` has the machine to itself.
    pub fn one(
        &mut self,
        asked: &Asked<'_>,
        measure: impl FnOnce(&Control) -> Result<Trial, RunError>,
    ) -> Result<Trial, RunError> {
        let Options { observe, stop, .. } = self.options;
        if let Some(trial) = self.replay(asked) {
            return Ok(trial);
        }
        let (offered_fps, duration) = asked.load();
        observe(Event::Trial { offered_fps, duration });
        let Some(_turn) = measuring_lock(|| stop.load(Ordering::Relaxed))? else {
            return Err(RunError::Interrupted(self.run_id));
        };
        let (begin, started) = (Instant::now(), time::now());
        let progress = |sent, received| observe(Event::Progress { sent, received });
        let mut trial = measure(&Control::new(stop, &progress))?;
        trial.overhead_s = (begin.elapsed().as_secs_f64() - trial.duration_s).max(0.0);
        (trial.started, trial.purpose, trial.key) = (started, asked.purpose(), asked.key());
        self.keep(trial)
    }

    /// The same for a computed trial: other load on the machine does not matter, so it does not wait for other runs.
    pub fn computed(
        &mut self,
        asked: &Asked<'_>,
        compute: impl FnOnce() -> Result<Trial, RunError>,
    ) -> Result<Trial, RunError> {
        if let Some(trial) = self.replay(asked) {
            return Ok(trial);
        }
        let (offered_fps, duration) = asked.load();
        (self.options.observe)(Event::Trial { offered_fps, duration });
        let (begin, started) = (Instant::now(), time::now());
        let mut trial = compute()?;
        trial.overhead_s = begin.elapsed().as_secs_f64();
        (trial.started, trial.purpose, trial.key) = (started, asked.purpose(), asked.key());
        self.keep(trial)
    }

    /// Gives a trial its place in the log, and tells it; unless the run was stopped in it: cut short, it is no
    /// measurement.
    pub fn keep(&mut self, mut trial: Trial) -> Result<Trial, RunError> {
        let Options { observe, stop, .. } = self.options;
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted(self.run_id));
        }
        (trial.point_id, trial.index) = (self.point_id, self.next);
        self.next += 1;
        trial.id = self.log.append_trial(self.point, &trial)?;
        observe(Event::Ended(&trial));
        Ok(trial)
    }
}

/// How often a load is tried before it counts as one without loss.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Trials without loss.
    pub trials: u32,
    /// Trials beside these that cannot be believed.
    pub retries: u32,
}

/// The worst of the trials at a load; the first that loses frames ends them. `next` makes one and says how many of its
/// frames count as lost.
pub fn worst(
    patience: Patience,
    mut next: impl FnMut() -> Result<(Trial, u64), RunError>,
) -> Result<Measured, RunError> {
    let Patience { trials, mut retries } = patience;
    let (mut good, mut effective) = (0, Duration::ZERO);
    while good < trials {
        let (trial, lost) = next()?;
        match (lost, trial.verdict) {
            (_, Verdict::TesterLimited) if retries == 0 => {
                return Ok(Measured::TesterLimited { achieved_fps: trial.sent_fps() });
            }
            // What was captured in spite of a disturbance was captured.
            (0, Verdict::Valid | Verdict::Noisy) => {
                good += 1;
                effective += Duration::from_secs_f64(trial.duration_s);
            }
            (lost, Verdict::Valid) => {
                let effective = Duration::from_secs_f64(trial.duration_s + trial.overhead_s);
                return Ok(Measured::Loss {
                    loss_ratio: lost as f64 / trial.counts().sent as f64,
                    effective,
                });
            }
            _ if retries == 0 => return Ok(Measured::Unusable),
            _ => retries -= 1,
        }
    }
    Ok(Measured::Loss { loss_ratio: 0.0, effective })
}

/// A trial, repeated while it cannot be believed, so often at most. The last one counts.
pub fn repeated(retries: u32, mut one: impl FnMut() -> Result<Trial, RunError>) -> Result<Trial, RunError> {
    let mut trial = one()?;
    for retry in 0..retries {
        let again = match trial.verdict {
            Verdict::Valid => false,
            // A stall can look like it once; twice, it is the tester's limit.
            Verdict::TesterLimited => retry == 0,
            Verdict::Noisy | Verdict::Invalid => true,
        };
        if !again {
            break;
        }
        trial = one()?;
    }
    Ok(trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_record::fixture;

    /// Trials of a second with 100 frames, as verdict and loss; what is found, and how many were asked for.
    fn check(list: &[(Verdict, u64)], expected: Measured, asked: usize) {
        let trial = fixture::quick().points[1].trials[1].clone();
        let mut left = list.iter();
        let found = worst(Patience { trials: 2, retries: 1 }, || {
            let &(verdict, lost) = left.next().expect("no more are needed");
            let trial = Trial { verdict, duration_s: 1.0, overhead_s: 0.5, ..trial.clone() };
            let trial = trial.counting(|counts| counts.sent = 100);
            Ok((trial, lost))
        });
        assert_eq!(found.unwrap(), expected, "{list:?}");
        assert_eq!(list.len() - left.len(), asked, "{list:?}");
    }

    #[test]
    fn a_load_is_as_good_as_its_worst_trial_that_can_be_believed() {
        use Verdict::{Invalid, Noisy, Valid};
        let loss = |loss_ratio, s| Measured::Loss { loss_ratio, effective: Duration::from_secs_f64(s) };
        check(&[(Valid, 0), (Noisy, 0), (Valid, 0)], loss(0.0, 2.0), 2);
        check(&[(Valid, 0), (Valid, 7), (Valid, 0)], loss(0.07, 1.5), 2);
        // A loss in a disturbed trial says nothing.
        check(&[(Noisy, 7), (Valid, 0), (Valid, 0)], loss(0.0, 2.0), 3);
        check(&[(Noisy, 7), (Invalid, 0)], Measured::Unusable, 2);
    }

    #[test]
    fn a_tester_that_is_too_slow_twice_is_the_limit() {
        let slow = Verdict::TesterLimited;
        let trial = fixture::quick().points[1].trials[1].clone();
        let next = || Ok((Trial { verdict: slow, ..trial.clone() }, 0));
        let found = worst(Patience { trials: 2, retries: 1 }, next).unwrap();
        assert_eq!(found, Measured::TesterLimited { achieved_fps: trial.sent_fps() });
    }

    #[test]
    fn a_trial_is_repeated_while_it_is_not_believed() {
        use Verdict::{Invalid, Noisy, TesterLimited, Valid};
        for (list, asked) in [
            (&[Valid, Noisy][..], 1),
            (&[Noisy, Invalid, Valid, Noisy], 3),
            (&[Noisy, Noisy, Noisy, Invalid, Valid], 4),
            (&[TesterLimited, TesterLimited, Valid], 2),
            (&[Noisy, TesterLimited, Valid], 2),
        ] {
            let mut left = list.iter();
            let mut next =
                || Ok(Trial { verdict: *left.next().expect("no more are needed"), ..Trial::default() });
            let last = repeated(3, &mut next).unwrap().verdict;
            assert_eq!((list.len() - left.len(), last), (asked, list[asked - 1]), "{list:?}");
        }
    }
}
