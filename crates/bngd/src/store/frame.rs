//! The bytes of a segment of the log: frames, each with a checksum. Pure.
//!
//! ```text
//! segment  = frame of the header, frames of groups, zeros
//! frame    = F5 'w' 'r' 0A, length (u32), CRC-32 of length and text (u32), text; numbers in little-endian order
//! header   = "1 segment 7 after 1234\n"               version, number of the segment, last record of the segments before it
//! group    = "at 1790000000\n", one line a record     when the group was written, s since 1970
//! ```
//! A group is written after the one before it is on disk. So a frame that is not whole with nothing whole behind it is a write that
//! was interrupted and never reported, and one with a whole frame behind it is damage.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write;

use weir_bng::Record;

/// Version of the format.
const VERSION: u32 = 1;
/// What a frame begins with; its first byte is in no text.
const MAGIC: [u8; 4] = [0xf5, b'w', b'r', b'\n'];
/// Bytes of a frame before its text.
const HEAD: usize = 12;

/// Records that were written together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// When, s since 1970.
    pub(super) at_s: u64,
    /// The records, in their order.
    pub(super) records: Vec<Record>,
}

/// What a segment contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Its number.
    pub(super) number: u64,
    /// Revision of the last record of the segments before it: any later one that they contain was never reported.
    pub(super) after: u64,
    /// Its groups.
    pub(super) groups: Vec<Group>,
}

/// Why a segment cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Damage {
    /// First byte of what cannot be read.
    pub(super) offset: usize,
    /// What is wrong.
    pub(super) why: String,
}

/// The frame of a header.
pub(super) fn header(number: u64, after: u64) -> Vec<u8> {
    frame(format!("{VERSION} segment {number} after {after}\n"))
}

/// The frame of a group.
pub(super) fn group(at_s: u64, records: &[Record]) -> Vec<u8> {
    let mut text = format!("at {at_s}\n");
    for record in records {
        // Writing to memory does not fail.
        let _ = writeln!(text, "{record}");
    }
    frame(text)
}

/// The frame of a text.
pub(super) fn frame(text: String) -> Vec<u8> {
    let length = (text.len() as u32).to_le_bytes();
    [&MAGIC[..], &length, &crc(length, text.as_bytes()).to_le_bytes(), text.as_bytes()].concat()
}

fn crc(length: [u8; 4], text: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(text);
    hasher.finalize()
}

/// The text of the frame that begins at `offset`, and where the next one begins; `None`: it is not whole.
fn text_at(bytes: &[u8], offset: usize) -> Option<(&str, usize)> {
    let (head, rest) = bytes.get(offset..)?.split_first_chunk::<HEAD>()?;
    let (magic, numbers) = head.split_first_chunk::<4>()?;
    let (length, checksum) = numbers.split_first_chunk::<4>()?;
    let text = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let is_whole = *magic == MAGIC && *checksum == crc(*length, text).to_le_bytes();
    let text = std::str::from_utf8(text).ok().filter(|_| is_whole)?;
    Some((text, offset.checked_add(HEAD)?.checked_add(text.len())?))
}

/// Where a whole frame begins at or behind `offset`.
fn next_whole(bytes: &[u8], offset: usize) -> Option<usize> {
    let [first, ..] = MAGIC;
    let mut places = (offset..bytes.len()).filter(|at| bytes.get(*at) == Some(&first));
    places.find(|at| text_at(bytes, *at).is_some())
}

/// Reads a segment; `None`: its header was not written, and nothing else.
///
/// # Errors
/// A frame is damaged, or is no part of a log.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Segment>, Damage> {
    let Some((text, start)) = text_at(bytes, 0) else {
        return end(bytes, 0).map(|()| None);
    };
    let (number, after) = read_header(text).map_err(|why| Damage { offset: 0, why })?;
    Ok(Some(Segment { number, after, groups: groups(bytes, start, after)? }))
}

/// Reads the groups from `offset` on; their records are numbered above `after`.
///
/// # Errors
/// A frame is damaged, or is no group.
pub(super) fn groups(bytes: &[u8], mut offset: usize, mut after: u64) -> Result<Vec<Group>, Damage> {
    let mut groups = Vec::new();
    while let Some((text, next)) = text_at(bytes, offset) {
        let group = read_group(text, after).map_err(|why| Damage { offset, why })?;
        after = group.records.last().map_or(after, |record| record.revision);
        groups.push(group);
        offset = next;
    }
    end(bytes, offset)?;
    Ok(groups)
}

/// Nothing whole follows.
fn end(bytes: &[u8], offset: usize) -> Result<(), Damage> {
    match next_whole(bytes, offset) {
        Some(whole) => Err(Damage {
            offset,
            why: format!("the bytes up to {whole} do not have the checksum that they were written with"),
        }),
        None => Ok(()),
    }
}

fn read_header(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("`{}` is no header of a segment", text.trim_end());
    let words: Vec<&str> = text.split_whitespace().collect();
    let (version, rest) = words.split_first().ok_or_else(wrong)?;
    match (version.parse::<u32>(), rest) {
        (Ok(VERSION), ["segment", number, "after", after]) => {
            number.parse().ok().zip(after.parse().ok()).ok_or_else(wrong)
        }
        (Ok(version), _) if version > VERSION => {
            Err(format!("it has version {version}, this program reads version {VERSION}"))
        }
        _ => Err(wrong()),
    }
}

fn read_group(text: &str, mut after: u64) -> Result<Group, String> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let at_s = first.strip_prefix("at ").and_then(|at_s| at_s.parse().ok());
    let at_s = at_s.ok_or_else(|| format!("`{first}` is no time of a group"))?;
    let mut records = Vec::new();
    for line in lines {
        let record: Record = line.parse().map_err(|error| format!("{error} (`{line}`)"))?;
        if record.revision <= after {
            return Err(format!("record {} follows record {after}", record.revision));
        }
        after = record.revision;
        records.push(record);
    }
    Ok(Group { at_s, records })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(revision: u64) -> Record {
        format!("1 {revision} removed s{revision}").parse().expect("a record")
    }

    /// A segment with groups of one and two records, and zeros behind them; where its frames end.
    fn segment() -> (Vec<u8>, Vec<usize>) {
        let groups = [vec![record(8)], vec![record(9), record(10)], vec![record(15)]];
        let mut bytes = header(3, 7);
        let mut ends = vec![bytes.len()];
        for group in groups {
            bytes.extend(super::group(1_790_000_000, &group));
            ends.push(bytes.len());
        }
        bytes.resize(bytes.len() + 300, 0);
        (bytes, ends)
    }

    #[test]
    fn segments_are_read_as_they_are_written() {
        let (bytes, ends) = segment();
        let read = read(&bytes).expect("it is whole").expect("it has a header");
        let revisions: Vec<Vec<u64>> = read
            .groups
            .iter()
            .map(|group| group.records.iter().map(|record| record.revision).collect())
            .collect();
        assert_eq!((read.number, read.after, read.groups[0].at_s), (3, 7, 1_790_000_000));
        assert_eq!(revisions, [vec![8], vec![9, 10], vec![15]]);
        assert_eq!(groups(&bytes[ends[1]..], 0, 8).expect("whole"), read.groups[1..]);
    }

    #[test]
    fn the_groups_before_a_torn_one_are_read() {
        let (bytes, ends) = segment();
        for rest in [0, 0xf5, b'1'] {
            for length in 0..*ends.last().expect("some") {
                for whole in [length, bytes.len()] {
                    let mut torn = bytes[..length].to_vec();
                    torn.resize(whole, rest);
                    let expected = ends.iter().filter(|end| **end <= length).count();
                    let found = read(&torn).unwrap_or_else(|damage| panic!("{length}: {damage:?}"));
                    assert_eq!(found.map_or(0, |segment| 1 + segment.groups.len()), expected, "{length}");
                }
            }
        }
    }

    #[test]
    fn a_changed_bit_before_the_last_group_is_damage() {
        let (bytes, ends) = segment();
        let [.., last, _] = ends[..] else { panic!("more frames") };
        for at in 0..last {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let damage = read(&changed).expect_err("it is damaged");
                assert!(damage.offset <= at, "{at}: {damage:?}");
            }
        }
    }

    #[test]
    fn whole_frames_that_are_no_log_are_refused() {
        let text = |texts: &[&str]| texts.iter().flat_map(|text| frame(text.to_string())).collect::<Vec<_>>();
        let mut said = String::new();
        for texts in [
            &["1 segment x after 7\n"][..],
            &["2 segment 3 after 7\n"],
            &["at 7\n1 8 removed a\n"],
            &["1 segment 3 after 7\n", "1 8 removed a\n"],
            &["1 segment 3 after 7\n", "at 7\n1 7 removed a\n"],
            &["1 segment 3 after 7\n", "at 7\n1 9 removed a\n1 9 removed b\n"],
            &["1 segment 3 after 7\n", "at 7\n1 9 vanished a\n"],
            &["1 segment 3 after 7\n", "at 7\n2 9 removed a\n"],
        ] {
            let Damage { offset, why } = read(&text(texts)).expect_err("it is no log");
            let _ = writeln!(said, "{texts:?}\n    at byte {offset}: {why}");
        }
        weir_testkit::golden!("src/store/mistakes-frame.txt", &said);
    }
}
