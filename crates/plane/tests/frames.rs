//! Hostile frames: cut, bent and random ones, fragments that do not fit together.

use std::sync::LazyLock;

use weir_plane::scenario::packet;
use weir_testkit::Dice;

/// What the frames are made of.
const LINES: &[&str] = &[
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 100",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 101 nosum options 3",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 1472 id 5",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 1472 df",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 24 whole 48 frag 0+ id 9",
    "udp 198.18.0.2 > 198.19.0.9 len 24 whole 48 frag 32 id 9",
    "udp 198.18.0.2:1111 > 192.0.2.1:53",
    "tcp 198.18.0.2:1000 > 198.19.0.9:80 S seq 1 mss 1460",
    "tcp 198.18.0.2:1000 > 198.19.0.9:80 A seq 2 ack 7 len 33",
    "tcp 198.18.0.2:1000 > 198.19.0.9:80 R seq 2",
    "icmp echo 198.18.0.2 > 198.19.0.9 id 7",
    "icmp echo 198.18.0.2 > 198.18.0.1 id 7 ttl 1",
    "icmp unreachable/4 198.18.0.2 > 198.19.0.9 mtu 1400 {udp 198.19.0.9:53 > 198.18.0.2:1111}",
    "udp 198.19.0.9:53 > 192.0.2.1:1040 len 9",
    "tcp 198.19.0.9:80 > 192.0.2.1:1041 SA seq 1 ack 2",
    "tcp 198.19.0.9:5 > 192.0.2.1:80 S",
    "udp 198.19.0.9 > 192.0.2.1 len 24 whole 72 frag 32+ id 9",
    "icmp exceeded 198.19.0.7 > 192.0.2.1 {tcp 192.0.2.1:1000 > 198.19.0.9:80 S}",
    "udp [2001:db8:1::2]:1111 > [2001:db8:2::9]:53 len 100",
    "udp [2001:db8:1::2]:1111 > [2001:db8:2::9]:53 len 24 whole 48 frag 0+ id 9",
    "tcp [2001:db8:1::2]:1000 > [2001:db8:2::9]:80 S",
    "icmp echo 2001:db8:1::2 > 2001:db8:2::9 id 7",
    "icmp toobig 2001:db8:1::2 > 2001:db8:2::9 mtu 1300 {udp [2001:db8:2::9]:53 > [2001:db8:1::2]:1111}",
    "icmp unreachable/4 2001:db8:1::2 > 2001:db8:2::9 {udp [2001:db8:2::9]:53 > [2001:db8:1::2]:1111}",
    "icmp unreachable/4 198.19.0.7 > 192.0.2.1 mtu 1300 {udp 192.0.2.1:1040 > 0.0.0.9:53}",
    "udp 198.19.0.9:53 > 192.0.2.1:1041 len 24 whole 72 frag 0+ id 9",
    "udp [2001:db8:1::2]:1111 > [2001:db8:2::c000:201]:1041 len 5",
    "icmp echo 2001:db8:1::2 > 2001:db8:2::c613:9 id 8 len 24 whole 47 frag 0+",
    "icmp echo 2001:db8:1::2 > 2001:db8:2::c613:9 id 8 len 23 whole 47 frag 32",
    "icmp reply 198.19.0.9 > 192.0.2.1 id 1041 len 1432 whole 1440 frag 0+",
    "icmp reply 198.19.0.9 > 192.0.2.1 id 1041 len 8 whole 1440 frag 1440",
    "udp 198.19.0.9:53 > 192.0.2.1:1041 len 24 whole 64 frag 0+ id 9 nosum",
    "udp 198.19.0.9 > 192.0.2.1 len 16 whole 64 frag 24+ id 9",
    "proto/47 198.18.0.2 > 198.19.0.9",
    "proto/50 198.18.0.2 > 198.19.0.9 len 3",
];

/// Their packets: reading a line takes longer than a node has for its packet.
static PACKETS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| LINES.iter().map(|line| packet(line).expect("a packet")).collect());

/// An IP packet as it is or bent, with what an Ethernet header says of it, behind `addresses`.
pub(crate) fn frame(dice: &mut Dice, addresses: [u8; 12]) -> Vec<u8> {
    let packet = &PACKETS[dice.roll(PACKETS.len())];
    let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let mut frame = [&addresses[..], &kind, packet].concat();
    for _ in 0..dice.roll(4) {
        if frame.len() < 44 {
            break;
        }
        let at = dice.roll(frame.len());
        match dice.roll(5) {
            0 => frame.truncate(at),
            1 => frame[at] ^= 1 << dice.roll(8_u32),
            2 => frame[at] = dice.roll(256) as u8,
            3 => frame.insert(at, dice.roll(256) as u8),
            _ => frame[12 + at % 30] = dice.roll(256) as u8,
        }
    }
    if dice.roll(20) == 0 {
        frame = (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect();
    }
    frame
}
