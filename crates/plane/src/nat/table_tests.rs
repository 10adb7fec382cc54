//! What lies under a number may have changed since the number was looked up for a batch.

use weir_config::Notes;

use super::*;
use crate::address::mapped4;
use crate::steer::Share;
use crate::text::items;

fn table() -> Table {
    let text = "nat(public 192.0.2.1)";
    let notes = Notes::new("a node", text);
    Table::new(Config::read(&items(text, &notes)[0], &notes), 5, Share::default())
}

/// A host opens a mapping for UDP; its number.
fn open(table: &mut Table, now: Time, host: u32) -> u32 {
    let inside = Inside { address: mapped4(host), port: 1, proto: UDP };
    let remote = Remote { address: 9, port: 53 };
    let hash = table.hash(&inside, remote);
    table.outbound(now, &Flow { inside, remote, segment: Segment::default() }, hash, 0).expect("a port")
}

#[test]
fn a_mapping_that_ended_within_a_batch_takes_nothing_more() {
    let (mut table, begin, end) = (table(), Time::from_ms(1), Time::from_ms(400_000));
    let number = open(&mut table, begin, 1);
    let slot = table.sessions[number];
    let place = Place { outside: slot.outside, space: Space::Udp, port: slot.outside_port };
    let remote = Remote { address: 9, port: 53 };
    let arrival = Arrival { place, proto: UDP, remote, segment: Segment::default() };
    assert_eq!(table.inbound(begin, &arrival, number), Ok(number));
    // The first frame finds it too old, the second one has the same number still.
    for frame in 1..=2 {
        assert_eq!(table.inbound(end, &arrival, number), Err(Drop::NatNoMapping), "frame {frame}");
    }
    // By now it may be a connection of somebody else.
    let other = open(&mut table, end, 2);
    let slot = table.sessions[other];
    let session = Slot::new(slot.inside(), Kind::Session, remote, slot.track, slot.seen);
    table.sessions[other] = session;
    assert_eq!(table.inbound(end, &arrival, other), Err(Drop::NatNoMapping));
}
