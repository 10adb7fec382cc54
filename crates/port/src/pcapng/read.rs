//! Capture files from outside: pcapng and pcap, of either byte order and any resolution of time.
//!
//! The input may be anything: a wrong length never costs memory, and each error says at which byte it was found.
//! Blocks that say nothing about packets (names, secrets, those of other programs) are skipped, as the standard demands.

use std::io::{self, Read};

use super::{
    BYTE_ORDER, INTERFACE, Interface, OBSOLETE_PACKET, PACKET, Packet, SECTION, SIMPLE_PACKET, STATISTICS,
    Statistics, option, padding,
};

/// A longer block is taken for a mistake. The largest packet of any system has 256 KiB.
const LONGEST_BLOCK: u32 = 16 << 20;

/// Why a file cannot be read any further, and where.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct ReadError {
    /// First byte of what cannot be read: a block, a packet, or the file.
    pub offset: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a capture file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Not a capture file.
    #[error("neither pcapng nor pcap: it begins with {begin:02x?}{remedy}", begin = .0, remedy = packed(.0))]
    Foreign([u8; 4]),
    /// The end of the file is missing.
    #[error("the file ends in the middle of {0}: whoever wrote it was stopped, or the disk was full")]
    Truncated(&'static str),
    /// A number that cannot be true.
    #[error("{0}")]
    Wrong(String),
    /// The system could not read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The remedy for a file that is only packed.
fn packed(begin: &[u8; 4]) -> &'static str {
    match begin {
        [0x28, 0xb5, 0x2f, 0xfd] => ", as zstd does: unpack it with `zstd -d`",
        [0x1f, 0x8b, ..] => ", as gzip does: unpack it with `gunzip`",
        _ => "",
    }
}

/// What a file tells, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// Another section begins: its interfaces are numbered anew. The first section has none of these.
    Section,
    /// An interface of the section, in the order of their numbers. A pcap has one, before its packets.
    Interface(&'a Interface),
    /// A packet.
    Packet(Packet<'a>),
    /// A packet without a time stamp: `at_ns` is 0, and says nothing.
    Untimed(Packet<'a>),
    /// Counters of an interface.
    Statistics(Statistics),
}

/// Reads a capture file.
///
/// Interfaces of pcapng are numbered anew in each section; [`Reader::interfaces`] are those of the current one.
pub struct Reader<R> {
    input: R,
    /// Of the next block.
    offset: u64,
    big_endian: bool,
    /// Time of a pcap, which has a single interface; a pcapng has them per interface.
    pcap: Option<Clock>,
    /// The interface of a pcap is still to be reported.
    begins_pcap: bool,
    interfaces: Vec<Interface>,
    clocks: Vec<Clock>,
    block: Vec<u8>,
}

/// How a number becomes ns since 1970.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// if_tsresol: a negative power of 10, or of 2 if the highest bit is set.
    resolution: u8,
    offset_s: i64,
}

impl Clock {
    fn ns(self, ticks: u64) -> u64 {
        let power = u32::from(self.resolution & 0x7f);
        let ns = if self.resolution & 0x80 != 0 {
            (u128::from(ticks) * 1_000_000_000) >> power
        } else if power <= 9 {
            u128::from(ticks) * 10_u128.pow(9 - power)
        } else {
            // A divisor beyond all u64 leaves nothing.
            10_u128.checked_pow(power - 9).map_or(0, |divisor| u128::from(ticks) / divisor)
        };
        let ns =
            i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the beginning of a file; `input` should be buffered.
    pub fn open(input: R) -> Result<Self, ReadError> {
        let mut reader = Reader {
            input,
            offset: 0,
            big_endian: false,
            pcap: None,
            begins_pcap: false,
            interfaces: Vec::new(),
            clocks: Vec::new(),
            block: Vec::new(),
        };
        let mut magic = [0; 4];
        reader.exactly(&mut magic, "its first bytes")?;
        match u32::from_le_bytes(magic) {
            SECTION => reader.section()?,
            word => {
                let known = [(word, false), (word.swap_bytes(), true)];
                let Some((resolution, big_endian)) =
                    known.into_iter().find_map(|(word, big)| Some((pcap_resolution(word)?, big)))
                else {
                    return Err(reader.bad(Problem::Foreign(magic)));
                };
                reader.big_endian = big_endian;
                reader.pcap_header(resolution)?;
            }
        }
        Ok(reader)
    }

    /// The interfaces that are known so far, in the order of their numbers.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// The file is broken here. Nothing after it can be read.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        if let Some(clock) = self.pcap {
            return if std::mem::take(&mut self.begins_pcap) {
                Ok(self.interfaces.first().map(Item::Interface))
            } else {
                self.pcap_packet(clock)
            };
        }
        loop {
            let mut kind = [0; 4];
            if !self.more(&mut kind)? {
                return Ok(None);
            }
            let start = self.offset;
            let kind = self.word(kind);
            if kind == SECTION {
                self.section()?;
                return Ok(Some(Item::Section));
            }
            let length = self.length()?;
            self.body(length)?;
            let failed = |problem| ReadError { offset: start, problem };
            match kind {
                INTERFACE => {
                    self.interface().map_err(failed)?;
                    return Ok(self.interfaces.last().map(Item::Interface));
                }
                PACKET | OBSOLETE_PACKET => {
                    return self.packet(kind).map(|found| Some(Item::Packet(found))).map_err(failed);
                }
                SIMPLE_PACKET => {
                    return self.simple_packet().map(|found| Some(Item::Untimed(found))).map_err(failed);
                }
                STATISTICS => {
                    return self.statistics().map(|found| Some(Item::Statistics(found))).map_err(failed);
                }
                _ => {}
            }
        }
    }

    /// A section's header; its type was read already.
    fn section(&mut self) -> Result<(), ReadError> {
        let mut head = [0; 8];
        self.exactly(&mut head, "a section's header")?;
        let [l0, l1, l2, l3, m0, m1, m2, m3] = head;
        self.big_endian = match [m0, m1, m2, m3] {
            magic if magic == BYTE_ORDER.to_le_bytes() => false,
            magic if magic == BYTE_ORDER.to_be_bytes() => true,
            magic => {
                return Err(self.wrong(format!("a section's byte order is {magic:02x?}, which is none")));
            }
        };
        let length = self.check_length(self.word([l0, l1, l2, l3]))?;
        if length < 28 {
            return Err(self.wrong(format!("a section's header of {length} bytes; it has at least 28")));
        }
        self.rest(length, 12)?;
        let version = self.u16(0);
        if version != 1 {
            return Err(self.wrong(format!("version {version} of pcapng, of which only 1 is known")));
        }
        self.interfaces.clear();
        self.clocks.clear();
        self.offset += u64::from(length);
        Ok(())
    }

    fn length(&mut self) -> Result<u32, ReadError> {
        let mut length = [0; 4];
        self.exactly(&mut length, "a block's length")?;
        self.check_length(self.word(length))
    }

    fn check_length(&self, length: u32) -> Result<u32, ReadError> {
        if !(12..=LONGEST_BLOCK).contains(&length) || !length.is_multiple_of(4) {
            let most = LONGEST_BLOCK;
            return Err(
                self.wrong(format!("a block of {length} bytes; it should have 12 to {most}, in steps of 4"))
            );
        }
        Ok(length)
    }

    /// Reads the body of a block; its type and length were read already.
    fn body(&mut self, length: u32) -> Result<(), ReadError> {
        self.rest(length, 8)?;
        self.offset += u64::from(length);
        Ok(())
    }

    /// What follows the first `read` bytes of a block of `length` bytes: its body, into `block`, and its length again.
    fn rest(&mut self, length: u32, read: u32) -> Result<(), ReadError> {
        let wanted = (length - read) as usize;
        self.fill(wanted, "a block")?;
        let again = self.u32(wanted - 4);
        if again != length {
            return Err(self.wrong(format!("a block of {length} bytes that ends as one of {again} bytes")));
        }
        self.block.truncate(wanted - 4);
        Ok(())
    }

    fn interface(&mut self) -> Result<(), Problem> {
        self.needs(8, "an interface's description")?;
        let text = |value: &[u8]| String::from_utf8_lossy(value).trim_end_matches('\0').to_string();
        let mut interface = Interface { link_type: self.u16(0), snap: self.u32(4), ..Interface::default() };
        let mut clock = Clock { resolution: 6, offset_s: 0 };
        for (code, value) in self.options(8)? {
            match code {
                option::INTERFACE_NAME => interface.name = text(value),
                option::INTERFACE_DESCRIPTION => interface.description = text(value),
                option::INTERFACE_SPEED => interface.bits_per_s = self.number(value),
                option::INTERFACE_FILTER if value.first() == Some(&0) => interface.filter = text(&value[1..]),
                option::INTERFACE_OS => interface.system = text(value),
                option::INTERFACE_RESOLUTION => clock.resolution = value.first().copied().unwrap_or(6),
                option::INTERFACE_TIME_OFFSET => {
                    clock.offset_s = self.number(value).map_or(0, u64::cast_signed);
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        self.clocks.push(clock);
        Ok(())
    }

    fn packet(&self, kind: u32) -> Result<Packet<'_>, Problem> {
        self.needs(20, "a packet")?;
        let (captured, wire_len) = (self.u32(12) as usize, self.u32(16));
        // The obsolete kind has a count of losses in the same word; all ones: unknown.
        let (interface, lost) = match kind {
            OBSOLETE_PACKET => (u32::from(self.u16(0)), self.u16(2)),
            _ => (self.u32(0), 0),
        };
        let at_ns = self.clock(interface)?.ns(self.time(4));
        let bytes = self.bytes(20, captured)?;
        let mut dropped = if lost == u16::MAX { 0 } else { u64::from(lost) };
        for (code, value) in self.options(20 + captured + padding(captured))? {
            if code == option::PACKET_DROPPED {
                dropped = self.number(value).unwrap_or(0);
            }
        }
        Ok(Packet { interface, at_ns, wire_len, bytes, dropped })
    }

    /// It has no time, and is of interface 0.
    fn simple_packet(&self) -> Result<Packet<'_>, Problem> {
        self.needs(4, "a simple packet")?;
        self.clock(0)?;
        let (wire_len, snap) = (self.u32(0), self.interfaces[0].snap);
        let captured = if snap == 0 { wire_len } else { wire_len.min(snap) } as usize;
        let bytes = self.bytes(4, captured)?;
        Ok(Packet { interface: 0, at_ns: 0, wire_len, bytes, dropped: 0 })
    }

    fn statistics(&self) -> Result<Statistics, Problem> {
        self.needs(12, "statistics")?;
        let interface = self.u32(0);
        let clock = self.clock(interface)?;
        let mut found = Statistics { interface, at_ns: clock.ns(self.time(4)), ..Statistics::default() };
        for (code, value) in self.options(12)? {
            match code {
                option::STATISTICS_START => found.start_ns = self.time_of(value).map(|at| clock.ns(at)),
                option::STATISTICS_END => found.end_ns = self.time_of(value).map(|at| clock.ns(at)),
                option::STATISTICS_RECEIVED => found.received = self.number(value),
                option::STATISTICS_DROPPED_BY_INTERFACE => found.dropped_by_interface = self.number(value),
                option::STATISTICS_ACCEPTED => found.accepted = self.number(value),
                option::STATISTICS_DROPPED_BY_SYSTEM => found.dropped_by_system = self.number(value),
                option::STATISTICS_DELIVERED => found.delivered = self.number(value),
                _ => {}
            }
        }
        Ok(found)
    }

    fn clock(&self, interface: u32) -> Result<Clock, Problem> {
        self.clocks.get(interface as usize).copied().ok_or_else(|| {
            let known = self.clocks.len();
            Problem::Wrong(format!("interface {interface} is not described before; {known} are"))
        })
    }

    /// All options from `at` on, in order.
    fn options(&self, at: usize) -> Result<Vec<(u16, &[u8])>, Problem> {
        let mut found = Vec::new();
        let mut at = at;
        while self.block.len() >= at + 4 {
            let (code, length) = (self.u16(at), usize::from(self.u16(at + 2)));
            if code == option::END {
                break;
            }
            let value = self.block.get(at + 4..at + 4 + length).ok_or_else(|| {
                Problem::Wrong(format!("option {code} has {length} bytes, more than its block"))
            })?;
            found.push((code, value));
            at += 4 + length + padding(length);
        }
        Ok(found)
    }

    fn pcap_header(&mut self, resolution: u8) -> Result<(), ReadError> {
        self.fill(20, "the file's header")?;
        let (major, snap, link_type) = (self.u16(0), self.u32(12), self.u32(16));
        if major != 2 {
            return Err(self.wrong(format!("version {major} of pcap, of which only 2 is known")));
        }
        // The upper bits tell of a frame check sequence.
        let interface = Interface { snap, link_type: link_type as u16, ..Interface::default() };
        self.interfaces = vec![interface];
        self.pcap = Some(Clock { resolution, offset_s: 0 });
        self.begins_pcap = true;
        self.offset = 24;
        Ok(())
    }

    fn pcap_packet(&mut self, clock: Clock) -> Result<Option<Item<'_>>, ReadError> {
        let mut head = [0; 4];
        if !self.more(&mut head)? {
            return Ok(None);
        }
        self.fill(12, "a packet's header")?;
        let seconds = u64::from(self.word(head));
        let (fraction, captured, wire_len) = (self.u32(0), self.u32(4), self.u32(8));
        if captured > LONGEST_BLOCK {
            return Err(self.wrong(format!("a packet of {captured} bytes; {LONGEST_BLOCK} are the most")));
        }
        self.fill(captured as usize, "a packet")?;
        self.offset += 16 + u64::from(captured);
        let at_ns = seconds * 1_000_000_000 + clock.ns(fraction.into());
        Ok(Some(Item::Packet(Packet { interface: 0, at_ns, wire_len, bytes: &self.block, dropped: 0 })))
    }

    /// Replaces `block` by the next `wanted` bytes. Memory grows with what is there, not with what is promised.
    fn fill(&mut self, wanted: usize, what: &'static str) -> Result<(), ReadError> {
        self.block.clear();
        match self.input.by_ref().take(wanted as u64).read_to_end(&mut self.block) {
            Err(error) => Err(self.bad(error.into())),
            Ok(read) if read < wanted => Err(self.bad(Problem::Truncated(what))),
            Ok(_) => Ok(()),
        }
    }

    /// Fills `to`, unless the file ends here.
    fn more(&mut self, to: &mut [u8; 4]) -> Result<bool, ReadError> {
        let mut read = 0;
        while read < to.len() {
            match self.input.read(&mut to[read..]) {
                Ok(0) if read == 0 => return Ok(false),
                Ok(0) => return Err(self.bad(Problem::Truncated("a block"))),
                Ok(n) => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.bad(error.into())),
            }
        }
        Ok(true)
    }

    fn exactly(&mut self, to: &mut [u8], what: &'static str) -> Result<(), ReadError> {
        self.input.read_exact(to).map_err(|error| {
            let ended = error.kind() == io::ErrorKind::UnexpectedEof;
            self.bad(if ended { Problem::Truncated(what) } else { error.into() })
        })
    }

    fn bad(&self, problem: Problem) -> ReadError {
        ReadError { offset: self.offset, problem }
    }

    fn wrong(&self, text: String) -> ReadError {
        self.bad(Problem::Wrong(text))
    }

    fn needs(&self, bytes: usize, what: &str) -> Result<(), Problem> {
        let have = self.block.len();
        if have < bytes {
            Err(Problem::Wrong(format!("{what} of {have} bytes; it has at least {bytes}")))
        } else {
            Ok(())
        }
    }

    fn bytes(&self, at: usize, captured: usize) -> Result<&[u8], Problem> {
        let room = &self.block[at..];
        room.get(..captured).ok_or_else(|| {
            Problem::Wrong(format!("a packet of {captured} bytes in a block with {}", room.len()))
        })
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// Within the block: callers have checked.
    fn u32(&self, at: usize) -> u32 {
        self.word(self.block[at..at + 4].try_into().expect("4 bytes"))
    }

    fn u16(&self, at: usize) -> u16 {
        let bytes = self.block[at..at + 2].try_into().expect("2 bytes");
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn time(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    fn time_of(&self, value: &[u8]) -> Option<u64> {
        let (high, low) = (value.get(..4)?.try_into().ok()?, value.get(4..8)?.try_into().ok()?);
        Some(u64::from(self.word(high)) << 32 | u64::from(self.word(low)))
    }

    fn number(&self, value: &[u8]) -> Option<u64> {
        let bytes = value.try_into().ok()?;
        Some(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }
}

fn pcap_resolution(magic: u32) -> Option<u8> {
    match magic {
        0xa1b2_c3d4 => Some(6),
        0xa1b2_3c4d => Some(9),
        _ => None,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
