//! Identifiers of requests: 256 for each source port, used in turn, so that one that became free is not soon another request's.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

#[derive(Debug)]
pub(super) struct Ids {
    ports: Vec<Port>,
    used: usize,
    /// Identifiers of usable ports that are free.
    free: usize,
    /// Where the search begins.
    next: usize,
}

#[derive(Debug, Clone, Copy)]
struct Port {
    /// A bit for each identifier.
    used: [u64; 4],
    is_usable: bool,
}

/// Identifiers of a port.
const OF_PORT: usize = 256;

impl Port {
    const NEW: Port = Port { used: [0; 4], is_usable: true };

    fn used(&self) -> usize {
        self.used.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Takes an identifier, if it is free.
    fn take(&mut self, id: usize) -> bool {
        let Some(word) = self.used.get_mut(id / 64) else { return false };
        let bit = 1 << (id % 64);
        let is_free = *word & bit == 0;
        *word |= bit;
        is_free
    }
}

impl Ids {
    pub(super) fn new(ports: u16) -> Ids {
        let ports = vec![Port::NEW; ports.max(1).into()];
        Ids { free: ports.len() * OF_PORT, ports, used: 0, next: 0 }
    }

    /// Another number of ports: identifiers of ports that are gone are free.
    pub(super) fn resize(&mut self, ports: u16) {
        self.ports.resize(ports.max(1).into(), Port::NEW);
        self.next = 0;
        self.count();
    }

    fn count(&mut self) {
        self.used = self.ports.iter().map(Port::used).sum();
        let usable = self.ports.iter().filter(|port| port.is_usable);
        self.free = usable.map(|port| OF_PORT - port.used()).sum();
    }

    /// Whether identifiers of a port may be taken.
    pub(super) fn set_usable(&mut self, port: u16, is_usable: bool) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.is_usable = is_usable;
        }
        self.count();
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn has_free(&self) -> bool {
        self.free > 0
    }

    /// A port and an identifier. Ports take turns.
    pub(super) fn take(&mut self) -> Option<(u16, u8)> {
        if !self.has_free() {
            return None;
        }
        let ports = self.ports.len();
        let all = ports * OF_PORT;
        for step in 0..all {
            let place = (self.next + step) % all;
            let (number, id) = (place % ports, place / ports);
            let port = self.ports.get_mut(number)?;
            if port.is_usable && port.take(id) {
                (self.used, self.free) = (self.used + 1, self.free - 1);
                self.next = (place + 1) % all;
                return Some((u16::try_from(number).ok()?, u8::try_from(id).ok()?));
            }
        }
        None
    }

    /// An identifier of this port.
    pub(super) fn take_of(&mut self, number: u16) -> Option<(u16, u8)> {
        let port = self.ports.get_mut(usize::from(number)).filter(|port| port.is_usable)?;
        let id = (0..OF_PORT).find(|id| port.take(*id))?;
        (self.used, self.free) = (self.used + 1, self.free - 1);
        Some((number, u8::try_from(id).ok()?))
    }

    pub(super) fn release(&mut self, port: u16, id: u8) {
        let Some(port) = self.ports.get_mut(usize::from(port)) else { return };
        if let Some(word) = port.used.get_mut(usize::from(id) / 64) {
            let bit = 1 << (id % 64);
            let was_used = usize::from(*word & bit != 0);
            *word &= !bit;
            self.used -= was_used;
            self.free += if port.is_usable { was_used } else { 0 };
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

    #[test]
    fn identifiers_of_a_port_that_is_not_usable_are_not_taken() {
        let mut ids = Ids::new(2);
        let first = ids.take();
        ids.set_usable(0, false);
        assert_eq!((first, ids.take(), ids.take_of(0)), (Some((0, 0)), Some((1, 0)), None));
        let rest = std::iter::from_fn(|| ids.take()).count();
        assert_eq!((rest, ids.has_free(), ids.used()), (255, false, 257));
        ids.release(0, 0);
        assert!(!ids.has_free());
        ids.set_usable(0, true);
        assert_eq!(ids.take_of(0), Some((0, 0)));
        assert_eq!(std::iter::from_fn(|| ids.take()).count(), 255);
    }
}
