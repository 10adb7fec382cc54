//! Inside hosts: each has an outside address, blocks of ports, and limits.

use super::ports::Holding;
use super::slot::Address;
use crate::table::allowance::Allowance;
use crate::table::arena::Arena;
use crate::table::index::Index;
use crate::table::secret::Secret;

/// A host inside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subscriber {
    pub(crate) address: Address,
    pub(crate) holding: Holding,
    pub(crate) new: Allowance,
    /// Mappings and sessions.
    pub(crate) sessions: u32,
    /// Of these, sessions that remote hosts have begun and the host has not answered.
    pub(crate) calls: u32,
}

/// All subscribers by number; 0 stands for none.
pub(crate) struct Subscribers {
    all: Arena<Subscriber>,
    free: Vec<u32>,
    index: Index,
}

impl Subscribers {
    pub(crate) fn new() -> Subscribers {
        let mut all = Arena::new();
        all.push(Subscriber::at([0; 4]));
        Subscribers { all, free: Vec::new(), index: Index::new() }
    }

    /// The number of a host; 0 if it is unknown.
    pub(crate) fn find(&self, secret: &Secret, address: Address) -> u32 {
        self.index.find(secret.hash(address, 0), |number| self.all[number].address == address)
    }

    /// The number of a host, a new one if need be.
    pub(crate) fn find_or_add(&mut self, secret: &Secret, address: Address) -> u32 {
        let known = self.find(secret, address);
        if known != 0 {
            return known;
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.all[number] = Subscriber::at(address);
                number
            }
            None => self.all.push(Subscriber::at(address)),
        };
        self.index.insert(secret.hash(address, 0), number);
        number
    }

    /// Forgets a host without blocks and sessions.
    pub(crate) fn forget_idle(&mut self, secret: &Secret, number: u32) {
        let host = &self.all[number];
        if host.sessions == 0 && !host.holding.is_some() {
            self.index.remove(secret.hash(host.address, 0), number);
            self.free.push(number);
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.all.len() as usize * size_of::<Subscriber>() + self.index.bytes() + self.free.capacity() * 4
    }
}

impl Subscriber {
    fn at(address: Address) -> Subscriber {
        Subscriber { address, holding: Holding::default(), new: Allowance::default(), sessions: 0, calls: 0 }
    }
}

impl std::ops::Index<u32> for Subscribers {
    type Output = Subscriber;

    fn index(&self, number: u32) -> &Subscriber {
        &self.all[number]
    }
}

impl std::ops::IndexMut<u32> for Subscribers {
    fn index_mut(&mut self, number: u32) -> &mut Subscriber {
        &mut self.all[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_until_they_have_nothing() {
        let (mut hosts, secret) = (Subscribers::new(), Secret::new(1));
        let one = hosts.find_or_add(&secret, [0, 0, 0xffff, 1]);
        assert_eq!(hosts.find_or_add(&secret, [0, 0, 0xffff, 1]), one);
        hosts[one].sessions = 1;
        hosts.forget_idle(&secret, one);
        assert_eq!(hosts.find(&secret, [0, 0, 0xffff, 1]), one);
        hosts[one].sessions = 0;
        hosts.forget_idle(&secret, one);
        assert_eq!(hosts.find(&secret, [0, 0, 0xffff, 1]), 0);
        assert_eq!(hosts.find_or_add(&secret, [0, 0, 0xffff, 2]), one, "its number is used again");
    }
}
