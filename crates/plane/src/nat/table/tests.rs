//! What lies under a number may have changed since the number was looked up for a batch.

use weir_config::Notes;
use weir_packet::headers::UDP;

use super::*;
use crate::address::mapped4;
use crate::drops::DropReason;
use crate::nat::flow::{Arrival, Flow};
use crate::table::tcp::Segment;
use crate::text::items;
use crate::threads::Share;
use crate::time::Time;

fn table() -> Table {
    table_of("nat(public 192.0.2.1)")
}

fn table_of(text: &str) -> Table {
    let notes = Notes::new("a node", text);
    Table::new(Config::read(&items(text, &notes)[0], &notes), 5, Share::default())
}

/// A host opens a mapping for UDP; its number.
fn open(table: &mut Table, now: Time, host: u32) -> u32 {
    open_at(table, now, (host, 1))
}

fn open_at(table: &mut Table, now: Time, (host, port): (u32, u16)) -> u32 {
    let inside = Inside { address: mapped4(host), port, proto: UDP };
    let remote = Remote { address: 9, port: 53 };
    let hash = table.hash(&inside, remote);
    table.outbound(now, Flow { inside, remote, segment: Segment::default() }, hash, 0).expect("a port")
}

#[test]
fn a_mapping_that_ended_within_a_batch_takes_nothing_more() {
    let (mut table, begin, end) = (table(), Time::from_ms(1), Time::from_ms(400_000));
    let number = open(&mut table, begin, 1);
    let slot = table.sessions[number];
    let endpoint = Endpoint { outside: slot.outside, space: Space::Udp, port: slot.outside_port };
    let remote = Remote { address: 9, port: 53 };
    let arrival = Arrival { endpoint, proto: UDP, remote, segment: Segment::default() };
    assert_eq!(table.inbound(begin, &arrival, number), Ok(number));
    // The first frame finds it too old, the second one has the same number still.
    for frame in 1..=2 {
        assert_eq!(table.inbound(end, &arrival, number), Err(DropReason::NatNoMapping), "frame {frame}");
    }
    // By now it may be another connection.
    let other = open(&mut table, end, 2);
    let slot = table.sessions[other];
    let session = Slot::new(slot.inside(), Kind::Session, remote, slot.track, slot.seen);
    table.sessions[other] = session;
    assert_eq!(table.inbound(end, &arrival, other), Err(DropReason::NatNoMapping));
}

/// Many sessions ended without a call in between: each call does a bounded part of what is left, and it does not take long.
#[test]
fn what_is_over_goes_as_soon_as_there_is_time() {
    let mut table = table_of("nat(public 192.0.2.0/28, hold 0s)");
    let all = 200_000;
    for n in 0..all {
        open_at(&mut table, Time::from_ms(1), (n / 1000, (n % 1000) as u16));
    }
    assert_eq!(table.sessions.live(), all);
    // As an idle thread does, which looks for frames between two calls.
    let (mut calls, mut live) = (0, all);
    while table.expire(Time::from_ms(400_000) + std::time::Duration::from_micros(5 * calls)) {
        calls += 1;
        let now_live = table.sessions.live();
        assert!(live - now_live <= 256, "{live} to {now_live} in one call");
        live = now_live;
    }
    assert_eq!(table.sessions.live(), 0);
    assert!(calls < 2 * u64::from(all) / 256, "{calls} calls");
    // The last ones rest for a moment.
    while table.expire(Time::from_ms(401_000)) {}
    assert_eq!(table.pool.granted_all().count(), 0, "all blocks are back");
}
