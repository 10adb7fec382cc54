//! What users of other concentrators met, and what has no place of its own: see docs/subscriber-tests.md.

use super::*;

fn dhcp(world: &mut World, line: &str, text: &str) {
    let bytes = weir_bng::scenario::frame(text, 0).expect("a frame");
    let Line { port, tags } = line.parse().expect("a line");
    world.input(Input::Punt(Punt { port, tags, bytes: &bytes }));
    world.run(Duration::from_secs(1));
}

#[test]
fn row_8_a_device_that_moves_to_another_line_has_one_session() {
    for (rule, line) in [("replace", "access1:100.8"), ("refuse", "access1:100.7")] {
        let text = format!("moves {rule}, {TEXT}, subscriber dora mac 02:00:00:00:00:07 plan basic");
        let mut world = World::of(&text, Vec::new());
        for from in ["access1:100.7", "access1:100.8"] {
            dhcp(&mut world, from, "discover 02:00:00:00:00:07");
            dhcp(&mut world, from, "request 02:00:00:00:00:07 want 100.64.0.2 server 100.64.0.1");
        }
        let lines: Vec<String> = world.node.iter().map(|add| add.line.to_string()).collect();
        assert_eq!(lines, [line], "{rule}");
    }
}

#[test]
fn row_39_pppoe_and_dhcp_share_a_line() {
    let text = format!("{TEXT}, subscriber dora mac 02:00:00:00:00:07 plan basic");
    let mut world = World::of(&text, vec![anna()]);
    let line = world.devices[0].line.to_string();
    let client = "02:00:00:00:00:07";
    dhcp(&mut world, &line, &format!("discover {client}"));
    world.dial(0);
    let offered = world.devices[0].address().expect("an address");
    assert_ne!(offered, Ipv4Addr::new(100, 64, 0, 2), "it is offered to the other one");
    dhcp(&mut world, &line, &format!("request {client} want 100.64.0.2 server 100.64.0.1"));
    let names: Vec<String> = world.online().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["anna", "dora"]);
    let lines: BTreeSet<String> = world.node.iter().map(|add| add.line.to_string()).collect();
    assert_eq!(lines, BTreeSet::from([line.clone()]));
    // The end of one leaves the other one.
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    assert_eq!(world.online().len(), 1);
    world.assert_counted();
}

#[test]
fn row_34_a_restart_without_radius_keeps_sessions_and_asks_for_new_ones() {
    let mut world = remote(b"secret", &[]);
    world.dial(0);
    world.radius = Box::new(|_| None);
    world.restart();
    assert_eq!((world.online().len(), world.node.len()), (1, 1));
    world.devices.push(device_with(4, "dora@isp", "secret", Method::Pap));
    world.dial(1);
    world.run(Duration::from_secs(60));
    assert_eq!((world.online().len(), world.drops(DropReason::RadiusNoAnswer)), (1, 1));
    world.radius = server(b"secret", &[]);
    world.run(Duration::from_secs(60));
    world.devices[1].client.reset();
    world.dial(1);
    assert_eq!(world.online().len(), 2);
}

#[test]
fn r12_the_message_of_a_reject_is_shown_to_the_device_and_to_the_operator() {
    let mut world = remote(b"secret", &[]);
    world.radius = Box::new(|bytes| {
        let request = radius::Packet::read(bytes).expect("a packet");
        let mut attributes = Attributes::default();
        attributes.push(number::REPLY_MESSAGE, b"your bill is not paid");
        let answer = request.answer(code::ACCESS_REJECT, &attributes, SECRET);
        Some(answer.expect("a short packet").write())
    });
    world.dial(0);
    let why = world.bng.why_login("carl@isp").expect("it was heard");
    assert!(why.reason.ends_with("your bill is not paid"), "{}", why.reason);
    let is_told = |frame: &weir_bng::TraceFrame| frame.bytes.windows(4).any(|bytes| bytes == b"bill");
    assert!(why.frames.iter().any(is_told), "in the Authenticate-Nak");
}

/// Subscribers with DHCP are known here by their line or MAC address: no server is asked, dead or not.
#[test]
fn subscribers_with_dhcp_come_online_by_line_or_mac_while_no_radius_server_answers() {
    let text = format!(
        "{RADIUS}, brown-out age 1h, {TEXT}, subscriber dora mac 02:00:00:00:00:07 plan basic,
         subscriber emil line access1:100.8 plan basic"
    );
    let mut world = World::of(&text, Vec::new());
    world.radius = Box::new(|_| panic!("a question"));
    let devices = [("access1:100.7", "02:00:00:00:00:07", 2), ("access1:100.8", "02:00:00:00:00:08", 3)];
    for (line, client, address) in devices {
        dhcp(&mut world, line, &format!("discover {client}"));
        dhcp(&mut world, line, &format!("request {client} want 100.64.0.{address} server 100.64.0.1"));
    }
    assert_eq!(world.online().len(), 2, "{:?}", world.bng.counts());
}

#[test]
fn attributes_that_are_not_supported_are_counted_or_refused() {
    for (rule, online, counted) in [("ignore", 1, vec![((0, 250), 1)]), ("refuse", 0, vec![])] {
        let text = format!(
            "{RADIUS}, nas unsupported {rule}, {}",
            TEXT.replace("auth chap-md5 pap", "auth pap chap-md5")
        );
        let mut world = World::of(&text, vec![device_with(3, "carl@isp", "secret", Method::Pap)]);
        world.radius = server(b"secret", &[(250, b"x")]);
        world.dial(0);
        assert_eq!(world.online().len(), online, "{rule}");
        assert_eq!(world.bng.unsupported_attributes().collect::<Vec<_>>(), counted, "{rule}");
        assert_eq!(world.drops(DropReason::RadiusAnswer), 1 - online as u64, "{rule}");
    }
}

#[test]
fn row_20_requests_for_services_that_are_not_offered_are_served_and_counted() {
    let mut world = World::new(vec![anna()]);
    let padi = world.devices[0].client.dial(world.now);
    let mut packet = weir_bng::pppoe::discovery::Discovery::read(&padi).expect("a PADI");
    let mut tags = weir_bng::pppoe::tags::TagList::default();
    tags.push(weir_bng::pppoe::tags::SERVICE_NAME, b"of another provider");
    packet.tags = tags;
    world.punt(0, &packet.write().expect("a short packet"));
    assert_eq!((world.bng.discovery_counts().other_services, world.frames.len()), (1, 1));
}
