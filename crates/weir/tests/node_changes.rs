//! `weir node` that changes while it runs: routes, addresses, tags, ports, threads, filters.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_port::packet;
use weir_testkit::{PATIENCE, need_root};

use crate::node::{ROUTER, more_hosts};
use crate::street::{LEFT4, RIGHT4, Street, echo_over_tcp};

#[test]
fn a_node_changes_its_routes_while_it_runs() {
    need_root!();
    let street = Street::new();
    let node = street.run(ROUTER);
    echo_over_tcp(&street, 1000);
    let before = street.show("counters");
    let changed = ROUTER.replace("route", "route(198.51.100.0/24 via 192.0.2.2)");
    let file = street.file(&changed);
    let output = street.weir(&["apply", file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let reported = String::from_utf8(output.stdout).unwrap();
    assert_eq!(reported, format!("the node applied {}\n", file.display()));
    assert_eq!(street.show("routes")["routes"][0]["prefix"], "198.51.100.0/24");
    let text = String::from_utf8(street.weir(&["show", "routes"]).stdout).unwrap();
    assert_eq!(text, "198.51.100.0/24 via 192.0.2.2\n");
    let after = street.show("counters");
    assert!(after["entered"].as_u64() >= before["entered"].as_u64(), "it is the same node");
    let other = format!("{ROUTER} run(wait poll)");
    let output = street.weir(&["apply", street.file(&other).to_str().unwrap()]);
    let reported = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), reported.as_str()),
        (Some(1), "weir: another `wait` of `run`: this takes a restart of the node\n")
    );
    echo_over_tcp(&street, 1000);
    node.end();
}

/// A host with this VLAN tag asks the node for its address there; waits for the answer.
fn ask_on_a_line(street: &Street, tag: u16, own: [u8; 4], node: [u8; 4]) {
    let index = street.left.run(|| Rtnl::open().unwrap().link("l0").unwrap().ifindex);
    let host = [2, 0, 0, 0, 0xcc, 1];
    let [high, low] = tag.to_be_bytes();
    let asks = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    let frame = [&[0xff; 6][..], &host, &[0x81, 0, high, low], &asks, &host, &own, &[0; 6], &node].concat();
    let mut receiver = street.left.run(|| packet::Receiver::open(index, 1 << 20).unwrap());
    street.left.run(|| packet::Sender::open(index).unwrap().send(&[frame]).unwrap());
    let (mut is_answered, deadline) = (false, Instant::now() + PATIENCE);
    while !is_answered {
        assert!(Instant::now() < deadline, "the node answers on VLAN {tag}");
        let is_answer = |bytes: &[u8]| bytes.starts_with(&host) && bytes.get(28..32) == Some(&node);
        receiver.receive(Duration::from_millis(100), |bytes| is_answered |= is_answer(bytes)).unwrap();
    }
}

#[test]
fn a_node_changes_addresses_and_tags_and_gets_ports_while_it_runs() {
    need_root!();
    let street = Street::new();
    let text = |more: &str, run: &str| {
        format!(
            "node lan(198.18.0.1/24, 198.18.9.1/24, on n0) {more} filter(policy accept) > route > wan(192.0.2.1/24, on n1)\n{run}\n"
        )
    };
    let apply = |text: &str| street.weir(&["apply", street.file(text).to_str().unwrap()]);
    let applied = |text: &str| {
        let output = apply(text);
        assert!(output.status.success(), "{text}: {output:?}");
        let ports = street.show("ports")["ports"].as_array().unwrap().clone();
        ports
            .iter()
            .map(|port| format!("{} {}", port["port"].as_str().unwrap(), port["number"]))
            .collect::<Vec<_>>()
    };
    let run = "run(io packet, ports change)";
    let node = street.run(&text("", run));
    echo_over_tcp(&street, 1000);
    let before = street.show("counters");
    assert_eq!(applied(&text("dmz(198.18.7.1/24, on n0, vlan 7)", run)), ["lan 0", "dmz 2", "wan 1"]);
    ask_on_a_line(&street, 7, [198, 18, 7, 2], [198, 18, 7, 1]);
    assert_eq!(applied(&text("dmz(198.18.8.1/24, on n0, vlan 8)", run)), ["lan 0", "dmz 2", "wan 1"]);
    ask_on_a_line(&street, 8, [198, 18, 8, 2], [198, 18, 8, 1]);
    echo_over_tcp(&street, 1000);
    assert_eq!(applied(&text("", run)), ["lan 0", "wan 1"]);
    let counters = street.show("counters");
    let names: Vec<_> = counters["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(names, ["lan", "wan"]);
    assert!(
        counters["entered"].as_u64() > before["entered"].as_u64() && counters["balance"] == true,
        "{counters}"
    );
    echo_over_tcp(&street, 1000);
    node.end();
    // Without the right to open it no port comes, and addresses change all the same.
    let node = street.run(&text("", "run(io packet)"));
    let output = apply(&text("dmz(198.18.7.1/24, on n0, vlan 7)", "run(io packet)"));
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(
        reported.starts_with("weir: port dmz: ") && reported.contains("begin it with run(ports change)"),
        "{reported}"
    );
    applied(&text("", "run(io packet)").replace("198.18.9.1", "198.18.5.1"));
    let ports = street.show("ports");
    assert_eq!(ports["ports"][0]["addresses"][1], "198.18.5.1/24", "{ports}");
    echo_over_tcp(&street, 1000);
    node.end();
}

#[test]
fn threads_are_distinguished_and_changed_together() {
    need_root!();
    let street = Street::new();
    let text = "lan(198.18.0.1/24, on n0) filter(accept state new, accept state established) > route \
                > wan(192.0.2.1/24, on n1) run(io packet, threads 2, host none)";
    let node = street.run(text);
    echo_over_tcp(&street, 100_000);
    let counters = street.show("counters");
    assert_eq!(counters["threads"].as_array().map(Vec::len), Some(2), "{counters}");
    let other = street.file(&text.replace("accept state new", "accept outward"));
    let applied = street.weir(&["apply", other.to_str().unwrap()]);
    assert!(applied.status.success(), "{applied:?}");
    let rules = street.show("rules").to_string();
    assert!(rules.contains("accept outward") && !rules.contains("state new"), "{rules}");
    let wrong = street.weir(&["run", other.to_str().unwrap(), "--cpus", "0,x"]);
    assert_eq!(
        String::from_utf8_lossy(&wrong.stderr),
        "weir: --cpus: `x` is no CPU: write its number, from 0, or the first and the last: 2-5\n"
    );
    let accounting = node.end();
    let threads = accounting["threads"].as_array().unwrap();
    let entered: u64 = threads.iter().map(|thread| thread["entered"].as_u64().unwrap()).sum();
    assert_eq!(accounting["entered"], entered, "{accounting}");
}

/// What a host says arrives at the other, and is answered; the end that the other sees.
fn ask(client: &UdpSocket, server: &UdpSocket) -> SocketAddr {
    let mut bytes = [0; 16];
    client.send_to(b"ask", server.local_addr().unwrap()).unwrap();
    let (length, from) = server.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"ask");
    server.send_to(b"answer", from).unwrap();
    let (length, _) = client.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"answer");
    from
}

#[test]
fn sessions_of_all_threads_live_on_while_ports_change_and_filters_come_and_go() {
    need_root!();
    for io in ["xdp", "packet"] {
        let street = Street::for_threads(2, &[LEFT4], &[RIGHT4]);
        if io == "xdp" {
            street.merge();
        }
        let hosts = more_hosts(&street);
        let with = |ports: &str, other: &str| {
            format!(
                "node lan(198.18.0.1/24, on n0) {other} filter(accept state new, accept state established)
                    > nat(public 192.0.2.1 ports {ports}) > {other} route > wan(192.0.2.1/24, on n1)
                 run(io {io}, threads 2)"
            )
        };
        let text = |ports: &str| with(ports, "");
        let node = street.run(&text("1024-16383"));
        let listening = |host: &Namespace, address: &str, port: u16| {
            let socket = host.run(|| UdpSocket::bind((address, port)).unwrap());
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        let server = listening(&street.right, "192.0.2.2", 9);
        let clients = |port: u16| -> Vec<UdpSocket> {
            hosts.iter().map(|host| listening(&street.left, host, port)).collect()
        };
        let seen = |clients: &[UdpSocket]| -> Vec<SocketAddr> {
            clients.iter().map(|client| ask(client, &server)).collect()
        };
        let old = clients(5000);
        let ends = seen(&old);
        let sessions = street.show("sessions");
        assert_eq!(sessions["live"], 2 * hosts.len(), "{io}: in the NAT and in the filter: {sessions}");
        let applied = street.weir(&["apply", street.file(&text("32768-65535")).to_str().unwrap()]);
        assert!(applied.status.success(), "{applied:?}");
        assert_eq!(seen(&old), ends, "{io}: what lives is seen as before");
        let (new, among) = (clients(6000), 32768..=65535);
        assert!(seen(&new).iter().all(|end| among.contains(&end.port())), "{io}: what is new is not");
        // Whatever each thread has taken of a change, no frame is lost meanwhile.
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let filter = "filter(count all udp, policy accept) >";
                for (ports, other) in
                    [("1024-9999 20000-29999, block 100", filter), ("32768-65535", "")].repeat(3)
                {
                    let file = street.file(&with(ports, other));
                    let applied = street.weir(&["apply", file.to_str().unwrap()]);
                    assert!(applied.status.success(), "{applied:?}");
                }
            });
            while !changing.is_finished() {
                assert_eq!(seen(&old), ends, "{io}: what lives is seen as before");
            }
        });
        // Hosts of all threads reach each other by what the outside sees of them.
        for (n, host) in old.iter().enumerate() {
            let (other, end) = ((n + 1) % old.len(), ends[n]);
            host.send_to(b"hello", ends[other]).unwrap();
            let (_, from) = old[other].recv_from(&mut [0; 16]).unwrap();
            assert_eq!(from, end, "{io}: from {n} to {other}");
        }
        let applied = street.weir(&["apply", street.file(&text("1024-65535, block 1024")).to_str().unwrap()]);
        let reported = String::from_utf8_lossy(&applied.stderr);
        assert_eq!(
            reported,
            "weir: blocks of more than 512 ports come only when the node begins anew, since it has several threads\n"
        );
        let accounting = node.end();
        let threads = accounting["threads"].as_array().unwrap();
        assert!(
            threads.iter().all(|thread| thread["left"].as_u64() > Some(8)),
            "{io}: both work: {accounting}"
        );
        assert_eq!(accounting["dropped"], 0, "{io}: {accounting}");
    }
}
