//! Which mappings hosts have asked for by themselves (see `pcp.rs`), and until when. What a lease does to its mapping:
//! `table/leases.rs`.

use std::collections::{BTreeSet, HashMap};

use super::slot::Inside;
use crate::drops::DropReason;
use crate::time::Time;

/// What a host proves by that a lease is its own.
pub(super) type Nonce = [u8; 12];

#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) nonce: Nonce,
    pub(super) until: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_inside: HashMap<Inside, Lease>,
    due: BTreeSet<(Time, Inside)>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) inside: Inside,
    pub(super) nonce: Nonce,
    pub(super) until: Time,
    /// Any remote host may use the mapping.
    pub(super) is_open: bool,
}

/// Why there is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Another host has it.
    NotYours,
    /// There is no port, or no more for this host.
    Short(DropReason),
}

impl Leases {
    /// That of an inside end.
    pub(super) fn get(&self, inside: &Inside) -> Option<Lease> {
        self.by_inside.get(inside).copied()
    }

    /// An inside end has this lease, in the place of the one that it had.
    pub(super) fn insert(&mut self, inside: Inside, lease: Lease) {
        self.remove(&inside);
        self.by_inside.insert(inside, lease);
        self.due.insert((lease.until, inside));
    }

    /// An inside end has none any more; false if it had none.
    pub(super) fn remove(&mut self, inside: &Inside) -> bool {
        let Some(lease) = self.by_inside.remove(inside) else { return false };
        self.due.remove(&(lease.until, *inside));
        true
    }

    /// The one that is over first, and when.
    pub(super) fn first_due(&self) -> Option<(Time, Inside)> {
        self.due.first().copied()
    }
}
