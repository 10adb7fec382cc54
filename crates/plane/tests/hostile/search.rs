//! Nodes of every combination of stages, of one thread and of several, under crafted packets, for as long as is asked for: `HOSTILE_S=3600 cargo test
//! --release -p weir-plane --test plane crafted` searches an hour. What fails is made short and written to a file of
//! `target/tmp`; once it is mended it is kept in `corpus`, which is run each time.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_testkit::{Craft, Dice};

use super::STAGES;
use super::case::{Arrivals, Bench, Case, fitting, mac};

/// What nodes begin and end with: a bump in the wire, with tags, and routers.
const ENDS: &[(&str, &str)] = &[
    ("lan", "wan"),
    ("lan(vlan 7)", "wan(vlan 8.9)"),
    (
        "lan(198.18.0.1/16, 2001:db8:1::1/64, neighbour 198.18.0.2 02:00:00:00:00:01, \
         neighbour 2001:db8:1::2 02:00:00:00:00:01)",
        "route(default via 198.19.0.9, default via 2001:db8:2::9) > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280, \
         neighbour 198.19.0.9 02:00:00:00:00:02, neighbour 2001:db8:2::9 02:00:00:00:00:02)",
    ),
    ("lan(198.18.0.1/16, 2001:db8:1::1/64)", "route > wan(vlan 7, 198.19.0.1/16, 2001:db8:2::1/64)"),
];
/// Batches that a node gets before the next node's turn.
const BATCHES: usize = 150;

/// How long all threads together search, s.
fn seconds() -> u64 {
    weir_testkit::number("HOSTILE_S", 12)
}

/// The node of a seed: any of the combinations of stages with some ends, then each with the next ones.
fn node(seed: u64) -> String {
    let kinds = STAGES.len() as u32;
    let those = (seed % (1 << kinds)) as usize;
    let (left, right) = ENDS[(seed + (seed >> kinds)) as usize % ENDS.len()];
    let stages = STAGES.iter().enumerate().filter(|(n, _)| those >> n & 1 == 1).map(|(_, stage)| *stage);
    let parts: Vec<&str> = [left].into_iter().chain(stages).chain([right]).collect();
    parts.join(" > ")
}

/// Sends crafted packets to a node; what failed and how, if something did.
fn search(seed: u64, cached_frames: &AtomicU64) -> Option<(Case, String)> {
    let node = node(seed);
    // Every other node has one thread, the others as many as can share it.
    let threads = fitting(&node, [1, 2, 1, 5][seed as usize / STAGES.len() % 4]);
    let mut bench = Bench::new(&node, threads);
    let mut case = Case::new(&node, threads);
    let mut craft = Craft::new(Dice::new(seed * 7919 + 1));
    for _ in 0..BATCHES {
        let after = Duration::from_millis(craft.dice().roll(12) as u64 * craft.dice().roll(200) as u64);
        let frames = (0..=craft.dice().roll(24)).map(|_| {
            let port = craft.dice().roll(2);
            let (kind, packet) = craft.payload(port);
            (
                port,
                [&mac(port)[..], &[2, 0, 0, 0, 0xcc, port as u8], &bench.tags[port].concat(), &kind, &packet]
                    .concat(),
            )
        });
        let arrivals = Arrivals { node: None, after, frames: frames.collect() };
        match case.go_on(&mut bench, arrivals) {
            Ok(left) => left.iter().for_each(|(port, packet)| craft.saw(*port, packet)),
            Err(wrong) => return Some((case, wrong)),
        }
    }
    cached_frames.fetch_add(bench.cached_frames(), Ordering::Relaxed);
    None
}

#[test]
fn no_crafted_packet_breaks_a_node() {
    let (next, failed, cached) = (AtomicU64::new(1), Mutex::new(None), AtomicU64::new(0));
    let threads = thread::available_parallelism().map_or(1, usize::from) as u32;
    let end = Instant::now() + Duration::from_secs(seconds()) / threads;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while Instant::now() < end && failed.lock().is_ok_and(|failed| failed.is_none()) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if let Some(found) = search(seed, &cached) {
                        *failed.lock().expect("no thread panics with it") = Some((seed, found));
                    }
                }
            });
        }
    });
    let cached = cached.into_inner();
    println!("{} nodes, {BATCHES} batches each, {cached} frames by flow caches", next.into_inner() - 1);
    if let Some((seed, (case, wrong))) = failed.into_inner().expect("no thread panics with it") {
        case.fail(seed, &wrong);
    }
}

#[test]
fn what_broke_a_node_once_breaks_none_any_more() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/corpus");
    let mut cases = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a text");
        let case = Case::read(&text).unwrap_or_else(|| panic!("{}: not a case", path.display()));
        case.run().unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()));
        cases += 1;
    }
    assert!(cases > 0, "{folder} holds none");
}
