//! Passwords and what shows that a device knows one, in frames that are kept for people: they are overwritten.
//!
//! ```text
//! PAP   Authenticate-Request   | name | password ******** |
//! CHAP  Response               | value 00 00 00 .. | name |       CHAP-MD5 and MS-CHAPv2 alike
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::ppp::packet::code;
use crate::ppp::protocol;
use crate::pppoe::SESSION;

/// Ethernet and PPPoE headers: where the protocol of PPP stands, its packet, and the data of that.
const ETHER_TYPE: std::ops::Range<usize> = 12..14;
const PROTOCOL: std::ops::Range<usize> = 20..22;
const CODE: usize = 22;
const DATA: usize = 26;
/// Response of CHAP (RFC 1994, section 4.1).
const RESPONSE: u8 = 2;

/// Overwrites what a frame without tags has of secrets, as far as it is one of PAP or CHAP, whatever is wrong with it otherwise.
pub(crate) fn conceal(frame: &mut [u8]) {
    let is_session = frame.get(ETHER_TYPE) == Some(&SESSION.to_be_bytes()[..]);
    let of = frame.get(PROTOCOL).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes);
    let packet = frame.get(CODE).copied();
    let Some(data) = frame.get_mut(DATA..).filter(|_| is_session) else { return };
    match (of, packet) {
        (Some(protocol::PAP), Some(code::REQUEST)) => {
            let name = data.first().map_or(0, |len| usize::from(*len));
            if let Some([_, password @ ..]) = data.get_mut(1 + name..) {
                password.fill(b'*');
            }
        }
        (Some(protocol::CHAP), Some(RESPONSE)) => {
            let len = data.first().map_or(0, |len| usize::from(*len));
            let end = data.len().min(1 + len);
            if let Some(value) = data.get_mut(1..end) {
                value.fill(0);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac::Mac;
    use crate::pppoe::session::SessionFrame;

    fn frame(protocol: u16, payload: &[u8]) -> Vec<u8> {
        let [dst, src] = [Mac([2, 0, 0, 0, 0, 0xfe]), Mac([2, 0, 0, 0, 0, 1])];
        SessionFrame { dst, src, session_id: 7, protocol, payload }.write()
    }

    #[test]
    fn a_password_and_a_response_are_overwritten_and_nothing_else() {
        let pap = |secret: &[u8]| [&[1, 1, 0, 15, 4][..], b"anna", &[6], secret].concat();
        let chap = |value: [u8; 4]| [&[2, 1, 0, 13, 4][..], &value, b"anna"].concat();
        let challenge = [1, 1, 0, 9, 4, 9, 9, 9, 9];
        for (protocol, sent, kept) in [
            (protocol::PAP, pap(b"secret"), pap(b"******")),
            (protocol::CHAP, chap([7; 4]), chap([0; 4])),
            (protocol::CHAP, challenge.to_vec(), challenge.to_vec()),
            (protocol::PAP, vec![1, 1, 0, 15, 200, 1], vec![1, 1, 0, 15, 200, 1]),
            (protocol::CHAP, vec![2, 1, 0, 15, 200, 1], vec![2, 1, 0, 15, 200, 0]),
        ] {
            let mut bytes = frame(protocol, &sent);
            conceal(&mut bytes);
            assert_eq!(bytes, frame(protocol, &kept));
        }
        for len in 0..40 {
            conceal(&mut vec![0; len]);
        }
    }
}
