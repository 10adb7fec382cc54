//! Which rule is the first to match a frame: forests of cut trees, whose cost grows with the logarithm of the rules at
//! most, not with their number.
//!
//! ```text
//! key > tree: node > node > leaf of a few match ranges > the first that holds the key        the least rule of all trees
//!       node: some bits of one word of the key are the number of the child
//! ```
//! After HiCuts (Gupta, McKeown, IEEE Micro 20(1), 2000), with two changes: a cut takes any bits of a word (ByteCuts, Daly,
//! Torng, INFOCOM 2018), since a child holds every match range that some key of it could hit, and match ranges that are wide where
//! others are narrow may stand in a tree of their own (EffiCuts, Vamanan, Voskuilen, Vijaykumar, SIGCOMM 2010).
//!
//! Invariant: a leaf holds, in order, all match ranges of its tree that hold a key which leads to it.

mod build;

use std::hint::black_box;

use crate::address::words6;
use crate::batch::BATCH;

/// No rule.
pub(crate) const NONE: u32 = u32::MAX;

/// A frame as the trees see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) words: [u32; 16],
}

/// Words of a key; of an address of IPv6 the first one.
pub(crate) const SRC: usize = 0;
pub(crate) const DST: usize = 1;
/// Source port, or type and code of ICMP.
pub(crate) const SPORT: usize = 2;
pub(crate) const DPORT: usize = 3;
pub(crate) const PROTO: usize = 4;
/// The port it came in by.
pub(crate) const PORT: usize = 5;
/// Flags of TCP, state, direction and whether it is a later fragment, see [`super::match_ranges::bits`].
pub(crate) const BITS: usize = 6;
/// The other words of addresses of IPv6, three each.
pub(crate) const SRC_REST: usize = 8;
pub(crate) const DST_REST: usize = 11;
/// Number of the state of its connection.
pub(crate) const STATE: usize = 14;
/// Number of its direction.
pub(crate) const DIR: usize = 15;

impl Key {
    /// The addresses of IPv6.
    pub(crate) fn set_v6(&mut self, src: u128, dst: u128) {
        let (src, dst) = (words6(src), words6(dst));
        (self.words[SRC], self.words[DST]) = (src[0], dst[0]);
        self.words[SRC_REST..SRC_REST + 3].copy_from_slice(&src[1..]);
        self.words[DST_REST..DST_REST + 3].copy_from_slice(&dst[1..]);
    }
}

/// What a rule asks of a frame, or a part of it: ranges of words and a few bits.
pub(crate) trait Shape: Copy {
    /// Words that trees cut by, with the number of their bits.
    const CUTS: &[(usize, u32)];

    /// The values of a word that it may hold.
    fn range(&self, word: usize) -> (u32, u32);

    /// Whether it holds a key.
    fn holds(&self, key: &Key) -> bool;

    /// The rule that it is of.
    fn rule(&self) -> u32;
}

/// The keys of the frames of a batch, and the rules that were found.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) len: usize,
    pub(crate) keys: [Key; BATCH],
    /// The first rule that may be found.
    pub(crate) from: [u32; BATCH],
    pub(crate) found: [u32; BATCH],
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { len: 0, keys: [Key::default(); BATCH], from: [0; BATCH], found: [NONE; BATCH] }
    }
}

/// A node: bits of a word select one of its children; or a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    /// The first child, or the first match range.
    base: u32,
    /// Which word, or that it is a leaf.
    word: u8,
    /// Where in the word; of a leaf the number of match ranges beyond what `mask` holds.
    shift: u8,
    /// Which bits count, or the number of match ranges.
    mask: u16,
}

const _: () = assert!(size_of::<Node>() == 8);

/// In the place of a word: a leaf.
const LEAF: u8 = 16;

impl Node {
    const EMPTY: Node = Node { base: 0, word: LEAF, shift: 0, mask: 0 };

    fn leaf(base: usize, match_ranges: usize) -> Node {
        assert!(match_ranges < 1 << 24, "there are fewer match ranges");
        Node { base: base as u32, word: LEAF, shift: (match_ranges >> 16) as u8, mask: match_ranges as u16 }
    }

    #[inline]
    fn child(self, key: &Key) -> u32 {
        let bits = key.words[usize::from(self.word) % 16] >> (self.shift & 31);
        self.base + (bits & u32::from(self.mask))
    }

    /// The first match range of a leaf, and the one behind its last.
    #[inline]
    fn match_ranges(self) -> (u32, u32) {
        (self.base, self.base + (u32::from(self.shift) << 16 | u32::from(self.mask)))
    }
}

#[derive(Debug)]
struct Tree<S> {
    root: Node,
    nodes: Vec<Node>,
    match_ranges: Vec<S>,
    /// The first of its rules.
    least: u32,
}

/// Match ranges of one version of IP.
#[derive(Debug)]
pub(crate) struct Forest<S> {
    trees: Vec<Tree<S>>,
}

impl<S: Shape> Tree<S> {
    /// Puts the first rule into `found` where it is less than what is there. One pass per level over all keys that go
    /// on, so that their lines are on their way at once; whether a key goes on is added, not branched upon, since the branch
    /// could not be predicted. `again`: some keys ask from another rule on than the first.
    fn first(&self, asked: &mut Asked, again: bool) {
        let Asked { len, keys, from, found } = asked;
        let mut nodes = [self.root; BATCH];
        self.leaves(&keys[..*len], &mut nodes);
        let (mut on, mut count) = ([0_u8; BATCH], 0);
        let (mut at, mut end) = ([0_u32; BATCH], [0_u32; BATCH]);
        for n in 0..*len {
            (at[n], end[n]) = nodes[n].match_ranges();
            if again {
                at[n] = (at[n]..end[n])
                    .find(|&place| self.match_ranges[place as usize].rule() >= from[n])
                    .unwrap_or(end[n]);
            }
            on[count % BATCH] = n as u8;
            count += usize::from(at[n] < end[n]);
        }
        // The first match range of each is read alone: so many more are on their way at once than while each is compared.
        let mut read = 0;
        for &n in &on[..count] {
            read ^= self.match_ranges[at[n as usize % BATCH] as usize].rule();
        }
        black_box(read);
        while count > 0 {
            let mut left = 0;
            for k in 0..count {
                let n = on[k % BATCH] as usize % BATCH;
                let shape = &self.match_ranges[at[n] as usize];
                let rule = shape.rule();
                // All ones where it does not hold.
                let rule_found = rule | u32::from(shape.holds(&keys[n])).wrapping_sub(1);
                found[n] = found[n].min(rule_found);
                at[n] += 1;
                on[left % BATCH] = n as u8;
                left += usize::from((rule < found[n]) & (at[n] < end[n]));
            }
            count = left;
        }
    }

    /// Leads each key from the root to its leaf.
    fn leaves(&self, keys: &[Key], nodes: &mut [Node; BATCH]) {
        if self.root.word == LEAF {
            return;
        }
        let (mut on, mut count) = ([0_u8; BATCH], 0);
        // All are cut alike at the root.
        let children = &self.nodes[self.root.base as usize..][..=usize::from(self.root.mask)];
        let top = Node { base: 0, ..self.root };
        for (n, (key, node)) in keys.iter().zip(nodes.iter_mut()).enumerate() {
            *node = children[top.child(key) as usize];
            on[count % BATCH] = n as u8;
            count += usize::from(node.word != LEAF);
        }
        while count > 0 {
            let mut left = 0;
            for k in 0..count {
                let n = on[k % BATCH] as usize % BATCH;
                let next = self.nodes[nodes[n].child(&keys[n]) as usize];
                nodes[n] = next;
                on[left % BATCH] = n as u8;
                left += usize::from(next.word != LEAF);
            }
            count = left;
        }
    }
}

impl<S: Shape> Forest<S> {
    /// Finds the first rule from `from` on that holds each key, or [`NONE`].
    pub(crate) fn first(&self, asked: &mut Asked) {
        asked.found = [NONE; BATCH];
        let again = asked.from[..asked.len].iter().any(|&rule| rule > 0);
        for tree in &self.trees {
            tree.first(asked, again);
        }
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let tree = |tree: &Tree<S>| size_of_val(&*tree.nodes) + size_of_val(&*tree.match_ranges);
        self.trees.iter().map(tree).sum()
    }
}
