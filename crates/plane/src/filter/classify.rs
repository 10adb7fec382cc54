//! Which rule is the first to match a frame: forests of cut trees, whose cost grows with the logarithm of the rules at
//! most, not with their number.
//!
//! ```text
//! key > tree: node > node > leaf of a few boxes > the first that holds the key        the least of all trees
//!       node: some bits of one word of the key are the number of the child
//! ```
//! After HiCuts (Gupta, McKeown, IEEE Micro 20(1), 2000), with two changes: a cut takes any bits of a word (ByteCuts, Daly,
//! Torng, INFOCOM 2018), since a child holds every box that some key of it could hit, and boxes that are wide where
//! others are narrow may stand in a tree of their own (EffiCuts, Vamanan, Voskuilen, Vijaykumar, SIGCOMM 2010).
//!
//! Invariant: a leaf holds, in order, all boxes of its tree that hold a key which leads to it.

mod build;

use crate::batch::BATCH;

/// No rule.
pub(crate) const NONE: u32 = u32::MAX;

/// A frame as the trees see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) words: [u32; 16],
}

/// Words of a key. An address of IPv4 is its first word alone.
pub(crate) const SRC: usize = 0;
pub(crate) const DST: usize = 4;
/// Source port, or type and code of ICMP.
pub(crate) const SPORT: usize = 8;
pub(crate) const DPORT: usize = 9;
pub(crate) const PROTO: usize = 10;
/// The port it came in by.
pub(crate) const PORT: usize = 11;
/// Number of the state of its connection.
pub(crate) const STATE: usize = 12;
/// Number of its direction.
pub(crate) const DIR: usize = 13;
/// One bit for the state, one for the direction, and whether it is a later fragment.
pub(crate) const META: usize = 14;
/// Flags of TCP.
pub(crate) const FLAGS: usize = 15;

/// What a rule asks of a frame, or a part of it: ranges of words and a few bits.
pub(crate) trait Shape: Copy {
    /// Words that trees cut by, with how many bits of them count.
    const CUTS: &[(usize, u32)];

    /// The values of a word that it may hold.
    fn range(&self, word: usize) -> (u32, u32);

    /// Whether it holds a key.
    fn holds(&self, key: &Key) -> bool;

    /// The rule that it is of.
    fn rule(&self) -> u32;
}

/// A node: bits of a word select one of its children; or a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    /// The first child, or the first box.
    base: u32,
    /// Which word, or that it is a leaf.
    word: u8,
    /// Where in the word; of a leaf the number of boxes beyond what `mask` holds.
    shift: u8,
    /// Which bits count, or the number of boxes.
    mask: u16,
}

const _: () = assert!(size_of::<Node>() == 8);

/// In the place of a word: a leaf.
const LEAF: u8 = 16;

impl Node {
    const EMPTY: Node = Node { base: 0, word: LEAF, shift: 0, mask: 0 };

    fn leaf(base: usize, boxes: usize) -> Node {
        assert!(boxes < 1 << 24, "there are fewer boxes");
        Node { base: base as u32, word: LEAF, shift: (boxes >> 16) as u8, mask: boxes as u16 }
    }

    #[inline]
    fn child(self, key: &Key) -> u32 {
        let bits = key.words[usize::from(self.word) % 16] >> (self.shift & 31);
        self.base + (bits & u32::from(self.mask))
    }

    /// The boxes of a leaf.
    #[inline]
    fn boxes(self) -> std::ops::Range<usize> {
        let first = self.base as usize;
        first..first + (usize::from(self.shift) << 16 | usize::from(self.mask))
    }
}

#[derive(Debug)]
struct Tree<S> {
    root: Node,
    nodes: Vec<Node>,
    boxes: Vec<S>,
    /// The first of its rules.
    least: u32,
}

/// Boxes of one version of IP.
#[derive(Debug)]
pub(crate) struct Forest<S> {
    trees: Vec<Tree<S>>,
}

impl<S: Shape> Forest<S> {
    /// The first rule from `from` on that holds each key, or [`NONE`]; at most [`BATCH`] keys. One pass per level over
    /// all keys, so that their lines are on their way at once.
    pub(crate) fn first(&self, keys: &[Key], from: &[u32], found: &mut [u32]) {
        found.fill(NONE);
        let mut nodes = [Node::EMPTY; BATCH];
        for tree in &self.trees {
            let (mut on, mut count) = ([0_u8; BATCH], 0);
            for n in 0..keys.len() {
                nodes[n] = tree.root;
                on[count % BATCH] = n as u8;
                count += usize::from(tree.least < found[n]);
            }
            let (those, all) = (on, count);
            while count > 0 {
                let mut left = 0;
                for k in 0..count {
                    let n = on[k] as usize % BATCH;
                    let node = nodes[n];
                    on[left] = n as u8;
                    if node.word != LEAF {
                        nodes[n] = tree.nodes[node.child(&keys[n]) as usize];
                        left += 1;
                    }
                }
                count = left;
            }
            for &n in &those[..all] {
                let n = n as usize % BATCH;
                let boxes = &tree.boxes[nodes[n].boxes()];
                let hit = boxes.iter().find(|shape| shape.holds(&keys[n]) & (shape.rule() >= from[n]));
                found[n] = hit.map_or(found[n], |shape| shape.rule().min(found[n]));
            }
        }
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let tree = |tree: &Tree<S>| size_of_val(&*tree.nodes) + size_of_val(&*tree.boxes);
        self.trees.iter().map(tree).sum()
    }
}
