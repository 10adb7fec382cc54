//! Who has which block of a NAT's ports, in a file: a node that begins again after a crash gives its hosts their blocks
//! back, and nobody a block that was somebody else's until it has rested (RFC 6888 REQ-8).
//!
//! ```text
//! + 198.18.0.1 192.0.2.1 1024-1535          given to this host: public address, ports
//! - 198.18.0.1 192.0.2.1 1024-1535          taken back
//! ```
//! Lines are appended as it happens, some 100 ms late at most; the file is written anew when the node begins, and when
//! most of it is of the past. Blocks of deterministic ports are not in it: they follow from the configuration.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek, Write};
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use weir_plane::{Event, Kept, What, address_of, words_of};

/// The file may be so much longer than what it says.
const SLACK_BYTES: u64 = 16 << 20;

/// The file, and what it says.
pub(super) struct Blocks {
    file: File,
    live: BTreeSet<Kept>,
    bytes: u64,
}

impl Blocks {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path) -> Result<Blocks> {
        let shown = path.display();
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("cannot read {shown}"))?,
        };
        let live = read(&text).map_err(|line| {
            anyhow!(
                "line {line} of {shown} is no block of ports: name the file that --blocks wrote, or a new one"
            )
        })?;
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write {shown}"))?;
        let mut blocks = Blocks { file, live, bytes: 0 };
        blocks.write_anew().with_context(|| format!("cannot write {shown}"))?;
        Ok(blocks)
    }

    /// What hosts had.
    pub(super) fn live(&self) -> Vec<Kept> {
        self.live.iter().copied().collect()
    }

    /// The node begins, and only these are somebody's.
    pub(super) fn begin(&mut self, restored: &[Kept]) -> Result<()> {
        self.live = restored.iter().copied().collect();
        self.write_anew().context("cannot write who has which ports")
    }

    /// Appends what happened.
    pub(super) fn note(&mut self, events: &[Event]) -> Result<()> {
        let mut text = String::new();
        for event in events {
            let Some(kept) = Kept::of(event) else { continue };
            let sign = if event.what == What::BlockAllocated { '+' } else { '-' };
            say(&mut text, sign, &kept);
            match sign {
                '+' => self.live.insert(kept),
                _ => self.live.remove(&kept),
            };
        }
        let written = match self.bytes + text.len() as u64 > SLACK_BYTES + 64 * self.live.len() as u64 {
            true => self.write_anew(),
            false => self.append(&text),
        };
        written.context("cannot write who has which ports")
    }

    fn append(&mut self, text: &str) -> std::io::Result<()> {
        self.bytes += text.len() as u64;
        self.file.write_all(text.as_bytes())
    }

    /// In its place: the directory may be somebody else's by now.
    fn write_anew(&mut self) -> std::io::Result<()> {
        let mut text = String::new();
        self.live.iter().for_each(|kept| say(&mut text, '+', kept));
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.bytes = text.len() as u64;
        self.file.set_len(self.bytes)
    }
}

fn say(text: &mut String, sign: char, kept: &Kept) {
    let inside = address_of(kept.inside);
    let (outside, (first, last)) = (Ipv4Addr::from(kept.outside), kept.ports);
    writeln!(text, "{sign} {inside} {outside} {first}-{last}").expect("text has room");
}

/// What is live behind the last line; a line that is no block is told by its number. A last line without an end was not
/// written to its end.
fn read(text: &str) -> Result<BTreeSet<Kept>, usize> {
    let mut live = BTreeSet::new();
    for (n, line) in text.split_inclusive('\n').enumerate().filter(|(_, line)| line.ends_with('\n')) {
        let (sign, kept) = block(line.trim_end()).ok_or(n + 1)?;
        match sign {
            "+" => live.insert(kept),
            _ => live.remove(&kept),
        };
    }
    Ok(live)
}

fn block(line: &str) -> Option<(&str, Kept)> {
    let [sign @ ("+" | "-"), inside, outside, ports] = line.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let inside = words_of(inside.parse().ok()?);
    let outside = outside.parse::<Ipv4Addr>().ok()?.into();
    let (first, last) = ports.split_once('-')?;
    Some((sign, Kept { inside, outside, ports: (first.parse().ok()?, last.parse().ok()?) }))
}

#[cfg(test)]
mod tests {
    use weir_plane::Time;

    use super::*;

    fn event(what: What, host: u32, first: u16) -> Event {
        Event {
            at: Time::default(),
            what,
            inside: [0, 0, 0xffff, 0xc612_0000 + host],
            outside: 0xc000_0201,
            ports: (first, first + 511),
            proto: 0,
        }
    }

    #[test]
    fn what_was_given_and_not_taken_back_is_found_again() {
        let path = std::env::temp_dir().join(format!("weir-blocks-{}", std::process::id()));
        let mut blocks = Blocks::open(&path).expect("a new file");
        assert_eq!(blocks.live(), []);
        let given = [event(What::BlockAllocated, 1, 1024), event(What::BlockAllocated, 2, 2048)];
        blocks.note(&given).expect("written");
        let other = Event { inside: [0x2001_0db8, 0, 0, 7], ..event(What::BlockAllocated, 3, 4096) };
        let session = event(What::SessionCreated, 4, 9000);
        blocks.note(&[other, session, event(What::BlockReleased, 1, 1024)]).expect("written");
        let text = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(
            text,
            "+ 198.18.0.1 192.0.2.1 1024-1535\n+ 198.18.0.2 192.0.2.1 2048-2559\n\
             + 2001:db8::7 192.0.2.1 4096-4607\n- 198.18.0.1 192.0.2.1 1024-1535\n"
        );
        drop(blocks);
        // The end came in the middle of a line.
        std::fs::write(&path, text + "- 198.18.0.2 192.0").expect("writable");
        let blocks = Blocks::open(&path).expect("the same file");
        let mut expected = [given[1], other].map(|event| Kept::of(&event).expect("a block"));
        expected.sort_unstable();
        assert_eq!(blocks.live(), expected);
        let text = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(text.lines().count(), 2, "what is past is gone: {text}");
        std::fs::write(&path, "+ 198.18.0.1 192.0.2.1 1024-1535\nhello\n").expect("writable");
        let wrong = Blocks::open(&path).err().expect("no block").to_string();
        assert!(wrong.starts_with("line 2 of ") && wrong.contains("--blocks"), "{wrong}");
        std::fs::remove_file(&path).expect("it is ours");
    }
}
