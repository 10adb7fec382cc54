//! Machines at tagged ports of their nodes by TAP devices (`host tap`), on a kernel that needs no VLAN interfaces for that; and
//! the VLAN offloads of such ports.
//!
//! ```text
//!   machine a - m0 [ node a ] p0 ==== QinQ 100.5 ==== p0 [ node b ] m0 - machine b
//! ```

use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::time::Instant;

use weir_linux::interface::Interface;
use weir_linux::namespace::Namespace;
use weir_testkit::wires::{Wire, address};
use weir_testkit::{PATIENCE, need_root};

use crate::hosts::at;
use crate::outside::has_sshd;
use crate::stacks::{iperf3, ping, ssh};
use crate::street::{Running, Street, WAYS, wire};
use crate::weir::WEIR;

const A: [&str; 2] = ["198.18.5.1", "2001:db8:5::1"];
const B: [&str; 2] = ["198.18.5.2", "2001:db8:5::2"];

/// Two nodes with a wire between their ports `p0`.
pub(crate) struct Neighbours {
    pub(crate) a: Street,
    pub(crate) b: Street,
}

impl Neighbours {
    /// With a queue of the wire for each of so many threads.
    pub(crate) fn new(threads: u32) -> Neighbours {
        let [a, b] = [(); 2].map(|()| Street::for_threads(threads, &[], &[]));
        wire((&a.node, "p0"), (&b.node, "p0"), Wire { number: 3, queues: threads });
        // The kernel allows for no tag of 802.1ad.
        let widen = || Interface::named("p0").and_then(|port| port.set_mtu(1508)).unwrap();
        [&a, &b].into_iter().for_each(|street| street.node.run(widen));
        Neighbours { a, b }
    }

    /// Runs both nodes, with these stages and settings; `m0` is the device of each machine, with these addresses.
    pub(crate) fn run(&self, addresses: [&[&str]; 2], stages: &str, run: &str) -> [Running<'_>; 2] {
        let [a, b] = addresses;
        [(&self.a, a, 1), (&self.b, b, 2)].map(|(street, own, net)| {
            let networks: Vec<String> = own.iter().map(|own| network(own)).collect();
            let node = street.run(&format!(
                "node lan(10.0.{net}.1/24, on n0) {stages} > route
                    > peer({}, vlan 100.5, host tap m0, on p0)
                 run(host none, {run})",
                networks.join(", ")
            ));
            own.iter().for_each(|own| address((&street.node, "m0"), own));
            node
        })
    }
}

fn network(address: &str) -> String {
    format!("{address}/{}", if address.contains(':') { 64 } else { 24 })
}

/// Frames that a rule which begins so has seen.
fn seen_by(street: &Street, rule: &str) -> u64 {
    let shown = street.show("rules");
    let all = shown["rules"].as_array().expect("rules");
    let found = all.iter().find(|entry| entry["rule"].as_str().is_some_and(|text| text.starts_with(rule)));
    found.unwrap_or_else(|| panic!("{rule}: {shown}"))["frames"].as_u64().expect("frames")
}

/// The node drops or rejects packets of machine a; the last one arrives.
fn check_rules(a: &Namespace, b: &Namespace) {
    let [dropped, accepted] = [9, 7].map(|port| b.run(|| UdpSocket::bind(at(B[0], port)).unwrap()));
    let sender = a.run(|| UdpSocket::bind(at(A[0], 0)).unwrap());
    for port in [9, 9, 9, 7] {
        sender.send_to(b"hello", at(B[0], port)).unwrap();
    }
    accepted.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(accepted.recv(&mut [0; 9]).unwrap(), 5);
    dropped.set_nonblocking(true).unwrap();
    let nothing = dropped.recv(&mut [0; 9]).expect_err("the node of a drops it").kind();
    let refused = a.run(|| TcpStream::connect(at(B[0], 23))).expect_err("the node of a rejects it").kind();
    assert_eq!((nothing, refused), (ErrorKind::WouldBlock, ErrorKind::ConnectionRefused));
}

#[test]
fn machines_of_nodes_talk_by_a_tagged_port() {
    need_root!();
    let filter = "filter(count ssh outward tcp to any port 22, drop udp to any port 9, reject tcp to any port 23,
        accept state established, accept state related, accept icmp, accept icmp6, accept tcp to any port 22,5201,
        accept udp to any port 7)";
    for (io, threads) in WAYS {
        let way = format!("{io}, {threads} threads");
        let pair = Neighbours::new(threads);
        let (a, b) = (&pair.a, &pair.b);
        let nodes = pair.run([&A, &B], filter, &format!("io {io}, threads {threads}"));
        for (own, other) in A.into_iter().zip(B) {
            ping(&a.node, other);
            ping(&b.node, own);
            iperf3(&a.node, &b.node, other, other);
            ssh(&a.node, &b.node, other, other);
        }
        check_rules(&a.node, &b.node);
        assert_eq!(seen_by(a, "drop udp"), 3, "{way}");
        assert_eq!(seen_by(b, "count ssh"), 0, "{way}");
        if has_sshd() {
            assert!(seen_by(a, "count ssh") > 20, "{way}");
        }
        let [of_a, of_b] = nodes.map(Running::end);
        assert_eq!(of_a["drops"]["filter_drop"], 3, "{way}: {of_a}");
        for counted in [of_a, of_b] {
            assert!(counted["originated"].as_u64() > Some(100), "{way}: {counted}");
        }
    }
}

/// The features of the other end of a port's veth that hide tags.
fn hiding(street: &Street) -> [bool; 2] {
    street.node.run(|| {
        let end = Interface::named("m1").unwrap();
        ["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"].map(|name| end.feature(name).unwrap().expect("known"))
    })
}

#[test]
fn tags_are_shown_while_a_node_runs_and_hidden_again_however_it_ends() {
    need_root!();
    let street = Street::for_threads(1, &[], &[]);
    wire((&street.node, "m1"), (&street.node, "p0"), Wire { number: 3, queues: 1 });
    let file_is_there = || std::fs::read_dir(street.folder.join("offloads")).unwrap().count() == 1;
    let run = || {
        let mut weir = Command::new(WEIR);
        weir.env("STATE_DIRECTORY", &*street.folder);
        let node = street.run_by(weir, "node lan(on n0) > wan(vlan 100.5, on p0)");
        assert!(hiding(&street) == [false; 2] && file_is_there());
        node
    };
    assert_eq!(hiding(&street), [true; 2], "as the kernel makes it");
    run().end();
    assert!(hiding(&street) == [true; 2] && !file_is_there());
    run().crash();
    let deadline = Instant::now() + PATIENCE;
    while (hiding(&street) != [true; 2] || file_is_there()) && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(hiding(&street) == [true; 2] && !file_is_there(), "its guard has done it");
}
