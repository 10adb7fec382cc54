//! The state table's part of a recipe: the connection of a flow whose frames a flow cache or a fast path passes on.

use super::{ANSWERED, Connections};
use crate::recipe::Key;
use crate::table::tcp::Progress;
use crate::table::tcp::{Segment, Side};
use crate::table::timers::{Class, Tick};
use crate::time::Time;

/// A connection of which both ends have sent.
#[derive(Debug, Clone, Copy)]
pub(in crate::filter) struct Open {
    pub(in crate::filter) number: u32,
    /// The end that sends the frames.
    pub(in crate::filter) side: Side,
    /// It lives so long without another frame.
    pub(in crate::filter) until: Option<Tick>,
}

impl Connections {
    /// The open connection of frames with this key.
    pub(in crate::filter) fn open(&self, now: Time, key: &Key) -> Option<Open> {
        let (number, side) = self.of_key(key)?;
        let entry = &self.entries[number];
        let class = entry.track.class;
        let is_open = entry.track.flags & ANSWERED != 0
            && matches!(class, Class::TcpEstablished | Class::Udp)
            && !self.ages.over(class, entry.seen, Tick::of(now));
        is_open.then(|| Open { number, side, until: self.ages.end(class, entry.seen) })
    }

    /// The connection of frames with this key, and the end that sends them.
    pub(in crate::filter) fn of_key(&self, key: &Key) -> Option<(u32, Side)> {
        let flow = key.flow();
        let number = self.lookup(&flow, flow.hash(&self.secret));
        (number != 0).then(|| (number, self.entries[number].side(&flow)))
    }

    /// The state of an open TCP connection.
    pub(in crate::filter) fn progress(&self, number: u32) -> Option<Progress> {
        let track = &self.entries[number].track;
        (track.class == Class::TcpEstablished).then(|| track.progress())
    }

    /// Sets the state of an open TCP connection.
    pub(in crate::filter) fn catch_up(&mut self, number: u32, progress: &Progress) {
        let track = &mut self.entries[number].track;
        if track.class == Class::TcpEstablished {
            track.catch_up(progress);
        }
    }

    /// Whether connections that change are recorded.
    pub(in crate::filter) fn watch(&mut self, is_on: bool) {
        self.renewed = is_on.then(Vec::new);
    }

    /// Those that have changed since the last call.
    pub(in crate::filter) fn renewed(&mut self) -> Vec<u32> {
        self.renewed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A number that changes whenever the connection or its state changes.
    pub(in crate::filter) fn epoch(&self, number: u32) -> u32 {
        self.epochs[number]
    }

    /// A segment of an open connection was passed on.
    pub(in crate::filter) fn advance(&mut self, number: u32, side: Side, segment: &Segment) {
        let entry = &mut self.entries[number];
        if entry.track.class == Class::TcpEstablished {
            entry.track.advance(side, segment);
        }
    }

    /// The recipe of a connection was used, the last time then.
    pub(in crate::filter) fn used(&mut self, number: u32, last: Tick) {
        self.entries[number].seen.set_later(last);
    }
}
