//! What happens to packets behind the link: losses, and a delay line that all paths share.

use weir_queue::Time;
use weir_rng::Rng;

use crate::line::Line;
use crate::paths::Paths;

/// Packets behind the link of one direction, until they come out.
#[derive(Debug)]
pub struct Behind<T> {
    paths: Paths,
    rng: Rng,
    in_burst: bool,
    /// When the last packet of each path comes out.
    last: Vec<Time>,
    line: Line<T>,
}

impl<T> Behind<T> {
    /// Nothing is on its way; all that is random follows from the seed.
    pub fn new(paths: Paths, seed: u64) -> Behind<T> {
        Behind { paths, rng: Rng::new(seed), in_burst: false, last: Vec::new(), line: Line::new() }
    }

    /// What is to happen.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Something else is to happen from now on. What is on its way comes out when it would have, and is not overtaken on its
    /// path.
    pub fn set_paths(&mut self, paths: Paths) {
        let old = std::mem::replace(&mut self.paths, paths);
        let was = |path: usize| match self.paths.prefixes.get(path) {
            Some((prefix, _)) => old.prefixes.iter().position(|(known, _)| known == prefix),
            None => Some(old.others()),
        };
        let last = |path| was(path).and_then(|was| self.last.get(was)).copied().unwrap_or_default();
        self.last = (0..=self.paths.others()).map(last).collect();
    }

    /// A packet has left the link at `at`.
    ///
    /// # Errors
    /// It is lost.
    pub fn put(&mut self, at: Time, path: usize, what: T) -> Result<(), T> {
        if self.loses() {
            return Err(what);
        }
        let at = self.arrival(at, path);
        self.line.put(at, what);
        Ok(())
    }

    /// The next packet that has come out by `now`, and when.
    pub fn take(&mut self, now: Time) -> Option<(Time, T)> {
        self.line.take(now)
    }

    /// Time begins anew: what was `at` is 0.
    pub fn begin_anew(&mut self, at: Time) {
        self.line.begin_anew(at);
        self.last.iter_mut().for_each(|last| *last = *last - at);
    }

    /// When the next packet comes out.
    pub fn next_at(&self) -> Option<Time> {
        self.line.next_at()
    }

    /// Packets on their way.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn arrival(&mut self, at: Time, path: usize) -> Time {
        let mut at = at + self.paths.delay_of(path);
        if self.paths.jitter > Time::ZERO {
            at += Time::from_ps((self.rng.unit() * self.paths.jitter.ps() as f64) as u64);
        }
        if self.paths.reorder > 0.0 && self.rng.unit() < self.paths.reorder {
            return at + self.paths.reorder_by;
        }
        if path >= self.last.len() {
            self.last.resize(path + 1, Time::ZERO);
        }
        let last = &mut self.last[path];
        *last = at.max(*last);
        *last
    }

    fn loses(&mut self) -> bool {
        let Paths { loss, burst, .. } = self.paths;
        if loss <= 0.0 {
            return false;
        }
        if burst <= 1.0 {
            return self.rng.unit() < loss;
        }
        // In the state of bursts for the share `loss` of all frames, and for `burst` of them at a time.
        let leaves = 1.0 / burst;
        let enters = leaves * loss / (1.0 - loss);
        let p = if self.in_burst { leaves } else { enters };
        self.in_burst ^= self.rng.unit() < p;
        self.in_burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_have_their_share_and_their_length() {
        for burst in [1.0, 8.0] {
            let paths = Paths { loss: 0.05, burst, ..Paths::default() };
            let mut behind = Behind::new(paths, 3);
            let mut lost = |_| behind.put(Time::ZERO, 0, ()).is_err();
            let lost: Vec<bool> = (0..400_000).map(&mut lost).collect();
            let all = lost.iter().filter(|&&lost| lost).count() as f64;
            let begins = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            let length = all / begins;
            let expected = if burst > 1.0 { burst } else { 1.0 / 0.95 };
            assert!(
                (all / 4e5 - 0.05).abs() < 0.005 && (length / expected - 1.0).abs() < 0.1,
                "{all}, {length}"
            );
        }
    }

    #[test]
    fn jitter_keeps_the_order_of_a_path_and_reordering_does_not() {
        let run = |paths: Paths| -> Vec<Time> {
            let mut behind = Behind::<()>::new(Paths { delay: Time::from_ms(10), ..paths }, 5);
            (0..1000).map(|ms| behind.arrival(Time::from_ms(ms), 0)).collect()
        };
        let jitter = run(Paths { jitter: Time::from_ms(5), ..Paths::default() });
        assert!(
            jitter.is_sorted()
                && jitter.iter().zip(0..).all(|(at, ms)| {
                    let delay = *at - Time::from_ms(ms);
                    (Time::from_ms(10)..=Time::from_ms(15)).contains(&delay)
                })
        );
        let reordered = run(Paths { reorder: 0.1, reorder_by: Time::from_ms(3), ..Paths::default() });
        let overtaken = reordered.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((60..140).contains(&overtaken), "{overtaken}");
    }

    #[test]
    fn a_path_is_itself_among_others() {
        let prefix = |text: &str, ms| {
            let mut paths = Paths::default();
            paths.set("path", &format!("{text}={ms}ms")).unwrap().unwrap();
            paths.prefixes.remove(0)
        };
        let paths = |prefixes| Paths { delay: Time::from_ms(50), prefixes, ..Paths::default() };
        let mut behind = Behind::new(paths(vec![prefix("10.0.0.0/8", 20)]), 1);
        let at = |behind: &mut Behind<u32>, path| behind.arrival(Time::ZERO, path).ns() / 1_000_000;
        assert_eq!([at(&mut behind, 0), at(&mut behind, 1)], [20, 50]);
        // One is new, one has a shorter delay and one comes before it.
        behind.set_paths(paths(vec![prefix("192.0.2.0/24", 1), prefix("10.0.0.0/8", 5)]));
        assert_eq!([0, 1, 2].map(|path| at(&mut behind, path)), [1, 20, 50]);
        behind.set_paths(paths(vec![]));
        assert_eq!(at(&mut behind, 0), 50);
    }
}
