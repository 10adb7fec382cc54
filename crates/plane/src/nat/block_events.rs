//! Port blocks that were allocated to hosts and released, for a file that outlives the node. The list is separate from the log:
//! it has all block events, whatever the log is configured to hold.
//!
//! The list is bounded. When it was full, it says so when it is read, and the reader then asks for all blocks: none is
//! missing for good.

/// A block of outside ports and the host that it is allocated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortBlock {
    /// The host, IPv4 mapped into IPv6, words from the left.
    pub inside: [u32; 4],
    /// Public address.
    pub outside: u32,
    /// First and last port.
    pub ports: (u16, u16),
}

/// Whether hosts are given further port blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewBlocks {
    /// They are, as they need them.
    Allowed,
    /// They are not: hosts keep the blocks that they have. Blocks that follow from their addresses are not concerned.
    Withheld,
}

/// A change of the port blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEvent {
    /// The block is this host's from now on.
    Allocated(PortBlock),
    /// The block is free again; this host had it.
    Released(PortBlock),
}

/// Events that wait for the reader, at most.
const MOST: usize = 65_536;

/// Events since the list was last read.
#[derive(Debug, Default)]
pub(crate) struct BlockEvents {
    events: Vec<BlockEvent>,
    /// Some are missing.
    is_behind: bool,
}

impl BlockEvents {
    /// A list that lacks what happened before.
    pub(super) fn behind() -> BlockEvents {
        BlockEvents { events: Vec::new(), is_behind: true }
    }

    pub(super) fn note(&mut self, event: BlockEvent) {
        if self.events.len() < MOST { self.events.push(event) } else { self.is_behind = true }
    }

    /// The events since it was last read; `None`: some are missing, and all blocks are to be read.
    pub(super) fn read(&mut self) -> Option<Vec<BlockEvent>> {
        (!self.is_behind).then(|| std::mem::take(&mut self.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_not_read_in_time_says_so_until_all_is_read() {
        let event =
            |port| BlockEvent::Allocated(PortBlock { inside: [1; 4], outside: 1, ports: (port, port) });
        let mut block_events = BlockEvents::default();
        (0..MOST).for_each(|n| block_events.note(event(n as u16)));
        assert_eq!(block_events.read().map(|events| events.len()), Some(MOST));
        (0..MOST + 1).for_each(|n| block_events.note(event(n as u16)));
        assert_eq!((block_events.read(), block_events.read()), (None, None), "one is missing, for good");
    }
}
