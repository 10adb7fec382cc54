//! The log of arrivals and their outcomes: enough to repeat it with any queue, in virtual time.

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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::BufWriter;

    use weir_disk::faults::{self, Fault, Writer};

    use super::*;

    const PACKETS: u64 = 300;

    /// Writes a log, and says whether it is whole.
    #[test]
    fn writer() {
        let Some(folder) = faults::folder() else { return };
        let mut log = Log::default();
        for n in 0..PACKETS {
            log.arrived(&Packet::new(1500, n as u32, ()), Time::from_us(n));
        }
        let mut file = BufWriter::new(File::create_new(folder.join("log")).expect("a new folder"));
        match log.write(&mut file) {
            Ok(()) => println!("whole"),
            Err(error) => println!("error: {error}"),
        }
    }

    #[test]
    fn a_log_is_whole_or_said_not_to_be() {
        // A disk that is full stays so.
        let faults = [(Fault::Short, 1), (Fault::Full, 9), (Fault::Io, 9), (Fault::Kill, 1)];
        for (fault, lasts) in faults {
            let writer = Writer { test: "log::tests::writer", lasts };
            let changes = faults::at_each_change(
                writer,
                fault,
                |_| {},
                |at, folder, said| {
                    let text = fs::read_to_string(folder.join("log")).expect("it was made");
                    let entries = text.lines().filter(|line| serde_json::from_str::<Entry>(line).is_ok());
                    let is_whole = entries.count() as u64 == PACKETS;
                    let has = |word: &str| said.iter().any(|line| line.contains(word));
                    assert_eq!(is_whole, has("whole"), "{fault:?} at {at}: {said:?}");
                    assert!(is_whole || has("error: ") || fault.kills(), "{fault:?} at {at}: {said:?}");
                    assert!(is_whole || fault != Fault::Short, "{fault:?} at {at}: {said:?}");
                },
            );
            assert!(changes > 3, "{fault:?}: {changes}");
        }
    }
}
