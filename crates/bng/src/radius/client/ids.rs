//! Identifiers of requests: 256 for each source port, used in turn, so that one that became free is not soon another request's.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

#[derive(Debug)]
pub(super) struct Ids {
    /// A bit for each identifier of each port.
    used: Vec<[u64; 4]>,
    count: usize,
    /// Where the search begins.
    next: usize,
}

impl Ids {
    pub(super) fn new(ports: u16) -> Ids {
        Ids { used: vec![[0; 4]; ports.max(1).into()], count: 0, next: 0 }
    }

    /// Another number of ports: identifiers of ports that are gone are free.
    pub(super) fn resize(&mut self, ports: u16) {
        self.used.resize(ports.max(1).into(), [0; 4]);
        self.count = self.used.iter().flatten().map(|word| word.count_ones() as usize).sum();
        self.next = 0;
    }

    pub(super) fn used(&self) -> usize {
        self.count
    }

    pub(super) fn has_free(&self) -> bool {
        self.count < self.used.len() * 256
    }

    /// A port and an identifier. Ports take turns.
    pub(super) fn take(&mut self) -> Option<(u16, u8)> {
        let ports = self.used.len();
        let all = ports * 256;
        for step in 0..all {
            let place = (self.next + step) % all;
            let (port, id) = (place % ports, place / ports);
            let word = self.used.get_mut(port).and_then(|words| words.get_mut(id / 64))?;
            let bit = 1 << (id % 64);
            if *word & bit == 0 {
                *word |= bit;
                self.count += 1;
                self.next = (place + 1) % all;
                return Some((u16::try_from(port).ok()?, u8::try_from(id).ok()?));
            }
        }
        None
    }

    pub(super) fn release(&mut self, port: u16, id: u8) {
        let words = self.used.get_mut(usize::from(port));
        if let Some(word) = words.and_then(|words| words.get_mut(usize::from(id) / 64)) {
            let bit = 1 << (id % 64);
            self.count -= usize::from(*word & bit != 0);
            *word &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn r2_each_identifier_of_each_port_is_used_once_and_a_free_one_last() {
        let mut ids = Ids::new(2);
        let taken: BTreeSet<_> = std::iter::from_fn(|| ids.take()).collect();
        assert_eq!((taken.len(), ids.used(), ids.has_free()), (512, 512, false));
        ids.release(1, 7);
        ids.release(1, 7);
        assert_eq!((ids.used(), ids.take(), ids.take()), (511, Some((1, 7)), None));
        let mut ids = Ids::new(1);
        let first = ids.take();
        ids.release(0, 0);
        assert_eq!((first, ids.take()), (Some((0, 0)), Some((0, 1))));
    }
}
