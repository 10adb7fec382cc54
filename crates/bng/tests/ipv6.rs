//! Sessions with a prefix of IPv6: IPV6CP and router advertisements beside IPv4, each without the other, over restarts.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_bng::dial::{Client, Profile};
use weir_bng::ppp::auth::Method;
use weir_bng::ppp::packet::Packet;
use weir_bng::ppp::protocol;
use weir_bng::radius::attribute::number;
use weir_bng::{
    Command, DropReason, Event, Input, LinkPrefix, Mac, Output, Punt, Random, interface_id, link_local, ra,
};

use crate::pppoe::{Device, RADIUS, TEXT, World, device, device_with, server};

const PORT: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
pub(crate) const POOL: &str = "pool six 2001:db8:100::/48 router 2001:db8:100::1/40, dns 2001:db8::53";
const HOUR: Duration = Duration::from_secs(3600);

/// A device that wants IPv6, too.
fn dual(number: u8, name: &str, password: &str) -> Device {
    with_ipv6(device(number, name, password), number)
}

pub(crate) fn with_ipv6(device: Device, number: u8) -> Device {
    let profile = device.client.profile().clone();
    let profile = Profile { interface_id: Some(interface_id(profile.mac)), ..profile };
    Device { client: Client::new(profile, Random::new([number; 32])), ..device }
}

fn anna() -> Device {
    dual(1, "anna@isp", "secret")
}

fn world(pool: &str, devices: Vec<Device>) -> World {
    World::of(&format!("{pool}, {TEXT}"), devices)
}

fn prefix_of(world: &World, client: usize) -> Option<LinkPrefix> {
    let (advertised, _) = world.devices[client].client.advertised()?;
    Some(advertised.prefix?.prefix)
}

fn advertisements(world: &World) -> u32 {
    world.devices[0].client.advertised().map_or(0, |(_, count)| count)
}

/// The peer says that it does not have a protocol.
fn reject(world: &mut World, protocol: u16) {
    let data = protocol.to_be_bytes();
    let frame = world.devices[0].frame(protocol::LCP, Packet { code: 8, id: 9, data: &data });
    world.punt(0, &frame);
    world.run(Duration::from_secs(60));
}

#[test]
fn dual_stack_is_an_address_by_ipcp_and_a_prefix_by_an_advertisement() {
    let mut world = world(POOL, vec![anna()]);
    world.dial(0);
    let client = &world.devices[0].client;
    let (advertised, _) = client.advertised().expect("an advertisement");
    let prefix = advertised.prefix.expect("a prefix");
    assert_eq!(prefix.prefix.to_string(), "2001:db8:100:1::/64", "that of the router is not assigned");
    assert_eq!((prefix.valid_s, prefix.preferred_s, advertised.mtu), (3600, 1800, Some(1492)));
    assert_eq!(advertised.dns, ["2001:db8::53".parse::<std::net::Ipv6Addr>().expect("an address")]);
    let ids = client.interface_ids().expect("IPV6CP");
    assert_eq!(ids.peer, interface_id(PORT), "the identifier of the node's link-local address");
    assert_eq!(client.address6(), Some(prefix.prefix.host(ids.own)));
    let [add] = &*world.node else { panic!("{:?}", world.node) };
    assert_eq!((add.prefix, Some(add.address)), (Some(prefix.prefix), world.devices[0].address()));
    world.assert_counted();
}

/// Table 1.3, row 35: the default route does not expire, the prefix is not on the link, and the source is fe80.
#[test]
fn row_35_advertisements_come_from_the_link_local_address_before_the_last_one_expires() {
    let mut world = world(POOL, vec![anna()]);
    world.dial(0);
    let mut out = Vec::new();
    let mut sent = Vec::new();
    for _ in 0..4 * 3600 {
        world.now += Duration::from_secs(1);
        world.bng.input(world.time(), Input::Timer, &mut out);
        for output in out.drain(..) {
            let Output::Send { frame, .. } = output else { continue };
            let packet = &frame[22..];
            let (src, advertisement) = ra::Advertisement::read(packet).expect("an advertisement");
            assert_eq!(src, link_local(interface_id(PORT)));
            let at = packet.windows(3).position(|option| option == [3, 4, 64]).expect("a prefix");
            assert_eq!(packet[at + 3] & 0xc0, 0x40, "A, and not L");
            sent.push((world.now.as_secs(), advertisement.router_lifetime_s));
        }
    }
    assert!(sent.len() > 40, "{}", sent.len());
    for pair in sent.windows(2) {
        assert!(pair[1].0 - pair[0].0 <= 300 && u64::from(pair[0].1) >= 3 * 300, "{pair:?}");
    }
}

/// Table 1.3, row 19, and L10: a client without IPv6, and one whose IPV6CP is closed later, keeps IPv4.
#[test]
fn row_19_a_failure_of_ipv6cp_leaves_ipv4_up() {
    let mut world = world(POOL, vec![device(1, "anna@isp", "secret")]);
    world.dial(0);
    world.run(HOUR);
    let client = &world.devices[0].client;
    assert_eq!((world.online().len(), client.interface_ids(), advertisements(&world)), (1, None, 0));
    world.devices.push(dual(2, "ben@isp", "other"));
    world.dial(1);
    world.devices.swap(0, 1);
    assert!(advertisements(&world) > 0);
    reject(&mut world, protocol::IPV6CP);
    let before = advertisements(&world);
    world.run(HOUR);
    assert_eq!((world.online().len(), advertisements(&world)), (2, before));
}

#[test]
fn l10_a_failure_of_ipcp_leaves_ipv6_up() {
    let mut world = world(POOL, vec![anna()]);
    world.dial(0);
    reject(&mut world, protocol::IPCP);
    assert_eq!((world.online().len(), world.node.len()), (1, 1));
    let before = advertisements(&world);
    world.run(HOUR);
    assert!(world.devices[0].client.interface_ids().is_some() && advertisements(&world) > before);
    reject(&mut world, protocol::IPV6CP);
    world.run(Duration::from_secs(60));
    assert_eq!((world.online().len(), world.bng.calls()), (0, 0), "neither is left");
}

/// A client that was adopted with IPv6 and does not have it says so once.
#[test]
fn a_client_that_rejects_packets_of_ipv6_gets_no_more() {
    let mut world = world(POOL, vec![device(1, "anna@isp", "secret")]);
    world.dial(0);
    world.restart();
    world.run(Duration::from_secs(1));
    reject(&mut world, protocol::IPV6);
    world.run(HOUR);
    let mut out = Vec::new();
    world.now += HOUR;
    world.bng.input(world.time(), Input::Timer, &mut out);
    assert!(!out.iter().any(|output| matches!(output, Output::Send { .. })), "{out:?}");
    assert_eq!(world.online().len(), 1);
}

#[test]
fn both_acks_and_the_advertisement_follow_the_record() {
    let mut world = world(POOL, vec![anna()]);
    world.is_disk_slow = true;
    world.dial(0);
    let client = &world.devices[0].client;
    assert_eq!((client.interface_ids(), client.addresses(), world.node.len()), (None, None, 0));
    // It asks again by both protocols.
    world.run(Duration::from_secs(7));
    world.store();
    world.run(Duration::from_secs(1));
    let client = &world.devices[0].client;
    assert!(client.interface_ids().is_some() && client.addresses().is_some());
    assert!(advertisements(&world) > 0);
    assert_eq!(world.bng.counts().drops[DropReason::Superseded], 4);
    world.assert_counted();
}

#[test]
fn a_restart_keeps_both_families_and_advertisements_go_on() {
    let mut world = world(POOL, vec![anna(), dual(2, "ben@isp", "other")]);
    (0..2).for_each(|client| world.dial(client));
    let (node, before) = (world.node.clone(), advertisements(&world));
    assert_ne!(prefix_of(&world, 0), prefix_of(&world, 1));
    world.restart();
    assert_eq!(world.node, node);
    assert!(world.frames.is_empty(), "no client notices it");
    world.run(Duration::from_secs(600));
    assert!(advertisements(&world) > before);
    // The prefix is not given to another one, and its subscriber gets it again.
    let prefix = prefix_of(&world, 0);
    world.devices[0].client.reset();
    world.dial(0);
    assert_eq!((prefix_of(&world, 0), world.node.len()), (prefix, 2));
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.run(Duration::from_secs(60));
    world.restart();
    world.devices.iter_mut().for_each(|device| device.client.reset());
    (0..2).for_each(|client| world.dial(client));
    assert_eq!(prefix_of(&world, 0), prefix);
}

#[test]
fn a_pool_of_prefixes_that_is_used_up_leaves_ipv4() {
    let pool = POOL.replace("100::/48", "100:8::/63");
    let devices = vec![anna(), dual(2, "ben@isp", "other"), dual(3, "cleo", "p")];
    let mut world = world(&pool, devices);
    let cleo = "cleo login cleo plan basic password p".parse().expect("a subscriber");
    world.command(Command::AddSubscriber(cleo));
    (0..3).for_each(|client| world.dial(client));
    assert_eq!(world.online().len(), 3);
    let given: BTreeSet<_> = (0..3).map(|client| prefix_of(&world, client)).collect();
    assert_eq!(given.len(), 3, "two prefixes, and none: {given:?}");
    assert!(given.contains(&None) && world.devices[2].address().is_some());
    let exhausted = |event: &&Event| matches!(event, Event::PoolExhausted { .. });
    assert_eq!(world.events.iter().filter(exhausted).count(), 1);
}

#[test]
fn a_subscriber_gets_the_prefix_that_its_entry_says() {
    let mut world = world(POOL, vec![dual(1, "gina", "p")]);
    let gina = "gina login gina plan basic prefix 2001:db8:100:77::/64 password p";
    world.command(Command::AddSubscriber(gina.parse().expect("a subscriber")));
    world.dial(0);
    assert_eq!(
        prefix_of(&world, 0).map(|prefix| prefix.to_string()).as_deref(),
        Some("2001:db8:100:77::/64")
    );
    let other = gina.replace("gina", "other");
    world.command(Command::AddSubscriber(other.parse().expect("a subscriber")));
    assert!(world.results.last().is_some_and(Result::is_err), "it is hers alone");
}

/// Table 1.3, row 12: what cannot be used as it was assigned is refused with a reason.
#[test]
fn row_12_a_prefix_of_radius_is_a_slash_64_or_refused() {
    const RIGHT: &[u8] = &[0, 64, 0x20, 1, 0x0d, 0xb8, 1, 0, 0, 9];
    const LONG: &[u8] = &[0, 128, 0x20, 1, 0x0d, 0xb8, 1, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1];
    for (value, given) in [(RIGHT, Some("2001:db8:100:9::/64")), (LONG, None)] {
        let carl = with_ipv6(device_with(3, "carl@isp", "secret", Method::Pap), 3);
        let text = format!("{RADIUS}, {POOL}, {}", TEXT.replace("auth chap-md5 pap", "auth pap chap-md5"));
        let mut world = World::of(&text, vec![carl]);
        let list: &'static [(u8, &'static [u8])] = match given {
            Some(_) => &[(number::FRAMED_IPV6_PREFIX, RIGHT)],
            None => &[(number::FRAMED_IPV6_PREFIX, LONG)],
        };
        assert_eq!(list[0].1, value);
        world.radius = server(b"secret", list);
        world.dial(0);
        assert_eq!(prefix_of(&world, 0).map(|prefix| prefix.to_string()).as_deref(), given);
        assert_eq!(world.drops(DropReason::RadiusPrefix), u64::from(given.is_none()));
    }
}

#[test]
fn a_solicitation_is_answered_to_its_sender_at_a_limited_rate() {
    let mut world = world(POOL, vec![anna()]);
    world.dial(0);
    let own = link_local(interface_id(world.devices[0].mac()));
    let frame = world.devices[0].client.frame(protocol::IPV6, &ra::solicitation(own)).expect("a session");
    let before = advertisements(&world);
    (0..20).for_each(|_| world.punt(0, &frame));
    world.run(Duration::from_secs(1));
    let answered = advertisements(&world) - before;
    assert!((1..=4).contains(&answered), "{answered}");
    assert_eq!(world.drops(DropReason::SubscriberRate), 20 - u64::from(answered));
    world.assert_counted();
}

/// A device over Ethernet has a prefix of the same pool.
#[test]
fn a_device_with_dhcp_is_told_its_prefix() {
    let mut world = world(POOL, Vec::new());
    let ida = "ida mac 02:00:00:00:00:07 plan basic".parse().expect("a subscriber");
    world.command(Command::AddSubscriber(ida));
    let message = "request 02:00:00:00:00:07 want 100.64.0.5";
    let request = weir_bng::scenario::frame(message, 0).expect("a request");
    let port = || "access1".parse().expect("a port");
    let mut out = Vec::new();
    let punt = |bytes| Input::Punt(Punt { port: port(), tags: weir_bng::Tags::None, bytes });
    world.input(punt(&request));
    let [add] = &*world.node else { panic!("{:?}", world.node) };
    assert!(add.prefix.is_some());
    let mac = Mac([2, 0, 0, 0, 0, 7]);
    let solicitation = ra::solicitation(link_local(interface_id(mac)));
    let frame = [&[0x33, 0x33, 0, 0, 0, 2][..], &mac.0, &[0x86, 0xdd], &solicitation].concat();
    world.bng.input(world.time(), punt(&frame), &mut out);
    let [.., Output::Send { frame, .. }] = &*out else { panic!("{out:?}") };
    let (_, advertised) = ra::Advertisement::read(&frame[14..]).expect("an advertisement");
    assert_eq!(
        (advertised.prefix.map(|found| found.prefix), advertised.source_mac),
        (add.prefix, Some(PORT))
    );
    world.assert_counted();
}

/// A device over Ethernet asks for a router before it has a lease: the reason is not that nobody knows it.
#[test]
fn a_solicitation_before_the_session_has_its_own_reason() {
    let mut world = world(POOL, Vec::new());
    let ida = "ida mac 02:00:00:00:00:07 plan basic".parse().expect("a subscriber");
    world.command(Command::AddSubscriber(ida));
    for (last, reason) in [(7, DropReason::NoPrefix), (8, DropReason::NoSubscriber)] {
        let mac = Mac([2, 0, 0, 0, 0, last]);
        let solicitation = ra::solicitation(link_local(interface_id(mac)));
        let frame = [&[0x33, 0x33, 0, 0, 0, 2][..], &mac.0, &[0x86, 0xdd], &solicitation].concat();
        let port = "access1".parse().expect("a port");
        world.input(Input::Punt(Punt { port, tags: weir_bng::Tags::None, bytes: &frame }));
        assert_eq!(world.drops(reason), 1, "{reason:?}");
    }
    world.assert_counted();
}
