//! Packets of the schedules, and what is read of those that left.

use weir_packet::checksum::{fold, sum, write_ipv4};

pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;
pub(crate) const FIN: u8 = 1;
pub(crate) const RST: u8 = 4;
pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;
pub(crate) const ICMP: u8 = 1;

/// Address and port.
pub(crate) type End = (u32, u16);

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) proto: u8,
    pub(crate) src: End,
    pub(crate) dst: End,
    pub(crate) flags: u8,
    pub(crate) data: usize,
    pub(crate) nosum: bool,
}

impl Packet {
    /// The frame.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let port = |port: u16| port.to_be_bytes();
        let ([a, b], [c, d]) = (port(self.src.1), port(self.dst.1));
        let mut l4 = match self.proto {
            UDP => {
                let [x, y] = ((8 + self.data) as u16).to_be_bytes();
                vec![a, b, c, d, x, y, 0, 0]
            }
            TCP => {
                let seq = u8::from(self.flags & SYN == 0);
                vec![a, b, c, d, 0, 0, 0, seq, 0, 0, 0, 1, 0x50, self.flags, 0x10, 0, 0, 0, 0, 0]
            }
            // A query of the inside, an answer of the outside.
            _ if self.src.0 >> 24 == 10 => vec![8, 0, 0, 0, a, b, 0, 1],
            _ => vec![0, 0, 0, 0, c, d, 0, 1],
        };
        l4.extend((0..self.data).map(|n| n as u8));
        let addresses = [self.src.0.to_be_bytes(), self.dst.0.to_be_bytes()].concat();
        let pseudo = sum(&addresses) + l4.len() as u64 + u64::from(self.proto);
        match self.proto {
            UDP if self.nosum => {}
            UDP => {
                let checksum = !fold(pseudo + sum(&l4));
                l4[6..8].copy_from_slice(&if checksum == 0 { 0xffff } else { checksum }.to_be_bytes());
            }
            TCP => {
                let checksum = !fold(pseudo + sum(&l4));
                l4[16..18].copy_from_slice(&checksum.to_be_bytes());
            }
            _ => {
                let checksum = !fold(sum(&l4));
                l4[2..4].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        let [x, y] = ((20 + l4.len()) as u16).to_be_bytes();
        let mut ip = vec![0x45, 0, x, y, 0, 7, 0x40, 0, 64, self.proto, 0, 0];
        ip.extend(&addresses);
        write_ipv4(&mut ip);
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &l4].concat()
    }
}

/// The ends of a frame; all of its checksums are right.
pub(crate) fn ends(bytes: &[u8]) -> (End, End) {
    let ip = &bytes[14..];
    assert_eq!(fold(sum(&ip[..20])), 0xffff, "checksum of the header");
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let address = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let l4 = &ip[20..];
    let pseudo = sum(&ip[12..20]) + l4.len() as u64 + u64::from(ip[9]);
    match ip[9] {
        ICMP => assert_eq!(fold(sum(l4)), 0xffff, "checksum of ICMP"),
        UDP if word(26) == 0 => {}
        _ => assert_eq!(fold(pseudo + sum(l4)), 0xffff, "checksum of the transport"),
    }
    let (sport, dport) = if ip[9] == ICMP { (word(24), word(24)) } else { (word(20), word(22)) };
    ((address(12), sport), (address(16), dport))
}
