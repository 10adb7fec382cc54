//! The mappings that hosts have asked for (see `pcp.rs`), and when they end. `table/leases.rs` has what a lease does to its
//! mapping.

use std::collections::{BTreeSet, HashMap};

use super::slot::Inside;
use crate::drops::DropReason;
use crate::time::Time;

/// The nonce by which a host proves that a lease is its own.
pub(super) type Nonce = [u8; 12];

#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) nonce: Nonce,
    pub(super) until: Time,
}

/// All leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_inside: HashMap<Inside, Lease>,
    due: BTreeSet<(Time, Inside)>,
}

/// A request.
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
    /// The lease of an inside end.
    pub(super) fn get(&self, inside: &Inside) -> Option<Lease> {
        self.by_inside.get(inside).copied()
    }

    /// An inside end has this lease, which replaces the one that it had.
    pub(super) fn insert(&mut self, inside: Inside, lease: Lease) {
        self.remove(&inside);
        self.by_inside.insert(inside, lease);
        self.due.insert((lease.until, inside));
    }

    /// Removes the lease of an inside end; false if it had none.
    pub(super) fn remove(&mut self, inside: &Inside) -> bool {
        let Some(lease) = self.by_inside.remove(inside) else { return false };
        self.due.remove(&(lease.until, *inside));
        true
    }

    /// The lease that ends first, and when.
    pub(super) fn first_due(&self) -> Option<(Time, Inside)> {
        self.due.first().copied()
    }
}
