//! The outside: public addresses, and the holder of each of their ports.
//!
//! ```text
//! address > number > page of 256 ports, per protocol, made when first used > slot
//! ```
//! The same entry says whether a port is in use, and since when it is not: there is no second list of ports.

use weir_memory::prefetch;

use crate::table::arena::Arena;
use crate::table::timers::Tick;

/// The first port that is not well-known.
pub(super) const LOW: u16 = 1024;
/// Ports of a page.
const PAGE: usize = 256;
/// Pages of a protocol of an address.
const PAGES: usize = 65_536 / PAGE;
/// Entries for the pages of all addresses that there can ever be: memory is touched only where addresses are, and a new address
/// moves nothing.
const ROOM: usize = 65_536 * SPACES * PAGES;
/// Set in an entry: the port is free, the rest is the tick at which it was given back.
const HELD: u32 = 1 << 31;

/// Protocols with port spaces of their own (RFC 7857 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Tcp = 0,
    Udp = 1,
    /// Identifiers of queries.
    Icmp = 2,
    /// Protocols without ports: the owner follows from the remote end.
    Other = 3,
}

/// Spaces with ports.
const SPACES: usize = Space::Other as usize;
/// All spaces.
pub(crate) const ALL_SPACES: usize = SPACES + 1;

impl Space {
    /// The space of a protocol; `None` if it has no ports.
    #[inline]
    pub(crate) fn of(proto: u8) -> Option<Space> {
        match proto {
            6 => Some(Space::Tcp),
            17 => Some(Space::Udp),
            1 | 58 => Some(Space::Icmp),
            _ => None,
        }
    }
}

/// An outside endpoint: an outside address by its number, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) outside: u16,
    pub(crate) space: Space,
    pub(crate) port: u16,
}

/// The holder of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Free,
    /// Free, for so many ticks.
    FreeSince(u32),
    Slot(u32),
}

#[repr(align(64))]
struct Page([u32; PAGE]);

/// A range of addresses.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u32,
    last: u32,
    number: u16,
}

/// All public addresses and their ports.
pub(crate) struct Outside {
    addresses: Vec<u32>,
    /// In order, to find the number of an address.
    runs: Vec<Run>,
    /// One more than the number of a page; 0: there is none yet.
    page: Vec<u32>,
    pages: Arena<Page>,
}

impl Outside {
    pub(crate) fn new() -> Outside {
        Outside {
            addresses: Vec::new(),
            runs: Vec::new(),
            page: Vec::with_capacity(ROOM),
            pages: Arena::new(),
        }
    }

    /// Adds an address, and returns its number.
    pub(crate) fn add(&mut self, address: u32) -> u16 {
        let number =
            u16::try_from(self.addresses.len()).expect("the configuration has at most 65536 addresses");
        self.addresses.push(address);
        self.page.resize(self.addresses.len() * SPACES * PAGES, 0);
        let follows = |run: &&mut Run| {
            run.last.checked_add(1) == Some(address)
                && u32::from(number) == u32::from(run.number) + (run.last - run.first) + 1
        };
        match self.runs.iter_mut().find(follows) {
            Some(run) => run.last = address,
            None => {
                self.runs.push(Run { first: address, last: address, number });
                self.runs.sort_by_key(|run| run.first);
            }
        }
        number
    }

    /// The first of all addresses.
    pub(crate) fn first(&self) -> Option<u32> {
        self.addresses.first().copied()
    }

    /// How many addresses there are.
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    #[inline]
    pub(crate) fn address(&self, number: u16) -> u32 {
        self.addresses[usize::from(number)]
    }

    /// The number of an address, if it is one of these.
    #[inline]
    pub(crate) fn number(&self, address: u32) -> Option<u16> {
        let run = match &self.runs[..] {
            [run] => run,
            runs => runs.get(runs.partition_point(|run| run.last < address))?,
        };
        (run.first..=run.last).contains(&address).then(|| run.number + (address - run.first) as u16)
    }

    #[inline]
    fn page(&self, endpoint: Endpoint) -> usize {
        (usize::from(endpoint.outside) * SPACES + endpoint.space as usize) * PAGES
            + usize::from(endpoint.port) / PAGE
    }

    #[inline]
    fn entry(&self, endpoint: Endpoint) -> u32 {
        match self.page[self.page(endpoint)] {
            0 => 0,
            page => self.pages[page - 1].0[usize::from(endpoint.port) % PAGE],
        }
    }

    /// Prefetches the entry of a port.
    #[inline]
    pub(crate) fn touch(&self, endpoint: Endpoint) {
        if let Some(page) = self.page[self.page(endpoint)].checked_sub(1) {
            prefetch(&self.pages[page].0[usize::from(endpoint.port) % PAGE]);
        }
    }

    fn entry_mut(&mut self, endpoint: Endpoint) -> &mut u32 {
        let page = self.page(endpoint);
        if self.page[page] == 0 {
            self.page[page] = self.pages.push(Page([0; PAGE])) + 1;
        }
        &mut self.pages[self.page[page] - 1].0[usize::from(endpoint.port) % PAGE]
    }

    /// The slot that has a port, or 0.
    #[inline]
    pub(crate) fn slot(&self, endpoint: Endpoint) -> u32 {
        let entry = self.entry(endpoint);
        if entry & HELD == 0 { entry } else { 0 }
    }

    /// The holder of a port.
    pub(crate) fn holder(&self, endpoint: Endpoint, now: Tick) -> Holder {
        match self.entry(endpoint) {
            0 => Holder::Free,
            // The tick was cut to 31 bits.
            entry if entry & HELD != 0 => Holder::FreeSince(now.0.wrapping_sub(entry) & !HELD),
            slot => Holder::Slot(slot),
        }
    }

    /// A slot takes a port.
    pub(crate) fn take(&mut self, endpoint: Endpoint, slot: u32) {
        *self.entry_mut(endpoint) = slot;
    }

    /// The port is free again; `now` if it is to rest first.
    pub(crate) fn give_back(&mut self, endpoint: Endpoint, rest_from: Option<Tick>) {
        *self.entry_mut(endpoint) = rest_from.map_or(0, |now| now.0 | HELD);
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.page.len() * 4 + self.pages.len() as usize * size_of::<Page>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_numbers_and_ports_holders() {
        let mut outside = Outside::new();
        let addresses = [0xc000_0201, 0xc000_0202, 0xc000_0203, 0xc633_6401, 0xc000_0204, 0xcb00_7101];
        for (number, address) in addresses.into_iter().enumerate() {
            assert_eq!(outside.add(address), number as u16);
        }
        for (number, address) in addresses.into_iter().enumerate() {
            assert_eq!(outside.number(address), Some(number as u16), "{address:x}");
            assert_eq!(outside.address(number as u16), address);
        }
        for other in [0, 0xc000_0200, 0xc000_0205, 0xc633_6402, 0xcb00_7102, u32::MAX] {
            assert_eq!(outside.number(other), None, "{other:x}");
        }
        let endpoint = |outside, space, port| Endpoint { outside, space, port };
        let one = endpoint(3, Space::Udp, 5000);
        outside.take(one, 77);
        assert_eq!(outside.slot(one), 77);
        for other in
            [endpoint(3, Space::Tcp, 5000), endpoint(2, Space::Udp, 5000), endpoint(3, Space::Udp, 5001)]
        {
            assert_eq!(outside.slot(other), 0);
        }
        outside.give_back(one, Some(Tick(u32::MAX - 4)));
        assert_eq!(outside.slot(one), 0);
        assert_eq!(outside.holder(one, Tick(5)), Holder::FreeSince(10));
        outside.give_back(one, None);
        assert_eq!(outside.holder(one, Tick(5)), Holder::Free);
        assert_eq!(outside.pages.len(), 1);
    }
}
