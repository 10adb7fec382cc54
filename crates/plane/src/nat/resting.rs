//! How many ports rest before they are allocated again: beyond a limit none does, so that a storm of short sessions does not use
//! up all ports (RFC 6888 REQ-8).

use std::collections::VecDeque;
use std::time::Duration;

use crate::table::timers::Tick;

/// How many ports rest, by the time at which they began to: in 2^10 ticks, about a second.
pub(super) struct RestingPorts {
    began: VecDeque<u32>,
    total: u32,
    most: u32,
    /// The time of the last of `began`.
    now: Tick,
}

impl RestingPorts {
    pub(super) fn new(hold: Duration, most: u32) -> RestingPorts {
        let slots = (Tick::count(hold) >> 10) as usize + 2;
        RestingPorts { began: vec![0; slots].into(), total: 0, most, now: Tick(0) }
    }

    /// Counts one more, if there is room.
    pub(super) fn one_more(&mut self, now: Tick) -> bool {
        // A session may be reported some time after its end: it counts as of the last time.
        let now = if now.since(self.now) as i32 > 0 { now } else { self.now };
        let seconds = (now.0 >> 10).wrapping_sub(self.now.0 >> 10);
        for _ in 0..seconds.min(self.began.len() as u32) {
            self.total -= self.began.pop_front().expect("as many as seconds");
            self.began.push_back(0);
        }
        self.now = now;
        let has_room = self.total < self.most;
        if has_room {
            self.total += 1;
            *self.began.back_mut().expect("at least two") += 1;
        }
        has_room
    }
}
