//! What a stack would have done is compared with what is done here.

#![expect(clippy::arithmetic_side_effects, reason = "a test's own lengths")]

use std::num::NonZeroU16;

use super::checksum::{Partial, finish, finish_if_partial};
use super::segment::Segments;
use super::virtio::{self, Kind, Large};
use super::{Transport, segment};
use crate::checksum::{fold, sum, write_ipv4};
use crate::fields;
use crate::headers::{SCTP, TCP, UDP};

const PARTS: [u8; 2] = [TCP, UDP];
/// Behind the addresses: nothing, one tag, two; hop-by-hop options where there is IPv6.
const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]];
const HOP_BY_HOP: [u8; 8] = [0, 0, 1, 4, 0, 0, 0, 0];

fn be16(bytes: &[u8], at: usize) -> u16 {
    fields::be16(bytes, at).expect("a frame that long")
}

/// A frame with the checksum that a stack leaves: the sum of the pseudo header.
fn partial(is_v4: bool, tags: &[u8], extension: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut transport = match protocol {
        TCP => [&[4, 0, 0, 80, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 9, 0x60, 0x99, 1, 0, 0, 0, 0, 0][..], &[1; 4]]
            .concat(),
        UDP => vec![4, 0, 0, 53, 0, 0, 0, 0],
        _ => vec![4, 0, 0, 53, 0, 0, 0, 9, 0, 0, 0, 0],
    };
    transport.extend(payload);
    let bytes = transport.len();
    if protocol == UDP {
        transport[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
    }
    let mut frame = [&[2; 6][..], &[4; 6], tags].concat();
    if is_v4 {
        frame.extend([8, 0, 0x46, 0]);
        frame.extend((24 + bytes as u16).to_be_bytes());
        frame.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 192, 0, 2, 1, 1, 1, 1, 0]);
        let at = frame.len() - 24;
        write_ipv4(&mut frame[at..]);
    } else {
        let options = if extension { &HOP_BY_HOP[..] } else { &[] };
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(((options.len() + bytes) as u16).to_be_bytes());
        frame.extend([if extension { 0 } else { protocol }, 64]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend(options);
        if extension {
            let at = frame.len() - 8;
            frame[at] = protocol;
        }
    }
    frame.extend(transport);
    if protocol != SCTP {
        let transport = Transport::of(&frame).unwrap();
        let field = transport.at + transport.checksum_at().unwrap();
        let pseudo = fold(transport.pseudo_header(&frame, bytes));
        frame[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    }
    frame
}

/// A frame with all that it needs, by the definition of the checksum.
fn whole(frame: &[u8]) -> Vec<u8> {
    let transport = Transport::of(frame).unwrap();
    let mut whole = frame.to_vec();
    let field = transport.at + transport.checksum_at().unwrap();
    whole[field..field + 2].fill(0);
    let pseudo = transport.pseudo_header(frame, transport.end - transport.at);
    let checksum = !fold(pseudo + sum(&whole[transport.at..transport.end]));
    let checksum = if checksum == 0 && transport.protocol == UDP { 0xffff } else { checksum };
    whole[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    whole
}

/// Each kind of frame, with its checksum partial.
fn kinds(payload: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![];
    for tags in TAGS {
        for protocol in PARTS {
            all.push(partial(true, tags, false, protocol, payload));
            all.push(partial(false, tags, false, protocol, payload));
            all.push(partial(false, tags, true, protocol, payload));
        }
    }
    all
}

#[test]
fn a_partial_checksum_is_finished_whether_it_is_said_or_seen() {
    for length in [0, 1, 2, 7, 1000] {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        for frame in kinds(&payload) {
            let expected = whole(&frame);
            assert_ne!(frame, expected);
            let transport = Transport::of(&frame).unwrap();
            let place = Partial { start: transport.at, offset: transport.checksum_at().unwrap() };
            let mut said = frame.clone();
            assert!(finish(&mut said, place));
            assert_eq!(said, expected);
            // A wire adds padding.
            let mut seen = [&frame[..], &[9; 3]].concat();
            finish_if_partial(&mut seen);
            assert_eq!(seen, [&expected[..], &[9; 3]].concat());
        }
    }
}

/// A packet of this protocol that carries `inner`.
fn tunnel(protocol: u8, headers: &[u8], inner: &[u8]) -> Vec<u8> {
    let carried = [headers, inner].concat();
    let mut ip = vec![0x45, 0];
    ip.extend((20 + carried.len() as u16).to_be_bytes());
    ip.extend([0, 9, 0x40, 0, 64, protocol, 0, 0, 203, 0, 113, 1, 203, 0, 113, 2]);
    write_ipv4(&mut ip);
    [&[2; 6][..], &[4; 6], &[8, 0], &ip, &carried].concat()
}

/// UDP for a port without a checksum, with another header behind it.
fn udp_to(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    let bytes = (8 + header.len() + inner.len()) as u16;
    let [[a, b], [c, d]] = [port, bytes].map(u16::to_be_bytes);
    [&[0xc0, 0, a, b, c, d, 0, 0][..], header].concat()
}

#[test]
fn a_partial_checksum_in_a_tunnel_is_finished() {
    const ETHERNET: usize = 14;
    for protocol in PARTS {
        for is_v4 in [true, false] {
            let inner = partial(is_v4, &[], false, protocol, b"payload");
            let finished = whole(&inner);
            let kind = if is_v4 { [8, 0] } else { [0x86, 0xdd] };
            let bare = if is_v4 { 4 } else { 41 };
            let vxlan = [8, 0, 0, 0, 0, 0, 7, 0];
            let geneve = [1, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 1, 2, 0];
            for (name, number, headers, from) in [
                ("VXLAN", UDP, udp_to(4789, &vxlan, &inner), 0),
                ("Geneve", UDP, udp_to(6081, &geneve, &inner), 0),
                ("GRE", 47, [&[0, 0][..], &kind].concat(), ETHERNET),
                ("GRE with a key", 47, [&[0x20, 0][..], &kind, &[0, 0, 0, 7]].concat(), ETHERNET),
                ("GRE of Ethernet", 47, vec![0, 0, 0x65, 0x58], 0),
                ("IP in IP", bare, vec![], ETHERNET),
            ] {
                let mut frame = tunnel(number, &headers, &inner[from..]);
                let expected = tunnel(number, &headers, &finished[from..]);
                finish_if_partial(&mut frame);
                assert_eq!(frame, expected, "{name}, {protocol}, of IPv4: {is_v4}");
                finish_if_partial(&mut frame);
                assert_eq!(frame, expected, "{name}: it is finished already");
            }
        }
    }
    // Of another port it is a payload like any.
    let inner = partial(true, &[], false, TCP, b"payload");
    let frame = tunnel(UDP, &udp_to(4788, &[8, 0, 0, 0, 0, 0, 7, 0], &inner), &inner);
    let mut same = frame.clone();
    finish_if_partial(&mut same);
    assert_eq!(same, frame);
}

#[test]
fn a_frame_with_its_checksum_is_never_changed() {
    let mut like_partial = 0;
    for n in 0..=u16::MAX {
        for (is_v4, protocol) in [(true, TCP), (true, UDP), (false, UDP)] {
            let open = partial(is_v4, &[], false, protocol, &n.to_be_bytes());
            let mut frame = whole(&open);
            like_partial += u32::from(frame == open);
            let before = frame.clone();
            finish_if_partial(&mut frame);
            assert_eq!(frame, before);
        }
    }
    assert!(like_partial >= 3, "{like_partial} frames whose checksum is that of the pseudo header");
}

#[test]
fn what_is_not_partial_is_left_alone() {
    let open = partial(true, &[], false, UDP, &[1, 2, 3]);
    let pseudo = |frame: &[u8]| be16(frame, 14 + 24 + 6);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = open.clone();
        change(&mut frame);
        let before = frame.clone();
        finish_if_partial(&mut frame);
        assert_eq!(frame, before);
    };
    // Fragments, the first one and a later one: the checksum is that of all together.
    changed(&|frame| frame[20] |= 0x20);
    changed(&|frame| frame[21] = 9);
    // UDP without a checksum; a wrong one, which is not ours to mend.
    changed(&|frame| frame[44..46].fill(0));
    changed(&|frame| {
        let wrong = pseudo(frame) ^ 0x0100;
        frame[44..46].copy_from_slice(&wrong.to_be_bytes());
    });
    // Another protocol, an IP header that is too short, a length beyond the end.
    changed(&|frame| frame[23] = 47);
    changed(&|frame| frame[14] = 0x44);
    changed(&|frame| frame[16] = 0x7f);
    // A fragment of IPv6.
    let mut v6 = partial(false, &[], true, UDP, &[1, 2, 3]);
    v6[20] = 44;
    let before = v6.clone();
    finish_if_partial(&mut v6);
    assert_eq!(v6, before);
}

#[test]
fn sctp_has_a_crc() {
    // The check value of CRC-32C.
    let mut packet = [0; 12];
    assert!(finish(&mut packet, Partial { start: 0, offset: 8 }));
    let mut seen = partial(true, &[], false, SCTP, b"123456789");
    finish_if_partial(&mut seen);
    assert_eq!(super::checksum::crc32c(b"123456789"), 0xe306_9283);
    let mut zeroed = seen[38..].to_vec();
    zeroed[8..12].fill(0);
    assert_eq!(seen[46..50], super::checksum::crc32c(&zeroed).to_le_bytes());
    let before = seen.clone();
    finish_if_partial(&mut seen);
    assert_eq!(seen, before);
}

#[test]
fn places_outside_of_a_frame_are_refused() {
    let frame = partial(true, &[], false, TCP, &[0; 30]);
    for (start, offset, fits) in [
        (38, 16, true),
        (frame.len() - 2, 0, true),
        (frame.len() - 1, 0, false),
        (frame.len(), 0, false),
        (frame.len() + 1, 0, false),
        (0xffff, 16, false),
        (38, 0xffff, false),
        (usize::MAX, usize::MAX, false),
        (38, usize::MAX, false),
        (frame.len() - 11, 8, false),
    ] {
        let mut changed = frame.clone();
        assert_eq!(finish(&mut changed, Partial { start, offset }), fits, "{start} {offset}");
        assert!(fits || changed == frame, "{start} {offset}");
    }
}

fn cut(frame: &[u8], kind: Kind, payload: u16) -> Option<Vec<Vec<u8>>> {
    let payload = NonZeroU16::new(payload).unwrap();
    let mut segments = Segments::of(frame, Large { kind, payload })?;
    let mut all = vec![];
    while let Some(bytes) = segments.next_bytes() {
        let mut segment = vec![0xee; bytes];
        assert!(segments.write_next(frame, &mut segment));
        all.push(segment);
    }
    Some(all)
}

#[test]
fn segments_are_what_a_stack_would_have_sent_one_by_one() {
    for length in [1, 999, 1000, 1001, 2000, 3500_u16] {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        for frame in kinds(&payload) {
            let transport = Transport::of(&frame).unwrap();
            let (kind, header) = match transport.protocol {
                TCP => (Kind::Tcp, 24),
                _ => (Kind::Udp, 8),
            };
            let segments = cut(&frame, kind, 1000).unwrap();
            assert_eq!(segments.len(), usize::from(length).div_ceil(1000));
            let mut came: Vec<u8> = vec![];
            for (n, segment) in segments.iter().enumerate() {
                let own = Transport::of(segment).unwrap();
                assert_eq!((own.at, own.end), (transport.at, segment.len()), "lengths of IP");
                assert_eq!(*segment, whole(segment), "the checksum of segment {n}");
                let is_last = n + 1 == segments.len();
                if transport.is_v4 {
                    assert_eq!(fold(sum(&segment[own.ip..own.at])), 0xffff, "the checksum of IP");
                    assert_eq!(
                        be16(segment, own.ip + 4),
                        0xfffe_u16.wrapping_add(n as u16),
                        "numbers of packets"
                    );
                }
                if kind == Kind::Tcp {
                    let seq = u32::from_be_bytes(segment[own.at + 4..own.at + 8].try_into().unwrap());
                    assert_eq!(seq, 0xffff_fe00_u32.wrapping_add(n as u32 * 1000), "sequence numbers");
                    // Of CWR, ACK, PSH, FIN.
                    let flags = 0x10 | if n == 0 { 0x80 } else { 0 } | if is_last { 9 } else { 0 };
                    assert_eq!(segment[own.at + 13], flags, "flags of segment {n}");
                } else {
                    assert_eq!(usize::from(be16(segment, own.at + 4)), own.end - own.at, "length of UDP");
                }
                came.extend(&segment[own.at + header..]);
            }
            assert_eq!(came, payload);
        }
    }
}

#[test]
fn a_datagram_without_a_checksum_is_cut_into_some_without() {
    let mut frame = partial(true, &[], false, UDP, &[5; 100]);
    frame[44..46].fill(0);
    let segments = cut(&frame, Kind::Udp, 60).unwrap();
    assert_eq!(segments.iter().map(|one| be16(one, 44)).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn what_is_not_what_it_is_said_to_be_is_not_cut() {
    let (tcp, udp) = (partial(true, &[], false, TCP, &[7; 99]), partial(false, &[], false, UDP, &[7; 99]));
    assert!(cut(&tcp, Kind::Udp, 10).is_none() && cut(&udp, Kind::Tcp, 10).is_none());
    let changed = |at: usize, value: u8| {
        let mut frame = tcp.clone();
        frame[at] = value;
        cut(&frame, Kind::Tcp, 10).is_none()
    };
    // A fragment; headers shorter than they can be; a tunnel; headers beyond the end.
    assert!(changed(20, 0x20) && changed(50, 0x40) && changed(23, 47));
    let mut short = partial(true, &[], false, TCP, &[7; 9]);
    short[50] = 0xf0;
    assert!(cut(&short, Kind::Tcp, 10).is_none());
    // No payload: one segment.
    assert_eq!(cut(&partial(true, &[], false, TCP, &[]), Kind::Tcp, 10).unwrap().len(), 1);
    // Longer segments than there are bytes.
    assert_eq!(cut(&tcp, Kind::Tcp, 0xffff).unwrap(), [whole(&tcp)]);
}

#[test]
fn no_frame_stands_for_more_segments_than_a_stack_makes() {
    for (bytes, size, expected) in [
        (segment::MOST * 2, 2, Some(segment::MOST)),
        (segment::MOST * 2 + 1, 2, None),
        (20_000, 1, None),
        (65_000, 8, Some(8125)),
        // What UDP may send in pieces of one byte.
        (128, 1, Some(128)),
    ] {
        for (kind, protocol) in [(Kind::Tcp, TCP), (Kind::Udp, UDP)] {
            let frame = partial(true, &[], false, protocol, &vec![7; bytes]);
            let segments = cut(&frame, kind, size);
            assert_eq!(segments.map(|all| all.len()), expected, "{bytes} bytes in pieces of {size}");
        }
    }
}

#[test]
fn a_segment_is_written_only_where_it_fits() {
    let frame = partial(true, &[], false, TCP, &[7; 50]);
    let large = Large { kind: Kind::Tcp, payload: NonZeroU16::new(20).unwrap() };
    let mut segments = Segments::of(&frame, large).unwrap();
    let bytes = segments.next_bytes().unwrap();
    for wrong in [0, 13, bytes - 1, bytes + 1] {
        assert!(!segments.write_next(&frame, &mut vec![0; wrong]), "{wrong} bytes");
    }
    for cut in 0..frame.len() - 30 {
        assert!(!segments.write_next(&frame[..cut], &mut vec![0; bytes]), "a frame of {cut} bytes");
    }
    assert!(segments.write_next(&frame, &mut vec![0; bytes]));
}

/// What a sender says of a frame, each field ordinary, at a limit or beyond it, with headers that say as much: nothing
/// panics, and nothing is written but the frame and its segments.
#[test]
fn no_offload_that_is_said_of_a_frame_panics() {
    let sizes = [0, 1, 2, 8, 16, 1448, 0x7fff, 0xffff_u16];
    for whole in kinds(&[3; 40]) {
        let at = Transport::of(&whole).unwrap();
        let lengths = [0, 1, 19, 20, 39, 40, 41, 60, whole.len() as u16, 0x7fff, 0xffff];
        let places = [at.ip + if at.is_v4 { 2 } else { 4 }, at.at + 4];
        for (place, length) in places.iter().flat_map(|place| lengths.map(|length| (*place, length))) {
            let mut frame = whole.clone();
            frame[place..place + 2].copy_from_slice(&length.to_be_bytes());
            for (flags, kind) in [(0, 0), (1, 0), (1, 1), (1, 4), (0, 0x81), (1, 5), (1, 3), (0xff, 0xff)] {
                for size in sizes {
                    let mut header = [flags, kind, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
                    header[4..6].copy_from_slice(&size.to_ne_bytes());
                    for start in [0, 14, at.at as u16, whole.len() as u16 - 1, 0xffff] {
                        header[6..8].copy_from_slice(&start.to_ne_bytes());
                        for offset in [0_u16, 6, 8, 16, 0xfffe, 0xffff] {
                            header[8..].copy_from_slice(&offset.to_ne_bytes());
                            let Some(offloads) = virtio::read(&header) else { continue };
                            if let Some(partial) = offloads.partial {
                                finish(&mut frame.clone(), partial);
                            }
                        }
                    }
                    let large = virtio::read(&header).and_then(|offloads| offloads.large);
                    if let Some(Large { kind, payload }) = large {
                        let segments = cut(&frame, kind, payload.get()).unwrap_or_default();
                        let most = segments.iter().map(Vec::len).max().unwrap_or_default();
                        assert!(most <= frame.len(), "{most} of {} bytes", frame.len());
                    }
                }
            }
        }
    }
}

/// No length, no bit that is turned, has anything panic or write beyond a segment.
#[test]
fn no_frame_panics() {
    for frame in kinds(&[3; 40]) {
        let all = |frame: &[u8]| {
            finish_if_partial(&mut frame.to_vec());
            for kind in [Kind::Tcp, Kind::Udp] {
                let _ = cut(frame, kind, 16);
            }
        };
        for end in 0..frame.len() {
            all(&frame[..end]);
            for bit in 0..8 {
                let mut bad = frame.clone();
                bad[end] ^= 1 << bit;
                all(&bad);
            }
        }
    }
}
