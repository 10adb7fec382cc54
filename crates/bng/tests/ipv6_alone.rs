//! A concentrator without a pool of IPv4: sessions over PPPoE have IPV6CP alone.

use std::time::Duration;

use weir_bng::radius::attribute::number;
use weir_bng::{Command, DropReason, NO_ADDRESS};

use crate::accounting::{Book, START, STOP};
use crate::ipv6::{POOL, with_ipv6};
use crate::pppoe::{TEXT, World, device};

const RADIUS: &str = "radius one 192.0.2.9:1812 secret-file one accounting 1813";

fn world() -> (World, Book) {
    let text = TEXT.replace("pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24,", "");
    let carl = "subscriber carl login carl plan basic password secret";
    let anna = with_ipv6(device(1, "anna@isp", "secret"), 1);
    let of_carl = [with_ipv6(device(2, "carl", "secret"), 2), device(3, "carl", "secret")];
    let devices = [anna].into_iter().chain(of_carl).collect();
    let mut world = World::of(&format!("{POOL}, {RADIUS}, {text}, {carl}"), devices);
    let book = Book::default();
    world.accounting = book.server();
    (world, book)
}

#[test]
fn sessions_have_ipv6_alone_where_there_is_no_pool_of_ipv4() {
    let (mut world, book) = world();
    (0..2).for_each(|client| world.dial(client));
    assert_eq!(world.node.len(), 2, "{}", world.bng.why_mac(world.devices[0].mac()));
    for restarts in [false, true] {
        if restarts {
            world.restart();
        }
        for add in &world.node {
            assert!(add.address == NO_ADDRESS && add.prefix.is_some(), "{add:?}");
        }
        assert_eq!((world.online().len(), world.bng.calls(), world.bng.sizes().addresses), (2, 2, 0));
    }
    let client = &world.devices[0].client;
    assert!(client.address6().is_some() && client.addresses().is_none());
    let why = world.bng.why_login("anna@isp").expect("a subscriber").reason;
    assert_eq!(why, "it has a session with IPv6 alone");
    // Its advertisements go on, and it dials anew after a power cut.
    let prefix = world.node[0].prefix;
    world.run(Duration::from_secs(3600));
    assert_eq!(world.online().len(), 2);
    world.devices[0].client.reset();
    world.dial(0);
    assert_eq!((world.node.len(), world.node[1].prefix), (2, prefix));
    world.command(Command::DisconnectAll);
    world.run(Duration::from_secs(20));
    book.assert_balanced("IPv6 alone");
    for status in [START, STOP] {
        let told = book.told(status).into_values().next().expect("one");
        assert!(
            told.get(number::FRAMED_IP_ADDRESS).is_none() && told.get(number::FRAMED_IPV6_PREFIX).is_some()
        );
    }
}

#[test]
fn a_device_without_ipv6_gets_no_session_there() {
    let (mut world, _) = world();
    world.dial(2);
    world.run(Duration::from_secs(60));
    assert_eq!((world.online().len(), world.bng.calls()), (0, 0));
    assert!(!world.bng.why_mac(world.devices[2].mac()).reason.is_empty());
    assert_eq!(world.drops(DropReason::PoolExhausted), 0);
    world.assert_counted();
}
