//! What a rule asks of a frame, as ranges and bits: 32 bytes for IPv4, 96 for IPv6. A rule with lists is several.

use super::classify::{DIR, DPORT, DST, FLAGS, Key, META, PORT, PROTO, SPORT, SRC, STATE, Shape};

/// In the place of a protocol or a port: any.
pub(crate) const ANY: u8 = 255;

/// What is asked beside the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    sport: u16,
    sport_more: u16,
    dport: u16,
    dport_more: u16,
    proto: u8,
    port: u8,
    flags_mask: u8,
    flags: u8,
    /// The number of the rule, and in the lowest byte the bits of a key's [`META`] that are allowed.
    rule_meta: u32,
}

/// The same with names, as rules give it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) rule: u32,
    pub(crate) proto: u8,
    pub(crate) port: u8,
    pub(crate) sport: (u16, u16),
    pub(crate) dport: (u16, u16),
    /// Flags that must be set, and flags that count.
    pub(crate) flags: (u8, u8),
    /// Bits of [`META`] that are allowed.
    pub(crate) meta: u8,
}

impl Rest {
    pub(crate) fn new(asked: Asked) -> Rest {
        let Asked { rule, proto, port, sport, dport, flags: (flags, flags_mask), meta } = asked;
        let (sport, sport_more) = (sport.0, sport.1 - sport.0);
        let (dport, dport_more) = (dport.0, dport.1 - dport.0);
        let rule_meta = rule << 8 | u32::from(meta);
        Rest { sport, sport_more, dport, dport_more, proto, port, flags_mask, flags, rule_meta }
    }

    #[inline]
    fn holds(&self, key: &Key) -> bool {
        let within = |word: usize, low: u16, more: u16| {
            key.words[word].wrapping_sub(u32::from(low)) <= u32::from(more)
        };
        let is = |word: usize, value: u8| (value == ANY) | (key.words[word] == u32::from(value));
        within(SPORT, self.sport, self.sport_more)
            & within(DPORT, self.dport, self.dport_more)
            & is(PROTO, self.proto)
            & is(PORT, self.port)
            & (key.words[FLAGS] & u32::from(self.flags_mask) == u32::from(self.flags))
            & (key.words[META] & !self.rule_meta & 0xff == 0)
    }

    fn range(&self, word: usize) -> (u32, u32) {
        let exactly = |value: u8, most: u8| match value {
            ANY => (0, u32::from(most)),
            value => (u32::from(value), u32::from(value)),
        };
        // The least and the most of the bits that are allowed; what is between may be too much, never too little.
        let bits = |first: u32, count: u32| {
            let allowed = self.rule_meta >> first & ((1 << count) - 1);
            (allowed.trailing_zeros().min(count - 1), allowed.checked_ilog2().unwrap_or(0))
        };
        match word {
            SPORT => (u32::from(self.sport), u32::from(self.sport) + u32::from(self.sport_more)),
            DPORT => (u32::from(self.dport), u32::from(self.dport) + u32::from(self.dport_more)),
            PROTO => exactly(self.proto, u8::MAX),
            PORT => exactly(self.port, 63),
            STATE => bits(0, STATES),
            DIR => bits(STATES, 2),
            _ => unreachable!("no other word is cut by"),
        }
    }

    fn rule(&self) -> u32 {
        self.rule_meta >> 8
    }
}

/// States of a connection, and so bits of [`META`] for them; behind them two for the directions, and one that says
/// that it is a later fragment.
pub(crate) const STATES: u32 = 4;
/// Bit of [`META`]: a later fragment, which has no ports and no flags.
pub(crate) const LATER: u8 = 1 << (STATES + 2);

/// A box of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
pub(crate) struct Box4 {
    src: u32,
    src_more: u32,
    dst: u32,
    dst_more: u32,
    rest: Rest,
}

const _: () = assert!(size_of::<Box4>() == 32);

impl Box4 {
    /// Addresses as prefixes: the first and how many follow.
    pub(crate) fn new(src: (u32, u32), dst: (u32, u32), rest: Rest) -> Box4 {
        Box4 { src: src.0, src_more: src.1, dst: dst.0, dst_more: dst.1, rest }
    }
}

impl Shape for Box4 {
    const CUTS: &[(usize, u32)] =
        &[(SRC, 32), (DST, 32), (SPORT, 16), (DPORT, 16), (PROTO, 8), (PORT, 6), (STATE, 2), (DIR, 1)];

    fn range(&self, word: usize) -> (u32, u32) {
        match word {
            SRC => (self.src, self.src + self.src_more),
            DST => (self.dst, self.dst + self.dst_more),
            word => self.rest.range(word),
        }
    }

    #[inline]
    fn holds(&self, key: &Key) -> bool {
        (key.words[SRC].wrapping_sub(self.src) <= self.src_more)
            & (key.words[DST].wrapping_sub(self.dst) <= self.dst_more)
            & self.rest.holds(key)
    }

    #[inline]
    fn rule(&self) -> u32 {
        self.rest.rule()
    }
}

/// A box of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
pub(crate) struct Box6 {
    src: [u32; 4],
    src_mask: [u32; 4],
    dst: [u32; 4],
    dst_mask: [u32; 4],
    rest: Rest,
}

const _: () = assert!(size_of::<Box6>() == 96);

impl Box6 {
    /// Addresses as prefixes: the bits and which of them count.
    pub(crate) fn new(src: (u128, u128), dst: (u128, u128), rest: Rest) -> Box6 {
        Box6 { src: words(src.0), src_mask: words(src.1), dst: words(dst.0), dst_mask: words(dst.1), rest }
    }
}

/// An address as words, the highest first.
#[inline]
pub(crate) fn words(address: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (address >> shift) as u32)
}

impl Shape for Box6 {
    const CUTS: &[(usize, u32)] = &[
        (SRC, 32),
        (SRC + 1, 32),
        (DST, 32),
        (DST + 1, 32),
        (SPORT, 16),
        (DPORT, 16),
        (PROTO, 8),
        (PORT, 6),
        (STATE, 2),
        (DIR, 1),
    ];

    fn range(&self, word: usize) -> (u32, u32) {
        match word {
            0..4 => (self.src[word], self.src[word] | !self.src_mask[word]),
            4..8 => (self.dst[word - 4], self.dst[word - 4] | !self.dst_mask[word - 4]),
            word => self.rest.range(word),
        }
    }

    #[inline]
    fn holds(&self, key: &Key) -> bool {
        let mut unlike = 0;
        for n in 0..4 {
            unlike |= (key.words[SRC + n] ^ self.src[n]) & self.src_mask[n];
            unlike |= (key.words[DST + n] ^ self.dst[n]) & self.dst_mask[n];
        }
        (unlike == 0) & self.rest.holds(key)
    }

    #[inline]
    fn rule(&self) -> u32 {
        self.rest.rule()
    }
}
