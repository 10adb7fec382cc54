//! A node and the frames that it was sent, so that what failed can be run again, be made shorter, and be kept as a file.
//!
//! ```text
//! node lan > filter(...) > wan
//! 100ms 0 0200...  1 0200...          a batch: milliseconds after the one before, then port and frame of each
//! ```

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weir_plane::scenario::described;
use weir_plane::{Batch, Config, Fate, Frame, HEAD_ROOM, Leave, Plane, PortId, Time};

/// Frames that arrive together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals {
    pub(crate) after: Duration,
    pub(crate) frames: Vec<(usize, Vec<u8>)>,
}

/// A node and what it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) node: String,
    pub(crate) batches: Vec<Arrivals>,
}

/// A node under test.
pub(crate) struct Bench {
    plane: Plane,
    /// Tags of its ports.
    pub(crate) tags: [Vec<[u8; 4]>; 2],
    now: Time,
}

/// Packets that left, by their port.
pub(crate) type Left = Vec<(usize, Vec<u8>)>;

pub(crate) fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0xaa, port as u8]
}

impl Bench {
    pub(crate) fn new(node: &str) -> Bench {
        let config = Config::read("n", node).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let plane = Plane::new(&config, &[mac(0), mac(1)]);
        Bench { plane, tags: [0, 1].map(|port| config.ports[port].tags()), now: Time::default() }
    }

    /// Bytes in front of the packet of a frame, by port.
    fn header(&self, port: usize) -> usize {
        14 + 4 * self.tags[port].len()
    }

    /// Sends frames, and tells what left.
    ///
    /// # Errors
    /// What the node did that no node may do: panic, lose a frame, make a wrong packet out of a right one.
    pub(crate) fn send(&mut self, arrivals: &Arrivals) -> Result<Left, String> {
        catch_unwind(AssertUnwindSafe(|| self.try_send(arrivals))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
        })
    }

    fn try_send(&mut self, arrivals: &Arrivals) -> Result<Left, String> {
        self.now = self.now + arrivals.after;
        let in_front = |(_, bytes): &(usize, Vec<u8>)| [&[0; HEAD_ROOM][..], bytes].concat();
        let mut buffers: Vec<Vec<u8>> = arrivals.frames.iter().map(in_front).collect();
        let mut batch = Batch::default();
        for (buf, &(port, _)) in buffers.iter_mut().zip(&arrivals.frames) {
            let end = buf.len();
            batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(port as u8)));
        }
        self.plane.run(self.now, &mut batch);
        let mut left = Left::new();
        for ((frame, fate), (port, sent)) in batch.outcome().zip(&arrivals.frames) {
            let Fate::Out(to) = fate else { continue };
            let to = usize::from(to.0);
            let packet = frame.bytes().get(self.header(to)..).ok_or("a frame left without its header")?;
            let was_sound = sent.split_at_checked(self.header(*port)).is_some_and(|(header, packet)| {
                (header.ends_with(&[8, 0]) || header.ends_with(&[0x86, 0xdd])) && is_sound(packet)
            });
            if let (true, Err(wrong)) = (was_sound, described(packet)) {
                return Err(format!("{wrong}: {packet:02x?} out of {sent:02x?}"));
            }
            left.push((to, packet.to_vec()));
        }
        self.plane.tick(self.now);
        for departure in self.plane.departures().collect::<Vec<_>>() {
            if let Leave::Port(PortId(port)) = departure.to {
                let at = self.header(usize::from(port));
                let packet = departure.bytes.get(at..).ok_or("a frame of its own without its header")?;
                left.push((usize::from(port), packet.to_vec()));
            }
        }
        let books = self.plane.books();
        if books.balance() { Ok(left) } else { Err(format!("frames are missing: {books:?}")) }
    }
}

/// Whether a packet is right as far as somebody looks at its checksums. Behind extension headers of IPv6 nobody does, but
/// once the packet is translated they may be plain to see; what ICMP of the other kind of IP covers, nobody knows.
pub(crate) fn is_sound(packet: &[u8]) -> bool {
    let is_judged = match packet.first().map(|first| first >> 4) {
        Some(6) => matches!(packet.get(6), Some(6 | 17 | 58)),
        _ => packet.get(9) != Some(&58),
    };
    is_judged && described(packet).is_ok()
}

impl Case {
    /// What goes wrong in it.
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut bench = Bench::new(&self.node);
        self.batches.iter().try_for_each(|arrivals| bench.send(arrivals).map(drop))
    }

    /// A case that fails as well, with as few frames as halving and leaving out can find, one a batch if possible.
    pub(crate) fn shortened(&self) -> Case {
        let mut best = self.clone();
        let alone = |arrivals: &Arrivals| {
            let after = |n: usize| if n == 0 { arrivals.after } else { Duration::ZERO };
            let frames = arrivals.frames.iter().enumerate();
            frames
                .map(|(n, frame)| Arrivals { after: after(n), frames: vec![frame.clone()] })
                .collect::<Vec<_>>()
        };
        let single = Case { node: self.node.clone(), batches: self.batches.iter().flat_map(alone).collect() };
        if single.run().is_err() {
            best = single;
        }
        let mut step = best.batches.len().div_ceil(2);
        while step > 0 {
            let mut at = 0;
            while at < best.batches.len() {
                let mut fewer = best.clone();
                let gone = fewer.batches.drain(at..(at + step).min(best.batches.len()));
                let waited: Duration = gone.map(|arrivals| arrivals.after).sum();
                if let Some(next) = fewer.batches.get_mut(at) {
                    next.after += waited;
                }
                match fewer.run().is_err() {
                    true => best = fewer,
                    false => at += step,
                }
            }
            step /= 2;
        }
        best
    }

    /// As a file keeps it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("node {}\n", self.node);
        for Arrivals { after, frames } in &self.batches {
            let _ = write!(text, "{}ms", after.as_millis());
            for (port, bytes) in frames {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = write!(text, " {port} {hex}");
            }
            text.push('\n');
        }
        text
    }

    /// Reads it back; lines that begin with `#` say why it is kept.
    pub(crate) fn read(text: &str) -> Option<Case> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let node = lines.next()?.strip_prefix("node ")?.to_string();
        let hex = |text: &str| {
            let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
            (0..text.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>()
        };
        let batch = |line: &str| {
            let mut words = line.split_whitespace();
            let after = Duration::from_millis(words.next()?.strip_suffix("ms")?.parse().ok()?);
            let mut frames = Vec::new();
            while let Some(port) = words.next() {
                frames.push((port.parse().ok()?, hex(words.next()?)?));
            }
            Some(Arrivals { after, frames })
        };
        Some(Case { node, batches: lines.map(batch).collect::<Option<_>>()? })
    }
}
