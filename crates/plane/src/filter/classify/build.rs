//! How forests are grown. Each cut is the one that leaves the fewest match ranges to a key that hits some match range, among those
//! that do not copy too many; of a few ways to divide the match ranges among trees, that is taken which costs the least for
//! keys that hit random match ranges.

use std::collections::HashMap;

use super::{DST, Forest, Key, LEAF, Node, SRC, Shape, Tree};

/// Match ranges of a leaf, unless no cut divides them.
const SMALL: usize = 4;
/// How many times the match ranges of a node its children together may hold.
const COPIES: usize = 4;
/// Children of a node: two to the power of this.
const MOST_BITS: u32 = 10;
/// Cuts above one another.
const DEPTH: u32 = 16;
/// Nodes and copies of match ranges in a tree, for each of its match ranges; then leaves are long.
const BUDGET: usize = 64;
/// Match ranges that a cut is judged by.
const SAMPLE: usize = 1024;
/// Keys that a forest is judged by.
const KEYS: usize = 512;
/// Cycles of a step to a child, of a match range, and of a tree at all; what they are to one another matters.
const STEP_COST: f64 = 7.0;
const BOX_COST: f64 = 6.0;
const TREE_COST: f64 = 15.0;
/// An address is narrow from this many of its bits on.
const NARROW: u32 = 12;

impl<S: Shape> Forest<S> {
    /// The forest of these match ranges, in the order of their rules.
    pub(crate) fn grow(match_ranges: &[S]) -> Forest<S> {
        let narrow = |word: usize| {
            move |shape: &S| {
                let (low, high) = shape.range(word);
                high - low < 1 << (32 - NARROW)
            }
        };
        let (src, dst) = (narrow(SRC), narrow(DST));
        let ways: [&dyn Fn(&S) -> usize; 4] =
            [&|_| 0, &|shape| usize::from(!src(shape)), &|shape| usize::from(!dst(shape)), &|shape| {
                if dst(shape) { 0 } else { 2 - usize::from(src(shape)) }
            }];
        let keys = sample_keys(match_ranges);
        let forests = ways.iter().map(|way| Forest::divided(match_ranges, way));
        let priced = forests.map(|forest| (forest.cost(&keys), forest));
        priced.min_by(|(a, _), (b, _)| a.total_cmp(b)).expect("there is a way").1
    }

    fn divided(match_ranges: &[S], part: &dyn Fn(&S) -> usize) -> Forest<S> {
        let mut parts: Vec<Vec<S>> = vec![Vec::new(); 3];
        match_ranges.iter().for_each(|shape| parts[part(shape)].push(*shape));
        let mut trees: Vec<Tree<S>> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| tree(part)).collect();
        trees.sort_by_key(|tree| tree.least);
        Forest { trees }
    }

    /// What it costs to classify one of these keys, in cycles, roughly.
    fn cost(&self, keys: &[Key]) -> f64 {
        let tree_cost = |tree: &Tree<S>, key: &Key| {
            let (mut node, mut steps) = (tree.root, 0.0);
            while node.word != LEAF {
                node = tree.nodes[node.child(key) as usize];
                steps += 1.0;
            }
            TREE_COST
                + steps * STEP_COST
                + f64::from(node.match_ranges().1 - node.match_ranges().0) * BOX_COST
        };
        let of_key = |key: &Key| self.trees.iter().map(|tree| tree_cost(tree, key)).sum::<f64>();
        // What does not fit the cache is dearer.
        let memory = (self.bytes() as f64 / f64::from(1 << 18)).max(1.0).log2() * self.trees.len() as f64;
        keys.iter().map(of_key).sum::<f64>() / keys.len().max(1) as f64 + memory * STEP_COST
    }
}

/// A key in each of some match ranges.
fn sample_keys<S: Shape>(match_ranges: &[S]) -> Vec<Key> {
    let every = (match_ranges.len() / KEYS).max(1);
    let mut seed = 1_u32;
    let key = |shape: &S| {
        let mut key = Key::default();
        for &(word, _) in S::CUTS {
            let (low, high) = shape.range(word);
            seed = seed.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            key.words[word] = low + ((u64::from(seed) * (u64::from(high - low) + 1)) >> 32) as u32;
        }
        key
    };
    match_ranges.iter().step_by(every).map(key).collect()
}

fn tree<S: Shape>(match_ranges: &[S]) -> Tree<S> {
    let budget = match_ranges.len() * BUDGET + 4096;
    let mut growing = Growing {
        match_ranges,
        nodes: Vec::new(),
        leaves: Vec::new(),
        known: HashMap::new(),
        budget,
        steps: Vec::new(),
    };
    let root = growing.node((0..match_ranges.len() as u32).collect(), 0);
    let Growing { nodes, leaves, .. } = growing;
    let copies = leaves.iter().map(|&n| match_ranges[n as usize]).collect();
    Tree { root, nodes, match_ranges: copies, least: match_ranges[0].rule() }
}

struct Growing<'a, S> {
    match_ranges: &'a [S],
    nodes: Vec<Node>,
    /// Match ranges of the leaves.
    leaves: Vec<u32>,
    /// Nodes by their match ranges: equal ones are one.
    known: HashMap<Vec<u32>, Node>,
    budget: usize,
    /// Memory for what is judged.
    steps: Vec<Differ>,
}

/// A cut by `bits` bits of a word.
#[derive(Debug, Clone, Copy)]
struct Cut {
    word: usize,
    shift: u32,
    bits: u32,
    /// Match ranges that a key meets behind it.
    meets: f64,
}

impl<S: Shape> Growing<'_, S> {
    fn node(&mut self, list: Vec<u32>, depth: u32) -> Node {
        if list.is_empty() {
            return Node::EMPTY;
        }
        if let Some(&node) = self.known.get(&list) {
            return node;
        }
        let room = self.nodes.len() + self.leaves.len() < self.budget;
        let cut = if list.len() > SMALL && depth < DEPTH && room { self.cut(&list) } else { None };
        let node = match cut {
            Some(cut) => self.divide(cut, &list, depth),
            None => self.leaf(&list),
        };
        self.known.insert(list, node);
        node
    }

    fn leaf(&mut self, list: &[u32]) -> Node {
        let base = self.leaves.len();
        self.leaves.extend(list);
        Node::leaf(base, list.len())
    }

    fn divide(&mut self, cut: Cut, list: &[u32], depth: u32) -> Node {
        let children = 1_usize << cut.bits;
        let mut lists = vec![Vec::new(); children];
        for &n in list {
            for child in children_of(self.match_ranges[n as usize].range(cut.word), cut.shift, cut.bits) {
                lists[child as usize].push(n);
            }
        }
        let base = self.nodes.len();
        self.nodes.resize(base + children, Node::EMPTY);
        for (n, list) in lists.into_iter().enumerate() {
            let node = self.node(list, depth + 1);
            self.nodes[base + n] = node;
        }
        let (word, shift, mask) = (cut.word as u8, cut.shift as u8, (children - 1) as u16);
        Node { base: base as u32, word, shift, mask }
    }

    /// The best cut of these match ranges; `None` if none divides them.
    fn cut(&mut self, list: &[u32]) -> Option<Cut> {
        let every = list.len().div_ceil(SAMPLE);
        let sample: Vec<&S> = list.iter().step_by(every).map(|&n| &self.match_ranges[n as usize]).collect();
        let most_bits = (list.len().ilog2() + 1).min(MOST_BITS);
        let mut best: Option<Cut> = None;
        for &(word, width) in S::CUTS {
            let ranges: Vec<(u32, u32)> = sample.iter().map(|shape| shape.range(word)).collect();
            if ranges.iter().all(|range| *range == ranges[0]) {
                continue;
            }
            for bits in 1..=most_bits.min(width) {
                for shift in 0..=width - bits {
                    let cut = judge(&ranges, every, Cut { word, shift, bits, meets: 0.0 }, &mut self.steps);
                    // More children must be worth it.
                    let better = |cut: &Cut| best.is_none_or(|best| cut.meets < best.meets * 0.97);
                    best = cut.filter(better).or(best);
                }
            }
        }
        best.filter(|cut| cut.meets < sample.len() as f64 * 0.95)
    }
}

/// From one child to the next: match ranges, and how often keys of theirs come.
#[derive(Debug, Clone, Copy, Default)]
struct Differ {
    match_ranges: i32,
    keys: f64,
}

/// The cut with what a key meets behind it; `None` if it copies too much. A key hits each match range as often, and each child
/// of a match range as often.
fn judge(ranges: &[(u32, u32)], every: usize, cut: Cut, steps: &mut Vec<Differ>) -> Option<Cut> {
    let children = 1_usize << cut.bits;
    steps.clear();
    steps.resize(children + 1, Differ::default());
    let mut copies = 0;
    for &range in ranges {
        let Span { first, count } = span(range, cut.shift, cut.bits);
        copies += count;
        let share = 1.0 / count as f64;
        let end = first + count;
        let mut add = |from: usize, to: usize| {
            steps[from].match_ranges += 1;
            steps[to].match_ranges -= 1;
            steps[from].keys += share;
            steps[to].keys -= share;
        };
        add(first, end.min(children));
        if end > children {
            add(0, end - children);
        }
    }
    // Of small nodes even many copies are few.
    let allowed = (ranges.len() * COPIES).max(64);
    if copies + children / every > allowed {
        return None;
    }
    let (mut here, mut often, mut meets) = (0, 0.0, 0.0);
    for step in &steps[..children] {
        here += step.match_ranges;
        often += step.keys;
        meets += f64::from(here) * often;
    }
    Some(Cut { meets: meets / ranges.len() as f64, ..cut })
}

/// Children from `first` on, around the end.
struct Span {
    first: usize,
    count: usize,
}

/// The children that keys of a range lead to.
fn span((low, high): (u32, u32), shift: u32, bits: u32) -> Span {
    let (low, high, children) = (low >> shift, high >> shift, 1 << bits);
    match high - low {
        more if more >= children - 1 => Span { first: 0, count: children as usize },
        more => Span { first: (low & (children - 1)) as usize, count: more as usize + 1 },
    }
}

fn children_of(range: (u32, u32), shift: u32, bits: u32) -> impl Iterator<Item = u32> {
    let Span { first, count } = span(range, shift, bits);
    (first..first + count).map(move |child| child as u32 & ((1 << bits) - 1))
}
