//! Echo requests and replies of LCP (RFC 1661, section 5.8) in frames of PPPoE (RFC 2516).
//!
//! ```text
//! 11 00 | session | length | c0 21 | code | id | length | magic number | data
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use crate::frame::PPPOE;

/// Of PPP.
const LCP: [u8; 2] = [0xc0, 0x21];
const ECHO_REQUEST: u8 = 9;
const ECHO_REPLY: u8 = 10;
/// Code, id, length, magic number.
const HEADER: usize = 8;

/// EtherType of a session, version and type, code of session data.
const SESSION: [u8; 4] = [0x88, 0x64, 0x11, 0];

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It was an echo request, and is the reply now: so many bytes, the header of PPPoE included.
    Answered(usize),
    /// An echo reply.
    Reply,
    /// Not for the node itself: another message, or the node's own request, which a loop in the line has brought back.
    Other,
    /// It is broken.
    Broken,
}

/// Makes the reply out of an echo request, with the magic number of the node and at most so many bytes of LCP; `frame` begins with the
/// header of PPPoE and ends where that says.
pub(crate) fn answer(frame: &mut [u8], magic: u32, most_bytes: u16) -> Heard {
    let Some(([_, _, _, _, c, d, high, low], lcp)) = frame.split_first_chunk_mut::<PPPOE>() else {
        return Heard::Broken;
    };
    if [*high, *low] != LCP {
        return Heard::Other;
    }
    let bytes = lcp.len();
    let Some([code, _, a, b, number @ ..]) = lcp.first_chunk_mut::<HEADER>() else {
        return match lcp.first() {
            Some(&ECHO_REQUEST | &ECHO_REPLY) | None => Heard::Broken,
            Some(_) => Heard::Other,
        };
    };
    let length = u16::from_be_bytes([*a, *b]);
    match *code {
        ECHO_REQUEST | ECHO_REPLY if !(HEADER..=bytes).contains(&usize::from(length)) => Heard::Broken,
        ECHO_REPLY => Heard::Reply,
        ECHO_REQUEST if magic != 0 && *number == magic.to_be_bytes() => Heard::Other,
        ECHO_REQUEST => {
            let length = length.min(most_bytes.max(HEADER as u16));
            (*code, *number) = (ECHO_REPLY, magic.to_be_bytes());
            [*a, *b] = length.to_be_bytes();
            [*c, *d] = length.saturating_add(2).to_be_bytes();
            Heard::Answered(usize::from(length).saturating_add(PPPOE))
        }
        _ => Heard::Other,
    }
}

/// What stands behind the Ethernet addresses and tags of an echo request of the node.
pub(crate) fn request(session: u16, id: u8, magic: u32) -> Vec<u8> {
    let bytes = HEADER as u8;
    [
        &SESSION[..],
        &session.to_be_bytes(),
        &[0, bytes.saturating_add(2)],
        &LCP,
        &[ECHO_REQUEST, id, 0, bytes],
        &magic.to_be_bytes(),
    ]
    .concat()
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test's own bytes")]
mod tests {
    use super::*;

    fn frame(ppp: [u8; 2], lcp: &[u8]) -> Vec<u8> {
        [&[0x11, 0, 0, 7, 0, lcp.len() as u8 + 2][..], &ppp, lcp].concat()
    }

    #[test]
    fn echo_requests_are_answered_and_nothing_else() {
        let (magic, asks) = (0x0102_0304, [9, 5, 0, 10, 9, 9, 9, 9, 0xaa, 0xbb]);
        for (ppp, lcp, most, expected) in [
            (LCP, &asks[..], 1492, Heard::Answered(18)),
            (LCP, &asks, 9, Heard::Answered(17)),
            (LCP, &asks, 0, Heard::Answered(16)),
            (LCP, &[9, 5, 0, 8, 9, 9, 9, 9, 0xaa, 0xbb], 1492, Heard::Answered(16)),
            (LCP, &[9, 5, 0, 8, 1, 2, 3, 4], 1492, Heard::Other),
            (LCP, &[9, 5, 0, 11, 9, 9, 9, 9, 0xaa, 0xbb], 1492, Heard::Broken),
            (LCP, &[9, 5, 0, 7, 9, 9, 9, 9], 1492, Heard::Broken),
            (LCP, &[9, 5, 0], 1492, Heard::Broken),
            (LCP, &[], 1492, Heard::Broken),
            (LCP, &[10, 5, 0, 8, 9, 9, 9, 9], 1492, Heard::Reply),
            (LCP, &[5, 5, 0, 4], 1492, Heard::Other),
            ([0xc0, 0x23], &asks, 1492, Heard::Other),
        ] {
            let mut bytes = frame(ppp, lcp);
            let before = bytes.clone();
            assert_eq!(answer(&mut bytes, magic, most), expected, "{lcp:02x?}");
            match expected {
                Heard::Answered(length) => {
                    let [a, b] = (length as u16 - 8).to_be_bytes();
                    let header = [0x11, 0, 0, 7, 0, b + 2, 0xc0, 0x21, 10, 5, a, b, 1, 2, 3, 4];
                    assert_eq!(bytes[..16], header, "{lcp:02x?}");
                    assert_eq!(bytes[16..], before[16..]);
                }
                _ => assert_eq!(bytes, before, "{lcp:02x?}"),
            }
        }
        let own = || request(7, 1, 5).split_off(2);
        assert_eq!(answer(&mut own(), 0, 1492), Heard::Answered(16));
        assert_eq!(answer(&mut own(), 5, 1492), Heard::Other, "a loop");
    }
}
