//! Authentication: how a peer shows who it is, and how a password is checked.
//!
//! ```text
//! concentrator: Authenticator > Attempt > local subscribers or RADIUS > Verdict > Authenticator
//! client:       Supplicant
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

pub mod authenticator;
pub mod mschap;
pub mod supplicant;

use std::fmt;

use md5::{Digest, Md5};

use super::protocol;

/// A method of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// The password in clear text (RFC 1334).
    Pap,
    /// A hash of challenge and password (RFC 1994).
    ChapMd5,
    /// The same of Microsoft, which also shows that the concentrator knows the password (RFC 2759).
    MsChapV2,
}

impl Method {
    /// The value of LCP's option (RFC 1661, section 6.2): the protocol, and the algorithm of CHAP.
    pub fn value(self) -> Vec<u8> {
        let [a, b] = self.protocol().to_be_bytes();
        match self {
            Method::Pap => vec![a, b],
            Method::ChapMd5 => vec![a, b, 5],
            Method::MsChapV2 => vec![a, b, 0x81],
        }
    }

    /// Reads such a value; `None`: another method.
    pub fn read(value: &[u8]) -> Option<Method> {
        [Method::Pap, Method::ChapMd5, Method::MsChapV2].into_iter().find(|method| method.value() == value)
    }

    /// The protocol of its packets.
    pub fn protocol(self) -> u16 {
        match self {
            Method::Pap => protocol::PAP,
            Method::ChapMd5 | Method::MsChapV2 => protocol::CHAP,
        }
    }
}

/// A password. It is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Password(Box<[u8]>);

impl Password {
    /// The bytes of a password.
    pub fn new(bytes: &[u8]) -> Password {
        Password(bytes.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// What a peer says to show who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its name (User-Name), at most 255 bytes.
    pub name: Box<[u8]>,
    /// What it knows.
    pub credential: Credential,
}

/// What a peer knows, as its method shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// PAP.
    Pap(Password),
    /// CHAP with MD5.
    ChapMd5 {
        /// Identifier of the challenge.
        id: u8,
        /// The challenge.
        challenge: Box<[u8]>,
        /// The hash.
        response: [u8; 16],
    },
    /// MS-CHAPv2.
    MsChapV2 {
        /// Identifier of the challenge.
        id: u8,
        /// The concentrator's challenge.
        challenge: [u8; 16],
        /// The peer's challenge.
        peer_challenge: [u8; 16],
        /// The hash (NT-Response).
        response: [u8; 24],
    },
}

/// The hash of CHAP (RFC 1994, section 4.1).
pub(crate) fn chap_md5(id: u8, password: &[u8], challenge: &[u8]) -> [u8; 16] {
    Md5::new().chain_update([id]).chain_update(password).chain_update(challenge).finalize().into()
}

/// Whether both are equal; the time that it takes does not depend on where they differ.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

impl Attempt {
    /// Checks a password; the message of the success, `None`: it is wrong.
    pub fn check(&self, password: &Password) -> Option<Vec<u8>> {
        let password = password.bytes();
        match &self.credential {
            Credential::Pap(found) => is_equal(found.bytes(), password).then(Vec::new),
            Credential::ChapMd5 { id, challenge, response } => {
                is_equal(&chap_md5(*id, password, challenge), response).then(Vec::new)
            }
            Credential::MsChapV2 { challenge, peer_challenge, response, .. } => {
                let login = mschap::Login { name: &self.name, challenge, peer_challenge };
                let hash = mschap::password_hash(password);
                is_equal(&login.response(&hash), response)
                    .then(|| login.authenticator_response(&hash, response).into_bytes())
            }
        }
    }
}

/// What becomes of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The peer is who it says.
    Accept {
        /// The text of PAP's Ack or CHAP's Success; MS-CHAPv2: `S=` and the authenticator response.
        message: Vec<u8>,
    },
    /// It is not.
    Reject {
        /// The text of PAP's Nak or CHAP's Failure; empty: one of the method.
        message: Vec<u8>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_read_as_they_are_written() {
        for method in [Method::Pap, Method::ChapMd5, Method::MsChapV2] {
            assert_eq!(Method::read(&method.value()), Some(method));
        }
        for other in [&[][..], &[0xc0], &[0xc2, 0x23], &[0xc2, 0x23, 0x80], &[0xc0, 0x23, 0], &[0xc2, 0x27]] {
            assert_eq!(Method::read(other), None, "{other:?}");
        }
    }

    #[test]
    fn passwords_are_checked_by_each_method() {
        let password = Password::new(b"secret");
        let name: Box<[u8]> = b"anna@isp".as_slice().into();
        let (challenge, peer_challenge) = ([1; 16], [2; 16]);
        let login = mschap::Login { name: &name, challenge: &challenge, peer_challenge: &peer_challenge };
        let response = login.response(&mschap::password_hash(b"secret"));
        let credentials = [
            Credential::Pap(password.clone()),
            Credential::ChapMd5 {
                id: 7,
                challenge: [1; 9].into(),
                response: chap_md5(7, b"secret", &[1; 9]),
            },
            Credential::MsChapV2 { id: 7, challenge, peer_challenge, response },
        ];
        for credential in credentials {
            let attempt = Attempt { name: name.clone(), credential };
            assert!(attempt.check(&password).is_some(), "{attempt:?}");
            assert_eq!(attempt.check(&Password::new(b"secreT")), None, "{attempt:?}");
            assert_eq!(attempt.check(&Password::new(b"")), None, "{attempt:?}");
            assert!(!format!("{attempt:?}").contains("secret"));
        }
    }
}
