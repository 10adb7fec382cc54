//! AC-Cookie (RFC 2516, appendix A): proof that a host receives at its MAC address, without state.
//!
//! ```text
//! time slot: 4 | HMAC-SHA256(key, time slot, MAC, line), first 16 bytes
//! ```
//! A cookie is valid within its time slot and the next one, so a recorded PADR begins sessions for two minutes at most.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use crate::line::{Line, Tags};
use crate::mac::Mac;
use crate::random::mac_sha256;

/// Length of a time slot.
const SLOT_S: u64 = 60;
/// Bytes of a cookie.
pub(super) const COOKIE_BYTES: usize = 20;

fn slot(now: Duration) -> u32 {
    u32::try_from(now.as_secs() / SLOT_S).unwrap_or(u32::MAX)
}

fn of_slot(key: &[u8; 32], slot: u32, mac: Mac, line: &Line) -> [u8; COOKIE_BYTES] {
    let tags = match line.tags {
        Tags::None => [0; 2],
        Tags::One(vid) => [vid, 0],
        Tags::Two { outer, inner } => [outer, inner],
    };
    let [outer, inner] = tags.map(u16::to_be_bytes);
    let slot = slot.to_be_bytes();
    let port = line.port.as_str().as_bytes();
    let hash = mac_sha256(key, &[b"cookie", &slot, &mac.0, &outer, &inner, port]);
    let mut cookie = [0; COOKIE_BYTES];
    for (to, from) in cookie.iter_mut().zip(slot.iter().chain(&hash)) {
        *to = *from;
    }
    cookie
}

/// The cookie of a MAC address on a line.
pub(super) fn cookie(key: &[u8; 32], now: Duration, mac: Mac, line: &Line) -> [u8; COOKIE_BYTES] {
    of_slot(key, slot(now), mac, line)
}

/// Whether it was sent to this MAC address on this line lately. Takes the same time for each wrong cookie.
pub(super) fn is_valid(key: &[u8; 32], now: Duration, mac: Mac, line: &Line, found: &[u8]) -> bool {
    let now = slot(now);
    [now, now.saturating_sub(1)].iter().fold(false, |is_valid, slot| {
        let right = of_slot(key, *slot, mac, line);
        let differs = right.iter().zip(found).fold(0, |differs, (a, b)| differs | (a ^ b));
        is_valid | (found.len() == COOKIE_BYTES && differs == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p7_a_cookie_is_of_one_mac_one_line_and_two_minutes() {
        let line: Line = "access1:100.7".parse().unwrap();
        let (mac, key) = (Mac([2, 0, 0, 0, 0, 1]), [7; 32]);
        let at = Duration::from_secs;
        let sent = cookie(&key, at(130), mac, &line);
        let is_valid = |at, mac, line: &str| is_valid(&key, at, mac, &line.parse().unwrap(), &sent);
        for (s, valid) in [(119, false), (120, true), (239, true), (240, false)] {
            assert_eq!(is_valid(at(s), mac, "access1:100.7"), valid, "{s} s");
        }
        assert!(!is_valid(at(130), Mac([2, 0, 0, 0, 0, 2]), "access1:100.7"));
        for other in ["access1:100.8", "access1:100", "access1", "access2:100.7"] {
            assert!(!is_valid(at(130), mac, other), "{other}");
        }
        assert!(!super::is_valid(&[8; 32], at(130), mac, &line, &sent), "another key");
        assert!(!super::is_valid(&key, at(130), mac, &line, &sent[..19]));
        assert!(!super::is_valid(&key, at(130), mac, &line, &[]));
    }
}
