//! The fast path finds the entry of each flow, and its cost can be measured: all of its frames are passed on.

use weir_packet::checksum::{fold, pseudo_header, write_ipv4};
use weir_port::fast::bench::nat;
use weir_port::fast::{
    Entry, FRAME, Fast, Gate, IS_ENDLESS, IS_FOLLOWED, IS_ROUTED, Key, Sides, Track, Wide,
};

#[test]
fn each_frame_of_many_flows_is_passed_on() {
    weir_testkit::need_root!();
    let costs = nat(10_000, 200_000, 5).expect("all frames are passed on");
    println!("{costs:?}");
    assert_eq!(costs.len(), 5);
}

#[test]
fn a_full_table_has_each_key_once() {
    weir_testkit::need_root!();
    const ROOM: u32 = 5000;
    let fast = Fast::new(ROOM).expect("a program");
    let key = |n: u32| Key {
        src: n.wrapping_mul(0x9e37_79b9),
        dst: n,
        sport: n as u16,
        protocol: 17,
        ..Key::default()
    };
    let (entry, sides) = (Entry::default(), Sides::default());
    (0..ROOM).for_each(|n| assert!(fast.insert(&key(n), n, &entry, &sides, None), "entry {n} of {ROOM}"));
    // The same key with another entry takes the place of the first.
    assert!(fast.insert(&key(7), 8, &entry, &sides, None));
    assert!(fast.remove(&key(7)) && !fast.remove(&key(7)), "it was there once");
    assert!(!fast.remove(&key(8)), "its entry has another key by now");
    for n in (0..ROOM).filter(|n| ![7, 8].contains(n)) {
        assert!(fast.remove(&key(n)), "entry {n}");
        assert!(!fast.remove(&key(n)), "entry {n} again");
    }
}

/// A key is found at its place and elsewhere, and never in an entry that is over, whichever comes first.
#[test]
fn a_key_is_found_in_the_entry_that_holds() {
    weir_testkit::need_root!();
    let fast = switched_on();
    let (key, _) = key_of(&fast, &ENDS4, 17, 53);
    let frame = frame_of(&ENDS4, 17, 53, 26);
    let leaves = || fast.try_on(&Gate::default(), 1, &frame).expect("a program").0;
    let entry = |out: u8| Entry { out, flags: IS_ENDLESS, ..Entry::default() };
    let place = fast.place(&key);
    let [elsewhere, third] = [(place + 1) % 1024, (place + 2) % 1024];
    let has = |number, out| fast.insert(&key, number, &entry(out), &Sides::default(), None);
    assert!(place < fast.room());
    assert_eq!(leaves(), None);
    for (number, out, old) in [(place, 1, None), (elsewhere, 2, Some(place)), (third, 3, Some(elsewhere))] {
        assert!(has(number, out));
        old.into_iter().for_each(|old| fast.end(old));
        assert_eq!(leaves(), Some(usize::from(out)), "entry {number}");
    }
    assert!(has(place, 4));
    fast.end(third);
    assert_eq!(leaves(), Some(4));
    fast.end(place);
    assert_eq!(leaves(), None, "its entry is over");
    assert!(fast.remove(&key) && !fast.remove(&key));
    assert_eq!(leaves(), None);
}

/// The sum that a sender leaves to its network card is in the field of a packet that is not finished.
#[test]
fn frames_with_unfinished_checksums_are_left_to_the_plane() {
    weir_testkit::need_root!();
    let fast = switched_on();
    let gate = Gate { checks_partial: 1, ..Gate::default() };
    for ends in [&ENDS4[..], &ENDS6] {
        for (protocol, at, length) in [(17, 6, 26_u16), (6, 16, 26)] {
            for (number, to) in (0..).zip([53, 4789, 6081]) {
                let entry = Entry { out: 3, flags: IS_ENDLESS, ..Entry::default() };
                let (key, wide) = key_of(&fast, ends, protocol, to);
                assert!(fast.insert(&key, number, &entry, &Sides::default(), wide.as_ref()));
            }
            let pseudo = fold(pseudo_header(ends, protocol, length.into()));
            let leaves = |to: u16, check: u16| {
                let mut frame = frame_of(ends, protocol, to, length);
                let end = frame.len() - usize::from(length) + at;
                frame[end..end + 2].copy_from_slice(&check.to_be_bytes());
                fast.try_on(&gate, 1, &frame).expect("a program").0
            };
            for (to, check, out) in [(53, pseudo, None), (53, pseudo ^ 0x1234, Some(3)), (53, 0, Some(3))] {
                assert_eq!(leaves(to, check), out, "protocol {protocol}, {} bytes of addresses", ends.len());
            }
            // In a tunnel another checksum may be unfinished.
            for to in [4789, 6081] {
                let out = (protocol == 6).then_some(3);
                assert_eq!(leaves(to, pseudo ^ 0x1234), out, "protocol {protocol} to port {to}");
            }
        }
    }
}

/// A flow of IPv6 is found by hashes of its addresses, and by these alone if they are its own.
#[test]
fn an_entry_of_ipv6_is_that_of_its_addresses() {
    weir_testkit::need_root!();
    let fast = switched_on();
    let (key, own) = key_of(&fast, &ENDS6, 17, 53);
    let own = own.expect("addresses of IPv6");
    let frame = frame_of(&ENDS6, 17, 53, 26);
    let router = Gate { is_router: 1, mac: [2, 0, 0, 0, 0, 1], ..Gate::default() };
    let pass = |wide: Wide| {
        let entry = Entry {
            out: 2,
            most: 66,
            macs: [[2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 8]],
            flags: IS_ENDLESS | IS_ROUTED,
            ..Entry::default()
        };
        assert!(fast.insert(&key, 5, &entry, &Sides::default(), Some(&wide)));
        fast.try_on(&router, 1, &frame).expect("a program")
    };
    let (out, after) = pass(own);
    let routed = [&[2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8][..], &frame[12..21], &[frame[21] - 1], &frame[22..]];
    assert_eq!((out, after), (Some(2), routed.concat()));
    assert_eq!(fast.uses(5).0, FRAME + 66);
    // Each bit of either address counts.
    for bit in 0..256 {
        let mut other = own;
        let address = if bit < 128 { &mut other.src } else { &mut other.dst };
        address[bit / 8 % 16] ^= 1 << (bit % 8);
        assert_eq!(pass(other), (None, frame.clone()), "bit {bit}");
    }
    assert_eq!(pass(own).0, Some(2));
    let long = frame_of(&ENDS6, 17, 53, 27);
    assert_eq!(fast.try_on(&router, 1, &long).expect("a program"), (None, long), "67 bytes");
}

/// A segment takes its connection on, for both stages that follow it, by its numbers and the bytes that it carries.
#[test]
fn connections_are_followed() {
    weir_testkit::need_root!();
    let fast = switched_on();
    for ends in [&ENDS4[..], &ENDS6] {
        let (key, wide) = key_of(&fast, ends, 6, 80);
        // The second side of connection 7, and the first one of connection 9.
        let sides = Sides { track: [7 * 2 + 2, 9 * 2 + 1] };
        let entry = Entry { out: 1, flags: IS_ENDLESS | IS_FOLLOWED, ..Entry::default() };
        assert!(fast.insert(&key, 3, &entry, &sides, wide.as_ref()));
        [7, 9]
            .into_iter()
            .for_each(|number| fast.set_track(number, &Track { sent: [500; 2], ..Track::default() }));
        let mut frame = frame_of(ends, 6, 80, 57);
        let tcp = frame.len() - 57;
        frame[tcp + 4..tcp + 12].copy_from_slice(&[0, 0, 3, 0xe8, 0, 0, 1, 0xf4]);
        // 12 bytes of options.
        frame[tcp + 12..tcp + 16].copy_from_slice(&[0x80, ACK, 2, 1]);
        assert_eq!(fast.try_on(&Gate::default(), 1, &frame).expect("a program").0, Some(1));
        let came = |side: usize| {
            let of_side = |value: u32| std::array::from_fn(|n| if n == side { value } else { 0 });
            let mut sent = [500; 2];
            sent[side] = 1000 + 25;
            Track { sent, awaits: of_side(500), window: of_side(0x201), pad: [0; 2] }
        };
        assert_eq!([fast.track(7), fast.track(9)], [came(1), came(0)], "{} bytes of addresses", ends.len());
    }
}

/// Maps with room for 1024 entries, which are used.
fn switched_on() -> Fast {
    let fast = Fast::new(1024).expect("a program");
    fast.set_on(true);
    fast
}

/// A flag of TCP.
const ACK: u8 = 0x10;
/// 198.18.0.1 and 198.19.0.9.
const ENDS4: [u8; 8] = [198, 18, 0, 1, 198, 19, 0, 9];
/// 2001:db8:1::5 and 2001:db8:9::9.
const ENDS6: [u8; 32] = [
    0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 9,
];

/// From port 5000 of the first of these addresses.
fn key_of(fast: &Fast, ends: &[u8], protocol: u8, to: u16) -> (Key, Option<Wide>) {
    let flags = if protocol == 6 { ACK } else { 0 };
    let key = Key { sport: 5000_u16.to_be(), dport: to.to_be(), protocol, flags, ..Key::default() };
    let (src, dst) = ends.split_at(ends.len() / 2);
    match (src.try_into(), dst.try_into()) {
        (Ok(src), Ok(dst)) => {
            let wide = Wide { src, dst };
            (fast.key6(&key, &wide), Some(wide))
        }
        _ => {
            let [src, dst] = [src, dst].map(|end| u32::from_ne_bytes(end.try_into().expect("4 bytes")));
            (Key { src, dst, ..key }, None)
        }
    }
}

/// A frame between these addresses; its transport has so many bytes and no checksum.
fn frame_of(ends: &[u8], protocol: u8, to: u16, length: u16) -> Vec<u8> {
    let mut transport = [&5000_u16.to_be_bytes()[..], &to.to_be_bytes(), &[0; 22]].concat();
    transport.resize(length.into(), 0);
    if protocol == 6 {
        transport[12..14].copy_from_slice(&[0x50, ACK]);
    } else {
        transport[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let [high, low] = length.to_be_bytes();
    let ip = if ends.len() == 8 {
        let mut ip = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0][..], ends].concat();
        ip[2..4].copy_from_slice(&(20 + length).to_be_bytes());
        write_ipv4(ip.first_chunk_mut::<20>().expect("a header"));
        [&[8, 0][..], &ip].concat()
    } else {
        [&[0x86, 0xdd, 0x60, 0, 0, 0, high, low, protocol, 64][..], ends].concat()
    };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ip, &transport].concat()
}
