//! Frames of a file in the order of time. Time stamps are untrusted: clocks are set back, and single stamps are wrong.
//!
//! A file of several queues has packets of one of them, then packets of another: each queue is in order of time by itself,
//! all together are not. So a frame is held back until every queue is known up to its time:
//!
//! ```text
//!  queue 0 > 1  2  4  .  .  6  7         1  2  3  4        the rest waits for queue 1
//!  queue 1 > .  .  .  3  4  .  .    >
//! ```
//! A stamp that is more than a second away from the newest of its queue is doubtful until the next one comes, and decides: if
//! that is nearer to the newest, a single stamp is wrong, and counts at the time of the newest. Otherwise time has passed, or the
//! clock was set back; then a new *period* of the queue begins, whose frames come behind those of the one before.
//!
//! ```text
//!  10.0  10.1  99999  10.2         > 10.0  10.1  10.1  10.2
//!  10.0  10.1  55.0   55.1         > the same: nothing came for 45 s
//!  10.0  10.1   3.0    3.1         > 10.0  10.1 | period 1: 3.0  3.1
//! ```

use std::collections::BTreeMap;

use crate::reported::OddStamp;

/// Most frames that are held back: a queue without frames must not keep those of all others in memory.
const MOST: usize = 1_000_000;
/// A stamp that is further than this from the newest one is doubtful.
pub(crate) const STEP_NS: u64 = 1_000_000_000;

/// Things of several queues; each queue is in order of time, except for steps of its clock.
pub(crate) struct InOrder<T> {
    /// By period and time, and in the order of the file where these are the same.
    held: BTreeMap<(u32, u64, u64), T>,
    added: u64,
    queues: Vec<Queue<T>>,
    /// The first period of further queues.
    first_period: u32,
    odd: Vec<OddStamp>,
}

/// A thing that no later one can precede.
pub(crate) struct Next<T> {
    /// Grows when the clock of its queue was set back.
    pub(crate) period: u32,
    pub(crate) at_ns: u64,
    pub(crate) thing: T,
}

struct Queue<T> {
    period: u32,
    /// The newest accepted stamp; none yet in this period of the file.
    newest_ns: Option<u64>,
    /// No older frame of this queue follows.
    reached_ns: u64,
    /// A thing with a doubtful stamp, which the next stamp decides.
    doubtful: Option<(u64, T)>,
}

impl<T> Queue<T> {
    /// The time for a doubtful stamp, decided by the next one.
    fn time_of(&self, stamp_ns: u64, next_ns: Option<u64>) -> u64 {
        match (self.newest_ns, next_ns) {
            (Some(newest), Some(next)) if next.abs_diff(newest) < next.abs_diff(stamp_ns) => newest,
            // The first one: time only goes back without a reason.
            (None, Some(next)) if next.saturating_add(STEP_NS) < stamp_ns => next,
            _ => stamp_ns,
        }
    }

    fn believe(&mut self, at_ns: u64) {
        if self.newest_ns.is_some_and(|newest| at_ns.saturating_add(STEP_NS) < newest) {
            self.period = self.period.saturating_add(1);
            (self.newest_ns, self.reached_ns) = (None, 0);
        }
        self.newest_ns = self.newest_ns.max(Some(at_ns));
        self.reached_ns = self.reached_ns.max(at_ns);
    }
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        InOrder { held: BTreeMap::new(), added: 0, queues: Vec::new(), first_period: 0, odd: Vec::new() }
    }
}

impl<T> InOrder<T> {
    pub(crate) fn add(&mut self, queue: u32, stamp_ns: u64, thing: T) {
        self.expect(queue as usize + 1);
        self.settle(queue as usize, Some(stamp_ns));
        let of = &mut self.queues[queue as usize];
        if of.newest_ns.is_some_and(|newest| newest.abs_diff(stamp_ns) <= STEP_NS) {
            self.hold(queue as usize, stamp_ns, thing);
        } else {
            of.doubtful = Some((stamp_ns, thing));
        }
    }

    fn hold(&mut self, queue: usize, at_ns: u64, thing: T) {
        let of = &mut self.queues[queue];
        of.believe(at_ns);
        self.held.insert((of.period, at_ns, self.added), thing);
        self.added += 1;
    }

    /// Decides a doubtful stamp of a queue, by the next stamp if there is one.
    fn settle(&mut self, queue: usize, next_ns: Option<u64>) {
        let of = &mut self.queues[queue];
        if let Some((stamp_ns, thing)) = of.doubtful.take() {
            let time_ns = of.time_of(stamp_ns, next_ns);
            if time_ns != stamp_ns {
                self.odd.push(OddStamp { time_ns, stamp_ns });
            }
            self.hold(queue, time_ns, thing);
        }
    }

    /// Nothing older will come from this queue.
    pub(crate) fn reach(&mut self, queue: u32, at_ns: u64) {
        self.expect(queue as usize + 1);
        self.settle(queue as usize, Some(at_ns));
        let of = &mut self.queues[queue as usize];
        of.reached_ns = of.reached_ns.max(at_ns);
    }

    /// Sets the number of queues.
    pub(crate) fn expect(&mut self, queues: usize) {
        let (queues, period) = (queues.max(self.queues.len()), self.first_period);
        let new = || Queue { period, newest_ns: None, reached_ns: 0, doubtful: None };
        self.queues.resize_with(queues, new);
    }

    /// Ends these queues. Take all held things with `next(true)` before others are added.
    pub(crate) fn end_queues(&mut self) {
        (0..self.queues.len()).for_each(|queue| self.settle(queue, None));
        let last = self.queues.drain(..).map(|queue| queue.period).max();
        self.first_period = last.map_or(self.first_period, |last| last.saturating_add(1));
    }

    /// The oldest thing, if no later one can precede it; `all`: no more things follow.
    pub(crate) fn next(&mut self, all: bool) -> Option<Next<T>> {
        let is_full = self.held.len() > MOST;
        let oldest = self.held.first_entry()?;
        let (period, at_ns, _) = *oldest.key();
        let is_known = |queue: &Queue<T>| (period, at_ns) <= (queue.period, queue.reached_ns);
        let is_next = all || is_full || self.queues.iter().all(is_known);
        is_next.then(|| Next { period, at_ns, thing: oldest.remove() })
    }

    /// Stamps that were corrected since the last call.
    pub(crate) fn take_odd(&mut self) -> Vec<OddStamp> {
        std::mem::take(&mut self.odd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn ready(order: &mut InOrder<u32>, all: bool) -> Vec<u64> {
        std::iter::from_fn(|| order.next(all)).map(|next| next.at_ns).collect()
    }

    /// An order of so many queues, of which all have begun at 0.
    fn begun(queues: u32) -> InOrder<u32> {
        let mut order = InOrder::default();
        order.expect(queues as usize);
        (0..queues).for_each(|queue| [0, 0].into_iter().for_each(|at| order.add(queue, at, 0)));
        ready(&mut order, false);
        order
    }

    #[test]
    fn what_may_have_a_forerunner_waits() {
        let mut order = begun(2);
        [1, 2, 4].into_iter().for_each(|at| order.add(0, at, 0));
        assert!(ready(&mut order, false).is_empty(), "queue 1 may have something older");
        [3, 4].into_iter().for_each(|at| order.add(1, at, 1));
        assert_eq!(ready(&mut order, false), [1, 2, 3, 4, 4]);
        [6, 7].into_iter().for_each(|at| order.add(0, at, 0));
        assert!(ready(&mut order, false).is_empty());
        order.reach(1, 6);
        assert_eq!(ready(&mut order, false), [6], "nothing came there until then");
        assert_eq!(ready(&mut order, true), [7]);
    }

    #[test]
    fn a_silent_queue_does_not_keep_all_others() {
        let mut order = begun(1);
        order.expect(2);
        let count = MOST as u64 + 10;
        (0..count).for_each(|at| order.add(0, at, 0));
        assert_eq!(ready(&mut order, false), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn one_queue_waits_for_no_other() {
        let mut order = begun(1);
        order.add(0, 5, 0);
        // A little older: it comes late, as on the wire.
        order.add(0, 4, 0);
        assert_eq!(ready(&mut order, false), [4, 5]);
    }

    /// Stamps of one queue in tenths of a second, and what becomes of them: a bar begins a period, a star is a stamp that is not
    /// believed.
    fn check(stamps: &str, expected: &str) {
        let mut order: InOrder<()> = InOrder::default();
        for stamp in stamps.split_whitespace() {
            let tenths: u64 = stamp.parse().expect("a number");
            order.add(0, tenths * S / 10, ());
        }
        order.end_queues();
        let odd: Vec<_> = order.take_odd().into_iter().map(|odd| odd.time_ns).collect();
        let (mut period, mut text) = (0, String::new());
        while let Some(next) = order.next(true) {
            if next.period > period {
                text += "| ";
                period = next.period;
            }
            text += &format!("{} ", next.at_ns * 10 / S);
        }
        text += &"*".repeat(odd.len());
        assert_eq!(text.trim_end(), expected, "{stamps}");
    }

    #[test]
    fn one_wrong_stamp_moves_no_time_and_a_clock_that_is_set_back_begins_a_period() {
        check("0 1 2 3", "0 1 2 3");
        check("100 101 102 35 36 37", "100 101 102 | 35 36 37");
        check("100 101 99 102", "99 100 101 102");
        check("100 101 999999 102 103", "100 101 101 102 103 *");
        check("100 101 3 102 103", "100 101 101 102 103 *");
        check("999999 100 101", "100 100 101 *");
        // Nothing came for long, once and often.
        check("100 101 555 556", "100 101 555 556");
        check("0 100 200 300", "0 100 200 300");
        // Two that agree are believed.
        check("100 999998 999999 101 102", "100 999998 999999 | 101 102");
        check("100 101", "100 101");
        check("100", "100");
        check("100 101 999", "100 101 999");
        check("100 101 50 30 10", "100 101 | 50 | 30 | 10");
    }

    #[test]
    fn queues_of_one_clock_begin_a_period_together_and_a_section_begins_one() {
        let mut order = begun(2);
        let add = |order: &mut InOrder<u32>, queue, times: &[u64]| {
            times.iter().for_each(|at| order.add(queue, at * S, queue));
        };
        add(&mut order, 0, &[100, 101, 50, 51]);
        add(&mut order, 1, &[100, 101]);
        let seconds =
            |order: &mut InOrder<u32>, all| ready(order, all).iter().map(|at| at / S).collect::<Vec<_>>();
        assert_eq!(seconds(&mut order, false), [100, 100, 101, 101], "50 of queue 0 waits for queue 1");
        add(&mut order, 1, &[50, 52]);
        assert_eq!(seconds(&mut order, false), [50, 50], "51 of queue 0 waits: 52 is doubtful");
        order.end_queues();
        assert_eq!(seconds(&mut order, true), [51, 52]);
        add(&mut order, 0, &[7]);
        order.end_queues();
        assert_eq!(order.next(true).map(|next| (next.period, next.at_ns)), Some((2, 7 * S)));
    }
}
