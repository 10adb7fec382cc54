//! Senders that leave VLAN tags to a network card that there is not, before ports with tags.
//!
//! ```text
//!   s0 - m0 [ bridge ] m1 - n0 [ node ]        the bridge takes the outer tag out, and m1 leaves it beside the frame
//! ```

use std::fs;
use std::time::Instant;

use weir_linux::interface::Interface;
use weir_linux::namespace::Namespace;
use weir_node::offload::SwitchedOff;
use weir_node::{Config, Opened, Snapshot};
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_plane::DropReason;
use weir_port::packet::Sender;
use weir_testkit::pair::bridge;
use weir_testkit::wires::{Wire, join, keep_quiet, set_up, without_ipv6};
use weir_testkit::{Folder, PATIENCE, need_root};

const FEATURES: [&str; 2] = ["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];
const SINGLE: (&str, &[u8], DropReason) = ("5", &[0x81, 0, 0, 5], DropReason::UnknownVlan);
const DOUBLE: (&str, &[u8], DropReason) =
    ("100.5", &[0x88, 0xa8, 0, 100, 0x81, 0, 0, 5], DropReason::HiddenVlan);

/// Frames of the sender; the bridge may say something by itself.
const FRAMES: usize = 20;

/// The sender's namespace, and the node's.
struct Bridged {
    sender: Namespace,
    node: Namespace,
}

impl Bridged {
    fn new() -> Bridged {
        let [sender, node] = [(); 2].map(|()| Namespace::new().unwrap());
        // No device speaks by itself.
        [&sender, &node].into_iter().for_each(|host| without_ipv6((host, "default")));
        let wires = [[(&sender, "s0"), (&node, "m0")], [(&node, "m1"), (&node, "n0")]];
        for (number, ends) in (0..).zip(wires) {
            join(ends, Wire { number, queues: 1 });
            for end in ends {
                keep_quiet(end);
                set_up(end, true);
            }
        }
        bridge(&node, "bridge0", "m0");
        let output = node.run(|| {
            std::process::Command::new("ip").args(["link", "set", "m1", "master", "bridge0"]).output()
        });
        assert!(output.expect("iproute2 is there").status.success());
        Bridged { sender, node }
    }

    /// Whether m1 leaves tags of 802.1Q, and of 802.1ad, beside frames.
    fn hides(&self) -> [bool; 2] {
        self.node.run(|| {
            let m1 = Interface::named("m1").unwrap();
            FEATURES.map(|feature| m1.feature(feature).unwrap().expect("a feature of the kernel"))
        })
    }

    /// What becomes of frames with these tags, and the obstacles of the node.
    fn passed(&self, config: &Config, tags: &[u8]) -> (Snapshot, Vec<String>) {
        let (node, obstacles) = self.node.run(|| {
            let opened = Opened::new(config).unwrap();
            let obstacles = opened.obstacles().to_vec();
            (opened.start().unwrap(), obstacles)
        });
        let ends = Ends::v4([2; 6], [4; 6]);
        let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 1, dport: 2, group: 0 };
        let mut frame = ends.frame(&flow, 100, Signature::default());
        frame.splice(12..12, tags.iter().copied());
        self.sender.run(|| {
            let sender = Sender::open(Interface::named("s0").unwrap().index()).unwrap();
            assert_eq!(sender.send(&[&frame; FRAMES]).unwrap(), FRAMES);
        });
        let deadline = Instant::now() + PATIENCE;
        let is_through =
            |seen: Snapshot| seen.ports[1].sent.max(seen.accounting.drops.total()) >= FRAMES as u64;
        while !is_through(Snapshot::sum(&node.snapshots())) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        (Snapshot::sum(&node.stop().threads.unwrap()), obstacles)
    }
}

/// A bump in the wire, whose left port has these tags.
fn config(io: &str, vlan: &str) -> Config {
    let text = format!("lan(on {io}:n0, vlan {vlan}) > wan(on tap:w0)");
    Config::read("test", &text, &|name| Err(format!("no file {name}"))).unwrap()
}

#[test]
fn af_packet_puts_hidden_tags_back() {
    need_root!();
    for (vlan, tags, _) in [SINGLE, DOUBLE] {
        let bridged = Bridged::new();
        assert_eq!(bridged.hides(), [true; 2], "as the kernel makes it");
        let config = config("packet", vlan);
        let folder = Folder::new();
        assert!(
            bridged.node.run(|| SwitchedOff::new(&config, &folder)).unwrap().is_none(),
            "it needs nothing"
        );
        let (seen, obstacles) = bridged.passed(&config, tags);
        assert_eq!(seen.ports[1].sent, FRAMES as u64, "{vlan}: {seen:?}");
        assert!(!obstacles.iter().any(|text| text.contains("ethtool")), "{obstacles:?}");
    }
}

#[test]
fn af_xdp_has_tags_where_the_other_end_of_its_veth_has_been_told() {
    need_root!();
    for (vlan, tags, reason) in [SINGLE, DOUBLE] {
        let bridged = Bridged::new();
        let config = config("xdp", vlan);
        let (seen, obstacles) = bridged.passed(&config, tags);
        let dropped = seen.accounting.drops[reason];
        assert!(seen.ports[1].sent == 0 && dropped >= FRAMES as u64, "{vlan}: {seen:?}");
        let named = |feature: &str| {
            obstacles.iter().any(|text| text.contains(&format!("`ethtool -K m1 {feature} off`")))
        };
        assert!(FEATURES.into_iter().all(named), "{obstacles:?}");
        let folder = Folder::new();
        let off = bridged.node.run(|| SwitchedOff::new(&config, &folder)).unwrap().expect("a change");
        assert_eq!((bridged.hides(), fs::read_dir(&*folder).unwrap().count()), ([false; 2], 1));
        let (seen, obstacles) = bridged.passed(&config, tags);
        assert_eq!(seen.ports[1].sent, FRAMES as u64, "{vlan}: {seen:?}");
        assert!(!obstacles.iter().any(|text| text.contains("ethtool -K m1")), "{obstacles:?}");
        bridged.node.run(|| drop(off));
        assert_eq!((bridged.hides(), fs::read_dir(&*folder).unwrap().count()), ([true; 2], 0));
    }
}

#[test]
fn what_a_killed_node_has_switched_off_is_switched_on_by_the_next() {
    need_root!();
    let bridged = Bridged::new();
    let folder = Folder::new();
    let off = bridged.node.run(|| SwitchedOff::new(&config("xdp", "5"), &folder)).unwrap().expect("a change");
    let file = fs::read_dir(&*folder).unwrap().next().expect("a file").unwrap().path();
    std::mem::forget(off);
    let next =
        |bridged: &Bridged| bridged.node.run(|| SwitchedOff::new(&config("packet", "5"), &folder)).unwrap();
    assert!(next(&bridged).is_none());
    assert_eq!(bridged.hides(), [false; 2], "that node runs");
    let text = fs::read_to_string(&file).unwrap();
    let process = text.split('"').nth(3).expect("the process").to_string();
    // Number 1 began at another time.
    fs::write(&file, text.replace(&process, "1-7")).unwrap();
    assert!(next(&Bridged::new()).is_none());
    assert_eq!(bridged.hides(), [false; 2], "another namespace is none of its business");
    assert!(next(&bridged).is_none());
    assert_eq!((bridged.hides(), file.exists()), ([true; 2], false));
}

#[test]
fn an_interface_that_is_too_short_for_two_tags_is_named() {
    need_root!();
    let [far, node] = [(); 2].map(|()| Namespace::new().unwrap());
    join([(&far, "s0"), (&node, "n0")], Wire { number: 1, queues: 1 });
    for (io, vlan, mtu, is_named) in [
        ("xdp", "5", 1500, false),
        ("xdp", "100.5", 1503, true),
        ("xdp", "100.5", 1504, false),
        ("packet", "5", 1500, false),
        ("packet", "100.5", 1507, true),
        ("packet", "100.5", 1508, false),
    ] {
        let obstacles = node.run(|| {
            Interface::named("n0").unwrap().set_mtu(mtu).unwrap();
            Opened::new(&config(io, vlan)).unwrap().obstacles().to_vec()
        });
        let named = obstacles.iter().any(|text| text.contains("`ip link set n0 mtu 150"));
        assert_eq!(named, is_named, "{io}, {vlan}, {mtu}: {obstacles:?}");
    }
}

#[test]
fn a_sender_in_another_namespace_is_named() {
    need_root!();
    let [sender, node] = [(); 2].map(|()| Namespace::new().unwrap());
    join([(&sender, "s0"), (&node, "n0")], Wire { number: 1, queues: 1 });
    let (config, folder) = (config("xdp", "5"), Folder::new());
    assert!(node.run(|| SwitchedOff::new(&config, &folder)).unwrap().is_none());
    let obstacles = node.run(|| Opened::new(&config).unwrap().obstacles().to_vec());
    let named = obstacles
        .iter()
        .any(|text| text.contains("the other end of n0") && text.contains("ethtool -K OTHER"));
    assert!(named, "{obstacles:?}");
}
