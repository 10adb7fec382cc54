//! Frames stay in order whichever of its two ways out a port of AF_XDP takes for them.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_linux::ethtool::stats;
use weir_linux::rtnl::Rtnl;
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_port::duplex::{FRONT, Pool, Port};
use weir_port::packet::Receiver;
use weir_testkit::{Dice, PATIENCE, need_root};

use super::{Far, Kind, Rig};
use crate::wire::{LISTENER, SENDER, Wire, number_of};

/// How often frames leave by the socket right behind some that have left live.
const CHANGES: u32 = 2000;
/// A round takes up to so long, us: the way back to the socket is open after a tenth of a millisecond, and with two calls in a round
/// the many are worth a call with live frames on the fastest machine.
const ROUND_US: u64 = 2400;

/// Has a separate thread do what the receiving end does with live frames, a thread that has little of the sender's CPU;
/// frames by the socket are received within the call that sends them.
fn delay_live_frames(wire: &Wire) {
    let threaded = format!("/sys/class/net/{SENDER}/threaded");
    wire.sender.run(|| fs::write(threaded, "1")).unwrap();
    let name = format!("napi/{SENDER}-");
    let mut found = 0;
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let number = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(number) = number else { continue };
        if fs::read_to_string(process.path().join("comm")).is_ok_and(|comm| comm.starts_with(&name)) {
            // SAFETY: numbers, and a set of CPUs that lives through the call.
            unsafe {
                let mut cpu: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut cpu);
                assert_eq!(libc::sched_setaffinity(number as i32, size_of_val(&cpu), &cpu), 0);
                assert_eq!(libc::setpriority(libc::PRIO_PROCESS, number, 5), 0);
            }
            found += 1;
        }
    }
    assert!(found > 0, "no thread {name}");
}

/// Frames that have left live.
fn left_live() -> u64 {
    let is_ours = |name: &str| name.starts_with("tx_queue_") && name.ends_with("_xdp_xmit");
    stats(LISTENER).unwrap().into_iter().filter(|(name, _)| is_ours(name)).map(|(_, frames)| frames).sum()
}

/// Frames for which the other end had no room.
fn dropped() -> u64 {
    Rtnl::open().unwrap().link(LISTENER).unwrap().stats.tx_dropped
}

/// Sends the next `count` frames at once.
fn send(port: &mut dyn Port, pool: &mut Pool, next: &mut u32, count: u32) {
    let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 10_000, dport: 9, group: 0 };
    let frame = |seq: u32| {
        let signature = Signature { seq, ..Signature::default() };
        Ends::v4([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).frame(&flow, 64, signature)
    };
    let mut chunks = Vec::new();
    for frame in (*next..*next + count).map(frame) {
        let mut chunk = pool.take().expect("there are enough");
        chunk.set_range(FRONT..FRONT + frame.len());
        pool.bytes_mut(&chunk).copy_from_slice(&frame);
        chunks.push(chunk);
    }
    *next += count;
    port.send(pool, &mut chunks).unwrap();
}

/// Sends many frames and few, alternately; returns how many, and how often few left by the socket behind many that had left
/// live.
fn alternate(port: &mut dyn Port, pool: &mut Pool) -> (u32, u32) {
    let (mut dice, mut next, mut changes, mut live) = (Dice::new(1), 0, 0, left_live());
    let deadline = Instant::now() + PATIENCE * 3;
    while changes < CHANGES && Instant::now() < deadline {
        let (many, few) = (64 + dice.roll(32_u32), 1 + dice.roll(11_u32));
        send(port, pool, &mut next, many);
        let until = Instant::now() + Duration::from_micros(dice.roll(ROUND_US));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        send(port, pool, &mut next, few);
        let before = std::mem::replace(&mut live, left_live());
        changes += u32::from(live - before == u64::from(many));
        // Frames that have left by the socket give their chunks back.
        port.receive(pool, &mut Vec::new()).unwrap();
    }
    (next, changes)
}

/// Counts what arrives, and returns what arrives behind a later frame, with that.
fn late(mut receiver: Receiver, received: &AtomicU64, is_over: &AtomicBool) -> Vec<(u32, u32)> {
    let (mut latest, mut late) = (0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let note = |frame: &[u8]| {
            // Before Linux 6.3 the port tries what the wire takes.
            if frame[12..14] == [0x88, 0xb5] {
                return;
            }
            let number = number_of(frame);
            if number < latest {
                late.push((number, latest));
            }
            latest = latest.max(number);
            received.fetch_add(1, Ordering::Relaxed);
        };
        receiver.receive(Duration::from_millis(50), note).unwrap();
    }
    late
}

#[test]
fn frames_keep_their_order_over_thousands_of_changes_between_both_ways_out() {
    need_root!();
    let Rig { mut port, mut pool, far, wire } = Rig::new(Kind::Xdp, &[]);
    let (Some(wire), Far::Wire(_, _, receiver)) = (wire, far) else { panic!("a wire") };
    delay_live_frames(&wire);
    let (received, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sent, changes, late) = std::thread::scope(|scope| {
        let late = scope.spawn(|| late(receiver, &received, &is_over));
        // The thread of a test may not change its namespace.
        let alternating = scope.spawn(|| {
            wire.tool.enter().unwrap();
            weir_port::thread::pin_to(0).unwrap();
            let before = dropped();
            let (sent, changes) = alternate(&mut *port, &mut pool);
            let deadline = Instant::now() + PATIENCE;
            let all = || received.load(Ordering::Relaxed) + dropped() - before >= u64::from(sent);
            while !all() && Instant::now() < deadline {
                std::thread::yield_now();
            }
            assert!(
                all(),
                "frames are missing: {} of {sent} were received",
                received.load(Ordering::Relaxed)
            );
            (sent, changes)
        });
        let alternating = alternating.join();
        is_over.store(true, Ordering::Relaxed);
        let (sent, changes) = alternating.unwrap();
        (sent, changes, late.join().unwrap())
    });
    assert_eq!(changes, CHANGES, "of {sent} frames");
    assert!(late.is_empty(), "{} of {sent} frames came late: {:?}", late.len(), &late[..late.len().min(5)]);
}
