//! How many entries of a table each host holds, so that a host with many can be evicted. Hosts share places by a hash that cannot
//! be predicted from outside: a host counts as one with too many if it shares its place with one, never as one with too few.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::secret::Secret;

/// Places: 128 KiB.
const PLACES: usize = 1 << 15;

/// Entries by the hash of their host.
#[derive(Debug)]
pub(crate) struct Holders(Box<[u32]>);

impl Holders {
    pub(crate) fn new() -> Holders {
        Holders(vec![0; PLACES].into_boxed_slice())
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// What a host holds.
    pub(crate) fn of(&self, secret: &Secret, host: [u32; 4]) -> u32 {
        self.0.get(place(secret, host)).copied().unwrap_or_default()
    }

    /// A host has one more.
    pub(crate) fn add(&mut self, secret: &Secret, host: [u32; 4]) {
        if let Some(held) = self.0.get_mut(place(secret, host)) {
            *held += 1;
        }
    }

    /// It has one less.
    ///
    /// # Panics
    /// If none of its entries was added: a negative count would look like the largest one.
    pub(crate) fn take(&mut self, secret: &Secret, host: [u32; 4]) {
        if let Some(held) = self.0.get_mut(place(secret, host)) {
            assert!(*held > 0, "each entry that goes was added");
            *held -= 1;
        }
    }

    /// What all hold together.
    #[cfg(test)]
    pub(crate) fn all(&self) -> u64 {
        self.0.iter().map(|held| u64::from(*held)).sum()
    }
}

/// All addresses of a /64 are one host's.
fn place(secret: &Secret, host: [u32; 4]) -> usize {
    let key = match host {
        [0, 0, 0xffff, _] => host,
        [a, b, _, _] => [a, b, 0, 0],
    };
    secret.hash(key, 1) as usize % PLACES
}
