//! Longest-prefix match for IPv4: a trie of three levels, 16, 8 and 8 bits wide (after DIR-24-8: Gupta, Lin, McKeown,
//! "Routing Lookups in Hardware at Memory Access Speeds", INFOCOM 1998, with the first level split).
//!
//! ```text
//! root[address >> 16] > chunk[next 8 bits] > chunk[last 8 bits]        a hop, or none: then the root's
//! ```
//! Memory: 512 KiB, and 1 KiB for each /16 with prefixes longer than /16 and for each /24 with longer ones; 64.5 MiB when
//! every /16 has some, of which a lookup reads one line beside the root. A change repaints the entries of its own
//! prefix within one level from the prefixes of that level: at most 65,536 for lengths up to 16 and from 17 to 24, 256
//! for longer ones.

use std::collections::BTreeMap;

use weir_memory::prefetch;

use super::blocks::Blocks;
use super::{Hop, Lpm};
use crate::prefix::mask4 as mask;

/// Entries of a chunk.
const CHUNK: usize = 256;
/// An entry that names a chunk; otherwise it is a hop plus 1, or 0 for none.
const LINK: u32 = 1 << 31;
/// Levels: prefixes of up to so many bits.
const LEVELS: [u8; 3] = [16, 24, 32];

/// The prefixes and their hops.
#[derive(Debug)]
pub(crate) struct V4 {
    root: Box<[Root]>,
    chunks: Blocks<u32, 24>,
    /// Prefixes by level, as address and length, and their entries.
    prefixes: [BTreeMap<(u32, u8), u32>; 3],
}

/// What is known of a /16.
#[derive(Debug, Clone, Copy, Default)]
struct Root {
    /// A link, or 0.
    link: u32,
    /// The entry for prefixes of up to 16 bits.
    entry: u32,
}

const _: () = assert!(size_of::<Root>() == 8);

impl V4 {
    /// No prefixes.
    pub(crate) fn new() -> V4 {
        V4 {
            root: vec![Root::default(); 1 << 16].into_boxed_slice(),
            chunks: Blocks::new(),
            prefixes: Default::default(),
        }
    }

    /// The entries of this prefix at its level, where no prefix of the level covers it `below`.
    fn painted(&self, level: usize, address: u32, length: u8, below: u32) -> Vec<u32> {
        let prefixes = &self.prefixes[level];
        let shortest = if level == 0 { 0 } else { LEVELS[level - 1] + 1 };
        let covering = (shortest..=length).rev().find_map(|l| prefixes.get(&(address & mask(l), l)));
        let mut entries = vec![covering.copied().unwrap_or(below); 1 << (LEVELS[level] - length)];
        // In order of address and length, so that longer ones paint over those that cover them.
        let last = address | !mask(length);
        for (&(inner, inner_length), &entry) in prefixes.range((address, length + 1)..=(last, u8::MAX)) {
            let first = (inner - address) >> (32 - LEVELS[level]);
            entries[first as usize..][..1 << (LEVELS[level] - inner_length)].fill(entry);
        }
        entries
    }

    /// Writes what changed with this prefix.
    fn repaint(&mut self, address: u32, length: u8) {
        match level(length) {
            0 => self.repaint_root(address, length),
            1 => self.repaint_middle(address, length),
            _ => self.repaint_deep(address, length),
        }
    }

    fn repaint_root(&mut self, address: u32, length: u8) {
        let entries = self.painted(0, address, length, 0);
        for (root, entry) in self.root[(address >> 16) as usize..].iter_mut().zip(entries) {
            root.entry = entry;
        }
    }

    fn repaint_middle(&mut self, address: u32, length: u8) {
        let entries = self.painted(1, address, length, 0);
        let chunk = self.middle(address);
        for (n, entry) in (0..).zip(entries) {
            let at = chunk + (address >> 8 & 0xff) + n;
            if self.chunks[at] & LINK == 0 {
                self.chunks[at] = entry;
            } else {
                self.fill_deep(self.chunks[at] & !LINK, address + (n << 8), 24, entry);
            }
        }
        self.trim_middle(address);
    }

    fn repaint_deep(&mut self, address: u32, length: u8) {
        let at = self.middle(address) + (address >> 8 & 0xff);
        let below = self.painted(1, address & mask(24), 24, 0)[0];
        if self.none_in(2, address, 24) {
            if self.chunks[at] & LINK != 0 {
                self.chunks.free((self.chunks[at] & !LINK) * CHUNK as u32, CHUNK);
            }
            self.chunks[at] = below;
        } else if self.chunks[at] & LINK == 0 {
            let chunk = self.chunks.alloc(CHUNK) / CHUNK as u32;
            self.chunks[at] = LINK | chunk;
            self.fill_deep(chunk, address & mask(24), 24, below);
        } else {
            self.fill_deep(self.chunks[at] & !LINK, address, length, below);
        }
        self.trim_middle(address);
    }

    /// Writes the entries of a prefix of at least 24 bits into its chunk.
    fn fill_deep(&mut self, chunk: u32, address: u32, length: u8, below: u32) {
        let entries = self.painted(2, address, length, below);
        let first = chunk * CHUNK as u32 + (address & 0xff);
        self.chunks.block_mut(first, entries.len()).copy_from_slice(&entries);
    }

    /// The first entry of the chunk of this /16, which is made if there is none.
    fn middle(&mut self, address: u32) -> u32 {
        let root = (address >> 16) as usize;
        if self.root[root].link == 0 {
            let first = self.chunks.alloc(CHUNK);
            self.chunks.block_mut(first, CHUNK).fill(0);
            self.root[root].link = LINK | (first / CHUNK as u32);
        }
        (self.root[root].link & !LINK) * CHUNK as u32
    }

    /// Frees the chunk of this /16 if no prefix needs it.
    fn trim_middle(&mut self, address: u32) {
        if self.none_in(1, address, 16) && self.none_in(2, address, 16) {
            let first = self.middle(address);
            self.chunks.free(first, CHUNK);
            self.root[(address >> 16) as usize].link = 0;
        }
    }

    fn none_in(&self, level: usize, address: u32, length: u8) -> bool {
        let first = address & mask(length);
        self.prefixes[level].range((first, 0)..=(first | !mask(length), 32)).next().is_none()
    }
}

impl Default for V4 {
    fn default() -> V4 {
        V4::new()
    }
}

impl Lpm for V4 {
    type Address = u32;

    fn insert(&mut self, address: u32, length: u8, hop: Hop) -> Option<Hop> {
        let address = address & mask(length);
        let old = self.prefixes[level(length)].insert((address, length), hop.0 + 1);
        self.repaint(address, length);
        old.map(|entry| Hop(entry - 1))
    }

    fn remove(&mut self, address: u32, length: u8) -> Option<Hop> {
        let address = address & mask(length);
        let old = self.prefixes[level(length)].remove(&(address, length))?;
        self.repaint(address, length);
        Some(Hop(old - 1))
    }

    fn get(&self, address: u32, length: u8) -> Option<Hop> {
        let entry = self.prefixes[level(length)].get(&(address & mask(length), length));
        entry.map(|entry| Hop(entry - 1))
    }

    /// Three passes, so that the lines of all addresses are on their way at once.
    #[inline]
    fn lookup(&self, addresses: &[u32], hops: &mut [Hop]) {
        // First where the middle level has each, then all of these lines are asked for together.
        let mut linked = 0;
        for (&address, hop) in addresses.iter().zip(hops.iter_mut()) {
            let root = self.root[(address >> 16) as usize];
            let place = (root.link & !LINK) * CHUNK as u32 + (address >> 8 & 0xff);
            hop.0 = if root.link != 0 { LINK | place } else { root.entry };
            linked |= root.link;
        }
        if linked == 0 {
            hops.iter_mut().for_each(|hop| hop.0 = hop.0.wrapping_sub(1));
            return;
        }
        for hop in hops.iter().filter(|hop| hop.0 & LINK != 0) {
            prefetch(&self.chunks[hop.0 & !LINK]);
        }
        let mut deep = false;
        for (&address, hop) in addresses.iter().zip(hops.iter_mut()) {
            if hop.0 & LINK != 0 {
                let entry = self.chunks[hop.0 & !LINK];
                hop.0 = if entry != 0 { entry } else { self.root[(address >> 16) as usize].entry };
                deep |= entry & LINK != 0;
            }
        }
        if deep {
            for (&address, hop) in addresses.iter().zip(hops.iter_mut()) {
                if hop.0 & LINK != 0 {
                    let entry = self.chunks[(hop.0 & !LINK) * CHUNK as u32 + (address & 0xff)];
                    hop.0 = if entry != 0 { entry } else { self.root[(address >> 16) as usize].entry };
                }
            }
        }
        for hop in hops {
            hop.0 = hop.0.wrapping_sub(1);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.prefixes.iter().map(BTreeMap::len).sum()
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.root) + self.chunks.bytes()
    }
}

/// The level of prefixes of this length.
fn level(length: u8) -> usize {
    usize::from(length > LEVELS[0]) + usize::from(length > LEVELS[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_and_go_with_the_prefixes_that_need_them() {
        let mut table = V4::new();
        let prefixes = [(0, 0), (0x0a00_0000, 8), (0x0a01_0000, 20), (0x0a01_0200, 25), (0x0a01_0280, 32)];
        for (n, &(address, length)) in (0..).zip(&prefixes) {
            assert_eq!(table.insert(address, length, Hop(n)), None);
        }
        assert_eq!((table.len(), table.chunks.live()), (5, 2 * CHUNK));
        for &(address, length) in &prefixes {
            assert!(table.remove(address, length).is_some());
        }
        assert_eq!((table.len(), table.chunks.live()), (0, 0));
        let mut hop = [Hop(0)];
        table.lookup(&[0x0a01_0280], &mut hop);
        assert_eq!(hop, [Hop::NONE]);
    }
}
