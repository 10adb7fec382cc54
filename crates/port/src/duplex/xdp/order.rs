//! Which of two ways out frames take, so that those of a flow stay in their order: the receiving end of a veth has a queue for
//! each, and what is put into one may be received before what is in the other.
//!
//! ```text
//!  few frames > socket          many for some calls, once all by the socket have left       > live
//!  any frames > live            few for some calls, once the other end has taken all live
//!                               ones, and none has left live for a while                    > socket
//! ```
//! A call with live frames costs the kernel much that few of them do not pay for. Part of it is due a second later, when the pool
//! of pages of the call ends ([`super::live`]): the kernel then looks through all pools that are left, so that the more calls
//! there are in a second the more each costs, and the more frames it must have. One burst does not begin it, and where frames
//! come one by one, so that there is never a pause by itself, one is made. It is short, and the frames that have come meanwhile
//! count no more than others, or each pause would make the burst that begins it anew.
//! The other end counts what it takes ([`super::live::Live::all_taken`]) before it has passed the last of it on, for which
//! there is a pause of [`PAUSE`]. Frames that are too long to leave live do not wait.

use std::time::{Duration, Instant};

/// From so many frames on a call is cheaper than sending them one by one, where there are few calls.
const WORTH: u32 = 12;
/// So many calls a second make it one frame more: the end of each pool takes 11 ns for each other one (mem_allocator_disconnect of
/// net/core/xdp.c). With 20, frames go by the socket that are cheaper live; without it, half of a CPU looked through pools.
const POOLS: u32 = 80;
/// How long calls are counted for their rate.
const COUNTED: Duration = Duration::from_millis(100);
/// So many calls count for the mean.
const CALLS: u32 = 16;
/// A call counts for the mean with so many times the frames that it is worth, at most.
const MOST_WORTH: u32 = 4;
/// After so long the other end has passed on what it has taken: 64 frames at a time (NAPI_POLL_WEIGHT), without a stop between.
const PAUSE: Duration = Duration::from_micros(100);
/// What has not been taken for so long after the pause is lost; a thread of the kernel that receives may wait long for a CPU.
const LOST: Duration = Duration::from_secs(10);

/// When frames left live.
#[derive(Debug, Default)]
pub(super) struct Order {
    last_live: Option<Instant>,
    /// Since when the pause is over and the other end has not taken all.
    late: Option<Instant>,
    /// Mean frames of a call, times [`CALLS`]; older calls count less.
    frames: u32,
    /// So many calls after a pause the next one is made, at the earliest.
    until_pause: u32,
    calls: Calls,
}

/// How often frames leave, either way: the other way would take as many calls.
#[derive(Debug, Default)]
struct Calls {
    since: Option<Instant>,
    counted: u32,
    per_second: u32,
}

impl Calls {
    fn count(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        self.counted += 1;
        let time = now.saturating_duration_since(since);
        if time >= COUNTED {
            let per_second = (f64::from(self.counted) / time.as_secs_f64()) as u32;
            *self = Calls { since: Some(now), counted: 0, per_second };
        }
    }
}

/// How frames leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendPath {
    Socket,
    /// Live, for the first time since some left by the socket.
    BeginLive,
    Live,
}

impl Order {
    /// So many frames are about to leave. How long they should wait first: few have left live at a time for a while, and could
    /// go by the socket after it.
    pub(super) fn wait(&mut self, frames: usize, now: Instant) -> Option<Duration> {
        self.calls.count(now);
        let counted = (frames as u32).min(MOST_WORTH * self.worth());
        self.frames = self.frames - self.frames / CALLS + counted;
        self.until_pause = self.until_pause.saturating_sub(1);
        let last = self.last_live.filter(|_| self.frames < self.worth() / 2 * CALLS)?;
        if self.until_pause > 0 {
            return None;
        }
        // Should the other end need longer, the next attempt is some calls away.
        self.until_pause = CALLS;
        Some((last + PAUSE).saturating_duration_since(now))
    }

    /// From so many frames on a call is cheaper than sending them one by one.
    fn worth(&self) -> u32 {
        WORTH + self.calls.per_second / POOLS
    }

    /// How so many frames leave that can leave live. `all_taken` says whether the other end has taken all that left live,
    /// `is_drained` whether all by the socket have left.
    pub(super) fn choose(
        &mut self,
        frames: usize,
        now: Instant,
        all_taken: impl FnOnce() -> bool,
        is_drained: impl FnOnce() -> bool,
    ) -> SendPath {
        let worth = self.worth();
        let are_many = frames as u32 >= worth && self.frames >= worth * CALLS;
        let path = if (are_many && self.last_live.is_some()) || self.is_pending(now, all_taken) {
            SendPath::Live
        } else if are_many && is_drained() {
            SendPath::BeginLive
        } else {
            SendPath::Socket
        };
        self.last_live = (path != SendPath::Socket).then_some(now);
        path
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

    const MANY: usize = WORTH as usize;

    /// After calls with many frames each.
    fn busy() -> Order {
        Order { frames: WORTH * CALLS, ..Order::default() }
    }

    #[test]
    fn one_burst_does_not_leave_live() {
        let (mut order, now) = (Order::default(), Instant::now());
        let mut send = |frames| {
            assert_eq!(order.wait(frames, now), None);
            order.choose(frames, now, || true, || true)
        };
        // 3 frames a call, and now and then 64.
        for _ in 0..100 {
            assert!((0..30).all(|_| send(3) == SendPath::Socket));
            assert_eq!(send(64), SendPath::Socket);
        }
        let first = (1..).find(|_| send(64) == SendPath::BeginLive);
        assert!(first.is_some_and(|calls| calls < CALLS / 2), "{first:?}");
    }

    #[test]
    fn many_calls_need_many_frames_each() {
        // Each so many us; the path after two seconds.
        for (frames, each_us, path) in [
            (15, 450, SendPath::Socket),
            (60, 450, SendPath::Live),
            (250, 500, SendPath::Live),
            (25, 10_000, SendPath::Live),
            (11, 10_000, SendPath::Socket),
        ] {
            let (mut order, begin) = (Order::default(), Instant::now());
            let mut last = SendPath::Socket;
            for n in 0..2_000_000 / each_us {
                let mut now = begin + Duration::from_micros(n * each_us);
                now += order.wait(frames, now).unwrap_or_default();
                last = order.choose(frames, now, || true, || true);
            }
            let last = if last == SendPath::BeginLive { SendPath::Live } else { last };
            assert_eq!(last, path, "{frames} frames each {each_us} us");
        }
    }

    #[test]
    fn where_few_leave_live_for_a_while_a_pause_is_made() {
        let (mut order, begin) = (busy(), Instant::now());
        assert_eq!(order.choose(64, begin, || true, || true), SendPath::BeginLive);
        // One each 10 us, so that the pause never comes by itself.
        let mut now = begin;
        let wait = loop {
            now += Duration::from_micros(10);
            if let Some(wait) = order.wait(1, now) {
                break wait;
            }
            assert_eq!(order.choose(1, now, || true, || true), SendPath::Live, "it waits before it changes");
        };
        assert!(now - begin < Duration::from_millis(1) && wait <= PAUSE, "{:?} {wait:?}", now - begin);
        // The other end needs longer: live again, and another pause after some calls.
        let late = |order: &mut Order| order.choose(1, now + wait, || false, || true);
        assert_eq!(late(&mut order), SendPath::Live);
        assert_eq!(order.wait(1, now + wait), None);
        assert_eq!(order.choose(1, now + wait + PAUSE, || true, || true), SendPath::Socket);
    }

    /// 150 frames each ms, one by one, behind a burst: what came during a pause is no reason to go on live.
    #[test]
    fn a_pause_does_not_make_the_next_burst() {
        let (mut order, begin) = (busy(), Instant::now());
        assert_eq!(order.choose(64, begin, || true, || true), SendPath::BeginLive);
        let (mut now, mut sent, mut pauses) = (begin, 0, 0);
        while now < begin + Duration::from_millis(50) {
            let came = (now - begin).as_micros() as usize * 150 / 1000;
            if came == sent {
                now += Duration::from_micros(1);
                continue;
            }
            let pause = order.wait(came - sent, now);
            pauses += u32::from(pause.is_some_and(|pause| !pause.is_zero()));
            now += pause.unwrap_or_default();
            order.choose(came - sent, now, || true, || true);
            sent = came;
        }
        assert_eq!(pauses, 1);
        assert_eq!(order.last_live, None, "frames leave by the socket");
    }

    #[test]
    fn the_way_changes_only_when_the_other_is_empty() {
        use SendPath::{BeginLive, Live, Socket};
        let (mut order, begin) = (busy(), Instant::now());
        for (at_us, frames, is_drained, path) in [
            (0, 1, true, Socket),
            (1, MANY, false, Socket),
            (2, MANY, true, BeginLive),
            // The receiver may not have come to those.
            (3, 1, true, Live),
            (40, 1, false, Live),
            (139, 1, false, Live),
            (239, 1, true, Socket),
            (1401, 64, false, Socket),
            (1402, 64, true, BeginLive),
            (9000, MANY - 1, true, Socket),
        ] {
            let now = begin + Duration::from_micros(at_us);
            let found = order.choose(frames, now, || true, || is_drained);
            assert_eq!(found, path, "{frames} frames at {at_us} us");
        }
    }

    #[test]
    fn few_frames_go_on_live_until_all_before_them_are_received() {
        let (mut order, begin) = (busy(), Instant::now());
        for (at_us, all_taken, is_pending) in [
            (0, false, false),
            (3, true, true),
            (40, true, true),
            (139, true, true),
            (239, true, false),
            // The other end is late, and not for ever.
            (2000, true, false),
            (2100, false, true),
            (2700, false, true),
            (9_000_000, false, true),
            (10_002_700, false, false),
        ] {
            let (now, frames) = (begin + Duration::from_micros(at_us), [1, MANY]);
            let begins = at_us == 0 || at_us == 2000;
            let path = order.choose(frames[usize::from(begins)], now, || all_taken, || begins);
            let expected = match (is_pending, begins) {
                (true, _) => SendPath::Live,
                (_, true) => SendPath::BeginLive,
                _ => SendPath::Socket,
            };
            assert_eq!(path, expected, "at {at_us} us");
        }
    }
}
