//! The table of a fast path, as the plane sees it: XDP programs at all ports.

use std::fmt;
use std::sync::Arc;

use weir_plane::{FastCounts, FastTable, FlowKey, FlowRule, FlowUses, Progress, Time};
use weir_port::fast::{Entry, Fast, Key, PUNTS, Track};

/// Flows that have an entry at a time.
pub(crate) const ROOM: u32 = 1 << 17;

/// The programs' maps, in the time of a node.
pub struct Table {
    fast: Arc<Fast>,
    /// When the node began, ns of CLOCK_MONOTONIC.
    start_ns: u64,
    ports: usize,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Table {
    /// For a node that began at `start_ns` of CLOCK_MONOTONIC and has so many ports.
    pub fn new(fast: Arc<Fast>, start_ns: u64, ports: usize) -> Table {
        Table { fast, start_ns, ports }
    }

    /// A time of the node as one of programs, where 0 says that it is over.
    fn ns(&self, until: Option<Time>) -> u64 {
        until.map_or(u64::MAX, |until| self.start_ns.saturating_add(until.ns()).max(1))
    }

    fn entry(&self, rule: &FlowRule) -> Entry {
        let (ip_delta, transport_delta) = rule.deltas.unwrap_or_default();
        let (dst, src, most) = rule.routed.unwrap_or_default();
        Entry {
            until_ns: self.ns(rule.until),
            epochs: rule.epochs,
            src: rule.ends.0.to_be(),
            dst: rule.ends.1.to_be(),
            sport: rule.ports.0.to_be(),
            dport: rule.ports.1.to_be(),
            ip_delta: ip_delta.to_be(),
            transport_delta: transport_delta.to_be(),
            most,
            out: rule.out.0,
            is_routed: rule.routed.is_some().into(),
            macs: [dst, src],
            tracks: rule.tracks.map(|track| track.map_or(0, |(place, side)| place * 2 + u32::from(side) + 1)),
            is_rewritten: rule.deltas.is_some().into(),
            ..Entry::default()
        }
    }
}

/// The key of a flow as programs have it.
pub fn key_of(flow: &FlowKey) -> Key {
    Key {
        src: flow.ends.0.to_be(),
        dst: flow.ends.1.to_be(),
        sport: flow.ports.0.to_be(),
        dport: flow.ports.1.to_be(),
        port: flow.port.0,
        protocol: flow.proto,
        flags: flow.flags,
        keeps_whole: flow.keeps_whole.into(),
    }
}

impl FastTable for Table {
    fn room(&self) -> u32 {
        self.fast.room()
    }

    fn insert(&mut self, key: &FlowKey, number: u32, rule: &FlowRule) -> bool {
        self.fast.insert(&key_of(key), number, &self.entry(rule)).is_ok()
    }

    fn remove(&mut self, key: &FlowKey) {
        // One that is not there is as good as removed.
        let _ = self.fast.remove(&key_of(key));
    }

    fn hold(&mut self, number: u32, until: Option<Time>) {
        self.fast.hold(number, self.ns(until));
    }

    fn end(&mut self, number: u32) {
        self.fast.hold(number, 0);
    }

    fn uses(&self, number: u32) -> FlowUses {
        let (frames, bytes, last_ns) = self.fast.uses(number);
        FlowUses { frames, bytes, last: Time::from_ns(last_ns.saturating_sub(self.start_ns)) }
    }

    fn set_epochs(&mut self, epochs: [u32; 3]) {
        self.fast.set_epochs(epochs);
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
