//! What the threads of a node tell each other of neighbours: what others have asked for, and what has changed. A host that floods
//! a link with neighbour messages takes only a small part of the rings between threads.
//!
//! ```text
//! a thread asks for X > the others pass on what they hear of X, once
//! a thread hears what is new to it > reported, so many times per second
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use crate::frame::PortId;
use crate::table::allowance::Allowance;
use crate::threads::{NeighbourNews, Share};
use crate::time::Time;

/// How long another thread waits for an answer; it asks again in the meantime.
const WANTED: Duration = Duration::from_secs(2);
/// Neighbours that other threads wait for.
const MOST_WANTED: usize = 1 << 16;
/// Unsolicited news of a port: so many at once, and one more each so often.
const UNASKED: (u64, u64) = (64, 5_000_000);

type Which = (PortId, IpAddr);

/// What a thread and the others tell each other.
#[derive(Debug)]
pub(super) struct Gossip {
    /// There are other threads.
    has_others: bool,
    unread: Vec<NeighbourNews>,
    /// Until when others wait for an answer, and how many do.
    wanted: HashMap<Which, (Time, u32)>,
    /// In the order of time; a neighbour that is asked for again stands here again.
    order: VecDeque<(Time, Which)>,
    /// Limits for unsolicited news, by port.
    unasked: Vec<Allowance>,
}

impl Gossip {
    pub(super) fn new(ports: usize, share: Share) -> Gossip {
        Gossip {
            has_others: share.of > 1,
            unread: Vec::new(),
            wanted: HashMap::new(),
            order: VecDeque::new(),
            unasked: vec![Allowance::default(); ports],
        }
    }

    /// Room for ports up to this number.
    pub(super) fn make_room_for_ports(&mut self, ports: usize) {
        self.unasked.resize(ports.max(self.unasked.len()), Allowance::default());
    }

    /// News for the other threads since the last call.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = NeighbourNews> {
        self.unread.drain(..)
    }

    /// Publishes news; `frame` returns the frame without tags.
    pub(super) fn publish(&mut self, port: PortId, frame: impl FnOnce() -> Vec<u8>) {
        if self.has_others {
            self.unread.push(NeighbourNews { port, frame: frame() });
        }
    }

    /// Whether the others are to hear of this neighbour: if one of them waits for that, or it is new and the limit for
    /// unsolicited news is not reached.
    pub(super) fn is_worth_it(&mut self, now: Time, (port, ip): Which, is_new: bool) -> bool {
        if !self.has_others {
            return false;
        }
        if let Some((until, waiting)) = self.wanted.get_mut(&(port, ip))
            && *until >= now
            && *waiting > 0
        {
            *waiting -= 1;
            return true;
        }
        let (burst, interval_ns) = UNASKED;
        let unasked = self.unasked.get_mut(usize::from(port.0));
        is_new && unasked.is_some_and(|unasked| unasked.once_more(now, interval_ns, burst))
    }

    /// Another thread waits for an answer of this one.
    pub(super) fn wait_for(&mut self, now: Time, which: Which) {
        while self.order.len() >= MOST_WANTED || self.order.front().is_some_and(|(until, _)| *until < now) {
            if let Some((until, old)) = self.order.pop_front()
                && self.wanted.get(&old).is_some_and(|wanted| wanted.0 == until)
            {
                self.wanted.remove(&old);
            }
        }
        let until = now + WANTED;
        let wanted = self.wanted.entry(which).or_insert((until, 0));
        *wanted = (until, wanted.1.saturating_add(1));
        self.order.push_back((until, which));
    }
}
