//! The format of the file of blocks, line by line.
//!
//! ```text
//! weir: blocks of ports of a NAT
//! + 198.18.0.1 192.0.2.1 1024-1535 3c9d1f02      this host has this public address and these ports
//! = 1 7be0a1d9                                   number of blocks in total; the checksum covers all lines before
//! - 198.18.0.1 192.0.2.1 1024-1535 90ab34cf      given back
//! ```
//! Each line ends with the CRC-32 of the text before it, so that a line cut by a crash is ignored.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use weir_plane::{BlockEvent, PortBlock, address_of, words_of};

const HEAD: &str = "weir: blocks of ports of a NAT\n";
/// Length of most lines.
pub(crate) const LINE_BYTES: u64 = 64;

/// The current blocks, each with its host.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Live(BTreeMap<(u32, (u16, u16)), [u32; 4]>);

impl Live {
    pub(crate) fn of(all: &[PortBlock]) -> Live {
        Live(all.iter().map(|kept| ((kept.outside, kept.ports), kept.inside)).collect())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = PortBlock> {
        self.0.iter().map(|(&(outside, ports), &inside)| PortBlock { inside, outside, ports })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn note(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::Allocated(kept) => self.0.insert((kept.outside, kept.ports), kept.inside),
            BlockEvent::Released(kept) => {
                let block = (kept.outside, kept.ports);
                // The line that assigned the block to another host may be unreadable.
                self.0
                    .get(&block)
                    .is_some_and(|owner| *owner == kept.inside)
                    .then(|| self.0.remove(&block))
                    .flatten()
            }
        };
    }

    /// The text of a complete file.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(HEAD);
        self.all().for_each(|kept| line(&mut text, &BlockEvent::Allocated(kept)));
        let end = format!("= {}", self.len());
        let sum = crc32fast::hash([text.as_bytes(), end.as_bytes()].concat().as_slice());
        writeln!(text, "{end} {sum:08x}").expect("text has room");
        text
    }
}

/// Appends the line of an event.
pub(crate) fn line(text: &mut String, event: &BlockEvent) {
    let (sign, kept) = match event {
        BlockEvent::Allocated(kept) => ('+', kept),
        BlockEvent::Released(kept) => ('-', kept),
    };
    let inside = address_of(kept.inside);
    let (outside, (first, last)) = (Ipv4Addr::from(kept.outside), kept.ports);
    let line = format!("{sign} {inside} {outside} {first}-{last}");
    writeln!(text, "{line} {:08x}", crc32fast::hash(line.as_bytes())).expect("text has room");
}

/// The contents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) live: Live,
    /// It was written completely.
    pub(crate) is_whole: bool,
    /// Lines that are incomplete or damaged.
    pub(crate) unreadable: usize,
}

/// Reads a file; `None`: it is something else.
pub(crate) fn read(bytes: &[u8]) -> Option<Found> {
    let mut found = Found::default();
    let is_begun = HEAD.as_bytes().starts_with(&bytes[..bytes.len().min(HEAD.len())]);
    let is_old = first_line(bytes).is_some_and(|line| block(line).is_some());
    // A crash may have left allocated but unwritten space.
    let is_empty = bytes.iter().all(|&byte| byte == 0);
    if !is_begun && !is_old && !is_empty {
        return None;
    }
    let head = if is_begun { HEAD.len().min(bytes.len()) } else { 0 };
    let mut at = head;
    for line in bytes[head..].split_inclusive(|&byte| byte == b'\n') {
        let end = at + line.len();
        match line
            .strip_suffix(b"\n")
            .and_then(|line| std::str::from_utf8(line).ok())
            .and_then(|line| said(line, is_old))
        {
            Some(Said::Event(event)) => found.live.note(&event),
            Some(Said::Whole { blocks, words, sum }) => {
                found.is_whole |= blocks == found.live.len() && crc32fast::hash(&bytes[..at + words]) == sum;
            }
            None => found.unreadable += 1,
        }
        at = end;
    }
    Some(found)
}

fn first_line(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.split(|&byte| byte == b'\n').next()?).ok()
}

/// The contents of a line.
enum Said {
    Event(BlockEvent),
    /// The number of blocks in total; the length of that text in bytes, and its checksum.
    Whole {
        blocks: usize,
        words: usize,
        sum: u32,
    },
}

fn said(line: &str, is_old: bool) -> Option<Said> {
    if is_old {
        return block(line).map(Said::Event);
    }
    let (words, sum) = line.rsplit_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    if let Some(blocks) = words.strip_prefix("= ") {
        return Some(Said::Whole { blocks: blocks.parse().ok()?, words: words.len(), sum });
    }
    block(words).filter(|_| crc32fast::hash(words.as_bytes()) == sum).map(Said::Event)
}

fn block(words: &str) -> Option<BlockEvent> {
    let [sign, inside, outside, ports] = words.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let inside = words_of(inside.parse().ok()?);
    let outside = outside.parse::<Ipv4Addr>().ok()?.into();
    let (first, last) = ports.split_once('-')?;
    let kept = PortBlock { inside, outside, ports: (first.parse().ok()?, last.parse().ok()?) };
    match sign {
        "+" => Some(BlockEvent::Allocated(kept)),
        "-" => Some(BlockEvent::Released(kept)),
        _ => None,
    }
}
