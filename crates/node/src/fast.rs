//! The table of a fast path, as the plane sees it: XDP programs at all ports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_plane::{Ends, FastCounts, FastTable, FlowKey, FlowRule, FlowUses, PortId, Progress, Time};
use weir_port::fast::{
    Entry, FRAME, Fast, IS_ENDLESS, IS_FOLLOWED, IS_REWRITTEN, IS_ROUTED, KIND_V4, KIND_V4_WHOLE, Key, PUNTS,
    Sides, TICK_BITS, Track, Wide,
};

/// Ticks tell times apart that are less than 26 days away.
const FURTHEST: Duration = Duration::from_secs(20 * 24 * 3600);

/// The programs' maps, in the time of a node.
pub struct Table {
    fast: Arc<Fast>,
    /// When the node began, ns of CLOCK_MONOTONIC.
    start_ns: u64,
    ports: usize,
    /// Those of the text, of routes and of neighbours, and the one that stands for all three.
    epochs: ([u32; 3], u32),
    /// The counter of each entry when it was read last.
    read: Vec<u64>,
    is_eager: bool,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Table {
    /// For a node that began at `start_ns` of CLOCK_MONOTONIC and has so many ports.
    pub fn new(fast: Arc<Fast>, start_ns: u64, ports: usize) -> Table {
        let read = vec![0; fast.room() as usize];
        fast.set_start(start_ns);
        Table { fast, start_ns, ports, epochs: ([0; 3], 0), read, is_eager: false }
    }

    /// A time of the node as a tick of programs, which tell no time that is further away.
    fn tick(&self, until: Time) -> u32 {
        let furthest = self.now().0 + FURTHEST;
        (until.min(furthest).ns() >> TICK_BITS) as u32
    }

    /// When a frame came to which programs gave this tick. Sessions know times by the same ticks, which begin anew alike.
    fn last(&self, tick: u32) -> Time {
        let (now, behind) = self.now();
        let last = latest((now.ns() >> TICK_BITS) as u32, tick, behind);
        Time::from_ns(u64::from(last) << TICK_BITS)
    }

    /// The time of the node, and by how many ticks that of programs may be behind.
    fn now(&self) -> (Time, u32) {
        let (now_ns, behind_ns) = self.fast.clock_ns();
        let now = Time::from_ns(now_ns.saturating_sub(self.start_ns));
        (now, behind_ns.div_ceil(1 << TICK_BITS) as u32)
    }

    /// Has each flow make an entry with its first frame, so that tests meet more of them.
    #[must_use]
    pub fn eager(self, is_eager: bool) -> Table {
        Table { is_eager, ..self }
    }

    /// The key of a flow as programs have it, and its addresses if it is of IPv6.
    fn key_of(&self, flow: &FlowKey) -> (Key, Option<Wide>) {
        let key = Key {
            sport: flow.ports.0.to_be(),
            dport: flow.ports.1.to_be(),
            port: number(flow.port),
            protocol: flow.proto,
            flags: flow.flags,
            kind: if flow.keeps_whole { KIND_V4_WHOLE } else { KIND_V4 },
            ..Key::default()
        };
        match flow.ends {
            Ends::V4 { src, dst } => (Key { src: src.to_be(), dst: dst.to_be(), ..key }, None),
            Ends::V6 { src, dst } => {
                let wide = Wide { src: src.to_be_bytes(), dst: dst.to_be_bytes() };
                (self.fast.key6(&key, &wide), Some(wide))
            }
        }
    }

    fn entry(&self, rule: &FlowRule) -> Entry {
        let ((src, dst), (sport, dport)) = rule.rewritten.unwrap_or_default();
        let (receiver, sender, most) = rule.routed.unwrap_or_default();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let (known, epoch) = self.epochs;
        Entry {
            until: rule.until.map_or(0, |until| self.tick(until)),
            // What was made of older ones never holds.
            epoch: if rule.epochs == known { epoch } else { epoch.wrapping_sub(1) },
            src: src.to_be(),
            dst: dst.to_be(),
            sport: sport.to_be(),
            dport: dport.to_be(),
            most,
            out: number(rule.out),
            flags: flag(rule.routed.is_some(), IS_ROUTED)
                | flag(rule.rewritten.is_some(), IS_REWRITTEN)
                | flag(rule.until.is_none(), IS_ENDLESS)
                | flag(rule.tracks.iter().any(Option::is_some), IS_FOLLOWED),
            macs: [receiver, sender],
            ..Entry::default()
        }
    }
}

/// The number of a port in entries.
fn number(port: PortId) -> u8 {
    u8::try_from(port.0).expect("a node with a fast path has few ports, see `Config::may_be_fast`")
}

/// The latest that something can have been which a clock gave this tick that is up to so many behind: no session ends early.
fn latest(now: u32, tick: u32, behind: u32) -> u32 {
    let age = now.wrapping_sub(tick).saturating_sub(behind);
    now.wrapping_sub(age)
}

/// The frames and bytes that a counter has counted since it was this. It begins anew after so many as no entry sees between two readings.
fn fresh(before: u64, now: u64) -> Option<(u64, u64)> {
    let fresh = now.wrapping_sub(before);
    (fresh > 0).then_some((fresh / FRAME, fresh % FRAME))
}

impl FastTable for Table {
    fn room(&self) -> u32 {
        self.fast.room()
    }

    fn is_eager(&self) -> bool {
        self.is_eager
    }

    fn place(&self, key: &FlowKey) -> u32 {
        self.fast.place(&self.key_of(key).0)
    }

    fn find(&self, key: &FlowKey) -> Option<u32> {
        self.fast.find(&self.key_of(key).0)
    }

    fn insert(&mut self, key: &FlowKey, number: u32, rule: &FlowRule) -> bool {
        self.read[number as usize] = 0;
        let side_of = |(slot, side): (u32, u8)| slot * 2 + u32::from(side) + 1;
        let sides = Sides { track: rule.tracks.map(|track| track.map_or(0, side_of)) };
        let (key, wide) = self.key_of(key);
        self.fast.insert(&key, number, &self.entry(rule), &sides, wide.as_ref())
    }

    fn remove(&mut self, key: &FlowKey) {
        // One that is not there is as good as removed.
        self.fast.remove(&self.key_of(key).0);
    }

    fn prolong(&mut self, number: u32, until: Option<Time>) {
        self.fast.prolong(number, until.map(|until| self.tick(until)));
    }

    fn end(&mut self, number: u32) {
        self.fast.end(number);
    }

    fn fresh_uses(&mut self, number: u32) -> Option<FlowUses> {
        let (used, last) = self.fast.uses(number);
        let before = std::mem::replace(&mut self.read[number as usize], used);
        let (frames, bytes) = fresh(before, used)?;
        Some(FlowUses { frames, bytes, last: self.last(last) })
    }

    fn set_epochs(&mut self, epochs: [u32; 3]) {
        if self.epochs.0 != epochs {
            self.epochs = (epochs, self.epochs.1.wrapping_add(1));
        }
        self.fast.set_epoch(self.epochs.1);
    }

    fn set_on(&mut self, on: bool) {
        self.fast.set_on(on);
    }

    fn progress(&self, track: u32) -> Progress {
        let Track { sent, awaits, window, .. } = self.fast.track(track);
        Progress { sent, awaits, window: window.map(|window| window as u16) }
    }

    fn set_progress(&mut self, track: u32, progress: &Progress) {
        let Progress { sent, awaits, window } = *progress;
        self.fast.set_track(track, &Track { sent, awaits, window: window.map(u32::from), pad: [0; 2] });
    }

    fn counts(&self) -> FastCounts {
        let counts = self.fast.counts();
        FastCounts {
            received: counts.received[..self.ports].to_vec(),
            sent: counts.sent[..self.ports].to_vec(),
            punts: PUNTS.into_iter().zip(counts.punts).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_came_no_earlier_than_it_can_have_and_not_in_the_future() {
        for (now, tick, behind, last) in [
            (100, 50, 4, 54),
            (100, 98, 4, 100),
            (100, 100, 4, 100),
            (100, 50, 0, 50), // the time of tests
            (3, u32::MAX - 9, 4, u32::MAX - 5),
            (3, u32::MAX - 1, 4, 2), // it has begun anew
        ] {
            assert_eq!(latest(now, tick, behind), last, "{tick} at {now}");
        }
    }

    #[test]
    fn a_counter_that_begins_anew_loses_nothing() {
        let mut used = 0_u64;
        // 2^28 frames are a turn of the counter.
        for (frames, size) in [(1, 1500), (200 << 20, 46), (100 << 20, 100), (7, 65_535), (250 << 20, 28)] {
            let before = used;
            used = used.wrapping_add(frames * (FRAME + size));
            assert_eq!(fresh(before, used), Some((frames, frames * size)));
            assert_eq!(fresh(used, used), None);
        }
    }
}
