//! Counts test frames that arrive in a packet ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_packet::frame::{self, BROADCAST, Parsed, Signature};
use weir_port::bpf::now_ns;
use weir_port::packet::{PacketError, Ring, Sender};
use weir_port::shared::{Losses, Passed};

use crate::counts::{Arrivals, Arrived, Expected, GroupCounts, LostFrames, PortCounts, Watch};
use crate::loss::{self, NO_LOSSES};
use crate::sequence::{Arrival, Window};

/// MiB of the receive ring: half a second of small frames at 0.4 Mpps.
const RING_BLOCKS: u32 = 32;
/// How long one look at the ring waits for frames.
const LOOK: Duration = Duration::from_millis(5);

/// Counts at one interface.
pub struct PacketReceiver {
    ring: Ring,
    tally: Tally,
    ring_drops: u64,
}

/// What was counted, apart from the ring that is being read meanwhile.
struct Tally {
    expected: Expected,
    watch: Watch,
    clock_offset_ns: i128,
    reflector: Option<Arc<Sender>>,
    groups: Vec<Group>,
    port: PortCounts,
    frames: u64,
}

/// What arrived of a flow group, and what did not.
#[derive(Clone)]
struct Group {
    counts: GroupCounts,
    window: Window,
    losses: Box<Losses>,
}

impl PacketReceiver {
    /// Opens the ring. With a `reflector`, test frames are sent back through it.
    pub fn open(ifindex: u32, groups: u16, reflector: Option<Arc<Sender>>) -> Result<Self, PacketError> {
        let tally = Tally {
            expected: Expected::Any,
            watch: Watch::default(),
            clock_offset_ns: clock_offset_ns(),
            reflector,
            groups: no_groups(usize::from(groups)),
            port: PortCounts::default(),
            frames: 0,
        };
        Ok(PacketReceiver { ring: Ring::open(ifindex, RING_BLOCKS)?, tally, ring_drops: 0 })
    }

    /// Forgets all that was counted, and counts what is expected from now on.
    pub fn arm(&mut self, expected: Expected, watch: Watch) {
        self.ring.stats();
        self.ring_drops = 0;
        let tally = &mut self.tally;
        (tally.expected, tally.watch, tally.clock_offset_ns) = (expected, watch, clock_offset_ns());
        tally.groups = no_groups(tally.groups.len());
        if watch.ipdv {
            tally.groups.iter_mut().for_each(|g| g.counts.ipdv = Some(Box::default()));
        }
        (tally.port, tally.frames) = (PortCounts::default(), 0);
    }

    /// From when on frames are timed, CLOCK_MONOTONIC ns of their departure.
    pub(super) fn time_from(&mut self, ns: u64) {
        self.tally.watch.timed_from_ns = ns;
    }

    /// Counts what is in the ring, or comes within a few milliseconds. Returns the number of frames of all
    /// kinds.
    pub fn look(&mut self) -> Result<usize, PacketError> {
        let PacketReceiver { ring, tally, .. } = self;
        ring.receive(LOOK, |frame, time| tally.take(frame, time))
    }

    /// Counts until `done` is set and nothing more is there; `arrived` grows with the test frames.
    pub(super) fn run(&mut self, done: &AtomicBool, arrived: &AtomicU64) -> Result<(), PacketError> {
        loop {
            let last = done.load(Ordering::Acquire);
            let before = self.received();
            if self.look()? == 0 && last {
                return Ok(());
            }
            arrived.fetch_add(self.received() - before, Ordering::Relaxed);
        }
    }

    /// Test frames so far, each once.
    pub fn received(&self) -> u64 {
        self.tally.frames
    }

    /// All that was counted so far, groups without a frame left out.
    pub fn arrivals(&mut self) -> Arrivals {
        // The kernel forgets its count when it is asked.
        self.ring_drops += self.ring.stats().drops;
        let groups = self.tally.groups.iter().enumerate();
        let arrived = groups.filter(|(_, g)| g.counts.received + g.counts.duplicated > 0);
        let arrived = arrived.map(|(group, g)| Arrived {
            group: group as u16,
            counts: g.counts.clone(),
            next: g.window.next(),
        });
        Arrivals {
            frames: self.tally.frames,
            groups: arrived.collect(),
            port: self.tally.port,
            ring_drops: self.ring_drops,
        }
    }

    /// What arrived of a group.
    pub(super) fn group(&self, group: usize) -> &GroupCounts {
        &self.tally.groups[group].counts
    }

    /// When frames of a group were lost.
    pub(super) fn lost(&self, group: usize, sender: &loss::Sender) -> LostFrames {
        let Group { window, losses, .. } = &self.tally.groups[group];
        loss::dated(losses, window.next(), window.newest(), self.tally.watch.merge_ns, sender)
    }
}

impl Tally {
    fn take(&mut self, frame: &[u8], realtime_ns: u64) {
        let signature = match frame::parse(frame) {
            Parsed::Test(signature) => signature,
            Parsed::Corrupted => return self.port.corrupted += 1,
            Parsed::Other => return self.port.other += 1,
        };
        if signature.stream & BROADCAST != 0 {
            let stale = matches!(self.expected, Expected::Only { epoch, .. } if epoch != signature.epoch);
            return self.port.broadcasts += u64::from(!stale);
        }
        if let Expected::Only { epoch, stream } = self.expected {
            if signature.epoch != epoch {
                return self.port.stale += 1;
            }
            if Some(signature.stream) != stream {
                return self.port.misdelivered += 1;
            }
        }
        if let Some(group) = self.groups.get_mut(usize::from(signature.group)) {
            let now_ns = (i128::from(realtime_ns) - self.clock_offset_ns).max(0) as u64;
            // A duplicate does not stand for a frame that is still under way.
            self.frames += u64::from(group.count(signature, now_ns, &self.watch));
        }
        if let Some(sender) = &self.reflector {
            let mut back = vec![frame.to_vec()];
            frame::reflect(&mut back[0]);
            self.port.reflected += sender.send(&back).unwrap_or(0) as u64;
        }
    }
}

fn no_groups(n: usize) -> Vec<Group> {
    let group =
        Group { counts: GroupCounts::empty(), window: Window::default(), losses: Box::new(NO_LOSSES) };
    vec![group; n]
}

impl Group {
    /// Counts a frame; true if it came for the first time.
    fn count(&mut self, signature: Signature, now_ns: u64, watch: &Watch) -> bool {
        let Group { counts, window, losses } = self;
        let passed = Passed { sent_ns: signature.time_ns, arrived_ns: now_ns };
        let before = (window.next(), window.newest());
        match window.arrive(signature.seq, passed, losses, watch.merge_ns) {
            Arrival::Duplicate => {
                counts.duplicated += 1;
                return false;
            }
            Arrival::Reordered(extent) => {
                counts.reordered += 1;
                counts.extent_max = counts.extent_max.max(extent);
            }
            Arrival::InOrder => {}
        }
        counts.received += 1;
        let latency = |passed: Passed| passed.arrived_ns.saturating_sub(passed.sent_ns);
        if passed.sent_ns < watch.timed_from_ns {
            return true;
        }
        let latency_ns = latency(passed);
        if let (Some(ipdv), (next, newest)) = (&mut counts.ipdv, before)
            && next > 0
            && window.next() == next + 1
            && newest.sent_ns >= watch.timed_from_ns
        {
            ipdv.record(latency_ns, latency(newest));
        }
        if counts.latency_sum_ns == 0 || latency_ns < counts.latency_min_ns {
            counts.latency_min_ns = latency_ns;
        }
        counts.latency.record(latency_ns);
        counts.latency_sum_ns += latency_ns;
        counts.latency_max_ns = counts.latency_max_ns.max(latency_ns);
        true
    }
}

/// What to subtract from the ring's time stamps (CLOCK_REALTIME) to get those of signatures.
fn clock_offset_ns() -> i128 {
    realtime_ns() - i128::from(now_ns())
}

/// CLOCK_REALTIME, the clock of the ring's time stamps.
fn realtime_ns() -> i128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos() as i128)
}
