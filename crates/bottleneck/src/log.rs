//! What arrived when, and what became of it: enough to repeat it with any queue, in virtual time.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_queue::{Ecn, Packet, Time};

/// Entries of a log; what comes later is not logged.
const MOST_ENTRIES: usize = 20_000_000;

/// A packet that arrived at the queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in ps since the start.
    pub at_ps: u64,
    /// Its size on the link.
    pub bytes: u32,
    /// Hash of its 5-tuple.
    pub flow: u32,
    /// Hash of its source.
    pub source: u32,
    /// Hash of its destination.
    pub destination: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its packet value.
    pub value: u16,
    /// When the link took it, in ps since the start; `None` if it was dropped or still waits.
    pub starts_ps: Option<u64>,
    /// It was dropped.
    pub dropped: bool,
}

impl Entry {
    /// The packet, as the queue saw it.
    pub fn packet<T>(&self, payload: T) -> Packet<T> {
        let Entry { bytes, flow, source, destination, ecn, value, .. } = *self;
        Packet { bytes, flow, source, destination, ecn, value, arrival: Time::ZERO, payload }
    }
}

/// All packets of a direction, in the order of arrival.
#[derive(Debug, Default)]
pub struct Log {
    entries: Vec<Entry>,
    missing: u64,
}

impl Log {
    pub(crate) fn arrived<T>(&mut self, packet: &Packet<T>, at: Time) {
        if self.entries.len() >= MOST_ENTRIES {
            self.missing += 1;
            return;
        }
        let Packet { bytes, flow, source, destination, ecn, value, .. } = *packet;
        let at_ps = at.ps();
        let (starts_ps, dropped) = (None, false);
        self.entries.push(Entry { at_ps, bytes, flow, source, destination, ecn, value, starts_ps, dropped });
    }

    pub(crate) fn started(&mut self, number: u64, at: Time) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.starts_ps = Some(at.ps());
        }
    }

    pub(crate) fn dropped(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.dropped = true;
        }
    }

    /// Its entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Writes a line of JSON for each entry.
    ///
    /// # Errors
    /// What the file says.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        for entry in &self.entries {
            serde_json::to_writer(&mut *to, entry)?;
            to.write_all(b"\n")?;
        }
        to.flush()
    }

    /// Packets that came after the log was full.
    pub fn missing(&self) -> u64 {
        self.missing
    }
}
