//! Which blocks of ports hosts were given and have given back, for a file that outlives the node. It is apart from the log:
//! it is kept whatever the log is to hold.
//!
//! A list that nobody reads takes no more events at some time. It says so when it is read, and who reads it then asks
//! for all blocks: none is missing for good.

/// A block of ports and the host that had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kept {
    /// The host, IPv4 mapped into IPv6, words from the left.
    pub inside: [u32; 4],
    /// Public address.
    pub outside: u32,
    /// First and last port.
    pub ports: (u16, u16),
}

/// A host was given a block of ports, or has given it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockEvent {
    /// It is this host's.
    Given(Kept),
    /// It is nobody's.
    TakenBack(Kept),
}

/// Events that wait, at most.
const MOST: usize = 65_536;

/// Events since it was read.
#[derive(Debug, Default)]
pub(crate) struct BlockEvents {
    events: Vec<BlockEvent>,
    /// Some are missing.
    is_behind: bool,
}

impl BlockEvents {
    /// One that does not say what there was.
    pub(super) fn behind() -> BlockEvents {
        BlockEvents { events: Vec::new(), is_behind: true }
    }

    pub(super) fn note(&mut self, event: BlockEvent) {
        match self.events.len() < MOST {
            true => self.events.push(event),
            false => self.is_behind = true,
        }
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
    fn a_ledger_that_was_not_read_in_time_says_so_until_all_is_read() {
        let event = |port| BlockEvent::Given(Kept { inside: [1; 4], outside: 1, ports: (port, port) });
        let mut block_events = BlockEvents::default();
        (0..MOST).for_each(|n| block_events.note(event(n as u16)));
        assert_eq!(block_events.read().map(|events| events.len()), Some(MOST));
        (0..MOST + 1).for_each(|n| block_events.note(event(n as u16)));
        assert_eq!((block_events.read(), block_events.read()), (None, None), "one is missing, for good");
    }
}
