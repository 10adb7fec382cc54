//! Requests for ports (RFC 6887) in scenarios, and what is answered.
//!
//! ```text
//! in   udp 198.18.0.5:4000 > 198.18.0.1:5351 pcp map want 80 for 600 nonce 7
//! home udp 198.18.0.1:5351 > 198.18.0.5:4000 pcp map result 0 for 600 granted $p
//! ```
//! Ports are those of UDP; PEER is about 198.19.0.9:53.

use std::net::IpAddr;

use weir_packet::headers::UDP;

/// Where requests are heard.
pub(super) const PORT: u16 = 5351;
const OPCODES: [&str; 3] = ["announce", "map", "peer"];
const ANSWER: u8 = 0x80;
const MAP_BYTES: usize = 60;

/// What a host asks for.
pub(super) struct Request<'a> {
    pub(super) opcode: &'a str,
    pub(super) host: IpAddr,
    pub(super) port: u16,
    pub(super) lifetime_s: u32,
    pub(super) nonce: u8,
}

impl Request<'_> {
    pub(super) fn bytes(&self) -> Result<Vec<u8>, String> {
        let opcode = OPCODES.iter().position(|name| *name == self.opcode);
        let opcode = opcode.ok_or_else(|| format!("`pcp {}` is none of announce, map, peer", self.opcode))?;
        let IpAddr::V4(host) = self.host else { return Err("pcp is for hosts with IPv4".into()) };
        let mut bytes = vec![2, opcode as u8, 0, 0];
        bytes.extend(self.lifetime_s.to_be_bytes());
        bytes.extend(host.to_ipv6_mapped().octets());
        if opcode > 0 {
            bytes.extend([self.nonce; 12]);
            bytes.extend([UDP, 0, 0, 0]);
            bytes.extend(self.port.to_be_bytes());
            bytes.resize(MAP_BYTES, 0);
        }
        if opcode == 2 {
            bytes.extend([0, 53, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 19, 0, 9]);
        }
        Ok(bytes)
    }
}

/// The fields of an answer; none if it is no answer.
pub(super) fn answer(payload: &[u8]) -> Vec<(&'static str, String)> {
    let &[2, opcode, _, result, a, b, c, d, ..] = payload else { return Vec::new() };
    let Some(name) = OPCODES.get(usize::from(opcode & !ANSWER)).filter(|_| opcode & ANSWER != 0) else {
        return Vec::new();
    };
    let lifetime_s = u32::from_be_bytes([a, b, c, d]);
    let mut fields =
        vec![("pcp", name.to_string()), ("result", result.to_string()), ("for", lifetime_s.to_string())];
    if let Some(granted) = payload.get(42..44).filter(|_| result == 0) {
        fields.push(("granted", u16::from_be_bytes([granted[0], granted[1]]).to_string()));
    }
    fields
}
