//! Hosts behind subscribers, where each host of a subscriber gets the same share: one level between a class and its flows.
//!
//! ```text
//! class > host > flow     deficit round robin at both levels; a host that becomes active is served first, as a flow is
//! ```
//! A flow has the number of its host. Where hosts do not matter, there are none, and a class has its flows itself.
//!
//! Invariant: a host is there as long as it has flows, or is listed.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use super::flows::Listed;
use super::ring::{Links, Ring};
use super::wheel::NONE;

/// Whether the hosts behind a subscriber share its rate equally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HostShares {
    /// All of its flows share it.
    #[default]
    Ignored,
    /// Its hosts share it, and the flows of a host the part of that.
    Fair,
}

/// The lists of what shares something: those that have become active, and the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lists {
    pub(super) new: Ring,
    pub(super) old: Ring,
}

impl Lists {
    pub(super) const EMPTY: Lists = Lists { new: Ring::EMPTY, old: Ring::EMPTY };

    /// Whose turn it is, and whether it is new.
    pub(super) fn head(&self, links: &mut impl Links) -> Option<(u32, bool)> {
        let is_new = !self.new.is_empty();
        let list = if is_new { self.new } else { self.old };
        list.head(links).map(|head| (head, is_new))
    }

    /// Removes the one whose turn it is.
    pub(super) fn pop(&mut self, links: &mut impl Links) {
        if self.new.is_empty() {
            self.old.pop(links)
        } else {
            self.new.pop(links)
        };
    }

    /// The one whose turn it is goes behind the old ones.
    pub(super) fn make_old(&mut self, links: &mut impl Links) {
        if let Some((head, _)) = self.head(links) {
            self.pop(links);
            self.old.push(links, head);
        }
    }

    /// One that has something.
    #[inline]
    pub(super) fn any(self) -> Option<u32> {
        self.new.last().or(self.old.last())
    }
}

/// A host that has flows.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// In the list of its class.
    next: u32,
    pub(super) lists: Lists,
    pub(super) credit: i32,
    pub(super) hash: u32,
    flows: u8,
    pub(super) class: u8,
    pub(super) listed: Listed,
}

/// All hosts.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) shares: HostShares,
    all: Vec<Host>,
    free: u32,
}

impl Hosts {
    pub(super) fn new(shares: HostShares) -> Hosts {
        Hosts { shares, all: Vec::new(), free: NONE }
    }

    #[inline]
    pub(super) fn host(&self, at: u32) -> &Host {
        &self.all[at as usize]
    }

    #[inline]
    pub(super) fn host_mut(&mut self, at: u32) -> &mut Host {
        &mut self.all[at as usize]
    }

    /// A host without flows.
    pub(super) fn open(&mut self, hash: u32, class: u8) -> u32 {
        let host =
            Host { next: NONE, lists: Lists::EMPTY, credit: 0, hash, flows: 0, class, listed: Listed::No };
        if self.free == NONE {
            self.all.push(host);
            return self.all.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.host(at).next;
        *self.host_mut(at) = host;
        at
    }

    /// A host has one flow more.
    pub(super) fn add_flow(&mut self, at: u32) {
        self.host_mut(at).flows += 1;
    }

    /// A host has one flow fewer.
    pub(super) fn remove_flow(&mut self, at: u32) {
        self.host_mut(at).flows -= 1;
        self.close_if_unused(at);
    }

    /// A host is listed no more.
    pub(super) fn unlist(&mut self, at: u32) {
        self.host_mut(at).listed = Listed::No;
        self.close_if_unused(at);
    }

    fn close_if_unused(&mut self, at: u32) {
        let free = self.free;
        let host = self.host_mut(at);
        if host.flows == 0 && host.listed == Listed::No {
            host.next = free;
            self.free = at;
        }
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Host>()
    }
}

impl Links for Hosts {
    #[inline]
    fn next(&mut self, item: u32) -> &mut u32 {
        &mut self.host_mut(item).next
    }
}
