//! A TCP connection as seen from between its two ends (RFC 5382, RFC 7857 section 2): what each side has sent, and how long
//! silence may last from here on.
//!
//! ```text
//!             SYN              SYN and ACK of both               FIN of both
//!  (nothing) ----> [ Opening ] ------------------> [ Established ] ---------> [ Closing ]
//!                       | RST inside the window         |    ^                    | SYN: begins anew
//!                       v                               v    | data               v
//!                    [ Reset ] <------------------------+----+               [ Opening ]
//! ```
//! The state *is* the set of flags that were seen: simultaneous open (SYN, SYN, SYN-ACK, SYN-ACK) and half close need no rows
//! of their own. A RST counts only if the other end would accept it, that is inside its window (RFC 5961 section 3);
//! what lies outside is passed on, the end will judge it, but it changes nothing here.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::ops::{Index, IndexMut};

use weir_packet::fields::{be16, put};
use weir_packet::headers::{TCP, words};
use weir_packet::options::options;

use super::timers::Class;
use crate::frame::{Frame, adjust, delta16};

/// How far a connection of TCP has come, by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The sequence number after the last that the side sent.
    pub sent: [u32; 2],
    /// The one that it awaits.
    pub awaits: [u32; 2],
    /// The window that it granted last, unscaled.
    pub window: [u16; 2],
}

/// Bytes of a header without options.
const HEADER: usize = 20;

/// Flags of a segment.
pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// The side that sent a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Inside = 0,
    Outside = 1,
}

impl Side {
    #[inline]
    fn other(self) -> Side {
        match self {
            Side::Inside => Side::Outside,
            Side::Outside => Side::Inside,
        }
    }
}

/// Something of each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
struct Sides<T>([T; 2]);

impl<T> Index<Side> for Sides<T> {
    type Output = T;

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there are two sides")]
    fn index(&self, side: Side) -> &T {
        &self.0[side as usize]
    }
}

impl<T> IndexMut<Side> for Sides<T> {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there are two sides")]
    fn index_mut(&mut self, side: Side) -> &mut T {
        &mut self.0[side as usize]
    }
}

/// The flags that were seen: a bit for the inside, the next one for the outside.
mod said {
    pub(super) const SYN: u8 = 0x01;
    pub(super) const ACK: u8 = 0x04;
    pub(super) const FIN: u8 = 0x10;
    pub(super) const RST: u8 = 0x40;
    pub(super) const BOTH: u8 = 0x03;
    pub(super) const OPEN: u8 = (SYN | ACK) * BOTH;
}

/// A segment, as far as it matters here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    /// Bytes of data.
    pub(crate) bytes: u32,
    /// Window scale of a SYN (RFC 7323); 0 where it has none.
    pub(crate) scale: u8,
}

impl Segment {
    /// The segment of a frame; of protocols other than TCP, an empty one.
    #[inline]
    pub(crate) fn of(frame: &Frame<'_>) -> Segment {
        if frame.proto() != TCP {
            return Segment::default();
        }
        let l4 = frame.l4();
        let Some(&[_, _, _, _, a, b, c, d, e, f, g, h, length, flags, i, j, ..]) = l4.first_chunk::<20>()
        else {
            return Segment::default();
        };
        Segment {
            flags,
            seq: u32::from_be_bytes([a, b, c, d]),
            ack: u32::from_be_bytes([e, f, g, h]),
            window: u16::from_be_bytes([i, j]),
            bytes: l4.len().saturating_sub(words(length >> 4)) as u32,
            scale: if flags & SYN != 0 { scale(l4) } else { 0 },
        }
    }

    /// The sequence number after its last: SYN and FIN take one each.
    #[inline]
    fn end(&self) -> u32 {
        let (syn, fin) = (u32::from(self.flags & SYN != 0), u32::from(self.flags & FIN != 0));
        self.seq.wrapping_add(self.bytes).wrapping_add(syn).wrapping_add(fin)
    }

    /// Neither SYN, FIN nor RST.
    #[inline]
    pub(crate) fn is_plain(flags: u8) -> bool {
        flags & (SYN | FIN | RST) == 0
    }
}

/// What a segment means for the time of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It begins anew.
    Refresh,
    /// It goes on.
    Unmoved,
}

/// The state of a session: its class, and for TCP the flags that were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Track {
    /// The sequence number after the last that this side sent; holds if its SYN counts as said.
    sent: Sides<u32>,
    /// The sequence number that this side awaits; holds if the other side's SYN counts as said.
    awaits: Sides<u32>,
    /// The window that this side granted last, unscaled.
    window: Sides<u16>,
    said: u8,
    /// Window scales, the inside's in the low half.
    scale: u8,
    pub(crate) class: Class,
    /// For the slot that it is part of: see `nat/slot.rs` and `filter/state.rs`.
    pub(crate) flags: u8,
}

const _: () = assert!(size_of::<Track>() == 24);

impl Track {
    /// That of no connection.
    pub(crate) const FREE: Track = Track {
        sent: Sides([0; 2]),
        awaits: Sides([0; 2]),
        window: Sides([0; 2]),
        said: 0,
        scale: 0,
        class: Class::Lasting,
        flags: 0,
    };

    /// A session without connection.
    pub(crate) fn plain(class: Class) -> Track {
        Track { class, ..Track::FREE }
    }

    /// The connection that this segment begins, if it may begin one: by a SYN, or where its beginning was missed, as
    /// after a restart, by anything that acknowledges something and is neither SYN nor RST. What the other side says next opens it.
    pub(crate) fn begin(side: Side, segment: &Segment) -> Option<Track> {
        let mut track = Track::plain(Class::TcpOpening);
        match segment.flags & (SYN | RST | ACK | FIN) {
            SYN => _ = track.syn(side, segment),
            // It may have missed the beginning.
            flags if flags & !FIN == ACK => {
                track.sent[side] = segment.end();
                track.sent[side.other()] = segment.ack;
                track.awaits[side.other()] = segment.seq;
                track.awaits[side] = segment.ack;
                track.window[side] = segment.window;
                track.said = (said::SYN * said::BOTH) | (said::ACK << side as u8);
            }
            _ => return None,
        }
        Some(track)
    }

    /// Whether this side's SYN was heard, or its beginning was missed.
    pub(crate) fn has_begun(&self, side: Side) -> bool {
        self.said & said::SYN << side as u8 != 0
    }

    /// Takes note of a segment that is plain, of an open connection.
    #[inline]
    pub(crate) fn advance(&mut self, side: Side, segment: &Segment) {
        let (here, there) = (side, side.other());
        let end = segment.end();
        if end.wrapping_sub(self.sent[here]) as i32 > 0 {
            self.sent[here] = end;
        }
        // No end acknowledges what was not sent (RFC 5961 section 5): a blind segment cannot move the window.
        let fresh = segment.ack.wrapping_sub(self.awaits[here]) as i32 >= 0;
        let sent = segment.ack.wrapping_sub(self.sent[there]) as i32 <= 0;
        if segment.flags & ACK != 0 && fresh && sent {
            self.awaits[here] = segment.ack;
            self.window[here] = segment.window;
        }
    }

    /// How far it has come.
    pub(crate) fn progress(&self) -> Progress {
        let (Sides(sent), Sides(awaits), Sides(window)) = (self.sent, self.awaits, self.window);
        Progress { sent, awaits, window }
    }

    /// The fast path has followed plain segments, from where it was.
    pub(crate) fn catch_up(&mut self, progress: &Progress) {
        let Progress { sent, awaits, window } = *progress;
        let is_later = |a: u32, b: u32| a.wrapping_sub(b) as i32 >= 0;
        for side in [Side::Inside, Side::Outside] {
            let (sent, awaits) = (Sides(sent)[side], Sides(awaits)[side]);
            if is_later(sent, self.sent[side]) {
                self.sent[side] = sent;
            }
            if is_later(awaits, self.awaits[side]) {
                (self.awaits[side], self.window[side]) = (awaits, Sides(window)[side]);
            }
        }
    }

    /// Takes note of any segment.
    pub(crate) fn segment(&mut self, side: Side, segment: &Segment) -> Effect {
        let verdict = if segment.flags & RST != 0 {
            self.reset(side, segment)
        } else if segment.flags & SYN != 0 {
            self.syn(side, segment)
        } else {
            self.rest(side, segment)
        };
        self.class = match self.said {
            said if said & said::RST != 0 => Class::TcpReset,
            said if said & said::OPEN != said::OPEN => Class::TcpOpening,
            said if said & (said::FIN * said::BOTH) == said::FIN * said::BOTH => Class::TcpClosing,
            _ => Class::TcpEstablished,
        };
        verdict
    }

    /// Neither SYN nor RST.
    fn rest(&mut self, side: Side, segment: &Segment) -> Effect {
        let known = self.said & said::SYN << side as u8 != 0;
        let is_more_than_an_answer = segment.bytes > 0 || segment.flags & FIN != 0;
        if !known || self.said & said::RST != 0 && !is_more_than_an_answer {
            return Effect::Unmoved;
        }
        // Data behind a RST: it was not heard (RFC 7857 section 2.2).
        self.said &= !said::RST;
        self.advance(side, segment);
        if segment.flags & ACK != 0 {
            self.said |= said::ACK << side as u8;
        }
        if segment.flags & FIN != 0 {
            self.said |= said::FIN << side as u8;
        }
        Effect::Refresh
    }

    fn syn(&mut self, side: Side, segment: &Segment) -> Effect {
        let (here, there) = (side, side.other());
        let is_over = self.said & said::RST != 0 || self.class == Class::TcpClosing;
        if is_over && segment.flags & ACK == 0 {
            // The same addresses and ports again, after the end (RFC 1122 section 4.2.2.13).
            *self = Track { flags: self.flags, ..Track::plain(Class::TcpOpening) };
        } else if is_over || self.said & said::OPEN == said::OPEN {
            // Both ends know better (RFC 5961 section 4).
            return Effect::Unmoved;
        }
        self.said |= said::SYN << side as u8;
        self.sent[here] = segment.end();
        self.awaits[there] = segment.seq;
        self.window[here] = segment.window;
        let shift = place_of_scale(side);
        self.scale = self.scale & !(15 << shift) | segment.scale.min(14) << shift;
        if segment.flags & ACK != 0 {
            self.said |= said::ACK << side as u8;
            self.awaits[here] = segment.ack;
        }
        Effect::Refresh
    }

    fn reset(&mut self, side: Side, segment: &Segment) -> Effect {
        let there = side.other();
        let refuses = self.said & said::SYN << side as u8 == 0;
        let counts = if !refuses {
            let scale = self.scale >> place_of_scale(there) & 15;
            let window = u32::from(self.window[there]) << scale;
            segment.seq.wrapping_sub(self.awaits[there]) < window.max(2)
        } else {
            // Refuses a SYN (RFC 9293 section 3.10.7.3).
            segment.flags & ACK != 0 && segment.ack == self.sent[there]
        };
        if !counts || self.said & said::RST != 0 {
            return Effect::Unmoved;
        }
        self.said |= said::RST;
        // An unsolicited packet that is refused keeps nothing alive (RFC 7857 section 7.1).
        if refuses && side == Side::Inside { Effect::Unmoved } else { Effect::Refresh }
    }
}

/// The window scale of a SYN, 0 where it has none.
fn scale(segment: &[u8]) -> u8 {
    let is_scale = |option: &[u8]| if let [3, 3, scale] = *option { Some(scale) } else { None };
    options(behind_header(segment)).find_map(is_scale).unwrap_or_default()
}

/// Half a byte for each side's.
const fn place_of_scale(side: Side) -> u8 {
    match side {
        Side::Inside => 0,
        Side::Outside => 4,
    }
}

/// Lowers the largest segment that a SYN asks for (RFC 9293 section 3.7.1).
#[expect(
    clippy::arithmetic_side_effects,
    reason = "`at` is the end of an option of 2 bytes and more, within a segment"
)]
pub(crate) fn clamp_mss(segment: &mut [u8], most: u16) {
    let mut at = HEADER;
    let is_mss = |option: &[u8]| {
        at += option.len();
        matches!(option, [2, 4, ..])
    };
    if !options(behind_header(segment)).any(is_mss) {
        return;
    }
    let place = at - 2;
    let Some(asked) = be16(segment, place) else { return };
    if asked > most {
        put(segment, place, most.to_be_bytes());
        // At an odd place it is half of two words of the sum.
        let turn = |value: u16| if place.is_multiple_of(2) { value } else { value.swap_bytes() };
        adjust(segment, 16, delta16(turn(asked), turn(most)));
    }
}

/// The options of a segment.
fn behind_header(segment: &[u8]) -> &[u8] {
    let bytes = segment.get(12).map_or(0, |&length| words(length >> 4));
    segment.get(HEADER..bytes.min(segment.len())).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test's own numbers")]
mod tests {
    use super::*;

    /// One segment per word: `>` is from the inside, `<` from the outside, then flags, and where they matter
    /// `seq`, `ack` and bytes. The inside begins at 100, the outside at 900; both grant 50 bytes.
    fn check(segments: &str, expected: &str) {
        let mut track: Option<Track> = None;
        let mut shown = Vec::new();
        for word in segments.split_whitespace() {
            let side = if word.starts_with('>') { Side::Inside } else { Side::Outside };
            let mut parts = word[1..].split(',');
            let letters = parts.next().expect("flags");
            let bit = |letter| match letter {
                'S' => SYN,
                'F' => FIN,
                'R' => RST,
                'A' => ACK,
                'P' => 8,
                _ => panic!("{word}"),
            };
            let numbers: Vec<u32> = parts.map(|part| part.parse().expect("a number")).collect();
            let default = if side == Side::Inside { [101, 901, 0] } else { [901, 101, 0] };
            let number = |n: usize| numbers.get(n).copied().unwrap_or(default[n]);
            let flags = letters.chars().map(bit).fold(0, |all, bit| all | bit);
            let syn = u32::from(flags & SYN != 0 && numbers.is_empty());
            let seq = number(0) - syn;
            let segment =
                Segment { flags, seq, ack: number(1), window: 50, bytes: number(2), ..Segment::default() };
            let verdict = match &mut track {
                Some(track) => track.segment(side, &segment),
                None => {
                    track = Track::begin(side, &segment);
                    Effect::Refresh
                }
            };
            let class = track.map_or("-", |track| match track.class {
                Class::TcpOpening => "open",
                Class::TcpEstablished => "est",
                Class::TcpClosing => "close",
                Class::TcpReset => "reset",
                class => panic!("{class:?}"),
            });
            shown.push(format!("{class}{}", if verdict == Effect::Unmoved { "=" } else { "" }));
        }
        assert_eq!(shown.join(" "), expected, "{segments}");
    }

    #[test]
    fn connections() {
        // The usual one, from either side.
        check(">S <SA >A >A,101,901,10 <A,901,111", "open open est est est");
        check("<S >SA <A", "open open est");
        // Repeated SYN; a SYN into an open one changes nothing.
        check(">S >S <SA <SA >A <S,5,5 >S", "open open open open est est= est=");
        // Simultaneous open (RFC 5382 REQ-2).
        check(">S <S >SA <SA", "open open open est");
        // An answer without SYN opens nothing.
        check(">S <A >A", "open open= open");
        // Half close lasts; both FINs end it; the last ACK counts.
        check(">S <SA >A >FA <A,901,102,40 <A,941,102,40", "open open est est est est");
        check(">S <SA >A >FA <FA,901,102 >A,102,902", "open open est est close close");
        // Ports used again in TIME_WAIT and after a RST.
        check(
            ">S <SA >A >FA <FA,901,102 >S,5000,0 <SA,1,5001 >A,5001,2",
            "open open est est close open open est",
        );
        check(">S <SA >A <R >S,5000,0 <SA,1,5001 >A,5001,2", "open open est reset open open est");
        // A beginning that was missed; what may not begin one.
        check(">A,500,600 <A,600,500", "open est");
        check(">R", "-");
        check(">SA", "-");
        check("<RA", "-");
        check(">P", "-");
    }

    #[test]
    fn resets_count_inside_the_window_only() {
        check(">S <SA >A <R", "open open est reset");
        check(">S <SA >A <R,950", "open open est reset");
        check(">S <SA >A <R,951", "open open est est=");
        check(">S <SA >A <R,900", "open open est est=");
        check(">S <SA >A >R,101", "open open est reset");
        check(">S <SA >A >R,151", "open open est est=");
        // The window moves with what was acknowledged, not with what was never sent.
        check(">S <SA >A <A,901,101,40 >A,101,941 <R,941", "open open est est est reset");
        check(">S <SA >A >A,101,5000 <R,5000", "open open est est est=");
        // A SYN refused; a blind refusal; a SYN given up.
        check(">S <RA,0,101", "open reset");
        check(">S <RA,0,102", "open open=");
        check(">S >R,101", "open reset");
        // The inside refuses an unsolicited packet.
        check("<S >RA,0,901", "open reset=");
        // Neither a second RST nor a bare ACK changes its time; data restores it (RFC 7857 section 2.2).
        check(">S <SA >A <R <R >A", "open open est reset reset= reset=");
        check(">S <SA >A <R >A,101,901,1", "open open est reset est");
        check(">S <SA >A <R >FA", "open open est reset est");
    }

    #[test]
    fn windows_are_scaled() {
        let syn = |flags, seq, ack| Segment { flags, seq, ack, window: 100, scale: 3, ..Segment::default() };
        for (seq, counts) in [(901 + 799, true), (901 + 800, false)] {
            let mut track = Track::begin(Side::Inside, &syn(SYN, 100, 0)).expect("a SYN");
            track.segment(Side::Outside, &syn(SYN | ACK, 900, 101));
            track.segment(Side::Inside, &syn(ACK, 101, 901));
            let rst = Segment { flags: RST, seq, ..Segment::default() };
            assert_eq!(track.segment(Side::Outside, &rst) == Effect::Refresh, counts, "{seq}");
        }
    }

    #[test]
    fn a_clamped_syn_keeps_its_checksum() {
        use weir_packet::checksum::{fold, sum};
        // Aligned, and behind a single padding byte.
        for (options, place) in [([2, 4, 0x05, 0xb4, 3, 3, 7, 0], 22), ([1, 2, 4, 0x05, 0xb4, 3, 3, 7], 23)] {
            let mut segment = vec![0_u8; 28];
            segment[12] = 7 << 4;
            segment[20..].copy_from_slice(&options);
            let before = fold(sum(&segment));
            segment[16..18].copy_from_slice(&(!before).to_be_bytes());
            assert_eq!(scale(&segment), 7);
            clamp_mss(&mut segment, 1600);
            assert_eq!(segment[place..place + 2], [0x05, 0xb4], "never raised");
            clamp_mss(&mut segment, 1000);
            assert_eq!(segment[place..place + 2], 1000_u16.to_be_bytes());
            assert_eq!(fold(sum(&segment)), 0xffff);
        }
        for broken in [&[2, 0][..], &[2, 9], &[2], &[0, 2, 4, 1, 1], &[3, 1]] {
            let mut segment = vec![0_u8; 20];
            segment[12] = 15 << 4;
            segment.extend(broken);
            let before = segment.clone();
            clamp_mss(&mut segment, 1);
            assert_eq!((segment.clone(), scale(&segment)), (before, 0), "{broken:?}");
        }
    }
}
