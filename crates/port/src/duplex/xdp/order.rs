//! Which of two ways out frames take, so that those of a flow stay in their order: the receiving end of a veth has a queue for
//! each, and what is put into one may be received before what is in the other.
//!
//! ```text
//!  few frames > socket          many, once all by the socket have left           > live
//!  any frames > live            few, once the other end has taken all live ones,
//!                               and none has left live for a while               > socket
//! ```
//! The other end counts what it takes ([`super::live::Live::all_taken`]) before it has passed the last of it on, for which
//! there is a pause of [`PAUSE`]. Frames that are too long to leave live do not wait.

use std::time::{Duration, Instant};

/// From so many frames on a call is cheaper than sending them one by one.
const WORTH: usize = 12;
/// After so long the other end has passed on what it has taken.
const PAUSE: Duration = Duration::from_micros(500);
/// What has not been taken for so long after the pause is lost; a thread of the kernel that receives may wait long for a CPU.
const LOST: Duration = Duration::from_secs(10);

/// When frames left live.
#[derive(Debug, Default)]
pub(super) struct Order {
    last_live: Option<Instant>,
    /// Since when the pause is over and the other end has not taken all.
    late: Option<Instant>,
}

/// How frames leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Socket,
    /// Live, for the first time since some left by the socket.
    BeginLive,
    Live,
}

impl Order {
    /// How so many frames leave that can leave live. `all_taken` says whether the other end has taken all that left live,
    /// `is_drained` whether all by the socket have left.
    pub(super) fn choose(
        &mut self,
        frames: usize,
        now: Instant,
        all_taken: impl FnOnce() -> bool,
        is_drained: impl FnOnce() -> bool,
    ) -> Way {
        let way = if self.is_pending(now, all_taken) {
            Way::Live
        } else if frames >= WORTH && is_drained() {
            Way::BeginLive
        } else {
            Way::Socket
        };
        self.last_live = (way != Way::Socket).then_some(now);
        way
    }

    /// Whether frames that left live may not have been received yet.
    fn is_pending(&mut self, now: Instant, all_taken: impl FnOnce() -> bool) -> bool {
        let Some(last) = self.last_live else { return false };
        if now.duration_since(last) < PAUSE {
            return true;
        }
        let is_lost = |since: Instant| now.duration_since(since) >= LOST;
        if all_taken() || self.late.is_some_and(is_lost) {
            self.late = None;
            return false;
        }
        self.late.get_or_insert(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_changes_only_when_the_other_is_empty() {
        use Way::{BeginLive, Live, Socket};
        let (mut order, begin) = (Order::default(), Instant::now());
        for (at_us, frames, is_drained, way) in [
            (0, 1, true, Socket),
            (1, WORTH, false, Socket),
            (2, WORTH, true, BeginLive),
            // The receiver may not have come to those.
            (3, 1, true, Live),
            (400, 1, false, Live),
            (899, 1, false, Live),
            (1400, 1, true, Socket),
            (1401, 64, false, Socket),
            (1402, 64, true, BeginLive),
            (9000, WORTH - 1, true, Socket),
        ] {
            let now = begin + Duration::from_micros(at_us);
            let found = order.choose(frames, now, || true, || is_drained);
            assert_eq!(found, way, "{frames} frames at {at_us} us");
        }
    }

    #[test]
    fn few_frames_go_on_live_until_all_before_them_are_received() {
        let (mut order, begin) = (Order::default(), Instant::now());
        for (at_us, all_taken, is_pending) in [
            (0, false, false),
            (3, true, true),
            (400, true, true),
            (899, true, true),
            (1400, true, false),
            // The other end is late, and not for ever.
            (2000, true, false),
            (2100, false, true),
            (2700, false, true),
            (9_000_000, false, true),
            (10_002_700, false, false),
        ] {
            let (now, frames) = (begin + Duration::from_micros(at_us), [1, WORTH]);
            let begins = at_us == 0 || at_us == 2000;
            let way = order.choose(frames[usize::from(begins)], now, || all_taken, || begins);
            let expected = match (is_pending, begins) {
                (true, _) => Way::Live,
                (_, true) => Way::BeginLive,
                _ => Way::Socket,
            };
            assert_eq!(way, expected, "at {at_us} us");
        }
    }
}
