//! The recorder of a capturing thread: writes frames as blocks into buffers, and passes these to the writer. It never waits for
//! the disk: without a free buffer the frame is lost and counted, and the file has a note at the gap.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use weir_port::capture::{Account, Frame};
use weir_port::pcap;
use weir_port::pcapng::{Packet, Statistics, write};

use crate::disk::Message;
use crate::pool::{Buffer, Pool};

/// Statistics have at most 12 bytes, six options of 12, and 20 around them.
const STATISTICS_BYTES: usize = 128;
/// At the end there is time: so long may the disk take to return a buffer.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Format of the packets in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// With interfaces, gaps and statistics.
    Pcapng,
    /// Frames alone: what every tool reads.
    Pcap,
}

impl Format {
    /// At most how many bytes a packet takes of which `captured` are kept.
    const fn packet_bytes(self, captured: usize) -> usize {
        match self {
            Format::Pcapng => write::packet_bytes(captured),
            Format::Pcap => pcap::packet_bytes(captured),
        }
    }
}

/// The way of one queue's frames to the file.
pub(crate) struct Recorder {
    /// Number of the queue, which is that of its interface in the file.
    queue: u32,
    format: Format,
    pool: Arc<Pool>,
    to: Sender<Message>,
    buffer: Option<Buffer>,
    /// When the first packet came into the buffer.
    since: Instant,
    /// After this time a buffer is handed on although it is not full.
    patience: Duration,
    start_ns: u64,
    /// Frames lost since the last one that was written.
    gap: u64,
    /// Frames that found no buffer.
    slow: u64,
    written: u64,
}

/// How all queues of a capture are recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded {
    pub(crate) format: Format,
    /// After this time a buffer is handed on although it is not full.
    pub(crate) patience: Duration,
    /// When the capture began.
    pub(crate) start_ns: u64,
}

impl Recorder {
    /// For queue number `queue` of a capture.
    pub(crate) fn new(queue: u32, capture: Recorded, pool: Arc<Pool>, to: Sender<Message>) -> Self {
        let Recorded { format, patience, start_ns } = capture;
        let since = Instant::now();
        Recorder {
            queue,
            format,
            pool,
            to,
            buffer: None,
            since,
            patience,
            start_ns,
            gap: 0,
            slow: 0,
            written: 0,
        }
    }

    /// Frames lost since the disk was too slow.
    pub(crate) fn slow(&self) -> u64 {
        self.slow
    }

    /// Writes a frame, or counts it.
    #[inline]
    pub(crate) fn record(&mut self, frame: &Frame<'_>) {
        let dropped = frame.lost_before + self.gap;
        let needed = self.format.packet_bytes(frame.bytes.len());
        let Some(buffer) = self.room(needed) else {
            self.slow += 1;
            self.gap = dropped + 1;
            return;
        };
        if buffer.frames == 0 {
            buffer.first_ns = frame.at;
        }
        buffer.frames += 1;
        let (wire_len, bytes) = (frame.wire_len, frame.bytes);
        let interface = self.queue;
        let buffer = self.buffer.as_mut().expect("there is room");
        match self.format {
            Format::Pcapng => {
                let packet = Packet { interface, at_ns: frame.at, wire_len, bytes, dropped };
                write::packet(&mut buffer.bytes, &packet);
            }
            Format::Pcap => pcap::packet(&mut buffer.bytes, frame.at, wire_len, bytes),
        }
        self.gap = 0;
        self.written += 1;
    }

    /// Writes the queue's counters if there is room now, and hands on what has waited too long.
    pub(crate) fn tick(&mut self, account: &Account, at_ns: u64) {
        let statistics = self.statistics(account, at_ns);
        if self.format == Format::Pcapng
            && let Some(buffer) = self.room(STATISTICS_BYTES)
        {
            write::statistics(&mut buffer.bytes, &statistics);
        }
        if self.since.elapsed() >= self.patience {
            self.hand_on();
        }
    }

    /// Writes the last counters and hands on what is left.
    pub(crate) fn finish(mut self, account: &Account, at_ns: u64) {
        let statistics = Statistics { end_ns: Some(at_ns), ..self.statistics(account, at_ns) };
        if self.format == Format::Pcapng {
            if self.room(STATISTICS_BYTES).is_none() {
                self.buffer = self.pool.wait(LAST_WAIT);
            }
            if let Some(buffer) = &mut self.buffer {
                write::statistics(&mut buffer.bytes, &statistics);
            }
        }
        self.hand_on();
    }

    fn statistics(&self, account: &Account, at_ns: u64) -> Statistics {
        Statistics {
            interface: self.queue,
            at_ns,
            start_ns: Some(self.start_ns),
            accepted: Some(account.received),
            dropped_by_system: Some(account.dropped() + self.slow),
            delivered: Some(self.written),
            ..Statistics::default()
        }
    }

    /// The buffer, with room for `needed` bytes.
    #[inline]
    fn room(&mut self, needed: usize) -> Option<&mut Buffer> {
        let fits = self.buffer.as_ref().is_some_and(|b| b.bytes.capacity() - b.bytes.len() >= needed);
        if !fits {
            self.hand_on();
            self.buffer = self.pool.take();
            self.since = Instant::now();
        }
        self.buffer.as_mut()
    }

    fn hand_on(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            // Without a writer the capture has ended, and says why.
            let _ = self.to.send(Message::Filled(buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use weir_port::capture::Drops;
    use weir_port::pcapng::Interface;
    use weir_port::pcapng::read::{Item, Reader};

    use super::*;

    #[test]
    fn a_gap_is_reported_where_it_is() {
        let (to, messages) = channel();
        // Room for three frames of 100 bytes and no statistics.
        let pool = Arc::new(Pool::new(1, 3 * write::packet_bytes(100)));
        let capture = Recorded { format: Format::Pcapng, patience: Duration::from_secs(1), start_ns: 1 };
        let mut recorder = Recorder::new(0, capture, pool.clone(), to);
        let frame = |at, lost_before| Frame { bytes: &[7; 100], wire_len: 100, at, lost_before };
        for at in 10..15 {
            recorder.record(&frame(at, 0));
        }
        assert_eq!(recorder.slow(), 2, "no second buffer");
        let Ok(Message::Filled(first)) = messages.try_recv() else { panic!("handed on when it was full") };
        assert_eq!((first.frames, first.first_ns), (3, 10));
        let mut file = Vec::new();
        write::section(&mut file, &write::Author::default());
        write::interface(&mut file, &Interface { link_type: 1, ..Interface::default() });
        file.extend(&first.bytes);
        pool.give_back(first);
        recorder.record(&frame(15, 4));
        recorder.record(&frame(16, 0));
        recorder.record(&frame(17, 0));
        let drops = vec![Drops { name: "ring full", frames: 4 }];
        let account = Account { received: 12, taken: 8, drops, ..Account::default() };
        let messages = std::thread::scope(|scope| {
            let pool = &pool;
            let reader = scope.spawn(move || {
                let Ok(Message::Filled(second)) = messages.recv() else { panic!("handed on at the end") };
                let bytes = second.bytes.clone();
                pool.give_back(second);
                let Ok(Message::Filled(last)) = messages.recv() else { panic!("with the statistics") };
                [bytes, last.bytes].concat()
            });
            recorder.finish(&account, 99);
            reader.join().unwrap()
        });
        file.extend(messages);
        let (mut gaps, mut last) = (Vec::new(), None);
        let mut reader = Reader::open(file.as_slice()).unwrap();
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Packet(packet) => gaps.push((packet.at_ns, packet.dropped)),
                Item::Statistics(statistics) => last = Some(statistics),
                Item::Section | Item::Interface(_) | Item::Untimed(_) => {}
            }
        }
        assert_eq!(gaps, [(10, 0), (11, 0), (12, 0), (15, 6), (16, 0), (17, 0)]);
        let last = last.unwrap();
        assert_eq!((last.accepted, last.dropped_by_system, last.delivered), (Some(12), Some(6), Some(6)));
        assert_eq!((last.start_ns, last.end_ns), (Some(1), Some(99)));
    }
}
