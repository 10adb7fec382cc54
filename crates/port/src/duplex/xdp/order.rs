//! Which of two ways out frames take, so that those of a flow stay in their order: the receiving end of a veth has a queue for
//! each, and what is put into one may be received before what is in the other.
//!
//! ```text
//!  few frames > socket          many, once all by the socket have left > live
//!  any frames > live            few, once nothing has left live for a while > socket
//! ```
//! When frames that leave live have been received nobody says; the receiver polls them within microseconds, and a pause of
//! [`PAUSE`] is for one that was delayed. Frames that are too long to leave live do not wait for it.

use std::time::{Duration, Instant};

/// From so many frames on a call is cheaper than sending them one by one.
const WORTH: usize = 12;
/// After so long what left live has been received.
const PAUSE: Duration = Duration::from_micros(500);

/// When frames left live.
#[derive(Debug, Default)]
pub(super) struct Order {
    last_live: Option<Instant>,
}

impl Order {
    /// Whether so many frames leave live, which can; `is_drained` says whether all by the socket have left.
    pub(super) fn goes_live(
        &mut self,
        frames: usize,
        now: Instant,
        is_drained: impl FnOnce() -> bool,
    ) -> bool {
        let is_recent = self.last_live.is_some_and(|last| now.duration_since(last) < PAUSE);
        let goes = is_recent || frames >= WORTH && is_drained();
        self.last_live = goes.then_some(now);
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_changes_only_when_the_other_is_empty() {
        let (mut order, begin) = (Order::default(), Instant::now());
        for (at_us, frames, is_drained, live) in [
            (0, 1, true, false),
            (1, WORTH, false, false),
            (2, WORTH, true, true),
            // The receiver may not have come to those.
            (3, 1, true, true),
            (400, 1, false, true),
            (899, 1, false, true),
            (1400, 1, true, false),
            (1401, 64, false, false),
            (1402, 64, true, true),
            (9000, WORTH - 1, true, false),
        ] {
            let goes = order.goes_live(frames, begin + Duration::from_micros(at_us), || is_drained);
            assert_eq!(goes, live, "{frames} frames at {at_us} us");
        }
    }
}
