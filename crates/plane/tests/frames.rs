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

/// Tags of two lines of subscribers, and others.
const TAGS: &[&[[u8; 4]]] = &[
    &[[0x88, 0xa8, 0, 100], [0x81, 0, 0, 5]],
    &[[0x88, 0xa8, 0xa0, 100], [0x81, 0, 0xe0, 5]],
    &[[0x88, 0xa8, 0, 120], [0x81, 0, 0, 5]],
    &[],
    &[[0x81, 0, 0, 5]],
    &[[0x88, 0xa8, 0, 100], [0x81, 0, 0, 5], [0x81, 0, 0, 5]],
    &[[0x88, 0xa8, 0, 100], [0x88, 0xa8, 0, 5], [0x81, 0, 0x20, 0]],
    &[[0x81, 0, 0, 100], [0x81, 0, 0x0f, 0xff]],
];

/// A frame as a device of a subscriber sends it, or one that was made to confuse: with tags, in a PPPoE session or with a broken header of
/// one, with headers of IPv6 in front of the others; now and then cut to less than any header.
pub(crate) fn on_line(dice: &mut Dice, frame: &[u8]) -> Vec<u8> {
    let Some((ends, [a, b, packet @ ..])) = frame.split_at_checked(12) else { return frame.to_vec() };
    let usual = dice.roll(4) > 0;
    let tags = TAGS[if usual { dice.roll(4) } else { dice.roll(TAGS.len()) }].concat();
    let packet = if packet.first().is_some_and(|first| first >> 4 == 6) && dice.roll(4) == 0 {
        with_headers(dice, packet)
    } else {
        packet.to_vec()
    };
    let payload = if dice.roll(3) == 0 {
        [&[*a, *b], &packet[..]].concat()
    } else {
        in_session(dice, [*a, *b], &packet)
    };
    let mut frame = [ends, &tags, &payload].concat();
    match dice.roll(12) {
        0 => frame.truncate(40),
        1 => frame.truncate(14 + dice.roll(30)),
        2 => frame.resize(frame.len() + dice.roll(60), 0),
        _ => {}
    }
    frame
}

fn in_session(dice: &mut Dice, kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    let protocol = match (dice.roll(10), kind) {
        (0, _) => [dice.roll(256) as u8, dice.roll(256) as u8],
        (1, _) => [0xc0, 0x21],
        (_, [0x86, _]) => [0, 0x57],
        _ => [0, 0x21],
    };
    let session = [7, 7, 7, 8, 0, 0xffff][dice.roll(6)] as u16;
    let length = match dice.roll(10) {
        0 => [0, 1, 2, 3, 0xffff, 0x7fff][dice.roll(6)],
        1 => packet.len() as u16 + 2 - 1 - dice.roll(20) as u16 % (packet.len() as u16 + 1),
        _ => packet.len() as u16 + 2,
    };
    let code = if dice.roll(20) == 0 { dice.roll(256) as u8 } else { 0 };
    let [[s1, s2], [l1, l2]] = [session.to_be_bytes(), length.to_be_bytes()];
    [&[0x88, 0x64, 0x11, code, s1, s2, l1, l2], &protocol[..], packet].concat()
}

/// A chain of extension headers in front of what a packet of IPv6 carries, of a length that its header says.
fn with_headers(dice: &mut Dice, packet: &[u8]) -> Vec<u8> {
    const HEADERS: [u8; 5] = [0, 43, 44, 60, 51];
    if packet.len() < 40 {
        return packet.to_vec();
    }
    let (mut next, mut chain) = (packet[6], Vec::new());
    for _ in 0..1 + dice.roll(12) {
        let kind = HEADERS[dice.roll(HEADERS.len())];
        let mut header = match kind {
            // A fragment of any place, or a whole packet that says it is one.
            44 => [&[0, 0], &(dice.roll(3) as u16 * 8).to_be_bytes()[..], &[0, 0, 0, 9]].concat(),
            51 => vec![0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
            _ => vec![0, 0, 1, 4, 0, 0, 0, 0],
        };
        header[0] = next;
        next = kind;
        chain.splice(0..0, header);
    }
    let mut packet = [&packet[..40], &chain, &packet[40..]].concat();
    packet[6] = next;
    let length = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet
}
