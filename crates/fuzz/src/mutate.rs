//! How another input is made of one, by what it is: bytes, words of a text, or steps one behind the other.

use weir_testkit::Dice;

use crate::grammar::CHOICES;
use crate::steps::{self, Step, What};

/// Inputs are not longer than this.
const LONGEST: usize = 1 << 16;
/// Values at which things go wrong.
const EDGES: [u64; 14] =
    [0, 1, 2, 7, 8, 127, 128, 255, 256, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];
/// Words at which things go wrong.
const WORDS: [&str; 34] = [
    "0",
    "1",
    "-1",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "-9223372036854775808",
    "1e308",
    "1e-308",
    "0.1",
    "NaN",
    "inf",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\u{1b}[2J",
    "\u{0}",
    "é",
    "\u{202e}",
    "255.255.255.255",
    "0.0.0.0",
    "::",
    "0/0",
    "%s",
    "\\",
    "\"",
    "\n",
    "\t",
    ",",
];

/// Bytes of no known form.
pub(crate) fn bytes(dice: &mut Dice, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..1 + dice.roll(4) {
        let at = dice.roll(out.len() + 1);
        let end = at + dice.roll((out.len() - at).min(64) + 1);
        match dice.roll(7) {
            0 if !out.is_empty() => {
                let at = at.min(out.len() - 1);
                out[at] ^= 1 << dice.roll(8_u32);
            }
            1 => drop(out.drain(at..end)),
            2 => {
                let piece = out[at..end].to_vec();
                out.splice(at..at, piece);
            }
            3 => edge(dice, &mut out, at),
            4 => {
                let other = dice.pick(others).map_or(&[][..], Vec::as_slice);
                let from = dice.roll(other.len() + 1);
                let to = from + dice.roll((other.len() - from).min(256) + 1);
                out.splice(at..end, other[from..to].iter().copied());
            }
            5 => out.truncate(at),
            _ => out.insert(at, dice.roll(256) as u8),
        }
    }
    out.truncate(LONGEST);
    out
}

/// Writes a number at which things go wrong.
fn edge(dice: &mut Dice, out: &mut [u8], at: usize) {
    let value = EDGES[dice.roll(EDGES.len())];
    let width = [1, 2, 4, 8][dice.roll(4)];
    let encoded = if dice.one_in(2) {
        value.to_le_bytes()
    } else {
        value.rotate_left(8 * (8 - width as u32)).to_be_bytes()
    };
    let encoded = if dice.one_in(2) { &encoded[..width] } else { &encoded[8 - width..] };
    for (byte, new) in out.iter_mut().skip(at).zip(encoded) {
        *byte = *new;
    }
}

/// A text as [`text`] does, and an input that chooses pieces of one by its bytes.
pub(crate) fn text_or_choices(dice: &mut Dice, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    match input.split_first() {
        Some((&CHOICES, choices)) => [vec![CHOICES], bytes(dice, choices, others)].concat(),
        _ => text(dice, input, others),
    }
}

/// Words of a text: what is between them stays, so that much of what is made has the form of what it was made of.
pub(crate) fn text(dice: &mut Dice, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    if dice.one_in(16) {
        return bytes(dice, input, others);
    }
    let mut words: Vec<Vec<u8>> = words(input).into_iter().map(<[u8]>::to_vec).collect();
    for _ in 0..1 + dice.roll(5) {
        let at = dice.roll(words.len() + 1);
        let end = at + dice.roll((words.len() - at).min(8) + 1);
        match dice.roll(8) {
            0 => drop(words.drain(at..end)),
            1 => words.splice(at..at, words[at..end].to_vec()).for_each(drop),
            2 | 3 => put(&mut words, at, WORDS[dice.roll(WORDS.len())].as_bytes().to_vec()),
            4 | 5 => {
                let other = dice.pick(others).map_or(&[][..], Vec::as_slice);
                let other = self::words(other);
                let from = dice.roll(other.len() + 1);
                let most = if dice.one_in(2) { 1 } else { 24 };
                let to = from + dice.roll((other.len() - from).min(most) + 1);
                words.splice(at..end, other[from..to].iter().map(|word| word.to_vec()));
            }
            6 if !words.is_empty() => {
                let other = dice.roll(words.len());
                let at = at.min(words.len() - 1);
                words.swap(at, other);
            }
            _ => {
                let times = if dice.one_in(50) { 5000 } else { 1 + dice.roll(4) };
                if let Some(word) = words.get_mut(at) {
                    *word = word.repeat(times);
                }
            }
        }
    }
    let mut out = words.concat();
    out.truncate(LONGEST);
    out
}

/// Puts a word in the place of another, or at the end.
fn put(words: &mut Vec<Vec<u8>>, at: usize, word: Vec<u8>) {
    match words.get_mut(at) {
        Some(old) => *old = word,
        None => words.push(word),
    }
}

/// Words, numbers, and each other byte by itself.
fn words(text: &[u8]) -> Vec<&[u8]> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    text.chunk_by(|a, b| is_part(*a) && is_part(*b)).collect()
}

impl Step {
    /// Changes its bytes, by what they are.
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        self.bytes = match self.what {
            What::Node => text_or_choices(dice, &self.bytes, &[]),
            _ => bytes(dice, &self.bytes, &[]),
        };
    }
}

/// Steps one behind the other, see [`steps`](crate::steps).
pub(crate) fn steps(dice: &mut Dice, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    let mut all: Vec<Step> = steps::of_bytes(input).collect();
    for _ in 0..1 + dice.roll(4) {
        let at = dice.roll(all.len() + 1);
        match dice.roll(8) {
            0 if at < all.len() => drop(all.remove(at)),
            1 if at < all.len() => all.insert(at, all[at].clone()),
            2 if at < all.len() => {
                let from = dice.roll(all.len());
                all.swap(at, from);
            }
            3 if at < all.len() => all[at].change(dice),
            4 if at < all.len() => {
                all[at].port ^= dice.roll(2) as u8;
                all[at].wait = [0, 0, 1, 2, 20, 255][dice.roll(6)];
            }
            5 | 6 => {
                let what = *dice.pick(What::ALL).expect("there are some");
                all.insert(at, Step::chosen(dice, what));
            }
            _ => {
                let other = dice.pick(others).map_or(&[][..], Vec::as_slice);
                let other: Vec<Step> = steps::of_bytes(other).collect();
                if let Some(step) = dice.pick(&other) {
                    all.insert(at, step.clone());
                }
            }
        }
    }
    let mut out: Vec<u8> = all.iter().flat_map(Step::encoded).collect();
    out.truncate(LONGEST);
    out
}
