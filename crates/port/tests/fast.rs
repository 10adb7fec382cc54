//! The fast path finds the entry of each flow, and its cost can be measured: all of its frames are passed on.

use weir_packet::checksum::write_ipv4;
use weir_port::fast::bench::nat;
use weir_port::fast::{Entry, Fast, Gate, IS_ENDLESS, Key, Sides};

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
    (0..ROOM).for_each(|n| assert!(fast.insert(&key(n), n, &entry, &sides), "entry {n} of {ROOM}"));
    // The same key with another entry takes the place of the first.
    assert!(fast.insert(&key(7), 8, &entry, &sides));
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
    let fast = Fast::new(1024).expect("a program");
    fast.set_on(true);
    let key = Key {
        src: 0xc612_0001_u32.to_be(),
        dst: 0xc613_0009_u32.to_be(),
        sport: 5000_u16.to_be(),
        dport: 53_u16.to_be(),
        protocol: 17,
        ..Key::default()
    };
    let frame = frame();
    let leaves = || fast.try_on(&Gate::default(), 1, &frame).expect("a program").0;
    let entry = |out: u8| Entry { out, flags: IS_ENDLESS, ..Entry::default() };
    let place = fast.place(&key);
    let [elsewhere, third] = [(place + 1) % 1024, (place + 2) % 1024];
    let has = |number, out| fast.insert(&key, number, &entry(out), &Sides::default());
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

/// 198.18.0.1:5000 > 198.19.0.9:53, UDP.
fn frame() -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 9];
    write_ipv4(&mut ip);
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    [&ethernet[..], &ip, &5000_u16.to_be_bytes(), &[0, 53, 0, 26, 0, 0], &[0; 18]].concat()
}
