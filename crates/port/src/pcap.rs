//! Capture files of the older format, pcap: little endian, time stamps in ns. No interfaces, drops or statistics; every tool
//! reads it. See draft-ietf-opsawg-pcap.
//!
//! ```text
//! file header: magic, version 2.4, snap length, link type | packet: seconds, ns, captured, original length, bytes | ...
//! ```

/// Says that times are in ns.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Bytes before those of each packet.
const PACKET_OVERHEAD: usize = 16;

/// At most how many bytes a packet takes of which `captured` are kept.
pub const fn packet_bytes(captured: usize) -> usize {
    PACKET_OVERHEAD + captured
}

/// Begins a file of frames of which at most `snap` bytes are kept.
pub fn header(to: &mut Vec<u8>, snap: u32, link_type: u16) {
    to.extend(MAGIC_NS.to_le_bytes());
    VERSION.iter().for_each(|part| to.extend(part.to_le_bytes()));
    // Time zone and accuracy: always 0.
    to.extend([0; 8]);
    to.extend(snap.to_le_bytes());
    to.extend(u32::from(link_type).to_le_bytes());
}

/// A packet that arrived `at_ns` after 1970.
#[inline]
pub fn packet(to: &mut Vec<u8>, at_ns: u64, wire_len: u32, bytes: &[u8]) {
    const SECOND: u64 = 1_000_000_000;
    let words = [(at_ns / SECOND) as u32, (at_ns % SECOND) as u32, bytes.len() as u32, wire_len];
    words.iter().for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcapng::ETHERNET;
    use crate::pcapng::read::{Item, Reader};

    #[test]
    fn what_is_written_can_be_read() {
        let mut file = Vec::new();
        header(&mut file, 96, ETHERNET);
        for (at_ns, wire_len, bytes) in
            [(1_700_000_000_123_456_789, 60, &[7; 60][..]), (u64::from(u32::MAX), 1514, &[8; 96])]
        {
            let before = file.len();
            packet(&mut file, at_ns, wire_len, bytes);
            assert_eq!(file.len() - before, packet_bytes(bytes.len()));
        }
        let mut reader = Reader::open(&file[..]).expect("a capture file");
        let mut packets = Vec::new();
        while let Some(item) = reader.next_item().expect("whole") {
            if let Item::Packet(packet) = item {
                packets.push((packet.at_ns, packet.wire_len, packet.bytes.to_vec()));
            }
        }
        assert_eq!(packets[0], (1_700_000_000_123_456_789, 60, vec![7; 60]));
        assert_eq!(packets[1], (u64::from(u32::MAX), 1514, vec![8; 96]));
    }
}
