//! Longest-prefix match for IPv6: trees of bitmaps (Eatherton, Varghese, Dittia, "Tree Bitmap", CCR 34(2), 2004) of 6 bits
//! per node, whose nodes skip up to 60 bits that all their prefixes share. Prefixes of 32 bits or more are in a tree of
//! their first 32 bits, which a hash finds: most prefixes of the Internet are there, few nodes deep. Shorter ones are in a
//! tree of their first 16 bits, and are looked at where the longer ones have no match.
//!
//! ```text
//! hash(first 32 bits) > node > node > ... > hop        a node: which of its 6 bits have a prefix, which a child
//! root[first 16 bits] > node > ...        > hop        of prefixes shorter than 32 bits
//! ```
//! Memory: 768 KiB, 16 bytes per 32 bits with prefixes, 32 per node and 4 per prefix that shares its node; a change moves the
//! children or the hops of one node, at most 64, and writes up to 65,536 root entries for prefixes shorter than 16 bits.
//!
//! Invariant: each node has a prefix or a child; a node with one child and no prefix could not be merged with it.

use std::collections::BTreeMap;

use weir_memory::prefetch;

use super::blocks::Blocks;
use super::{Hop, Lpm};
use crate::prefix::mask6;
use crate::table::index::Index;

/// Bits of the root.
const ROOT: u32 = 16;
/// Bits of the hash.
const HASHED: u32 = 32;
/// Bits of a node.
const STRIDE: u32 = 6;
/// Strides that a node can skip.
const MOST_SKIPPED: u32 = 10;
/// Nodes from the root to a whole address.
const DEPTH: usize = ((128 - ROOT) / STRIDE) as usize + 1;

/// A node: its prefixes and children by 6 bits of the address.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
struct Node {
    /// Which prefixes end here: bit `1 << l | first l bits`, for l of 0 to 5 bits.
    inner: u64,
    /// Which of the 64 children are there.
    outer: u64,
    /// Bits skipped before this node, then 4 bits: strides skipped.
    path: u64,
    /// The hop of a single prefix; of several the first of their hops, in the order of the bits in `inner`.
    hops: u32,
    /// First of the children, in the order of the bits in `outer`.
    kids: u32,
}

const _: () = assert!(size_of::<Node>() == 32);

/// What is known of the first 16 bits.
#[derive(Debug, Clone, Copy, Default)]
struct Root {
    /// A node, or 0; and [`HAS_HASHED`].
    node: u32,
    /// The hop plus 1 of prefixes shorter than 16 bits, or 0.
    entry: u32,
}

/// In the node of a root: there are prefixes of 32 bits or more.
const HAS_HASHED: u32 = 1 << 31;

impl Root {
    #[inline]
    fn node(self) -> u32 {
        self.node & !HAS_HASHED
    }

    #[inline]
    fn has_hashed(self) -> bool {
        self.node & HAS_HASHED != 0
    }
}

/// The prefixes and their hops.
#[derive(Debug)]
pub(crate) struct V6 {
    root: Box<[Root]>,
    /// By [`key`] of the first 32 bits, the node of the prefixes that have them.
    hashed: Index,
    /// By the first 16 bits, how many of `hashed` have them.
    hashed_below: Vec<u32>,
    nodes: Blocks<Node, 21>,
    hops: Blocks<u32, 24>,
    /// Prefixes shorter than the root, as address and length, and their entries.
    short: BTreeMap<(u128, u8), u32>,
    len: usize,
}

/// Where a lookup stands.
#[derive(Clone, Copy)]
struct At {
    node: u32,
    depth: u32,
    /// The hop plus 1 from the root, or with `DEEP` the number of an element of `hops`.
    best: u32,
}

/// A hop that is still to be read.
const DEEP: u32 = 1 << 31;

impl V6 {
    /// No prefixes.
    pub(crate) fn new() -> V6 {
        let mut nodes = Blocks::new();
        // Number 0 means none.
        nodes.alloc(1);
        V6 {
            root: vec![Root::default(); 1 << ROOT].into_boxed_slice(),
            hashed: Index::new(),
            hashed_below: vec![0; 1 << ROOT],
            nodes,
            hops: Blocks::new(),
            short: BTreeMap::new(),
            len: 0,
        }
    }

    fn repaint_root(&mut self, address: u128, length: u8) {
        let covering = (0..=length).rev().find_map(|l| self.short.get(&(address & mask6(l), l)));
        let (covering, first) = (covering.copied().unwrap_or(0), (address >> 112) as usize);
        let entries = |length: u8| 1_usize << (ROOT - u32::from(length));
        self.root[first..][..entries(length)].iter_mut().for_each(|root| root.entry = covering);
        let last = address | !mask6(length);
        for (&(inner, inner_length), &entry) in self.short.range((address, length + 1)..=(last, 128)) {
            let first = (inner >> 112) as usize;
            self.root[first..][..entries(inner_length)].iter_mut().for_each(|root| root.entry = entry);
        }
    }

    /// The node where the way to a prefix of this length begins, or 0.
    fn first(&self, address: u128, length: u32) -> u32 {
        match begin(length) {
            ROOT => self.root[(address >> 112) as usize].node(),
            _ => self.hashed(address),
        }
    }

    /// From now on the way to a prefix of this length begins at this node; at none, if 0.
    fn set_first(&mut self, address: u128, length: u32, node: u32) {
        let at = (address >> 112) as usize;
        if begin(length) == ROOT {
            self.root[at].node = self.root[at].node & HAS_HASHED | node;
            return;
        }
        if node != 0 {
            self.hashed_below[at] += 1;
            self.hashed.insert(key(address), node);
        } else {
            self.hashed_below[at] -= 1;
            self.hashed.remove(key(address), self.hashed(address));
        }
        let flag = if self.hashed_below[at] > 0 { HAS_HASHED } else { 0 };
        self.root[at].node = self.root[at].node() | flag;
    }

    /// The node of the first 32 bits of an address, or 0.
    #[inline]
    fn hashed(&self, address: u128) -> u32 {
        match self.hashed.first(key(address)) {
            // Equal keys are equal bits.
            0 => self.hashed.find(key(address), |_| true),
            node => node,
        }
    }

    /// A node, and those below it that lead to this prefix alone; it stands at `depth`.
    fn twig(&mut self, address: u128, depth: u32, length: u32, hop: u32) -> Node {
        let strides = (length - depth) / STRIDE;
        if strides > MOST_SKIPPED {
            let at = depth + MOST_SKIPPED * STRIDE;
            let child = self.twig(address, at + STRIDE, length, hop);
            let kids = self.nodes.put(&[child]);
            let outer = 1 << bits(address, at, STRIDE);
            return Node { outer, kids, path: path(address, depth, MOST_SKIPPED), ..Node::default() };
        }
        let at = depth + strides * STRIDE;
        let inner = position(address, at, length);
        Node { inner, hops: hop, path: path(address, depth, strides), ..Node::default() }
    }

    /// The hop of the prefix at this bit of a node.
    fn hop(&self, node: &Node, bit: u64) -> u32 {
        if node.is_single() {
            node.hops
        } else {
            self.hops[node.hops + rank(node.inner, bit.trailing_zeros()) as u32]
        }
    }

    /// Adds a hop to a node, or replaces it; returns the one there was.
    fn put_hop(&mut self, node: &mut Node, bit: u64, hop: u32) -> Option<u32> {
        let (at, count) = (rank(node.inner, bit.trailing_zeros()), node.inner.count_ones() as usize);
        if node.inner & bit != 0 {
            let place = if count == 1 { &mut node.hops } else { &mut self.hops[node.hops + at as u32] };
            return Some(std::mem::replace(place, hop));
        }
        node.hops = match count {
            0 => hop,
            1 if at == 0 => self.hops.put(&[hop, node.hops]),
            1 => self.hops.put(&[node.hops, hop]),
            _ => self.hops.with(node.hops, count, at, hop),
        };
        node.inner |= bit;
        None
    }

    /// Takes a hop out of a node that has it.
    fn take_hop(&mut self, node: &mut Node, bit: u64) -> u32 {
        let (at, count) = (rank(node.inner, bit.trailing_zeros()), node.inner.count_ones() as usize);
        let old = self.hop(node, bit);
        node.hops = match count {
            1 => 0,
            2 => {
                let other = self.hops[node.hops + 1 - at as u32];
                self.hops.free(node.hops, 2);
                other
            }
            _ => self.hops.without(node.hops, count, at),
        };
        node.inner &= !bit;
        old
    }

    /// Divides a node after `strides` of what it skips: above them a new one, with the old one as its only child.
    fn split(&mut self, slot: u32, strides: u32) {
        let lower = self.nodes[slot];
        let bits_skipped = lower.path >> 4;
        let rest = lower.skipped() - strides - 1;
        let index = bits_skipped >> (rest * STRIDE) & 63;
        let below = bits_skipped & ((1 << (rest * STRIDE)) - 1);
        let child = Node { path: below << 4 | u64::from(rest), ..lower };
        let above = bits_skipped >> ((rest + 1) * STRIDE);
        let kids = self.nodes.put(&[child]);
        self.nodes[slot] =
            Node { outer: 1 << index, kids, path: above << 4 | u64::from(strides), ..Node::default() };
    }

    /// The way to the node of this prefix, which may not hold it; `None` if there is no such node.
    fn way(&self, address: u128, length: u32) -> Option<(Vec<u32>, u32)> {
        let mut slot = self.first(address, length);
        let (mut depth, mut way) = (begin(length), Vec::with_capacity(DEPTH));
        while slot != 0 {
            way.push(slot);
            let node = self.nodes[slot];
            depth += node.skipped() * STRIDE;
            if depth > length || !node.is_on(address, depth) {
                return None;
            }
            if length - depth < STRIDE {
                return Some((way, depth));
            }
            slot = node.child(bits(address, depth, STRIDE))?;
            depth += STRIDE;
        }
        None
    }

    /// Removes what is empty and joins what is single, from the end of the way to a prefix upwards.
    fn tidy(&mut self, (address, length): (u128, u32), mut way: Vec<u32>, mut depth: u32) {
        while let Some(slot) = way.pop() {
            let node = self.nodes[slot];
            if node.inner != 0 {
                return;
            }
            if node.outer.count_ones() == 1 {
                self.join(slot);
                return;
            }
            if node.outer != 0 {
                return;
            }
            let Some(&parent) = way.last() else {
                self.nodes.free(slot, 1);
                self.set_first(address, length, 0);
                return;
            };
            depth -= node.skipped() * STRIDE + STRIDE;
            let (index, mut above) = (bits(address, depth, STRIDE), self.nodes[parent]);
            let kids = above.outer.count_ones() as usize;
            above.kids = self.nodes.without(above.kids, kids, rank(above.outer, index));
            above.outer &= !(1 << index);
            self.nodes[parent] = above;
        }
    }

    /// Puts a node's only child in its place, if it can skip so much.
    fn join(&mut self, slot: u32) {
        let (node, child) = (self.nodes[slot], self.nodes[self.nodes[slot].kids]);
        let skipped = node.skipped() + 1 + child.skipped();
        if skipped <= MOST_SKIPPED {
            let index = u64::from(node.outer.trailing_zeros());
            let bits = ((node.path >> 4) << STRIDE | index) << (child.skipped() * STRIDE) | child.path >> 4;
            self.nodes.free(node.kids, 1);
            self.nodes[slot] = Node { path: bits << 4 | u64::from(skipped), ..child };
        }
    }

    /// One node further on the way of an address; false at its end.
    #[inline]
    fn step(&self, address: u128, at: &mut At) -> bool {
        let node = &self.nodes[at.node];
        let depth = at.depth + node.skipped() * STRIDE;
        if !node.is_on(address, depth) {
            return false;
        }
        let index = bits(address, depth, STRIDE);
        let matches = node.inner & ANCESTORS[index as usize];
        if matches != 0 {
            let place = DEEP | (node.hops + rank(node.inner, 63 - matches.leading_zeros()) as u32);
            at.best = if node.is_single() { node.hops + 1 } else { place };
        }
        at.depth = depth + STRIDE;
        let child = node.child(index);
        at.node = child.unwrap_or(0);
        child.is_some()
    }
}

impl Node {
    /// Whether one prefix ends here, and no other.
    #[inline]
    fn is_single(&self) -> bool {
        self.inner.is_power_of_two()
    }

    #[inline]
    fn skipped(&self) -> u32 {
        (self.path & 15) as u32
    }

    /// Whether the bits that were skipped before `depth` are those of the address.
    #[inline]
    fn is_on(&self, address: u128, depth: u32) -> bool {
        let skipped = self.skipped() * STRIDE;
        skipped == 0 || (address >> (128 - depth)) as u64 & ((1 << skipped) - 1) == self.path >> 4
    }

    #[inline]
    fn child(&self, index: u32) -> Option<u32> {
        (self.outer >> index & 1 != 0).then(|| self.kids + rank(self.outer, index) as u32)
    }
}

impl Default for V6 {
    fn default() -> V6 {
        V6::new()
    }
}

impl Lpm for V6 {
    type Address = u128;

    fn insert(&mut self, address: u128, length: u8, hop: Hop) -> Option<Hop> {
        let address = address & mask6(length);
        if u32::from(length) < ROOT {
            let old = self.short.insert((address, length), hop.0 + 1);
            self.len += usize::from(old.is_none());
            self.repaint_root(address, length);
            return old.map(|entry| Hop(entry - 1));
        }
        let length = u32::from(length);
        let (mut slot, mut depth) = (self.first(address, length), begin(length));
        if slot == 0 {
            let node = self.twig(address, depth, length, hop.0);
            let node = self.nodes.put(&[node]);
            self.set_first(address, length, node);
            self.len += 1;
            return None;
        }
        loop {
            let mut node = self.nodes[slot];
            let strides = node.skipped().min((length - depth) / STRIDE);
            let ours = path(address, depth, strides) >> 4;
            let theirs = (node.path >> 4) >> ((node.skipped() - strides) * STRIDE);
            // Strides from the first that differs to the last compared.
            let unlike = (64 - (ours ^ theirs).leading_zeros()).div_ceil(STRIDE);
            if strides - unlike < node.skipped() {
                self.split(slot, strides - unlike);
                continue;
            }
            depth += strides * STRIDE;
            if length - depth < STRIDE {
                let old = self.put_hop(&mut node, position(address, depth, length), hop.0);
                self.nodes[slot] = node;
                if let Some(old) = old {
                    return Some(Hop(old));
                }
                break;
            }
            let index = bits(address, depth, STRIDE);
            depth += STRIDE;
            if let Some(child) = node.child(index) {
                slot = child;
                continue;
            }
            let (at, count) = (rank(node.outer, index), node.outer.count_ones() as usize);
            let child = self.twig(address, depth, length, hop.0);
            node.kids = self.nodes.with(node.kids, count, at, child);
            node.outer |= 1 << index;
            self.nodes[slot] = node;
            break;
        }
        self.len += 1;
        None
    }

    fn remove(&mut self, address: u128, length: u8) -> Option<Hop> {
        let address = address & mask6(length);
        if u32::from(length) < ROOT {
            let old = self.short.remove(&(address, length))?;
            self.len -= 1;
            self.repaint_root(address, length);
            return Some(Hop(old - 1));
        }
        let length = u32::from(length);
        let (way, depth) = self.way(address, length)?;
        let slot = *way.last()?;
        let mut node = self.nodes[slot];
        let bit = position(address, depth, length);
        if node.inner & bit == 0 {
            return None;
        }
        let old = self.take_hop(&mut node, bit);
        self.nodes[slot] = node;
        self.len -= 1;
        self.tidy((address, length), way, depth);
        Some(Hop(old))
    }

    fn get(&self, address: u128, length: u8) -> Option<Hop> {
        let address = address & mask6(length);
        if u32::from(length) < ROOT {
            return self.short.get(&(address, length)).map(|entry| Hop(entry - 1));
        }
        let length = u32::from(length);
        let (way, depth) = self.way(address, length)?;
        let node = self.nodes[*way.last()?];
        let bit = position(address, depth, length);
        (node.inner & bit != 0).then(|| Hop(self.hop(&node, bit)))
    }

    /// One pass per level over all addresses that go on, so that their lines are on their way at once.
    #[inline]
    fn lookup(&self, addresses: &[u128], hops: &mut [Hop]) {
        let (addresses, hops) = (addresses.chunks(64), hops.chunks_mut(64));
        for (addresses, hops) in addresses.zip(hops) {
            self.lookup_64(addresses, hops);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.root) + self.hashed.bytes() + self.nodes.bytes() + self.hops.bytes()
    }
}

impl V6 {
    fn lookup_64(&self, addresses: &[u128], hops: &mut [Hop]) {
        let mut all = [At { node: 0, depth: ROOT, best: 0 }; 64];
        let (mut on, mut count, mut any_hashed) = ([0_u8; 64], 0, false);
        // Many that follow one upon the other have the same first bits: the addresses of an operator's own hosts.
        let mut before = None;
        for (&address, at) in addresses.iter().zip(&mut all) {
            let root = self.root[(address >> 112) as usize];
            (at.node, at.best) = (root.node(), root.entry);
            if root.has_hashed() {
                (at.depth, any_hashed) = (HASHED, true);
                if before.replace(address >> 96) != Some(address >> 96) {
                    self.hashed.touch(key(address));
                }
            }
        }
        let (mut before, mut found) = (None, 0);
        for (n, (&address, at)) in addresses.iter().zip(&mut all).enumerate() {
            if at.depth == HASHED {
                if before.replace(address >> 96) != Some(address >> 96) {
                    found = self.hashed(address);
                    prefetch(&self.nodes[found]);
                }
                match found {
                    0 => at.depth = ROOT,
                    node => (at.node, at.best) = (node, 0),
                }
            }
            on[count] = n as u8;
            count += usize::from(at.node != 0);
        }
        self.walk(addresses, &mut all, &mut on[..count]);
        if any_hashed {
            // Networks whose first 32 bits have prefixes, but none that holds them.
            count = 0;
            for (n, (&address, at)) in addresses.iter().zip(&mut all).enumerate() {
                if at.best == 0 && at.depth >= HASHED {
                    let root = self.root[(address >> 112) as usize];
                    *at = At { node: root.node(), depth: ROOT, best: root.entry };
                    on[count] = n as u8;
                    count += usize::from(at.node != 0);
                }
            }
            self.walk(addresses, &mut all, &mut on[..count]);
        }
        for (hop, at) in hops.iter_mut().zip(&all) {
            hop.0 = match at.best {
                deep if deep & DEEP != 0 => self.hops[deep & !DEEP],
                entry => entry.wrapping_sub(1),
            };
        }
    }

    /// Leads those of `on` to the ends of their ways. The next node of each is on its way while the others take a step.
    fn walk(&self, addresses: &[u128], all: &mut [At; 64], on: &mut [u8]) {
        let mut count = on.len();
        while count > 0 {
            let mut left = 0;
            for k in 0..count {
                let n = on[k];
                let at = &mut all[usize::from(n & 63)];
                let goes_on = self.step(addresses[usize::from(n)], at);
                prefetch(&self.nodes[at.node]);
                on[left] = n;
                left += usize::from(goes_on);
            }
            count = left;
        }
    }
}

/// The bits where the way to a prefix of this length begins.
#[inline]
fn begin(length: u32) -> u32 {
    if length < HASHED { ROOT } else { HASHED }
}

/// What the first 32 bits of an address are found by: a permutation of them, so that no two have the same (the last steps
/// of MurmurHash3).
#[inline]
fn key(address: u128) -> u32 {
    let mut bits = (address >> 96) as u32;
    bits = (bits ^ bits >> 16).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ bits >> 13).wrapping_mul(0xc2b2_ae35);
    bits ^ bits >> 16
}

/// The bits of the prefixes in a node that hold an address with these 6 bits.
const ANCESTORS: [u64; 64] = {
    let mut all = [0; 64];
    let mut index = 0;
    while index < 64 {
        let mut length = 0;
        while length < STRIDE {
            all[index] |= 1 << ((1 << length) | (index >> (STRIDE - length)));
            length += 1;
        }
        index += 1;
    }
    all
};

/// How many of the lowest `bit` bits are set.
#[inline]
fn rank(set: u64, bit: u32) -> usize {
    (set & ((1 << bit) - 1)).count_ones() as usize
}

/// `count` bits of the address from `depth` on, zero behind its end; 1 to 32.
#[inline]
fn bits(address: u128, depth: u32, count: u32) -> u32 {
    (address.checked_shl(depth).unwrap_or(0) >> (128 - count)) as u32
}

/// What a node at `depth` writes that skips so many strides.
fn path(address: u128, depth: u32, strides: u32) -> u64 {
    if strides == 0 {
        return 0;
    }
    let bits = (address << depth >> (128 - strides * STRIDE)) as u64;
    bits << 4 | u64::from(strides)
}

/// The bit of a prefix in the node at `depth` where it ends.
fn position(address: u128, depth: u32, length: u32) -> u64 {
    let rest = length - depth;
    1 << (1 << rest | if rest == 0 { 0 } else { bits(address, depth, rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> u128 {
        text.parse::<std::net::Ipv6Addr>().unwrap().into()
    }

    #[test]
    fn nodes_come_and_go_with_the_prefixes_that_need_them() {
        let mut table = V6::new();
        let prefixes = [
            ("::", 0),
            ("2001:db8::", 32),
            ("2001:db8:1::", 48),
            ("2001:db8:1::1", 128),
            ("2001:db8:8000::", 33),
            ("2001:db8:1::", 64),
        ];
        for (n, &(prefix, length)) in (0..).zip(&prefixes) {
            assert_eq!(table.insert(address(prefix), length, Hop(n)), None);
        }
        let looked_up = ["2001:db8:1::1", "2001:db8:1::2", "2001:db8:1:2::", "2001:db8:9000::", "::1"];
        let mut hops = [Hop::NONE; 5];
        table.lookup(&looked_up.map(address), &mut hops);
        assert_eq!(hops.map(|hop| hop.0), [3, 5, 2, 4, 0]);
        for &(prefix, length) in &prefixes {
            assert!(table.remove(address(prefix), length).is_some(), "{prefix}/{length}");
        }
        assert_eq!((table.len(), table.nodes.live(), table.hops.live()), (0, 1, 0));
    }

    #[test]
    fn a_lonely_prefix_is_few_nodes_away() {
        let mut table = V6::new();
        table.insert(address("2001:db8::1"), 128, Hop(1));
        assert!(table.nodes.live() <= 1 + 2);
        table.insert(address("2001:db8::2"), 128, Hop(2));
        table.remove(address("2001:db8::1"), 128);
        assert!(table.nodes.live() <= 1 + 2, "joined again");
    }
}
