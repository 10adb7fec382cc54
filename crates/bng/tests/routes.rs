//! Networks behind subscribers, and pools by name: of RADIUS and of subscribers here, beside accounting and restarts.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_bng::ppp::auth::Method;
use weir_bng::radius::attribute::number;
use weir_bng::{Command, CommandError, DropReason, Subscriber};

use crate::accounting::{Book, Given, START, STOP};
use crate::pppoe::{TEXT, World, anna, device_with, server};

const RADIUS: &str =
    "radius one 192.0.2.9:1812 secret-file one plan basic accounting 1813, pppoe auth pap chap-md5";
const SIX: &str = "pool six 2001:db8:100::/48 router 2001:db8:100::1/40";

/// A world in which RADIUS gives this to carl; anna is a subscriber here.
fn world(more: &str, given: Given) -> (World, Book) {
    let text = TEXT.replace("pppoe auth chap-md5 pap ms-chapv2 padi mac 1000 sessions mac 3,", "");
    let carl = device_with(3, "carl@isp", "secret", Method::Pap);
    let mut world = World::of(&format!("{RADIUS}, {SIX}, {text}{more}"), vec![carl, anna()]);
    let book = Book::default();
    (world.accounting, world.radius) = (book.server(), server(b"secret", given));
    (world, book)
}

fn routes(world: &World, client: usize) -> Vec<String> {
    let mac = world.devices[client].mac();
    let add = world.node.iter().find(|add| add.mac == mac);
    add.map(|add| add.service.routes.iter().map(ToString::to_string).collect()).unwrap_or_default()
}

const BOTH: Given = &[
    (number::FRAMED_ROUTE, b"203.0.113.0/28 0.0.0.0 1"),
    (number::FRAMED_ROUTE, b"203.0.113.64/26"),
    (number::FRAMED_IPV6_ROUTE, b"2001:db8:9::/56 :: 1"),
];
const TEXTS: [&str; 3] = ["203.0.113.0/28", "203.0.113.64/26", "2001:db8:9::/56"];

#[test]
fn row_12_routes_of_radius_are_those_of_the_node_and_of_accounting_also_after_a_restart() {
    let (mut world, book) = world("", BOTH);
    world.dial(0);
    assert_eq!(routes(&world, 0), TEXTS);
    world.restart();
    assert_eq!(routes(&world, 0), TEXTS);
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(1));
    assert_eq!(world.node.len(), 0);
    for status in [START, STOP] {
        let told = book.told(status).into_values().next().expect("one");
        let found = told.all(number::FRAMED_ROUTE).collect::<Vec<_>>();
        assert_eq!(found, [&b"203.0.113.0/28 0.0.0.0 1"[..], b"203.0.113.64/26 0.0.0.0 1"]);
        assert_eq!(told.get(number::FRAMED_IPV6_ROUTE), Some(&b"2001:db8:9::/56 :: 1"[..]));
    }
}

#[test]
fn row_12_a_route_that_clashes_is_refused_by_name() {
    const POOL: Given = &[(number::FRAMED_ROUTE, b"100.64.0.8/29")];
    const NODE: Given = &[(number::FRAMED_ROUTE, b"100.64.0.0/31")];
    const OTHER: Given = &[(number::FRAMED_ROUTE, b"198.51.100.128/25")];
    const GATEWAY: Given = &[(number::FRAMED_ROUTE, b"203.0.113.0/28 192.0.2.7 1")];
    const SIX: Given = &[(number::FRAMED_IPV6_ROUTE, b"2001:db8:100:8::/61 :: 1")];
    const TEXT: Given = &[(number::FRAMED_ROUTE, b"203.0.113.1/28")];
    let taken = ", subscriber dora login dora plan basic route 198.51.100.0/24 password other";
    for (given, reason, says) in [
        (POOL, DropReason::RouteInUse, "100.64.0.8/29 has addresses of pool main"),
        (NODE, DropReason::RouteInUse, "100.64.0.0/31 has the address 100.64.0.1 of the node"),
        (OTHER, DropReason::RouteInUse, "198.51.100.128/25 overlaps with 198.51.100.0/24 of subscriber dora"),
        (GATEWAY, DropReason::RadiusRoute, "203.0.113.0/28 by 192.0.2.7, which is not the subscriber's"),
        (SIX, DropReason::RouteInUse, "2001:db8:100:8::/61 has addresses of pool six"),
        (TEXT, DropReason::RadiusRoute, ""),
    ] {
        let (mut world, _) = world(taken, given);
        world.dial(0);
        world.run(Duration::from_secs(10));
        assert_eq!((world.online().len(), world.drops(reason)), (0, 1), "{says}");
        let why = world.bng.why_mac(world.devices[0].mac()).reason;
        assert!(why.starts_with(reason.meaning()) && why.ends_with(says), "{why}");
        world.assert_counted();
    }
}

#[test]
fn a_route_of_a_session_is_free_when_that_has_ended() {
    const ROUTE: Given = &[(number::FRAMED_ROUTE, b"203.0.113.0/28")];
    let (mut world, _) = world("", ROUTE);
    world.devices.push(device_with(4, "emil@isp", "secret", Method::Pap));
    world.dial(0);
    world.dial(2);
    assert_eq!((world.online().len(), world.drops(DropReason::RouteInUse)), (1, 1));
    let why = world.bng.why_mac(world.devices[2].mac()).reason;
    assert!(why.ends_with("203.0.113.0/28 overlaps with 203.0.113.0/28 of subscriber carl@isp"), "{why}");
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(10));
    world.dial(2);
    assert_eq!(routes(&world, 2), ["203.0.113.0/28"]);
}

#[test]
fn row_18_a_subscriber_here_has_routes_that_no_one_else_gets() {
    let (mut world, book) = world("", BOTH);
    let changed = |world: &mut World, text: &str| {
        let subscriber: Subscriber = text.parse().expect("a subscriber");
        world.command(Command::ChangeSubscriber(subscriber));
        world.results.pop().expect("a result")
    };
    let with = |route: &str| format!("anna login anna@isp plan basic route {route}");
    assert_eq!(changed(&mut world, &with("203.0.113.0/24")), Ok(()));
    world.dial(1);
    assert_eq!(routes(&world, 1), ["203.0.113.0/24"]);
    let start = book.told(START).into_values().next().expect("a Start");
    assert_eq!(start.get(number::FRAMED_ROUTE), Some(&b"203.0.113.0/24 0.0.0.0 1"[..]));
    world.restart();
    assert_eq!(routes(&world, 1), ["203.0.113.0/24"]);
    world.dial(0);
    assert_eq!(world.drops(DropReason::RouteInUse), 1);
    // Another route ends the session; one that is not free is refused.
    assert_eq!(changed(&mut world, &with("198.51.100.0/24")), Ok(()));
    world.run(Duration::from_secs(60));
    world.dial(0);
    world.devices[1].client.reset();
    world.dial(1);
    assert_eq!((routes(&world, 1), routes(&world, 0).len()), (vec!["198.51.100.0/24".to_string()], 3));
    let in_use = changed(&mut world, &with("203.0.113.0/30"));
    assert!(matches!(in_use, Err(CommandError::RouteInUse(..))), "{in_use:?}");
    for (route, says) in [
        ("100.64.0.4/30", "100.64.0.4/30 has addresses of pool main: use another route"),
        ("198.51.100.0/24 route 198.51.100.128/25", "198.51.100.128/25 overlaps with 198.51.100.0/24: leave"),
    ] {
        let wrong = changed(&mut world, &with(route)).expect_err("it clashes").to_string();
        assert!(wrong.starts_with(says), "{wrong}");
    }
}

#[test]
fn a_pool_of_radius_or_of_the_subscriber_gives_the_address() {
    const GOLD: Given = &[(number::FRAMED_POOL, b"gold"), (number::FRAMED_IPV6_POOL, b"six-gold")];
    const NONE: Given = &[(number::FRAMED_POOL, b"silver")];
    let pools = ", pool gold 100.64.1.2-100.64.1.9 router 100.64.0.1/16,
        pool six-gold 2001:db8:1ff::/48 router 2001:db8:100::1/40";
    let (mut world, _) = world(pools, GOLD);
    let anna = "anna login anna@isp plan basic pool gold";
    world.command(Command::ChangeSubscriber(anna.parse().expect("a subscriber")));
    world.dial(0);
    world.dial(1);
    let addresses: Vec<Ipv4Addr> = world.online().into_iter().map(|(_, address)| address).collect();
    assert_eq!(addresses, [[100, 64, 1, 2].into(), Ipv4Addr::new(100, 64, 1, 3)]);
    let prefixes: Vec<_> = world.bng.sessions().filter_map(|session| session.lease.prefix).collect();
    assert!(prefixes.iter().any(|prefix| prefix.to_string().starts_with("2001:db8:1ff:")), "{prefixes:?}");
    // Another pool at the next login, although the subscriber had an address of the other one.
    world.radius = server(b"secret", &[(number::FRAMED_POOL, b"main")]);
    world.devices[0].client.reset();
    world.dial(0);
    assert_eq!(world.devices[0].address(), Some(Ipv4Addr::new(100, 64, 0, 2)));
    world.radius = server(b"secret", NONE);
    world.devices[0].client.reset();
    world.dial(0);
    assert_eq!(world.drops(DropReason::PoolUnknown), 1);
    let wrong = "anna login anna@isp plan basic pool silver";
    world.command(Command::ChangeSubscriber(wrong.parse().expect("a subscriber")));
    let refused = world.results.pop().expect("a result");
    assert!(matches!(refused, Err(CommandError::PoolUnknown(_))), "{refused:?}");
}
