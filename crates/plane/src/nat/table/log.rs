//! Events of a table for the log and for the list of block events.

use super::Table;
use crate::nat::block_events::{BlockEvent, BlockEvents, PortBlock};
use crate::nat::log::{Event, EventKind};
use crate::nat::ports::Granted;
use crate::nat::slot::Slot;
use crate::nat::words::Detail;
use crate::time::Time;

impl Table {
    pub(super) fn log_session(&mut self, at: Time, kind: EventKind, slot: &Slot) {
        if self.config.log < Detail::Sessions {
            return;
        }
        let inside = slot.inside();
        self.log.push(Event {
            at,
            kind,
            inside: inside.address,
            outside: self.outside.address(slot.outside),
            ports: (slot.outside_port, slot.outside_port),
            proto: inside.proto,
        });
    }

    pub(super) fn log_block(&mut self, at: Time, kind: EventKind, subscriber: u32, block: Granted) {
        let block = self.port_block(subscriber, block);
        self.block_events.note(match kind {
            EventKind::BlockReleased => BlockEvent::Released(block),
            _ => BlockEvent::Allocated(block),
        });
        if self.config.log < Detail::Blocks {
            return;
        }
        let PortBlock { inside, outside, ports } = block;
        self.log.push(Event { at, kind, inside, outside, ports, proto: 0 });
    }

    /// A block with the host that has it.
    pub(super) fn port_block(&self, subscriber: u32, block: Granted) -> PortBlock {
        PortBlock {
            inside: self.subscribers[subscriber].address,
            outside: self.outside.address(block.outside),
            ports: (block.first, block.last),
        }
    }

    pub(super) fn log_refusal(&mut self, at: Time, kind: EventKind, subscriber: u32) {
        if self.config.log < Detail::Blocks {
            return;
        }
        let inside = self.subscribers[subscriber].address;
        self.log.push(Event { at, kind, inside, outside: 0, ports: (0, 0), proto: 0 });
    }

    /// Block events since this, or [`Table::blocks`], was last called; `None`: there were too many.
    pub(crate) fn block_events(&mut self) -> Option<Vec<BlockEvent>> {
        self.block_events.read()
    }

    /// All port blocks in use, but for deterministic ones. It takes its time.
    pub(crate) fn blocks(&mut self) -> Vec<PortBlock> {
        self.block_events = BlockEvents::default();
        self.pool.granted_all().map(|(owner, block)| self.port_block(owner, block)).collect()
    }

    /// The NAT is removed: returns the events that were not read yet, then the end of each block and each session; and how many
    /// events were dropped because the log was full. It takes its time.
    pub(crate) fn end_all(&mut self, now: Time) -> (Vec<Event>, u64) {
        let mut reported = Vec::new();
        // In one call: the log has room for so many.
        let mut fetch = |table: &mut Table| reported.extend(table.log.drain().0);
        fetch(self);
        let blocks: Vec<(u32, Granted)> = self.pool.granted_all().collect();
        for (owner, block) in blocks {
            self.log_block(now, EventKind::BlockReleased, owner, block);
            fetch(self);
        }
        for number in 1..self.sessions.numbers() {
            let slot: Slot = self.sessions[number];
            if slot.owns_port() && !slot.is_fixed() {
                self.log_session(now, EventKind::SessionDeleted, &slot);
                fetch(self);
            }
        }
        (reported, self.log.drain().1)
    }

    /// The events since the last call, and how many were dropped since the start because the log was full.
    pub(crate) fn events(&mut self) -> (impl Iterator<Item = Event>, u64) {
        self.log.drain()
    }
}
