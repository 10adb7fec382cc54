//! What happens to the interfaces of a node while it runs: down and up, renamed, another MTU, removed and made again, and another end
//! that begins to take many frames at once.

use std::process::Command;
use std::time::{Duration, Instant};

use weir_linux::ethtool::{Offload, set_offload, stats};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_node::{Node, Opened, Snapshot};
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_port::packet::{Receiver, Sender};
use weir_testkit::wires::{set_mtu, set_up};
use weir_testkit::{PATIENCE, need_root};

use crate::changes::config;
use crate::street::{HOST, Street};

/// A node between two hosts, and their sockets.
struct Path {
    node: Node,
    sender: Sender,
    receiver: Receiver,
    sent: u32,
}

fn index(host: &Namespace, name: &str) -> u32 {
    host.run(|| Rtnl::open().unwrap().link(name).unwrap().ifindex)
}

impl Path {
    fn new(street: &Street, io: &str) -> Path {
        let config = config(&format!("lan(on n0) > wan(on n1) run(io {io}, host none)"));
        let node = street.node.run(|| Opened::new(&config).unwrap().start().unwrap());
        let [left, right] = [0, 1].map(|side| index(&street.hosts[side], HOST[side]));
        let sender = street.hosts[0].run(|| Sender::open(left)).unwrap();
        let receiver = street.hosts[1].run(|| Receiver::open(right, 1 << 20)).unwrap();
        Path { node, sender, receiver, sent: 0 }
    }

    /// Sends so many frames at once.
    fn send(&mut self, count: u32) {
        let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 10_000, dport: 9, group: 0 };
        let frame = |seq| {
            let signature = Signature { seq, ..Signature::default() };
            Ends::v4([2; 6], [4; 6]).frame(&flow, 64, signature)
        };
        let frames: Vec<_> = (self.sent..self.sent + count).map(frame).collect();
        self.sent += count;
        // A link that has just come up may not take them.
        let _ = self.sender.send(&frames);
    }

    /// Frames pass, at the latest after a while.
    fn passes(&mut self, when: &str) {
        let (deadline, mut came) = (Instant::now() + PATIENCE, false);
        while !came {
            assert!(Instant::now() < deadline && !self.node.has_ended(), "no frame passes {when}");
            self.send(1);
            let _ = self.receiver.receive(Duration::from_millis(20), |_| came = true);
        }
        while self.receiver.receive(Duration::ZERO, |_| ()).is_ok_and(|frames| frames > 0) {}
    }
}

fn ip(host: &Namespace, line: &str) -> bool {
    host.run(|| Command::new("ip").args(line.split(' ')).output()).is_ok_and(|done| done.status.success())
}

#[test]
fn a_node_stays_while_its_links_change() {
    need_root!();
    for io in ["xdp", "packet", "packet, threads 2"] {
        let street = Street::new();
        let mut path = Path::new(&street, io);
        path.passes("at first");
        for (end, name) in [(&street.node, "n0"), (&street.node, "n1"), (&street.hosts[0], HOST[0])] {
            set_up((end, name), false);
            path.send(1);
            set_up((end, name), true);
            path.passes(&format!("after {name} was down, {io}"));
        }
        let live = ip(&street.node, "link set n0 name m0");
        if !live {
            // Linux before 6.2 renames no interface that is up.
            set_up((&street.node, "n0"), false);
            assert!(ip(&street.node, "link set n0 name m0"));
            set_up((&street.node, "m0"), true);
        }
        path.passes(&format!("by the other name, {io}"));
        for mtu in [1280, 1500] {
            set_mtu((&street.node, "m0"), mtu);
            set_mtu((&street.node, "n1"), mtu);
            path.passes(&format!("with mtu {mtu}, {io}"));
        }
        let Path { node, receiver, .. } = path;
        drop(receiver);
        let last = Snapshot::sum(&node.stop().threads.unwrap());
        assert!(last.accounting.balance(), "{io}: {last:?}");
    }
}

#[test]
fn a_node_that_ended_with_its_interface_begins_again_with_a_new_one() {
    need_root!();
    for io in ["xdp", "packet"] {
        let street = Street::new();
        let mut path = Path::new(&street, io);
        path.passes("at first");
        assert!(ip(&street.node, "link del n0"));
        let deadline = Instant::now() + PATIENCE;
        while !path.node.has_ended() {
            assert!(Instant::now() < deadline, "{io}: the node ends");
            std::thread::yield_now();
        }
        let why = path.node.stop().threads.expect_err("a port is gone").to_string();
        assert!(why.contains("interface n0 has vanished"), "{io}: {why}");
        street.join_again(0);
        Path::new(&street, io).passes("by the new interface");
    }
}

/// The thread that asks the kernel tells the thread of frames.
#[test]
fn many_frames_leave_at_once_as_soon_as_the_other_end_takes_them() {
    need_root!();
    let street = Street::new();
    let gro = |on| street.hosts[1].run(|| set_offload(HOST[1], Offload::Gro, on)).unwrap();
    let left_live = || {
        let is_live = |name: &str| name.starts_with("tx_queue_") && name.ends_with("_xdp_xmit");
        let all = street.node.run(|| stats("n1")).unwrap().into_iter();
        all.filter(|(name, _)| is_live(name)).map(|(_, frames)| frames).sum::<u64>()
    };
    gro(false);
    let mut path = Path::new(&street, "xdp");
    (0..50).for_each(|_| path.send(60));
    path.passes("one by one");
    let before = left_live();
    gro(true);
    let deadline = Instant::now() + PATIENCE;
    while left_live() == before {
        assert!(Instant::now() < deadline, "frames leave at once: {before}");
        path.send(60);
    }
    assert_eq!(before, 0, "the other end took none");
}
