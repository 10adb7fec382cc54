//! All subscribers, found by name and by what identifies them.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::ops::Bound;
use std::time::Duration;

use crate::account::Account;
pub(crate) use crate::index::Index;
use crate::name::Name;
use crate::nat::Nat;
use crate::prefix::LinkPrefix;
use crate::session::{Device, Session};
use crate::subscriber::{Key, Service, Subscriber};

/// A subscriber, and what it has; with several sessions at a time, one of these for each of them (a seat).
#[derive(Debug)]
pub(crate) struct Entry {
    /// The first seat of the subscriber, which has its own address, prefix and routes.
    pub(crate) main: Index,
    /// Number of this one, 0 for the first.
    pub(crate) seat: u16,
    pub(crate) subscriber: Subscriber,
    pub(crate) on_disk: OnDisk,
    pub(crate) online: Option<Online>,
    pub(crate) offer: Option<Offer>,
    /// The address that it had last, which it gets again if it is free.
    pub(crate) last_address: Option<Ipv4Addr>,
    /// The same of a prefix of IPv6.
    pub(crate) last_prefix: Option<LinkPrefix>,
    /// Addresses that its clients declined, the oldest first.
    pub(crate) declined: Vec<Ipv4Addr>,
}

/// Whether the subscriber is on disk as it is. Else its record is written again before that of a lease, which means nothing
/// without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDisk {
    Yes,
    NotYet,
}

/// A session, and where it is known.
#[derive(Debug)]
pub(crate) struct Online {
    pub(crate) session: Session,
    /// The record that an answer to its client waits for.
    pub(crate) waits_for: Option<u64>,
    /// Whether a record of it is on disk.
    pub(crate) is_stored: bool,
    /// What the node was told; `None`: the node does not know the session.
    pub(crate) in_node: Option<Service>,
    /// Whether the node has had it: it is in its table, or was when this program began.
    pub(crate) was_in_node: bool,
    /// When its counters were last written.
    pub(crate) counted_at: Duration,
    /// When something of it is due.
    pub(crate) timers: Timers,
    /// Router advertisements to it; `None`: it has no prefix, or IPV6CP is not open.
    pub(crate) advertised: Option<Advertised>,
}

/// When something of a session is due.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timers {
    /// The next interim update, and the interval between two.
    pub(crate) interim_at: Option<Duration>,
    pub(crate) interim_s: u32,
    /// The session timeout.
    pub(crate) ends_at: Option<Duration>,
    /// The idle timeout, 0: none; and when its subscriber last sent something.
    pub(crate) idle_s: u32,
    pub(crate) idle_since: Duration,
    /// The first of them, as it is among the deadlines.
    pub(crate) due: Option<Duration>,
}

/// Router advertisements that are sent without being asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advertised {
    /// When the next one is sent.
    pub(crate) next: Duration,
    /// How many were sent.
    pub(crate) sent: u32,
}

/// An address that was offered.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: Option<LinkPrefix>,
    pub(crate) until: Duration,
    /// Which device it was offered to.
    pub(crate) device: Device,
    /// What AAA has said of the device, if it was asked.
    pub(crate) permit: Option<Box<Account>>,
}

impl Entry {
    fn new(subscriber: Subscriber, on_disk: OnDisk, main: Index) -> Entry {
        Entry {
            main,
            seat: 0,
            subscriber,
            on_disk,
            online: None,
            offer: None,
            last_address: None,
            last_prefix: None,
            declined: Vec::new(),
        }
    }
}

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    entries: Vec<Option<Entry>>,
    unused: Vec<Index>,
    by_name: BTreeMap<Name, Index>,
    /// Further seats of subscribers, the one with number 1 first.
    seats: HashMap<Index, Vec<Index>>,
    by_key: HashMap<Key, Index>,
    /// Public addresses of NAT profiles, one to one.
    by_public: HashMap<Ipv4Addr, Index>,
    /// How many are identified by a MAC address, by a line, by a circuit-id, and by a login.
    by_mac: usize,
    pub(crate) by_line: usize,
    pub(crate) by_circuit: usize,
    by_login: usize,
}

impl Subscribers {
    pub(crate) fn of_name(&self, name: &Name) -> Option<Index> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn of_key(&self, key: &Key) -> Option<Index> {
        self.by_key.get(key).copied()
    }

    /// The subscriber to which a NAT profile gives this public address.
    pub(crate) fn of_public(&self, address: Ipv4Addr) -> Option<Index> {
        self.by_public.get(&address).copied()
    }

    pub(crate) fn get(&self, index: Index) -> Option<&Entry> {
        self.entries.get(index.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut Entry> {
        self.entries.get_mut(index.0 as usize)?.as_mut()
    }

    /// All, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Index, &Entry)> {
        self.by_name.values().filter_map(|&index| Some((index, self.get(index)?)))
    }

    /// Those behind a name, in the order of their names.
    pub(crate) fn after(&self, name: Option<&Name>) -> impl Iterator<Item = &Entry> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_name.range::<Name, _>((from, Bound::Unbounded)).filter_map(|(_, &index)| self.get(index))
    }

    /// Adds a subscriber, or changes the one of this name. A key that another one has is its own from now on.
    pub(crate) fn set(&mut self, subscriber: Subscriber, on_disk: OnDisk) -> Index {
        if let Some(index) = self.of_name(&subscriber.name) {
            self.forget_key(index);
            self.forget_public(index);
            self.take_key(subscriber.key.clone(), index);
            self.take_public(subscriber.nat, index);
            for seat in self.seats(index) {
                if let Some(entry) = self.get_mut(seat) {
                    (entry.subscriber, entry.on_disk) = (subscriber.clone(), on_disk);
                }
            }
            return index;
        }
        let index = self.unused.pop().unwrap_or(Index(self.entries.len() as u32));
        self.by_name.insert(subscriber.name.clone(), index);
        self.take_key(subscriber.key.clone(), index);
        self.take_public(subscriber.nat, index);
        self.put(index, Entry::new(subscriber, on_disk, index));
        index
    }

    fn put(&mut self, index: Index, entry: Entry) {
        match self.entries.get_mut(index.0 as usize) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
    }

    /// The first seat of the subscriber of this seat.
    pub(crate) fn main(&self, index: Index) -> Index {
        self.get(index).map_or(index, |entry| entry.main)
    }

    /// All seats of a subscriber, the first one first.
    pub(crate) fn seats(&self, main: Index) -> Vec<Index> {
        let others = self.seats.get(&main).into_iter().flatten().copied();
        std::iter::once(main).chain(others).collect()
    }

    /// The seat with this number, which is added where it is missing.
    pub(crate) fn seat(&mut self, main: Index, number: u16) -> Index {
        loop {
            let seats = self.seats(main);
            if let Some(found) = seats.get(usize::from(number)) {
                return *found;
            }
            let Some(entry) = self.get(main) else { return main };
            let (subscriber, on_disk) = (entry.subscriber.clone(), entry.on_disk);
            let index = self.unused.pop().unwrap_or(Index(self.entries.len() as u32));
            let seat = Entry { seat: seats.len() as u16, ..Entry::new(subscriber, on_disk, main) };
            self.put(index, seat);
            self.seats.entry(main).or_default().push(index);
        }
    }

    /// All seats of all subscribers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Index, &Entry)> {
        (0..).map(Index).zip(&self.entries).filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
    }

    /// Removes a subscriber.
    pub(crate) fn remove(&mut self, index: Index) {
        self.forget_key(index);
        self.forget_public(index);
        for seat in self.seats(index) {
            let entry = self.entries.get_mut(seat.0 as usize).and_then(Option::take);
            if let Some(entry) = entry {
                self.by_name.remove(&entry.subscriber.name);
                self.unused.push(seat);
            }
        }
        self.seats.remove(&index);
    }

    fn take_key(&mut self, key: Key, index: Index) {
        if let Some(other) = self.of_key(&key) {
            self.forget_key(other);
        }
        *self.count(&key) += 1;
        self.by_key.insert(key, index);
    }

    fn forget_key(&mut self, index: Index) {
        let Some(key) = self.get(index).map(|entry| entry.subscriber.key.clone()) else { return };
        if self.of_key(&key) == Some(index) {
            self.by_key.remove(&key);
            *self.count(&key) -= 1;
        }
    }

    /// Records of before may give an address to two: the last one has it.
    fn take_public(&mut self, nat: Nat, index: Index) {
        if let Nat::OneToOne(address) = nat {
            self.by_public.insert(address, index);
        }
    }

    fn forget_public(&mut self, index: Index) {
        if let Some(Nat::OneToOne(address)) = self.get(index).map(|entry| entry.subscriber.nat)
            && self.of_public(address) == Some(index)
        {
            self.by_public.remove(&address);
        }
    }

    /// The number of subscribers that are identified as by this key.
    fn count(&mut self, key: &Key) -> &mut usize {
        match key {
            Key::Line(_) => &mut self.by_line,
            Key::Circuit(_) => &mut self.by_circuit,
            Key::Mac(_) => &mut self.by_mac,
            Key::Login(_) => &mut self.by_login,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }
}
