//! What a rule asks of a frame, as ranges of words and a few bits: a cache line for IPv4, two for IPv6. A rule with
//! lists is several match ranges.

use super::classify::{
    BITS, DIR, DPORT, DST, DST_REST, Key, PORT, PROTO, SPORT, SRC, SRC_REST, STATE, Shape,
};
use crate::address::words6;
use crate::frame::MOST_PORTS;

/// In the place of a protocol: any.
pub(crate) const ANY: u8 = 255;

/// States of a connection; behind their bits stand two for the directions, and one that says that it is a later
/// fragment, which has no ports and no flags.
pub(crate) const STATES: u32 = 4;
/// The bits of a later fragment.
pub(crate) const LATER: u8 = 1 << (STATES + 2);

/// The last of the ports that a node may have, and bits of its number.
const LAST_PORT: u32 = MOST_PORTS as u32 - 1;
const PORT_BITS: u32 = MOST_PORTS.ilog2();
const _: () = assert!(MOST_PORTS.is_power_of_two());

/// What a rule asks beside the addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) rule: u32,
    pub(crate) proto: u8,
    /// The port that it came in by; `None`: any.
    pub(crate) port: Option<u16>,
    pub(crate) sport: (u16, u16),
    pub(crate) dport: (u16, u16),
    /// Flags that must be set, and flags that count.
    pub(crate) flags: (u8, u8),
    /// Bits of states, directions and of a later fragment that are allowed.
    pub(crate) meta: u8,
}

/// The word [`BITS`] of a key: bits that are set, and for flags also bits that are not, so that one comparison finds what is
/// forbidden.
#[inline]
pub(crate) fn bits(flags: u8, meta: u8) -> u32 {
    u32::from(meta) << 16 | u32::from(!flags) << 8 | u32::from(flags)
}

/// Words that a match range of IPv4 compares; the others of `low` hold something else.
const COMPARED: usize = 6;
/// In `low`: the bits that a key may not have, and the rule.
const FORBIDDEN: usize = BITS;
const RULE: usize = 7;
/// What ranges are moved by, so that they are compared with a sign: baseline x86-64 compares vectors in no other way.
const SIGN: u32 = 1 << 31;

/// A match range of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct MatchRange4 {
    /// The lowest value of each word, moved by [`SIGN`].
    low: [u32; 8],
    /// How many follow it, moved likewise; of words that are not compared more than there are.
    more: [i32; 8],
}

const _: () = assert!(size_of::<MatchRange4>() == 64 && PORT < COMPARED);

/// Values of a word of the key: the first, and how many follow it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    first: u32,
    follow: u32,
}

impl Span {
    pub(crate) fn new(first: u32, follow: u32) -> Span {
        Span { first, follow }
    }
}

/// A network of IPv6: bits of its addresses, and the mask of the bits that count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network6 {
    pub(crate) bits: u128,
    pub(crate) mask: u128,
}

impl MatchRange4 {
    pub(crate) fn new(src: Span, dst: Span, asked: &Asked) -> MatchRange4 {
        let exactly = |value: u8| if value == ANY { Span::new(0, 255) } else { Span::new(value.into(), 0) };
        let port = asked.port.map_or(Span::new(0, LAST_PORT), |port| Span::new(port.into(), 0));
        let range = |(low, high): (u16, u16)| Span::new(low.into(), u32::from(high - low));
        let words = [src, dst, range(asked.sport), range(asked.dport), exactly(asked.proto), port];
        let (mut low, mut more) = ([0; 8], [i32::MAX; 8]);
        for (n, Span { first, follow }) in words.into_iter().enumerate() {
            (low[n], more[n]) = (first ^ SIGN, (follow ^ SIGN) as i32);
        }
        let (set, of) = asked.flags;
        low[FORBIDDEN] = bits(of & !set, !asked.meta) & !0xff00 | u32::from(set) << 8;
        low[RULE] = asked.rule;
        MatchRange4 { low, more }
    }

    /// The values of a word that it compares.
    fn compared(&self, word: usize) -> (u32, u32) {
        let low = self.low[word] ^ SIGN;
        (low, low + (self.more[word] as u32 ^ SIGN))
    }

    /// The least and the greatest of the bits that are allowed; what is between may be too much, never too little.
    fn allowed(&self, first: u32, count: u32) -> (u32, u32) {
        let allowed = !self.low[FORBIDDEN] >> (16 + first) & ((1 << count) - 1);
        (allowed.trailing_zeros().min(count - 1), allowed.checked_ilog2().unwrap_or(0))
    }
}

impl Shape for MatchRange4 {
    const CUTS: &[(usize, u32)] = &[
        (SRC, 32),
        (DST, 32),
        (SPORT, 16),
        (DPORT, 16),
        (PROTO, 8),
        (PORT, PORT_BITS),
        (STATE, 2),
        (DIR, 1),
    ];

    fn range(&self, word: usize) -> (u32, u32) {
        match word {
            STATE => self.allowed(0, STATES),
            DIR => self.allowed(STATES, 2),
            word => self.compared(word),
        }
    }

    #[inline]
    fn holds(&self, key: &Key) -> bool {
        let mut outside = false;
        for n in 0..8 {
            // All eight, so that the compiler takes four at a time.
            outside |= key.words[n].wrapping_sub(self.low[n]) as i32 > self.more[n];
        }
        !outside & (key.words[BITS] & self.low[FORBIDDEN] == 0)
    }

    #[inline]
    fn rule(&self) -> u32 {
        self.low[RULE]
    }
}

/// A match range of IPv6: as one of IPv4 with the first words of the addresses, and the rest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct MatchRange6 {
    first: MatchRange4,
    src: [u32; 3],
    src_mask: [u32; 3],
    dst: [u32; 3],
    dst_mask: [u32; 3],
}

const _: () = assert!(size_of::<MatchRange6>() == 128);

impl MatchRange6 {
    pub(crate) fn new(src: Network6, dst: Network6, asked: &Asked) -> MatchRange6 {
        let first =
            |network: Network6| Span::new((network.bits >> 96) as u32, !((network.mask >> 96) as u32));
        let rest = |address: u128| *words6(address).last_chunk().expect("three of four");
        MatchRange6 {
            first: MatchRange4::new(first(src), first(dst), asked),
            src: rest(src.bits),
            src_mask: rest(src.mask),
            dst: rest(dst.bits),
            dst_mask: rest(dst.mask),
        }
    }
}

impl Shape for MatchRange6 {
    const CUTS: &[(usize, u32)] = &[
        (SRC, 32),
        (SRC_REST, 32),
        (DST, 32),
        (DST_REST, 32),
        (SPORT, 16),
        (DPORT, 16),
        (PROTO, 8),
        (PORT, PORT_BITS),
        (STATE, 2),
        (DIR, 1),
    ];

    fn range(&self, word: usize) -> (u32, u32) {
        match word {
            SRC_REST => (self.src[0], self.src[0] | !self.src_mask[0]),
            DST_REST => (self.dst[0], self.dst[0] | !self.dst_mask[0]),
            word => self.first.range(word),
        }
    }

    #[inline]
    fn holds(&self, key: &Key) -> bool {
        let mut unlike = 0;
        for n in 0..3 {
            unlike |= (key.words[SRC_REST + n] ^ self.src[n]) & self.src_mask[n];
            unlike |= (key.words[DST_REST + n] ^ self.dst[n]) & self.dst_mask[n];
        }
        (unlike == 0) & self.first.holds(key)
    }

    #[inline]
    fn rule(&self) -> u32 {
        self.first.rule()
    }
}
