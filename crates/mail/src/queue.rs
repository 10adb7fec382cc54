//! The order of recipients: those that wait, domain by domain, with limits per domain and times of retries (RFC 5321, section
//! 4.5.4).
//! Pure, in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::log::{Done, Record, Verdict};
use crate::session::{Outcome, Recipient};

/// How much of a domain is done at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerDomain {
    /// Connections to a domain at the same time, at least 1.
    pub connections: u32,
    /// Recipients of a connection, at least 1: with more, more connections are opened.
    pub recipients: u32,
}

/// When delivery is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// In all, at least 1; a recipient that is deferred so often has expired.
    pub attempts: u8,
    /// Seconds until the second attempt; each next wait is twice as long. RFC 5321 wants 30 minutes at least, and to go on
    /// for 4 to 5 days: `attempts = 9` with 1,800 s.
    pub after_s: f64,
}

impl Retry {
    fn wait(&self, attempts: u8) -> Duration {
        let doubled = 2f64.powi(i32::from(attempts.saturating_sub(1)));
        Duration::try_from_secs_f64(self.after_s * doubled).unwrap_or(Duration::MAX / 4)
    }
}

/// A domain of the job.
#[derive(Debug, Default)]
struct Domain {
    /// Numbers of recipients without an attempt.
    fresh: VecDeque<Range<u64>>,
    /// Recipients whose retry is due.
    again: VecDeque<Recipient>,
    /// Connections.
    active: u32,
    /// It has a place in `ready`.
    queued: bool,
}

impl Domain {
    fn waiting(&self) -> u64 {
        self.fresh.iter().map(|range| range.end - range.start).sum::<u64>() + self.again.len() as u64
    }
}

/// All that one thread of the engine delivers to.
pub(crate) struct Queue {
    domains: Vec<Domain>,
    numbers: Vec<(u32, Range<u64>)>,
    ready: VecDeque<usize>,
    later: BinaryHeap<Reverse<(Duration, usize, Recipient)>>,
    limits: PerDomain,
    retry: Retry,
    /// Recipients without a recorded outcome.
    open: u64,
    /// Recipients that no connection has.
    waiting: u64,
    /// How often the message is still to be sent again.
    repeats: u32,
    done: Done,
}

/// The part of a job that one thread delivers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// Number of the thread.
    pub(crate) number: u32,
    /// How many threads there are.
    pub(crate) of: u32,
}

/// How the recipients of a queue are delivered to.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    /// Connections and recipients at a time, per domain.
    pub(crate) limits: PerDomain,
    /// What becomes of recipients that a server defers.
    pub(crate) retry: Retry,
    /// How often the message is sent again after the first time.
    pub(crate) repeats: u32,
}

impl Queue {
    /// The share of a thread, without the recipients that are done. The message is sent again as soon as no recipient waits for the
    /// previous one.
    pub(crate) fn new(job: &Job, share: Share, done: Done, delivery: Delivery) -> Queue {
        let Delivery { limits, retry, repeats } = delivery;
        let mut first = 0;
        let all = job.sizes().into_iter().map(|size| {
            first += size;
            first - size..first
        });
        let own = (0..).zip(all).filter(|(domain, _)| domain % share.of == share.number);
        let numbers: Vec<_> = own.collect();
        let domains = numbers.iter().map(|_| Domain::default()).collect();
        let (ready, later) = (VecDeque::new(), BinaryHeap::new());
        let mut queue =
            Queue { domains, numbers, ready, later, limits, retry, open: 0, waiting: 0, repeats, done };
        queue.fill();
        queue
    }

    /// Queues all recipients.
    fn fill(&mut self) {
        self.waiting = 0;
        for place in 0..self.domains.len() {
            let numbers = self.numbers[place].1.clone();
            self.open += numbers.clone().filter(|id| !self.done.has(*id)).count() as u64;
            self.domains[place].fresh.push_back(numbers);
            self.waiting += self.domains[place].waiting();
            self.consider(place);
        }
    }

    /// A place in the queue if there is work for another connection.
    fn consider(&mut self, place: usize) {
        let domain = &mut self.domains[place];
        let wanted =
            domain.waiting().div_ceil(self.limits.recipients.into()).min(self.limits.connections.into());
        if !domain.queued && u64::from(domain.active) < wanted {
            domain.queued = true;
            self.ready.push_back(place);
        }
    }

    /// The next domain and its recipients for one connection; [`Queue::ended`] is to follow.
    pub(crate) fn next(&mut self, now: Duration) -> Option<(usize, Vec<Recipient>)> {
        while self.next_due().is_some_and(|due| due <= now)
            && let Some(Reverse((_, place, recipient))) = self.later.pop()
        {
            self.domains[place].again.push_back(recipient);
            self.waiting += 1;
            self.consider(place);
        }
        // Many recipients wait only if their domains have all their allowed connections.
        let few = self.numbers.last().map_or(0, |(_, numbers)| numbers.end) / 2;
        if self.ready.is_empty() && self.repeats > 0 && self.waiting <= few {
            self.repeats -= 1;
            self.fill();
        }
        while let Some(place) = self.ready.pop_front() {
            let recipients = self.take(place);
            self.domains[place].queued = false;
            if !recipients.is_empty() {
                self.waiting = self.waiting.saturating_sub(recipients.len() as u64);
                self.domains[place].active += 1;
                self.consider(place);
                return Some((place, recipients));
            }
        }
        None
    }

    fn take(&mut self, place: usize) -> Vec<Recipient> {
        let (domain, most) = (&mut self.domains[place], self.limits.recipients as usize);
        let n = domain.again.len().min(most);
        let mut taken: Vec<Recipient> = domain.again.drain(..n).collect();
        while let Some(range) = domain.fresh.front_mut() {
            match range.next() {
                None => drop(domain.fresh.pop_front()),
                Some(id) if self.done.has(id) => {}
                Some(id) => taken.push(Recipient { id, attempts: 0 }),
            }
            if taken.len() >= most {
                break;
            }
        }
        taken
    }

    /// A connection has ended.
    pub(crate) fn ended(&mut self, place: usize) {
        self.domains[place].active -= 1;
        self.consider(place);
    }

    /// Settles a recipient by its outcome; returns its record, unless it is to be tried again.
    pub(crate) fn settle(
        &mut self,
        place: usize,
        who: Recipient,
        outcome: Outcome,
        now: Duration,
    ) -> Option<Record> {
        let attempts = who.attempts.saturating_add(1);
        let (verdict, code) = match outcome {
            Outcome::Delivered(code) => (Verdict::Delivered, code),
            Outcome::Failed(trouble) => (Verdict::Failed, trouble.code()),
            Outcome::Deferred(trouble) if attempts >= self.retry.attempts => {
                (Verdict::Expired, trouble.code())
            }
            Outcome::Deferred(_) => {
                let due = now.saturating_add(self.retry.wait(attempts));
                self.later.push(Reverse((due, place, Recipient { attempts, ..who })));
                return None;
            }
        };
        self.open -= 1;
        Some(Record { recipient: who.id, verdict, code, attempts })
    }

    /// The number of a domain in the job.
    pub(crate) fn domain(&self, place: usize) -> u32 {
        self.numbers[place].0
    }

    /// Recipients without an outcome.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// When the next recipient is to be tried again.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.later.peek().map(|Reverse((due, ..))| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Cause, Trouble, Verb};

    const LATER: Outcome = Outcome::Deferred(Trouble { at: Verb::Rcpt, cause: Cause::Code(450) });

    fn queue(recipients: u64, domains: u32, repeats: u32) -> Queue {
        let job = Job { recipients, domains, skew: 0.0 };
        let delivery = Delivery {
            limits: PerDomain { connections: 2, recipients: 3 },
            retry: Retry { attempts: 3, after_s: 10.0 },
            repeats,
        };
        Queue::new(&job, Share { number: 0, of: 1 }, Done::default(), delivery)
    }

    fn ids(taken: Option<(usize, Vec<Recipient>)>) -> (usize, Vec<u64>) {
        let (place, recipients) = taken.expect("a domain is ready");
        (place, recipients.iter().map(|recipient| recipient.id).collect())
    }

    #[test]
    fn domains_alternate_within_their_limits() {
        let mut queue = queue(20, 2, 0);
        let now = Duration::ZERO;
        assert_eq!(ids(queue.next(now)), (0, vec![0, 1, 2]));
        assert_eq!(ids(queue.next(now)), (1, vec![10, 11, 12]));
        assert_eq!(ids(queue.next(now)), (0, vec![3, 4, 5]));
        assert_eq!(ids(queue.next(now)), (1, vec![13, 14, 15]));
        assert_eq!(queue.next(now), None, "two connections to each");
        queue.ended(1);
        assert_eq!(ids(queue.next(now)), (1, vec![16, 17, 18]));
        assert_eq!(queue.next(now), None);
        queue.ended(1);
        assert_eq!(queue.next(now), None, "for one recipient the connection that is left is enough");
        queue.ended(1);
        assert_eq!(ids(queue.next(now)), (1, vec![19]));
    }

    #[test]
    fn the_deferred_are_tried_again_until_they_expire() {
        let mut queue = queue(1, 1, 0);
        for (attempt, (at, due)) in [(0, Some(10)), (10, Some(30)), (30, None)].into_iter().enumerate() {
            let now = Duration::from_secs(at);
            if at > 0 {
                assert_eq!(queue.next(now - Duration::from_millis(1)), None);
            }
            let (place, taken) = queue.next(now).unwrap();
            let record = queue.settle(place, taken[0], LATER, now);
            queue.ended(place);
            assert_eq!(queue.next_due(), due.map(Duration::from_secs), "attempt {attempt}");
            let expired = Record { recipient: 0, verdict: Verdict::Expired, code: 450, attempts: 3 };
            assert_eq!(record, due.is_none().then_some(expired));
        }
        assert_eq!(queue.open(), 0);
    }

    #[test]
    fn the_next_message_begins_when_nobody_waits_for_the_last() {
        let mut queue = queue(2, 1, 1);
        let now = Duration::ZERO;
        assert_eq!(ids(queue.next(now)), (0, vec![0, 1]));
        assert_eq!((queue.next(now), queue.open()), (None, 4), "one connection is enough for two recipients");
        queue.ended(0);
        assert_eq!(ids(queue.next(now)), (0, vec![0, 1]));
        queue.ended(0);
        assert_eq!(queue.next(now), None);
    }

    #[test]
    fn nobody_who_is_done_gets_it_again() {
        let mut done = Done::default();
        [0, 2, 3].iter().for_each(|id| assert!(done.add(*id)));
        let job = Job { recipients: 4, domains: 2, skew: 0.0 };
        let delivery = Delivery {
            limits: PerDomain { connections: 1, recipients: 9 },
            retry: Retry { attempts: 1, after_s: 1.0 },
            repeats: 0,
        };
        let mut queue = Queue::new(&job, Share { number: 0, of: 1 }, done, delivery);
        assert_eq!(queue.open(), 1);
        assert_eq!(ids(queue.next(Duration::ZERO)), (0, vec![1]));
        assert_eq!(queue.next(Duration::ZERO), None);
    }
}
