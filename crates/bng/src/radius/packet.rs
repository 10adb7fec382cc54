//! Packets, and what protects them (RFC 2865, section 3; RFC 2869, section 5.14).
//!
//! ```text
//! code: 1 | identifier: 1 | length: 2 | authenticator: 16 | attributes, Message-Authenticator first
//! ```
//! Accounting, CoA and Disconnect requests have a hash as authenticator, Access and Status requests a random one. A hash of MD5 alone
//! can be forged (BlastRADIUS, CVE-2024-3596); Message-Authenticator cannot.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use md5::{Digest, Md5};

use super::attribute::{Attributes, number};
use crate::ppp::auth::is_equal;

/// Codes of packets.
#[allow(missing_docs)]
pub mod code {
    pub const ACCESS_REQUEST: u8 = 1;
    pub const ACCESS_ACCEPT: u8 = 2;
    pub const ACCESS_REJECT: u8 = 3;
    pub const ACCOUNTING_REQUEST: u8 = 4;
    pub const ACCOUNTING_RESPONSE: u8 = 5;
    pub const ACCESS_CHALLENGE: u8 = 11;
    pub const STATUS_SERVER: u8 = 12;
    pub const DISCONNECT_REQUEST: u8 = 40;
    pub const DISCONNECT_ACK: u8 = 41;
    pub const DISCONNECT_NAK: u8 = 42;
    pub const COA_REQUEST: u8 = 43;
    pub const COA_ACK: u8 = 44;
    pub const COA_NAK: u8 = 45;
}

/// Bytes before the attributes.
const HEADER_BYTES: usize = 20;
/// Most bytes of a packet.
pub const MOST_BYTES: usize = 4096;

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// What it is.
    pub code: u8,
    /// Number by which an answer finds its request.
    pub id: u8,
    /// Random, or a hash.
    pub authenticator: [u8; 16],
    /// What it says.
    pub attributes: Attributes,
}

/// Why a packet is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Distrust {
    /// Length, or the length of an attribute.
    #[error("the packet contradicts its lengths")]
    Length,
    /// It was made without the secret, or for another request.
    #[error("the authenticator is wrong: the secrets of both sides differ, or the packet is forged")]
    Authenticator,
    /// The attribute is wrong, or there are two.
    #[error("Message-Authenticator is wrong: the secrets of both sides differ, or the packet is forged")]
    MessageAuthenticator,
    /// It must be there.
    #[error("Message-Authenticator is missing: update the server, or do not require it")]
    NoMessageAuthenticator,
}

/// Whether Message-Authenticator must be in an answer or request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Require {
    /// Packets without it are dropped.
    MessageAuthenticator,
    /// They are accepted, but for answers with a Proxy-State that no request had.
    Nothing,
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn hmac_md5(secret: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let Ok(mut hash) = Hmac::<Md5>::new_from_slice(secret) else { return [0; 16] };
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into_bytes().into()
}

impl Packet {
    /// Reads a datagram; what is behind the length is padding.
    ///
    /// # Errors
    /// Its lengths contradict each other.
    pub fn read(datagram: &[u8]) -> Result<Packet, Distrust> {
        let &[code, id, a, b, ref rest @ ..] = datagram else { return Err(Distrust::Length) };
        let len = usize::from(u16::from_be_bytes([a, b]));
        let (authenticator, _) = rest.split_first_chunk().ok_or(Distrust::Length)?;
        let attributes =
            datagram.get(HEADER_BYTES..len).filter(|_| len <= MOST_BYTES).ok_or(Distrust::Length)?;
        let attributes = Attributes::read(attributes).ok_or(Distrust::Length)?;
        Ok(Packet { code, id, authenticator: *authenticator, attributes })
    }

    fn header(&self) -> [u8; 4] {
        let len = self.attributes.as_bytes().len().saturating_add(HEADER_BYTES);
        let [a, b] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
        [self.code, self.id, a, b]
    }

    /// As it is sent.
    pub fn write(&self) -> Vec<u8> {
        [&self.header()[..], &self.authenticator, self.attributes.as_bytes()].concat()
    }

    /// The same attributes behind a Message-Authenticator of zeros; `None`: they are too long.
    fn with_room(code: u8, id: u8, attributes: &Attributes) -> Option<Packet> {
        let mut all = Attributes::default();
        all.push(number::MESSAGE_AUTHENTICATOR, &[0; 16]);
        all.extend(attributes);
        let fits = all.as_bytes().len().saturating_add(HEADER_BYTES) <= MOST_BYTES;
        fits.then_some(Packet { code, id, authenticator: [0; 16], attributes: all })
    }

    /// The value of Message-Authenticator, if the packet has `authenticator` in its header.
    fn message_authenticator(&self, secret: &[u8], authenticator: &[u8; 16]) -> [u8; 16] {
        let mut zeroed = Attributes::default();
        for (kind, value) in self.attributes.iter() {
            let value = if kind == number::MESSAGE_AUTHENTICATOR { &[0; 16] } else { value };
            zeroed.push_raw(kind, value);
        }
        hmac_md5(secret, &[&self.header(), authenticator, zeroed.as_bytes()])
    }

    /// Writes the first attribute's value.
    fn set_message_authenticator(&mut self, value: [u8; 16]) {
        let mut all = Attributes::default();
        all.push(number::MESSAGE_AUTHENTICATOR, &value);
        self.attributes.iter().skip(1).for_each(|(kind, value)| all.push_raw(kind, value));
        self.attributes = all;
    }

    /// An Access-Request or Status-Server with a random authenticator; `None`: it is too long.
    pub fn access(
        code: u8,
        id: u8,
        authenticator: [u8; 16],
        attributes: &Attributes,
        secret: &[u8],
    ) -> Option<Packet> {
        let mut packet = Packet::with_room(code, id, attributes)?;
        packet.authenticator = authenticator;
        packet.set_message_authenticator(packet.message_authenticator(secret, &authenticator));
        Some(packet)
    }

    /// An accounting, CoA or Disconnect request; `None`: it is too long.
    pub fn hashed(code: u8, id: u8, attributes: &Attributes, secret: &[u8]) -> Option<Packet> {
        let mut packet = Packet::with_room(code, id, attributes)?;
        packet.set_message_authenticator(packet.message_authenticator(secret, &[0; 16]));
        packet.authenticator = packet.hash(&[0; 16], secret);
        Some(packet)
    }

    /// The answer to a request; `None`: it is too long.
    pub fn answer(&self, code: u8, attributes: &Attributes, secret: &[u8]) -> Option<Packet> {
        let mut packet = Packet::with_room(code, self.id, attributes)?;
        packet.set_message_authenticator(packet.message_authenticator(secret, &self.authenticator));
        packet.authenticator = packet.hash(&self.authenticator, secret);
        Some(packet)
    }

    fn hash(&self, authenticator: &[u8; 16], secret: &[u8]) -> [u8; 16] {
        md5(&[&self.header(), authenticator, self.attributes.as_bytes(), secret])
    }

    /// Whether an answer was made by one who knows the secret, for the request with this authenticator.
    ///
    /// # Errors
    /// It was not.
    pub fn check_answer(&self, request: &[u8; 16], secret: &[u8], require: Require) -> Result<(), Distrust> {
        if !is_equal(&self.hash(request, secret), &self.authenticator) {
            return Err(Distrust::Authenticator);
        }
        // No request of this client has a Proxy-State: one in an answer is a sign of a forged one.
        let is_odd = self.attributes.get(number::PROXY_STATE).is_some();
        let require = if is_odd { Require::MessageAuthenticator } else { require };
        self.check_message_authenticator(request, secret, require)
    }

    /// The same of an accounting, CoA or Disconnect request.
    ///
    /// # Errors
    /// It was not.
    pub fn check_hashed(&self, secret: &[u8], require: Require) -> Result<(), Distrust> {
        if !is_equal(&self.hash(&[0; 16], secret), &self.authenticator) {
            return Err(Distrust::Authenticator);
        }
        self.check_message_authenticator(&[0; 16], secret, require)
    }

    /// The same of an Access-Request or Status-Server.
    ///
    /// # Errors
    /// It was not.
    pub fn check_access(&self, secret: &[u8], require: Require) -> Result<(), Distrust> {
        self.check_message_authenticator(&self.authenticator, secret, require)
    }

    fn check_message_authenticator(
        &self,
        authenticator: &[u8; 16],
        secret: &[u8],
        require: Require,
    ) -> Result<(), Distrust> {
        let mut all = self.attributes.all(number::MESSAGE_AUTHENTICATOR);
        match (all.next(), all.next(), require) {
            (None, _, Require::MessageAuthenticator) => Err(Distrust::NoMessageAuthenticator),
            (None, _, Require::Nothing) => Ok(()),
            (Some(found), None, _) if is_equal(found, &self.message_authenticator(secret, authenticator)) => {
                Ok(())
            }
            _ => Err(Distrust::MessageAuthenticator),
        }
    }
}

/// Hides a password in User-Password (RFC 2865, section 5.2); at most 128 bytes of it.
pub fn hide_password(password: &[u8], secret: &[u8], authenticator: &[u8; 16]) -> Vec<u8> {
    let mut padded = password.get(..password.len().min(128)).unwrap_or_default().to_vec();
    padded.resize(padded.len().div_ceil(16).max(1).saturating_mul(16), 0);
    let (blocks, _) = padded.as_chunks::<16>();
    let mut hidden = Vec::with_capacity(padded.len());
    let mut before = *authenticator;
    for block in blocks {
        let mask = md5(&[secret, &before]);
        before = *block;
        before.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        hidden.extend(before);
    }
    hidden
}

/// The password of a User-Password, without the zeros behind it; `None`: the length is wrong.
pub fn reveal_password(hidden: &[u8], secret: &[u8], authenticator: &[u8; 16]) -> Option<Vec<u8>> {
    let (blocks, rest) = hidden.as_chunks::<16>();
    if !rest.is_empty() || !(1..=8).contains(&blocks.len()) {
        return None;
    }
    let mut password = Vec::with_capacity(hidden.len());
    let mut before = authenticator;
    for block in blocks {
        let mask = md5(&[secret, before]);
        password.extend(block.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
        before = block;
    }
    let len = password.iter().rposition(|byte| *byte != 0).map_or(0, |last| last.saturating_add(1));
    password.truncate(len);
    Some(password)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    fn bytes(digits: &str) -> Vec<u8> {
        hex::bytes(&format!("0x{}", digits.replace([' ', '\n'], ""))).unwrap()
    }

    const SECRET: &[u8] = b"xyzzy5461";

    /// RFC 2865, section 7.1: telnet login of nemo.
    #[test]
    fn the_example_of_rfc_2865() {
        let request = bytes(
            "01 00 00 38 0f 40 3f 94 73 97 80 57 bd 83 d5 cb 98 f4 22 7a 01 06 6e 65 6d 6f 02 12 0d be 70 8d 93 d4
             13 ce 31 96 e4 3f 78 2a 0a ee 04 06 c0 a8 01 10 05 06 00 00 00 03",
        );
        let answer = bytes(
            "02 00 00 26 86 fe 22 0e 76 24 ba 2a 10 05 f6 bf 9b 55 e0 b2 06 06 00 00 00 01 0f 06 00 00 00 00 0e 06
             c0 a8 01 03",
        );
        let (request, answer) = (Packet::read(&request).unwrap(), Packet::read(&answer).unwrap());
        let hidden = request.attributes.get(number::USER_PASSWORD).unwrap();
        let password = reveal_password(hidden, SECRET, &request.authenticator);
        assert_eq!(password.as_deref(), Some(&b"arctangent"[..]));
        assert_eq!(hide_password(b"arctangent", SECRET, &request.authenticator), hidden);
        assert_eq!(answer.check_answer(&request.authenticator, SECRET, Require::Nothing), Ok(()));
        let required = answer.check_answer(&request.authenticator, SECRET, Require::MessageAuthenticator);
        assert_eq!(required, Err(Distrust::NoMessageAuthenticator));
        let other = answer.check_answer(&request.authenticator, b"other", Require::Nothing);
        assert_eq!(other, Err(Distrust::Authenticator));
    }

    #[test]
    fn passwords_of_all_lengths_are_revealed_as_they_were_hidden() {
        for len in 0..=128 {
            let password: Vec<u8> = (1..=len).collect();
            let hidden = hide_password(&password, SECRET, &[7; 16]);
            assert_eq!(reveal_password(&hidden, SECRET, &[7; 16]), Some(password), "{len}");
        }
        assert_eq!(hide_password(&[1; 200], SECRET, &[7; 16]).len(), 128);
        for len in [0, 15, 17, 144] {
            assert_eq!(reveal_password(&vec![1; len], SECRET, &[7; 16]), None, "{len}");
        }
    }

    #[test]
    fn r3_r4_message_authenticator_is_first_and_any_change_is_noticed() {
        let mut attributes = Attributes::default();
        attributes.push(number::USER_NAME, b"anna");
        let required = Require::MessageAuthenticator;
        let access = Packet::access(code::ACCESS_REQUEST, 7, [5; 16], &attributes, SECRET).unwrap();
        let acct = Packet::hashed(code::ACCOUNTING_REQUEST, 8, &attributes, SECRET).unwrap();
        let answer = access.answer(code::ACCESS_ACCEPT, &attributes, SECRET).unwrap();
        type Check<'a> = &'a dyn Fn(&Packet) -> Result<(), Distrust>;
        let checks: [(&Packet, Check<'_>); 3] = [
            (&access, &|packet| packet.check_access(SECRET, required)),
            (&acct, &|packet| packet.check_hashed(SECRET, required)),
            (&answer, &|packet| packet.check_answer(&access.authenticator, SECRET, required)),
        ];
        for (packet, check) in checks {
            let first = packet.attributes.iter().next().map(|(kind, _)| kind);
            assert_eq!(first, Some(number::MESSAGE_AUTHENTICATOR));
            let bytes = packet.write();
            assert_eq!(check(&Packet::read(&bytes).unwrap()), Ok(()));
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                let found = Packet::read(&changed).and_then(|packet| check(&packet));
                assert!(found.is_err(), "byte {at} of code {}", packet.code);
            }
            for len in 0..bytes.len() {
                assert_eq!(Packet::read(&bytes[..len]), Err(Distrust::Length));
            }
        }
    }

    #[test]
    fn r5_an_answer_with_a_proxy_state_needs_a_message_authenticator() {
        let mut attributes = Attributes::default();
        attributes.push(number::PROXY_STATE, b"forged");
        let mut packet = Packet { code: code::ACCESS_ACCEPT, id: 1, authenticator: [0; 16], attributes };
        packet.authenticator = packet.hash(&[5; 16], SECRET);
        let found = packet.check_answer(&[5; 16], SECRET, Require::Nothing);
        assert_eq!(found, Err(Distrust::NoMessageAuthenticator));
    }
}
