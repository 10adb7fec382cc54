//! The table by itself: entries come back when they are over, and frames of many flows find their own.

use weir_packet::headers::UDP;

use super::*;
use crate::access::Subscribers;
use crate::batch::{Frames, PerFrame, Verdict};
use crate::drops::{DropReason, Drops};
use crate::frame::{HEAD_ROOM, PortId};
use crate::outbox::Outbox;

/// A frame of UDP between two hosts, one way or back.
fn frame(n: u32, back: bool) -> Vec<u8> {
    let ends = [0x0a00_0000 + n, 0xc000_0201];
    let ports = [1000 + (n % 50_000) as u16, 53];
    let (from, to) = if back { (1, 0) } else { (0, 1) };
    let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, UDP, 0, 0];
    ip.extend(ends[from].to_be_bytes());
    ip.extend(ends[to].to_be_bytes());
    weir_packet::checksum::write_ipv4(&mut ip);
    let udp = [ports[from].to_be_bytes(), ports[to].to_be_bytes(), [0, 8], [0, 0]].concat();
    [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &ip, &udp].concat()
}

/// The states of these frames at a time; all pass.
fn pass(table: &mut Connections, bufs: &mut [Vec<u8>], now: Time) -> Vec<State> {
    let (states, refused) = offer(table, bufs, now);
    assert_eq!(refused, 0, "there is room");
    states
}

/// The states of these frames at a time, and for how many there was no room.
fn offer(table: &mut Connections, bufs: &mut [Vec<u8>], now: Time) -> (Vec<State>, usize) {
    let mut frames: Vec<Frame<'_>> = bufs
        .iter_mut()
        .map(|buf| {
            let end = buf.len();
            let mut frame = Frame::new(buf, HEAD_ROOM, end, PortId(0));
            frame.read(12).expect("readable");
            frame
        })
        .collect();
    let (mut outbox, mut drops, mut verdicts) =
        (Outbox::default(), Drops::default(), PerFrame::all(Verdict::Live));
    let set = Set::first(frames.len());
    let (count, frames, turned) = (frames.len(), Frames(&mut frames), Set::EMPTY);
    let step = Step {
        now,
        frames,
        outbox: &mut outbox,
        drops: &mut drops,
        subscribers: &mut Subscribers::default(),
        verdicts: &mut verdicts,
        turned,
        stage: 0,
    };
    let found = table.find(&step, set);
    let refused = set.filter(|&i| table.passed(&step.frames[i], &found, i, now).is_err()).count();
    (found.states.in_order().take(count).collect(), refused)
}

#[test]
fn many_connections_are_distinguished_and_end_by_themselves() {
    let mut table = Connections::new(7, 1 << 22);
    let all = 10_000_u32;
    for (back, state) in
        [(false, State::New), (false, State::New), (true, State::Established), (false, State::Established)]
    {
        for first in (0..all).step_by(50) {
            let mut bufs: Vec<_> = (first..first + 50).map(|n| frame(n, back)).collect();
            assert_eq!(pass(&mut table, &mut bufs, Time::from_ms(1000)), [state; 50]);
        }
        assert_eq!(table.live(), all);
    }
    // One of them goes on.
    pass(&mut table, &mut [frame(77, false)], Time::from_ms(200_000));
    let walk = |table: &mut Connections, from_ms: u64| {
        (0..2000).for_each(|n| _ = table.tick(Time::from_ms(from_ms + n * 10)));
    };
    walk(&mut table, 250_000);
    assert_eq!(table.live(), all);
    walk(&mut table, 302_000);
    assert_eq!(table.live(), 1);
    assert_eq!(pass(&mut table, &mut [frame(77, false)], Time::from_ms(330_000)), [State::Established]);
    assert_eq!(pass(&mut table, &mut [frame(78, true)], Time::from_ms(330_000)), [State::New]);
    let bytes = table.bytes();
    let mut bufs: Vec<_> = (0..50).map(|n| frame(n, false)).collect();
    pass(&mut table, &mut bufs, Time::from_ms(331_000));
    assert_eq!(table.bytes(), bytes, "what was given back is used again");
}

#[test]
fn what_is_over_is_gone_before_it_is_taken_away() {
    let mut table = Connections::new(7, 1 << 22);
    pass(&mut table, &mut [frame(1, false)], Time::from_ms(0));
    assert_eq!(pass(&mut table, &mut [frame(1, true)], Time::from_ms(301_000)), [State::New]);
    assert_eq!(table.live(), 1);
}

#[test]
fn two_frames_of_a_batch_begin_one_connection() {
    let mut table = Connections::new(7, 1 << 22);
    let states = pass(&mut table, &mut [frame(1, false), frame(1, false), frame(1, true)], Time::from_ms(0));
    assert_eq!((table.live(), states), (1, vec![State::New; 3]));
    let shown: Vec<String> = table.shown(0).records.iter().map(|one| one.record().to_string()).collect();
    assert_eq!(shown, ["udp 10.0.0.1:1001 > 192.0.2.1:53 answered"]);
    assert_eq!(pass(&mut table, &mut [frame(1, false)], Time::from_ms(1)), [State::Established]);
}

/// The number of entries of each host is right whatever became of connections: they end, begin anew, are refused, and are evicted
/// from a full table.
#[test]
fn each_connection_is_counted_for_both_its_ends_as_long_as_it_is_there() {
    const MOST: u32 = 300;
    let (mut table, mut dice) = (Connections::new(7, MOST), weir_testkit::Dice::new(5));
    let (mut now_ms, mut displaced) = (0, 0);
    for _ in 0..2000 {
        now_ms += dice.roll(3000_u64);
        let hosts = if dice.one_in(3) { 2000 } else { 20 };
        let mut bufs: Vec<_> =
            (0..1 + dice.roll(40)).map(|_| frame(dice.roll(hosts), dice.one_in(4))).collect();
        let was_full = table.live() == MOST;
        let (states, full) = offer(&mut table, &mut bufs, Time::from_ms(now_ms));
        displaced +=
            usize::from(was_full && full < states.iter().filter(|state| **state == State::New).count());
        let is_dropped = dice.one_in(5);
        table.settle(&PerFrame::all(if is_dropped {
            Verdict::Dropped(DropReason::NoRoute)
        } else {
            Verdict::KeptCopy
        }));
        table.forget_refused();
        (0..dice.roll(3)).for_each(|_| _ = table.tick(Time::from_ms(now_ms)));
        assert_eq!(table.holders.all(), 2 * u64::from(table.live()), "at {now_ms} ms");
    }
    assert!(displaced > 10, "only {displaced} times something gave way");
}
