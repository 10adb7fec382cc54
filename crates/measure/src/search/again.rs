//! A second search for another loss: the trials of the first one answer it, and only where the two part are there new ones.

use std::time::Duration;

use super::Measured;

/// What trials of a search said, for a search after it. Each answers once.
#[derive(Debug, Default)]
pub struct Answers(Vec<(f64, Duration, Measured)>);

impl Answers {
    /// Keeps what a trial at a load, in frames/s, said.
    pub fn keep(&mut self, load_fps: f64, duration: Duration, measured: Measured) {
        self.0.push((load_fps, duration, measured));
    }

    /// What a trial at this load said that has not answered yet.
    pub fn take(&mut self, load_fps: f64, duration: Duration) -> Option<Measured> {
        let same = |(fps, time, _): &(f64, Duration, Measured)| (*fps, *time) == (load_fps, duration);
        let at = self.0.iter().position(same)?;
        Some(self.0.remove(at).2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Measurer, Search, Stop, rfc2544};
    use super::*;

    /// Forwards 640k frames/s; stops lose a thousandth in each trial of the first search but those below 200k.
    struct Stopped {
        answers: Answers,
        stops_count: bool,
        trials: usize,
    }

    impl Measurer for Stopped {
        fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop> {
            if let Some(measured) = self.answers.take(load_fps, duration).filter(|_| !self.stops_count) {
                return Ok(measured);
            }
            self.trials += 1;
            let own = (1.0 - 640e3 / load_fps).max(0.0);
            let by_stops = if load_fps > 200e3 { 0.001 } else { 0.0 };
            let of = |loss_ratio| Measured::Loss { loss_ratio, effective: duration };
            if !self.stops_count {
                return Ok(of(own));
            }
            self.answers.keep(load_fps, duration, of(own));
            Ok(of(own + by_stops))
        }
    }

    #[test]
    fn a_second_search_makes_only_what_the_first_one_lacks() {
        let search = Search::Rfc2544(rfc2544::Config {
            min_fps: 10e3,
            max_fps: 1e6,
            final_trial: Duration::from_secs(60),
            search_trial: None,
            loss_tolerance: 0.0,
            resolution: rfc2544::Resolution { relative: 0.01, absolute_fps: 0.0 },
        });
        let mut device = Stopped { answers: Answers::default(), stops_count: true, trials: 0 };
        let mut rate = |stops_count| {
            (device.stops_count, device.trials) = (stops_count, 0);
            let found = search.run(&mut device).expect("no stop");
            (found[0].value.fps.expect("a rate"), device.trials)
        };
        let (with, trials) = rate(true);
        assert!((190e3..=200e3).contains(&with), "stops decide it: {with}");
        let (without, more) = rate(false);
        assert!((630e3..=640e3).contains(&without), "{without}");
        assert!(more < trials, "{more} after {trials}");
    }
}
