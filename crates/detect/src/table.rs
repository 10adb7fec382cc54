//! All hosts, one cache line each, in memory that does not grow.
//!
//! ```text
//! address, direction > hash > a row of 16 lines: found, or free, or the one that was idle, or the least busy one
//! ```
//! The line of a host that sent nothing in this slot holds its baseline only, so another host may take it. Where all hosts of a
//! row are busy, the least busy one is replaced, and its successor inherits its count of frames, as in the Space-Saving
//! algorithm (Metwally et al. 2005): a count is then too high by at most [`Table::error_frames`], never too low.

use crate::counts::{Counts, Direction};

/// Lines that a host may be in.
const ROW: usize = 16;
/// No watch belongs to this host.
pub(crate) const UNWATCHED: u16 = u16::MAX;

/// The counted hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) address: u128,
    pub(crate) direction: Direction,
}

/// A host in one direction.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Host {
    address: [u64; 2],
    /// Slot in which the counts were made; 0: this line was never used.
    pub(crate) slot: u32,
    /// Index of its watch.
    pub(crate) watch: u16,
    /// Twice the index of its group, and 1 more for the direction out.
    group_and_direction: u16,
    pub(crate) counts: Counts,
    /// Learned mean of frames/s and of bits/s, not yet corrected for the time before it was learned.
    pub(crate) baseline: [f32; 2],
}

const _: () = assert!(size_of::<Host>() == 64);

impl Host {
    const FREE: Host = Host {
        address: [0; 2],
        slot: 0,
        watch: UNWATCHED,
        group_and_direction: 0,
        counts: Counts { frames: 0, bytes: 0, tcp: 0, udp: 0, icmp: 0, syn: 0, fragments: 0, flows: 0 },
        baseline: [0.0; 2],
    };

    pub(crate) fn group(&self) -> usize {
        usize::from(self.group_and_direction >> 1)
    }

    #[inline]
    fn is(&self, key: Key) -> bool {
        self.slot != 0
            && self.address == words(key.address)
            && self.group_and_direction & 1 == key.direction as u16
    }
}

#[inline]
fn words(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// All hosts.
pub(crate) struct Table {
    lines: Box<[Host]>,
    secret: [u64; 2],
    used: usize,
    evicted: u64,
    error_frames: u32,
}

/// A line of the table.
pub(crate) type Line = usize;

impl Table {
    /// Room for as many hosts as fit into so many bytes, at least one row. `secret` keeps others from choosing
    /// addresses that meet in one row.
    pub(crate) fn new(bytes: usize, secret: [u64; 2]) -> Table {
        let lines = (bytes / size_of::<Host>()).max(ROW);
        // The largest power of two that fits.
        let lines = 1 << lines.ilog2();
        Table { lines: vec![Host::FREE; lines].into(), secret, used: 0, evicted: 0, error_frames: 0 }
    }

    /// Where the row of a host begins.
    #[inline]
    pub(crate) fn row(&self, key: Key) -> Line {
        let [high, low] = words(key.address);
        let mixed = fold(high ^ self.secret[0] ^ key.direction as u64, low ^ self.secret[1]);
        fold(mixed ^ self.secret[1], 0x9e37_79b9_7f4a_7c15) as usize & (self.lines.len() - 1)
    }

    /// Asks for the first line of a row, so that it is on its way when it is needed. The result has no meaning.
    #[inline]
    pub(crate) fn touch(&self, row: Line) -> u32 {
        self.lines[row].slot
    }

    /// The line of a host, if it has one.
    pub(crate) fn find(&self, key: Key) -> Option<Line> {
        let row = self.row(key);
        let lines = (row..row + ROW).map(|line| line & (self.lines.len() - 1));
        lines.take_while(|&line| self.lines[line].slot != 0).find(|&line| self.lines[line].is(key))
    }

    /// The line of a host, a new one where it had none; `group` tells the group of a new one. `slot` is this one.
    #[inline]
    pub(crate) fn line(&mut self, row: Line, key: Key, slot: u32, group: impl FnOnce() -> usize) -> Line {
        for offset in 0..ROW {
            let line = (row + offset) & (self.lines.len() - 1);
            let host = &self.lines[line];
            if host.is(key) {
                return line;
            }
            if host.slot == 0 {
                self.used += 1;
                return self.settle(line, key, slot, group());
            }
        }
        self.replace(row, key, slot, group())
    }

    #[cold]
    fn replace(&mut self, row: Line, key: Key, slot: u32, group: usize) -> Line {
        let lines = (row..row + ROW).map(|line| line & (self.lines.len() - 1));
        // Watched hosts stay. Idle hosts are evicted first, the longest idle before the others.
        let rank = |line: &Line| {
            let host = &self.lines[*line];
            let frames = if host.slot == slot { host.counts.frames } else { 0 };
            (host.watch != UNWATCHED, frames, host.slot)
        };
        let line = lines.min_by_key(rank).expect("a row has lines");
        let victim = self.lines[line];
        let line = self.settle(line, key, slot, group);
        if victim.slot == slot {
            self.evicted += 1;
            self.error_frames = self.error_frames.max(victim.counts.frames);
            self.lines[line].counts.frames = victim.counts.frames;
        }
        line
    }

    fn settle(&mut self, line: Line, key: Key, slot: u32, group: usize) -> Line {
        let group_and_direction = (group as u16) << 1 | key.direction as u16;
        self.lines[line] = Host { address: words(key.address), slot, group_and_direction, ..Host::FREE };
        line
    }

    #[inline]
    pub(crate) fn host(&mut self, line: Line) -> &mut Host {
        &mut self.lines[line]
    }

    /// Lines in use: hosts and directions that were seen and not yet replaced.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Busy hosts that were replaced by others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Frames by which a count of a slot may be too high since the last call, at most.
    pub(crate) fn take_error_frames(&mut self) -> u32 {
        std::mem::take(&mut self.error_frames)
    }
}

/// Both halves of a product, folded: a fast hash step (as in wyhash).
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn key(address: u128) -> Key {
        Key { address, direction: Direction::In }
    }

    fn count(table: &mut Table, address: u128, slot: u32) {
        let row = table.row(key(address));
        let line = table.line(row, key(address), slot, || 0);
        let host = table.host(line);
        if host.slot != slot {
            (host.slot, host.counts) = (slot, Counts::default());
        }
        host.counts.frames += 1;
    }

    #[test]
    fn counts_are_exact_while_the_hosts_of_a_slot_fit() {
        // 3 hosts come and go for each line, but at most a quarter of the lines are busy at a time.
        let mut table = Table::new(4096 * 64, [3, 4]);
        for slot in 1..=12 {
            let hosts: Vec<u128> = (0..1024).map(|n| u128::from(slot) * 0x1_0000_0001 + n * 77).collect();
            for (n, &host) in hosts.iter().enumerate() {
                (0..=n % 3).for_each(|_| count(&mut table, host, slot));
            }
            for (n, &host) in hosts.iter().enumerate() {
                let line = table.find(key(host)).expect("it was just counted");
                assert_eq!(table.host(line).counts.frames as usize, n % 3 + 1);
            }
        }
        assert_eq!(table.evicted(), 0);
    }

    #[test]
    fn both_directions_of_a_host_are_apart() {
        let mut table = Table::new(64 * 64, [1, 2]);
        for direction in [Direction::In, Direction::Out, Direction::In] {
            let key = Key { address: 7, direction };
            let line = table.line(table.row(key), key, 1, || 3);
            table.host(line).counts.frames += 1;
            assert_eq!(table.host(line).group(), 3);
        }
        let frames = |table: &mut Table, direction| {
            let line = table.find(Key { address: 7, direction }).expect("counted");
            table.host(line).counts.frames
        };
        assert_eq!((frames(&mut table, Direction::In), frames(&mut table, Direction::Out)), (2, 1));
    }

    #[test]
    fn an_overfull_table_is_never_too_low_and_says_how_much_too_high() {
        let mut table = Table::new(256 * 64, [9, 1]);
        let mut truth = HashMap::new();
        // A heavy host among ten times more light ones than there is room for.
        for n in 0..40_000_u128 {
            let host = if n % 10 == 0 { 5 } else { 1000 + n * 31 % 2560 };
            *truth.entry(host).or_insert(0_u32) += 1;
            count(&mut table, host, 1);
        }
        assert!(table.evicted() > 0);
        let error = table.take_error_frames();
        for (&host, &frames) in &truth {
            if let Some(line) = table.find(key(host)) {
                let counted = table.host(line).counts.frames;
                assert!((frames..=frames + error).contains(&counted), "{host}: {counted} for {frames}");
            }
        }
        let line = table.find(key(5)).expect("the heavy one stays");
        assert!(table.host(line).counts.frames >= 4000);
    }
}
