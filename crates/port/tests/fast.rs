//! The fast path finds the entry of each flow, and its cost can be measured: all of its frames are passed on.

use weir_port::fast::bench::nat;
use weir_port::fast::{Entry, Fast, Key, Sides};

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
