//! The MRU of a PPPoE session: what TCP is told, and packets that are longer.

use weir_packet::checksum::{fold, pseudo_header, sum};
use weir_plane::{DropReason, Leave, PortId, SubscriberEntry, Verdict};

use crate::sessions::{ANNA, BEN, Line, Node, WAN, dropped, ip};

/// The sum of the transport of a packet, with its pseudo header; 0xffff if the checksum is right.
fn transport_sum(packet: &[u8]) -> u16 {
    let (addresses, l4) =
        if packet[0] >> 4 == 4 { (&packet[12..20], &packet[20..]) } else { (&packet[8..40], &packet[40..]) };
    fold(pseudo_header(addresses, 6, l4.len()) + sum(l4))
}

/// A SYN with options of which this is the MSS.
fn syn(from: &str, to: &str, mss: u16) -> Vec<u8> {
    let mut packet = ip(&format!("tcp {from}:1 > {to}:80 S"));
    let v4 = packet[0] >> 4 == 4;
    let l4_at = if v4 { 20 } else { 40 };
    packet.truncate(l4_at + 20);
    packet[l4_at + 12] = 7 << 4;
    packet.extend([1, 2, 4]);
    packet.extend(mss.to_be_bytes());
    packet.extend([1, 1, 0]);
    packet[l4_at + 16..l4_at + 18].fill(0);
    if v4 {
        packet[2..4].copy_from_slice(&48_u16.to_be_bytes());
        packet[10..12].fill(0);
        let checksum = !fold(sum(&packet[..20]));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&28_u16.to_be_bytes());
    }
    let checksum = !transport_sum(&packet);
    packet[l4_at + 16..l4_at + 18].copy_from_slice(&checksum.to_be_bytes());
    packet
}

#[test]
fn tcp_is_told_the_mru_in_both_directions() {
    let mut node = Node::new();
    for (line, mru, expected) in [
        (ANNA, None, 1492),
        (ANNA, Some(1500), 1500),
        (ANNA, Some(576), 576),
        (Line(0, [0, 0], 1, 0), Some(1400), 1400),
        (Line(0, [0, 0], 1, 0), None, 65_535),
    ] {
        node.add(SubscriberEntry { mru, ..line.entry(1, &["100.64.0.2/32", "2001:db8:100:1::/64"]) });
        for (host, far, headers) in
            [("100.64.0.2", "198.51.100.9", 40), ("[2001:db8:100:1::5]", "[2001:db8:9::9]", 60)]
        {
            for asked in [400, 1460, 8960] {
                let behind = |bytes: &[u8]| bytes[bytes.len() - 5..bytes.len() - 3].to_vec();
                let (verdict, up) = node.up(line, &syn(host, far, asked));
                assert_eq!(verdict, Verdict::Out(PortId(WAN)));
                let (verdict, down) = node.inward(&syn(far, host, asked));
                assert_eq!(verdict, Verdict::Out(PortId(0)));
                for bytes in [&up, &down] {
                    let mss = asked.min(expected - headers);
                    assert_eq!(behind(bytes), mss.to_be_bytes(), "{mru:?} {host} {asked}");
                    let packet =
                        if headers == 40 { &bytes[bytes.len() - 48..] } else { &bytes[bytes.len() - 68..] };
                    assert_eq!(transport_sum(packet), 0xffff, "{mru:?} {host} {asked}");
                }
            }
        }
    }
}

/// What is longer than the MRU is cut, or its sender is told how long it may be.
#[test]
fn long_packets_are_cut_or_their_senders_told_the_mru() {
    let mut node = Node::with_two();
    for mru in [None, Some(1000)] {
        let most = usize::from(mru.unwrap_or(1492));
        node.add(SubscriberEntry { mru, ..BEN.entry(2, &["100.64.0.3/32", "2001:db8:100:2::/64"]) });
        let of = |bytes: usize, more: &str| {
            ip(&format!("udp 198.51.100.9:53 > 100.64.0.3:1 len {} {more}", bytes - 28))
        };
        let (verdict, bytes) = node.inward(&of(most, "df"));
        assert_eq!((verdict, bytes.len()), (Verdict::Out(PortId(1)), 22 + 8 + most));
        assert_eq!(node.inward(&of(most + 1, "df")).0, dropped(DropReason::TooBig));
        let error = node.departures().pop().expect("an error");
        assert_eq!(error.to, Leave::Port(PortId(WAN)));
        assert_eq!(error.bytes[26..36], [198, 18, 0, 1, 198, 51, 100, 9, 3, 4], "from the node");
        assert_eq!(error.bytes[40..42], (most as u16).to_be_bytes());
        let long = ip(&format!("udp [2001:db8:9::9]:53 > [2001:db8:100:2::5]:1 len {}", most + 1 - 48));
        assert_eq!(node.inward(&long).0, dropped(DropReason::TooBig));
        let error = node.departures().pop().expect("an error");
        assert_eq!(error.bytes[22..38], [0x20, 1, 0xd, 0xb8, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(
            (error.bytes[54], &error.bytes[58..62]),
            (2, &[&[0, 0][..], &(most as u16).to_be_bytes()].concat()[..])
        );
        // Each fragment has the header of the session, with its own length.
        let (verdict, first) = node.inward(&of(most + 9, ""));
        assert_eq!(verdict, Verdict::Out(PortId(1)));
        let later = node.departures().pop().expect("the rest").bytes;
        for part in [&first, &later] {
            let header = BEN.frame(BEN.mac(), BEN.own(), &[0x88, 0x64, 0x11, 0, 0xff, 0xfe]);
            assert_eq!(part[..header.len()], header[..]);
            let length = u16::from_be_bytes([part[header.len()], part[header.len() + 1]]);
            assert_eq!(usize::from(length), part.len() - header.len() - 2);
            assert_eq!(part[header.len() + 2..][..2], [0, 0x21]);
            assert!(usize::from(length) - 2 <= most);
        }
        assert_eq!(first.len() + later.len() - 2 * 30, most + 9 + 20);
    }
    // An error about a packet of the session goes back in it.
    assert_eq!(
        node.up(BEN, &ip("udp 100.64.0.3:1 > 198.51.100.9:53 ttl 1")).0,
        dropped(DropReason::TtlExpired)
    );
    let error = node.departures().pop().expect("an error");
    let header = BEN.frame(BEN.mac(), BEN.own(), &[0x88, 0x64, 0x11, 0, 0xff, 0xfe]);
    assert_eq!((error.to, &error.bytes[..header.len()]), (Leave::Port(PortId(1)), &header[..]));
    assert_eq!(error.bytes[30..32], [0x45, 0xc0]);
}
