//! Programs of two subscribers with stacks of their own, through a node that shapes: ben by a PPPoE session that exists already, anna by
//! DHCP, each in QinQ. Both are interfaces of `weir cpe --tap`.
//!
//! ```text
//!  ben   cpe0 - weir cpe - l0 ---- n0 [ node ] n1 ---- r0 far: web server, sshd
//!  anna  cpe0 - weir cpe - a0 ---- n2 [      ] + weir bng
//! ```

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_testkit::wires::{Wire, default_route, set_mtu};
use weir_testkit::{PATIENCE, Started, need_root};

use crate::hosts::{at, path_mtu, set};
use crate::stacks::{curl, hops, ping, ssh};
use crate::street::{At, RIGHT4, Street, settle, wire};
use crate::weir::{WEIR, run, start};

const FAR6: At = ("2001:db8:2::2", "2001:db8:2::1");
const GATEWAY: &str = "100.64.0.1";
const GATEWAY6: &str = "2001:db8:100::1";
const BEN: &str = "100.64.1.2";
const BEN6: At = ("2001:db8:100:100::2", "2001:db8:100:100::1");
const ANNA: &str = "100.64.0.2";
/// What a PPPoE session takes (RFC 2516, section 7).
const MRU: u32 = 1492;
/// Bytes of two tags.
const TAGS: u32 = 8;

const TEXT: &str = "node access1(vlan 100-199.1-4094, access, on packet:n0) access2(vlan 100-199.1-4094, access, on packet:n2)
        > access(gateway 100.64.0.1/10, gateway 2001:db8:100::1/48, port access1 rate 20Mbit, port access2 rate 20Mbit)
        > route > wan(192.0.2.1/24, 2001:db8:2::1/64, on packet:n1)
     subscribers(ben access1 100.7 02:00:01:00:00:01 100.64.1.2 2001:db8:100:100::/56 pppoe 7 plan basic)
     run(host none)
     bng(store store, socket bng.sock, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/10, plan basic down 20Mbit up 20Mbit)";

/// The session of device 0 as an interface `cpe0`, until it is dropped.
fn session(host: &Namespace, words: &str, address: &str) -> Started {
    let mut command = Command::new(WEIR);
    command.args(["cpe", "--tap", "cpe0", "--json"]).args(words.split_whitespace());
    let mut session = host.run(|| Started::new(command));
    session.await_words(&format!("cpe0 has the address {address}"));
    default_route((host, "cpe0"), GATEWAY);
    session
}

/// A host that sends packets of 1500 bytes to a subscriber is told that they are too long, and for which length.
fn is_told_the_mtu(host: &Namespace, target: &str) {
    let target: SocketAddr = at(target, 9).parse().unwrap();
    let (own, headers) = if target.is_ipv4() { ("0.0.0.0:0", 28) } else { ("[::]:0", 48) };
    let socket = host.run(|| UdpSocket::bind(own).unwrap());
    if target.is_ipv4() {
        set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO);
    }
    socket.connect(target).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while path_mtu(host, target) != MRU {
        assert!(Instant::now() < deadline, "{target}: the path takes {} bytes", path_mtu(host, target));
        // Of this one and of those before: too long, or refused, since no program listens.
        let _ = socket.send(&vec![0; 1500 - headers]);
        std::thread::yield_now();
    }
}

fn subscriber<'a>(shown: &'a Value, address: &str) -> &'a Value {
    let has = |one: &&Value| one["prefixes"][0].as_str().is_some_and(|prefix| prefix.starts_with(address));
    let all = shown["subscribers"].as_array().expect("a list");
    all.iter().find(has).unwrap_or_else(|| panic!("no {address} in {shown}"))
}

#[test]
fn programs_of_subscribers_talk_through_the_shaper() {
    need_root!();
    if !Path::new(WEIR).with_file_name("weir-bngd").exists() {
        return println!("skipped: weir-bngd is not built (cargo build -p weir-bngd)");
    }
    let street = Street::for_threads(1, &[], &[RIGHT4, FAR6]);
    let (ben, far, others) = (&street.left, &street.right, Namespace::new().unwrap());
    let anna = &others;
    wire((anna, "a0"), (&street.node, "n2"), Wire { number: 2, queues: 1 });
    for end in [(ben, "l0"), (&street.node, "n0"), (anna, "a0"), (&street.node, "n2")] {
        set_mtu(end, 1500 + TAGS);
    }
    let node = street.run(TEXT);
    let file = street.folder.join("test.node").display().to_string();
    let node_socket = street.socket().display().to_string();
    let line = format!("bng run {file} --node-socket {node_socket}");
    let _bngd = start(&street.node, &line, "attached to the node");
    let socket = street.folder.join("bng.sock").display().to_string();
    let added = format!("bng subscriber add anna --line access2:101.9 --plan basic --socket {socket}");
    assert!(run(&street.node, &added).status.success());

    let preset = format!("--pppoe 1 --pppoe-preset 7 --first-address {BEN} --bng-mac 02:00:00:00:00:02");
    let _ben = session(ben, &format!("{preset} --on l0 --lines 100.7 --first-mac 02:00:01:00:00:01"), BEN);
    settle((ben, "cpe0"), &[BEN6]);
    let _anna =
        session(anna, "--dhcp 1 --on a0 --lines 101.9 --first-mac 02:00:02:00:00:01", &format!("{ANNA};"));

    for (host, gateway, target) in
        [(anna, GATEWAY, RIGHT4.0), (ben, GATEWAY, RIGHT4.0), (ben, GATEWAY6, FAR6.0)]
    {
        ping(host, target);
        if let Some(hops) = hops(host, target) {
            assert_eq!(hops, [gateway, target]);
        }
        curl(host, far, &at(target, 80), &format!("http://{}/", at(target, 80)));
    }
    ssh(ben, far, RIGHT4.0, RIGHT4.0);
    is_told_the_mtu(far, BEN);
    is_told_the_mtu(far, BEN6.0);
    // Between subscribers, in fragments too.
    ping(anna, BEN);
    curl(anna, ben, &at(BEN, 80), &format!("http://{}/", at(BEN, 80)));

    let shown = street.show("subscribers");
    for address in [BEN, ANNA] {
        let one = subscriber(&shown, address);
        // A page from the far end, and one from ben to anna.
        let bytes = |field: &str| one[field].as_u64().unwrap_or(0);
        assert!(bytes("to_bytes") > 2_000_000 && bytes("from_bytes") > 50_000, "{one}");
        let delays = one["to_queue"]["delays"].as_array().expect("steps");
        assert!(delays.iter().filter_map(Value::as_u64).sum::<u64>() > 0, "frames waited: {one}");
        assert_eq!((&one["foreign_sources"], &one["is_dead"]), (&0.into(), &false.into()), "{one}");
    }
    let accounting = node.end();
    assert_eq!(accounting["drops"]["subscriber_source"].as_u64().unwrap_or(0), 0, "{accounting}");
}
