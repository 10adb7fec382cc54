//! What happens to a node, step by step, as bytes.
//!
//! ```text
//! length of BYTES: 2 | kind << 4 and port, 8 if injected: 1 | wait, in steps of 50 ms: 1 | BYTES       and the next step
//! ```
//! Each input is some: of the last step there may be a part.

use weir_testkit::Dice;

use crate::grammar::CHOICES;

/// Longest step, in bytes.
const LONGEST: usize = 9000;

/// In the number of a port: the control program injects the frame.
pub(crate) const INJECTED: u8 = 8;

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A frame comes in, which is its bytes.
    Frame,
    /// The same, with right lengths and checksums.
    Repaired,
    /// A frame comes in that its bytes choose, see [`weir_testkit::Craft`].
    Crafted,
    /// The node is looked at.
    Shown,
    /// It becomes another one: a text, or what its bytes choose, see [`crate::grammar`].
    Node,
}

impl What {
    /// In the order of their numbers; some have several.
    pub(crate) const ALL: &[What] = &[
        What::Frame,
        What::Repaired,
        What::Crafted,
        What::Crafted,
        What::Crafted,
        What::Node,
        What::Shown,
        What::Repaired,
    ];
}

/// A step, by which port, and how long after the one before.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) port: u8,
    pub(crate) wait: u8,
    pub(crate) bytes: Vec<u8>,
}

impl Step {
    /// One of bytes that choose.
    pub(crate) fn chosen(dice: &mut Dice, what: What) -> Step {
        let injected = if dice.one_in(8) { INJECTED } else { 0 };
        let (port, wait) = (dice.roll(2) as u8 | injected, dice.roll(3) as u8);
        let bytes = (0..dice.roll(96)).map(|_| dice.roll(256) as u8);
        let mark = (what == What::Node).then_some(CHOICES);
        Step { what, port, wait, bytes: mark.into_iter().chain(bytes).collect() }
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        let bytes = &self.bytes[..self.bytes.len().min(LONGEST)];
        let number = What::ALL.iter().position(|what| *what == self.what).expect("it has a number") as u8;
        [&(bytes.len() as u16).to_be_bytes()[..], &[number << 4 | self.port & 15, self.wait], bytes].concat()
    }
}

/// The steps of an input.
pub(crate) fn of_bytes(mut rest: &[u8]) -> impl Iterator<Item = Step> {
    std::iter::from_fn(move || {
        let [a, b, kind, wait, more @ ..] = rest else { return None };
        let len = usize::from(u16::from_be_bytes([*a, *b])).min(more.len()).min(LONGEST);
        let (bytes, behind) = more.split_at(len);
        rest = behind;
        let what = What::ALL[usize::from(kind >> 4) % What::ALL.len()];
        Some(Step { what, port: kind & 15, wait: *wait, bytes: bytes.to_vec() })
    })
}
