//! Port blocks that hosts had when the node crashed are allocated to them again, so that a packet under way to a port never
//! reaches another host (RFC 6888 REQ-8), and hosts keep their public address.
//!
//! A block that its host does not use again is released after the time that ports rest. Its sessions are forgotten.

use super::Table;
use crate::nat::block_events::PortBlock;
use crate::nat::log::EventKind;
use crate::nat::ports::Granted;
use crate::table::timers::Tick;
use crate::time::Time;

impl Table {
    /// Allocates a block to its host again; false if the configuration has no such block, or another host has it.
    pub(crate) fn restore(&mut self, now: Time, block: &PortBlock) -> bool {
        let Some(outside) = self.outside.number(block.outside) else { return false };
        if !self.may_own(block.inside) {
            return false;
        }
        let granted = Granted { outside, first: block.ports.0, last: block.ports.1 };
        let owner = self.subscribers.find_or_add(&self.secret, block.inside);
        let is_restored =
            self.pool.restore(&mut self.subscribers[owner].holding, granted, owner, Tick::of(now));
        if is_restored {
            self.log_block(now, EventKind::BlockAllocated, owner, granted)
        } else {
            self.subscribers.forget_idle(&self.secret, owner)
        }
        is_restored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::mapped4;
    use crate::nat::config::Config;
    use crate::nat::flow::Flow;
    use crate::nat::slot::{Inside, Remote};
    use crate::table::tcp::Segment;
    use crate::text::items;
    use crate::threads::Share;

    fn table(seed: u64) -> Table {
        let text = "nat(public 192.0.2.1 ports 2000-2003, public 192.0.2.2 ports 3000-3001, block 2, udp-timeout 120s)";
        let notes = weir_config::Notes::new("a node", text);
        Table::new(Config::read(&items(text, &notes)[0], &notes), seed, Share::default())
    }

    /// The public end that a host has for a port of its own.
    fn asks(table: &mut Table, now: Time, host: u32) -> Option<(u32, u16)> {
        let inside = Inside { address: mapped4(host), port: 5000, proto: 17 };
        let remote = Remote { address: 9, port: 53 };
        let flow = Flow { inside, remote, segment: Segment::default() };
        let hash = table.hash(&inside, remote);
        let number = table.outbound(now, flow, hash, 0).ok()?;
        let slot = &table.sessions[number];
        Some((table.outside.address(slot.outside), slot.outside_port))
    }

    fn logged_blocks(table: &mut Table) -> Vec<PortBlock> {
        table.log.drain().0.filter_map(|event| PortBlock::of(&event)).collect()
    }

    #[test]
    fn hosts_have_their_blocks_again_and_no_other_host_has() {
        let mut before = table(1);
        let ends: Vec<_> =
            (1..=2).map(|host| asks(&mut before, Time::from_ms(1), host).expect("a port")).collect();
        let blocks = logged_blocks(&mut before);
        assert_eq!(blocks.len(), 2);
        for seed in 2..10 {
            let mut after = table(seed);
            assert!(blocks.iter().all(|block| after.restore(Time::default(), block)));
            assert_eq!(logged_blocks(&mut after), blocks, "they are written down anew");
            let is_old = |end: (u32, u16)| {
                blocks.iter().any(|old| old.outside == end.0 && (old.ports.0..=old.ports.1).contains(&end.1))
            };
            assert!(!is_old(asks(&mut after, Time::from_ms(1000), 3).expect("the third block")));
            assert_eq!(asks(&mut after, Time::from_ms(1000), 4), None, "no other block is free");
            let again = asks(&mut after, Time::from_ms(1000), 1).expect("its own block");
            assert_eq!((again.0, again.1 / 2), (ends[0].0, ends[0].1 / 2));
            // What its host does not use comes free.
            after.expire(Time::from_ms(122000));
            assert_eq!(logged_blocks(&mut after).len(), 2, "one given, one come free");
            let other = asks(&mut after, Time::from_ms(122000), 4).expect("the block of the second host");
            assert_eq!((other.0, other.1 / 2), (ends[1].0, ends[1].1 / 2));
        }
    }

    #[test]
    fn what_the_configuration_no_longer_has_is_left_out() {
        let inside = mapped4(1);
        for (outside, ports) in
            [(0xc000_0203, (2000, 2001)), (0xc000_0201, (2001, 2002)), (0xc000_0201, (2000, 2003))]
        {
            assert!(
                !table(1).restore(Time::default(), &PortBlock { inside, outside, ports }),
                "{outside:x} {ports:?}"
            );
        }
        let mut table = table(1);
        let block = PortBlock { inside, outside: 0xc000_0201, ports: (2000, 2001) };
        assert!(table.restore(Time::default(), &block));
        assert!(
            !table.restore(Time::default(), &PortBlock { inside: mapped4(2), ..block }),
            "another host has it"
        );
    }
}
