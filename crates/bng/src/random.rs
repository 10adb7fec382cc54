//! Random bytes and keyed hashes of a secret key: pure, and not predictable without the key.
//!
//! ```text
//! n-th block = HMAC-SHA256(key, "random", n)
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;

use hmac::digest::{KeyInit, array::Array};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// HMAC-SHA256 of all parts, one behind the other.
pub(crate) fn mac_sha256(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // A key shorter than a block of the hash is filled with zeros (RFC 2104, section 2).
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut hash = Hmac::<Sha256>::new(&Array(block));
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into_bytes().into()
}

/// A source of random bytes.
#[derive(Clone)]
pub struct Random {
    key: [u8; 32],
    blocks: u64,
}

impl fmt::Debug for Random {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Random {
    /// Bytes of a secret key; the same key gives the same bytes.
    pub fn new(key: [u8; 32]) -> Random {
        Random { key, blocks: 0 }
    }

    /// 1 to 32 bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N > 0 && N <= 32) };
        self.blocks += 1;
        let block = mac_sha256(&self.key, &[b"random", &self.blocks.to_be_bytes()]);
        let mut bytes = [0; N];
        bytes.iter_mut().zip(block).for_each(|(to, from)| *to = from);
        bytes
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        u64::from_be_bytes(self.bytes()).checked_rem(end).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_sha256_agrees_with_rfc_4231() {
        // Test case 1 has a key of 20 bytes, which zeros make longer.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let found = mac_sha256(&key, &[b"Hi ", b"There"]);
        assert_eq!(found[..8], [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53]);
    }

    #[test]
    fn bytes_differ_and_follow_from_the_key() {
        let (mut one, mut other) = (Random::new([1; 32]), Random::new([1; 32]));
        let first = one.bytes::<16>();
        assert_eq!(first, other.bytes::<16>());
        assert_ne!(first, one.bytes::<16>());
        assert_eq!([one.below(0), one.below(1)], [0, 0]);
        assert!(!format!("{one:?}").contains("key"));
    }
}
