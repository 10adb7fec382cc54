//! When connections begin.

use std::time::Duration;

use super::{Demand, Mode};

/// When the connections of one thread begin, from its start on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    mode: Mode,
    /// Of connections at a time.
    share: u64,
    /// Number of the next connection and the distance to the one after it, of all threads.
    next: u64,
    step: u64,
    end: Duration,
}

/// May one begin?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// It was due then.
    Now(Duration),
    /// The next one is due then.
    At(Duration),
    /// When another one has ended.
    Later,
    /// No more.
    Never,
}

impl Schedule {
    pub(super) fn of(demand: &Demand, thread: u32) -> Schedule {
        let threads = u64::from(demand.threads.max(1));
        let share = match demand.mode {
            Mode::Closed(n) | Mode::Hold(n) => {
                u64::from(n) / threads + u64::from(u64::from(n) % threads > u64::from(thread))
            }
            Mode::Open(_) => 0,
        };
        let end = Duration::from_secs_f64(demand.seconds);
        Schedule { mode: demand.mode, share, next: u64::from(thread), step: threads, end }
    }

    /// Asks for the next one at the time `now`, with so many on their way and so many that have begun.
    pub(super) fn due(&self, now: Duration, in_flight: u64, begun: u64) -> Due {
        match self.mode {
            Mode::Closed(_) if now >= self.end => Due::Never,
            Mode::Closed(_) if in_flight < self.share => Due::Now(now),
            Mode::Closed(_) => Due::Later,
            Mode::Hold(_) if begun >= self.share => Due::Never,
            Mode::Hold(_) => Due::Now(now),
            Mode::Open(rate) => match Duration::from_secs_f64(self.next as f64 / rate) {
                at if at >= self.end => Due::Never,
                at if at <= now => Due::Now(at),
                at => Due::At(at),
            },
        }
    }

    /// One has begun.
    pub(super) fn begun(&mut self) {
        self.next += self.step;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;
    use crate::server::{Closing, Reply};

    fn schedule(mode: Mode, threads: u32, thread: u32) -> Schedule {
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let demand = Demand {
            to,
            reply: Reply::Busy,
            mode,
            seconds: 1.0,
            warm_up_s: 0.0,
            threads,
            sources: 1,
            closing: Closing::AfterReply,
        };
        Schedule::of(&demand, thread)
    }

    #[test]
    fn a_closed_loop_has_so_many_at_a_time() {
        let at = Duration::from_millis;
        for (thread, share) in [(0, 3), (1, 2)] {
            let own = schedule(Mode::Closed(5), 2, thread);
            assert_eq!(own.due(at(7), share - 1, 99), Due::Now(at(7)));
            assert_eq!(own.due(at(7), share, 99), Due::Later);
            assert_eq!(own.due(at(1000), 0, 99), Due::Never);
        }
    }

    #[test]
    fn an_open_loop_never_leaves_one_out() {
        let at = Duration::from_millis;
        let mut own = schedule(Mode::Open(100.0), 2, 1);
        assert_eq!(own.due(at(0), 9, 0), Due::At(at(10)));
        // Late by far: each still has its own time.
        for due in [10, 30, 50] {
            assert_eq!(own.due(at(500), 9, 0), Due::Now(at(due)));
            own.begun();
        }
        own.next = 101;
        assert_eq!(own.due(at(5000), 0, 0), Due::Never);
    }

    #[test]
    fn held_connections_begin_once() {
        let own = schedule(Mode::Hold(2), 1, 0);
        assert_eq!(own.due(Duration::ZERO, 0, 1), Due::Now(Duration::ZERO));
        assert_eq!(own.due(Duration::from_secs(99), 0, 1), Due::Now(Duration::from_secs(99)));
        assert_eq!(own.due(Duration::ZERO, 0, 2), Due::Never);
    }
}
