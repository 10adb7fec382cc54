//! Several sessions of a subscriber at the same time, by PPPoE and DHCP, with both policies, over restarts.

use std::time::Duration;

use weir_bng::ppp::auth::Method;
use weir_bng::radius::attribute::number;
use weir_bng::radius::packet::code;
use weir_bng::{Command, DropReason, EndCause, Event, Status};

use crate::accounting::{Book, START, STOP, ask};
use crate::pppoe::{Device, TEXT, World, anna, device, device_with, server};

const RADIUS: &str = "radius one 192.0.2.9:1812 secret-file one plan basic accounting 1813,
    dynamic-authorization 192.0.2.1:3799 client 192.0.2.9 secret-file coa";

fn world(more: &str, devices: Vec<Device>) -> (World, Book) {
    let mut world = World::of(&format!("{RADIUS}, {TEXT}, {more}"), devices);
    let book = Book::default();
    world.accounting = book.server();
    (world, book)
}

/// Three devices with anna's login, each on another line.
fn three() -> Vec<Device> {
    vec![anna(), device(2, "anna@isp", "secret"), device(3, "anna@isp", "secret")]
}

fn up(world: &World) -> Vec<bool> {
    world.devices.iter().map(|device| device.address().is_some()).collect()
}

#[test]
fn a_subscriber_has_as_many_sessions_as_its_limit_allows() {
    for (policy, expected) in [("", [true, true, false]), (" replace", [false, true, true])] {
        let (mut world, book) = world(&format!("limit sessions subscriber 2{policy}"), three());
        (0..3).for_each(|client| world.dial(client));
        world.run(Duration::from_secs(10));
        assert_eq!((up(&world), world.node.len()), (expected.to_vec(), 2), "{policy}");
        let refused = u64::from(policy.is_empty());
        assert_eq!(world.drops(DropReason::SessionsSubscriber), refused, "{policy}");
        let mut addresses: Vec<_> = world.online().into_iter().map(|(_, address)| address).collect();
        addresses.dedup();
        assert_eq!(addresses.len(), 2, "each has its own address");
        // Both are there after a restart, and a device that dials anew replaces its own session.
        world.restart();
        assert_eq!((world.online().len(), world.node.len()), (2, 2));
        let first = expected.iter().position(|is_up| *is_up).expect("one is up");
        let address = world.devices[first].address();
        world.devices[first].client.reset();
        world.dial(first);
        assert_eq!((world.devices[first].address(), world.node.len()), (address, 2), "{policy}");
        assert_eq!(world.drops(DropReason::SessionsSubscriber), 0);
        world.assert_counted();
        // When one ends, another device may come.
        if policy.is_empty() {
            let session = world.bng.sessions().next().expect("a session").id;
            world.command(Command::Disconnect(session));
            world.run(Duration::from_secs(10));
            world.dial(2);
            assert!(up(&world)[2], "{}", world.bng.why_mac(world.devices[2].mac()));
        }
        world.command(Command::DisconnectAll);
        world.run(Duration::from_secs(60));
        book.assert_balanced(policy);
        assert!(book.told(START).len() >= 4);
    }
}

#[test]
fn blocking_changing_and_coa_reach_all_sessions_of_a_subscriber() {
    let (mut world, book) = world("limit sessions subscriber 3, plan gold down 100Mbit up 50Mbit", three());
    (0..3).for_each(|client| world.dial(client));
    assert_eq!(world.node.len(), 3);
    let name: (u8, &[u8]) = (number::USER_NAME, b"anna@isp");
    let gold = [name, (number::FILTER_ID, &b"gold"[..])];
    assert_eq!(ask(&mut world, code::COA_REQUEST, 1, &gold), Some((code::COA_ACK, None)));
    assert!(world.node.iter().all(|add| add.service.rates.down_bits_per_s == 100_000_000));
    let anna = "anna".parse().expect("a name");
    world.command(Command::SetStatus(anna, Status::Walled));
    assert!(world.node.iter().all(|add| add.service.status == Status::Walled));
    world.restart();
    assert!(world.node.len() == 3 && world.node.iter().all(|add| add.service.status == Status::Walled));
    world.command(Command::SetStatus("anna".parse().expect("a name"), Status::Blocked));
    world.run(Duration::from_secs(10));
    assert_eq!((world.online().len(), world.node.len(), book.told(STOP).len()), (0, 0, 3));
    let blocked = |event: &&Event| matches!(event, Event::SessionEnded { cause: EndCause::Blocked, .. });
    assert_eq!(world.events.iter().filter(blocked).count(), 3);
    world.command(Command::RemoveSubscriber("anna".parse().expect("a name")));
    assert_eq!(world.bng.sizes().offers, 0);
}

#[test]
fn a_fixed_address_and_routes_are_of_the_first_session() {
    let ben = "subscriber emil login emil plan basic address 100.64.0.8 route 203.0.113.0/28 password secret";
    let devices = vec![device(1, "emil", "secret"), device(2, "emil", "secret")];
    let (mut world, _) = world(&format!("limit sessions subscriber 2, {ben}"), devices);
    (0..2).for_each(|client| world.dial(client));
    let own: Vec<_> =
        world.node.iter().map(|add| (add.address.octets()[3], add.service.routes.len())).collect();
    assert_eq!(own, [(8, 1), (2, 0)]);
}

#[test]
fn logins_of_radius_have_several_sessions_too() {
    let devices = (1..=3).map(|number| device_with(number, "carl@isp", "secret", Method::Pap)).collect();
    let (mut world, _) = world("limit sessions subscriber 2", devices);
    world.radius = server(b"secret", &[]);
    (0..3).for_each(|client| world.dial(client));
    world.run(Duration::from_secs(10));
    assert_eq!((world.node.len(), world.drops(DropReason::SessionsSubscriber)), (2, 1));
    let why = world.bng.why_mac(world.devices[2].mac()).reason;
    assert_eq!(why, DropReason::SessionsSubscriber.meaning());
}

/// Every prefix of the records is a state in which each seat has one session at most.
#[test]
fn sessions_of_a_subscriber_survive_a_kill_at_each_record() {
    let (mut world, _) = world("limit sessions subscriber 2 replace", three());
    (0..3).for_each(|client| world.dial(client));
    let all = world.disk.clone();
    for most in 0..=all.len() {
        world.disk = all[..most].to_vec();
        world.restart();
        let sessions = world.online();
        assert!(sessions.len() <= 2, "{most}: {sessions:?}");
        let mut addresses: Vec<_> = sessions.into_iter().map(|(_, address)| address).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), world.online().len(), "{most}");
    }
}
