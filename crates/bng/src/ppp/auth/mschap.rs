//! MS-CHAPv2 (RFC 2759, section 8).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use des::Des;
use des::cipher::{Block, BlockCipherEncrypt, KeyInit};
use md4::Md4;
use sha1::{Digest, Sha1};

const SIGNING: &[u8] = b"Magic server to client signing constant";
const ITERATION: &[u8] = b"Pad to make it do more than one iteration";

/// Hash of a password (NtPasswordHash).
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash([u8; 16]);

/// What both sides say before the password matters.
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// The name that the peer gives, with or without a domain before `\`.
    pub name: &'a [u8],
    /// The concentrator's challenge.
    pub challenge: &'a [u8; 16],
    /// The peer's challenge.
    pub peer_challenge: &'a [u8; 16],
}

/// The hash of a password: MD4 of its UTF-16 form.
pub fn password_hash(password: &[u8]) -> PasswordHash {
    let text = String::from_utf8_lossy(password);
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    PasswordHash(Md4::digest(&bytes).into())
}

/// Encrypts a block with 56 bits of a key, each seven followed by an ignored one.
fn des(key: &[u8; 7], block: &[u8; 8]) -> [u8; 8] {
    let [a, b, c, d, e, f, g] = key.map(u64::from);
    let bits = a << 48 | b << 40 | c << 32 | d << 24 | e << 16 | f << 8 | g;
    let mut wide = [0; 8];
    for (place, byte) in wide.iter_mut().enumerate() {
        *byte = ((bits >> (49 - 7 * place)) as u8) << 1;
    }
    let mut block: Block<Des> = (*block).into();
    Des::new(&wide.into()).encrypt_block(&mut block);
    block.into()
}

impl Login<'_> {
    /// ChallengeHash.
    fn challenge_hash(&self) -> [u8; 8] {
        let name = self.name.iter().rposition(|byte| *byte == b'\\');
        let name = name.and_then(|at| self.name.get(at + 1..)).unwrap_or(self.name);
        let hash: [u8; 20] = Sha1::new()
            .chain_update(self.peer_challenge)
            .chain_update(self.challenge)
            .chain_update(name)
            .finalize()
            .into();
        hash.first_chunk().copied().unwrap_or_default()
    }

    /// What a peer with this password answers (GenerateNTResponse).
    pub fn response(&self, hash: &PasswordHash) -> [u8; 24] {
        let challenge = self.challenge_hash();
        let mut padded = [0; 21];
        padded.iter_mut().zip(hash.0).for_each(|(to, from)| *to = from);
        let mut response = [0; 24];
        let (keys, _) = padded.as_chunks::<7>();
        let (blocks, _) = response.as_chunks_mut::<8>();
        blocks.iter_mut().zip(keys).for_each(|(block, key)| *block = des(key, &challenge));
        response
    }

    /// What shows the peer that the concentrator knows the password: `S=` and 40 digits (GenerateAuthenticatorResponse).
    pub fn authenticator_response(&self, hash: &PasswordHash, response: &[u8; 24]) -> String {
        let hash_hash = Md4::digest(hash.0);
        let digest =
            Sha1::new().chain_update(hash_hash).chain_update(response).chain_update(SIGNING).finalize();
        let digest = Sha1::new()
            .chain_update(digest)
            .chain_update(self.challenge_hash())
            .chain_update(ITERATION)
            .finalize();
        let digits: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("S={digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    fn bytes<const N: usize>(digits: &str) -> [u8; N] {
        hex::bytes(&format!("0x{digits}")).unwrap().try_into().unwrap()
    }

    #[test]
    fn the_example_of_rfc_2759_section_9_2() {
        let challenge = bytes("5B5D7C7D7B3F2F3E3C2C602132262628");
        let peer_challenge = bytes("21402324255E262A28295F2B3A337C7E");
        let login = Login { name: b"User", challenge: &challenge, peer_challenge: &peer_challenge };
        let hash = password_hash(b"clientPass");
        assert_eq!(hash.0, bytes("44EBBA8D5312B8D611474411F56989AE"));
        assert_eq!(login.challenge_hash(), bytes("D02E4386BCE91226"));
        let response = login.response(&hash);
        assert_eq!(response, bytes("82309ECD8D708B5EA08FAA3981CD83544233114A3D85D6DF"));
        let shown = login.authenticator_response(&hash, &response);
        assert_eq!(shown, "S=407A5589115FD0D6209F510FE9C04566932CDA56");
        assert_eq!(Login { name: b"ISP\\User", ..login }.response(&hash), response, "without the domain");
    }
}
