//! Nodes with many ports: as many as one may have, and more on one interface, told apart by tags, than are looked at at a time.

use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_node::{Config, Opened, Snapshot};
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_plane::DropReason;
use weir_port::descriptors::make_room;
use weir_port::duplex::{Memory, MemoryEnd, Port, wait};
use weir_port::packet::{Receiver, Sender};
use weir_testkit::{PATIENCE, need_root};

use crate::street::{HOST, Street};

/// A socket at the host of a side.
fn at<T: Send>(street: &Street, side: usize, open: impl FnOnce(u32) -> T + Send) -> T {
    let host: &Namespace = &street.hosts[side];
    host.run(|| open(Rtnl::open().unwrap().link(HOST[side]).unwrap().ifindex))
}

/// A test frame with this tag, if there is one.
fn frame(tag: Option<u16>) -> Vec<u8> {
    tagged(&tag.map(|tag| (0x8100, tag)).into_iter().collect::<Vec<_>>())
}

/// A test frame with these tags, each an EtherType and a VLAN.
fn tagged(tags: &[(u16, u16)]) -> Vec<u8> {
    let ends = Ends::v4([2; 6], [4; 6]);
    let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 1, dport: 2, group: 0 };
    let mut frame = ends.frame(&flow, 128, Signature::default());
    let tags = tags.iter().flat_map(|(kind, vid)| [kind.to_be_bytes(), vid.to_be_bytes()].concat());
    frame.splice(12..12, tags.collect::<Vec<_>>());
    frame
}

/// Waits for one frame, without its outer tag.
fn next(receiver: &mut Receiver) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    let mut got = Vec::new();
    while got.is_empty() {
        assert!(Instant::now() < deadline, "a frame comes");
        receiver.receive(Duration::from_millis(100), |bytes| got = bytes.to_vec()).unwrap();
    }
    got
}

/// The text of a node with so many ports, of which the last one is the right end.
fn text(ports: usize, left: impl Fn(usize) -> String, right: &str) -> Config {
    let left: Vec<String> = (1..ports).map(left).collect();
    let text = format!("{} filter(policy accept) {right} run(host none)", left.join("\n"));
    Config::read("n", &text, &|name| Err(format!("no file {name}"))).unwrap()
}

#[test]
fn frames_go_between_the_first_and_the_last_of_1024_ports() {
    const PORTS: usize = 1024;
    make_room(2 * PORTS as u64).unwrap();
    let config = text(PORTS, |n| format!("p{n}"), "wan");
    let (ports, ends): (Vec<_>, Vec<_>) = (0..PORTS).map(|_| Memory::new().unwrap()).unzip();
    let ports = ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
    let node = Opened::between(&config, vec![ports]).unwrap().start().unwrap();
    for (from, to) in [(0, PORTS - 1), (PORTS - 2, PORTS - 1), (PORTS - 1, 0)] {
        assert!(ends[from].send(&frame(None)));
        assert_eq!(received(&ends[to]), frame(None));
    }
    let ended = Snapshot::sum(&node.stop().threads.unwrap());
    let counts = |n: usize| (ended.ports[n].received, ended.ports[n].sent);
    assert_eq!([counts(0), counts(PORTS - 2), counts(PORTS - 1)], [(1, 1), (1, 0), (1, 2)]);
}

/// Waits for a frame at the other end of a port.
fn received(end: &MemoryEnd) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match end.receive() {
            Some(frame) => return frame,
            None if Instant::now() > deadline => panic!("a frame comes"),
            None => _ = wait(&[end.descriptor()], PATIENCE).unwrap(),
        }
    }
}

#[test]
fn ports_on_one_interface_get_the_frames_of_their_tags() {
    const PORTS: usize = 72;
    need_root!();
    let street = Street::new();
    let config = text(PORTS, |tag| format!("p{tag}(on packet:n0, vlan {tag})"), "wan(on packet:n1)");
    let node = street.node.run(|| Opened::new(&config).unwrap().start().unwrap());
    let senders = [0, 1].map(|side| at(&street, side, |index| Sender::open(index).unwrap()));
    let mut receivers = [0, 1].map(|side| at(&street, side, |index| Receiver::open(index, 1 << 20).unwrap()));
    // The first port, the last one on the interface, and back to the first.
    senders[0].send(&[frame(Some(1))]).unwrap();
    assert_eq!(next(&mut receivers[1]), frame(None));
    senders[0].send(&[frame(Some(PORTS as u16 - 1))]).unwrap();
    assert_eq!(next(&mut receivers[1]), frame(None));
    senders[1].send(&[frame(None)]).unwrap();
    assert_eq!(next(&mut receivers[0]), frame(None));
    let ended = Snapshot::sum(&node.stop().threads.unwrap());
    assert!(ended.accounting.balance());
    let counts = |n: usize| (ended.ports[n].received, ended.ports[n].sent);
    assert_eq!([counts(0), counts(PORTS - 2), counts(PORTS - 1)], [(1, 1), (1, 0), (1, 2)]);
    // The kernel keeps frames from ports that they are not of.
    assert_eq!((ended.accounting.entered, ended.accounting.drops[DropReason::UnknownVlan]), (3, 0));
}

#[test]
fn a_port_with_ranges_of_tags_gets_the_frames_of_all_its_lines() {
    need_root!();
    let street = Street::new();
    let text = "lan(on packet:n0, vlan 100-199.1-4094) dmz(on packet:n0, vlan 100-199, untagged) \
                filter(policy accept) wan(on packet:n1, vlan 1-4094.1-4094) run(host none)";
    let config = Config::read("n", text, &|name| Err(format!("no file {name}"))).unwrap();
    let node = street.node.run(|| Opened::new(&config).unwrap().start().unwrap());
    let senders = [0, 1].map(|side| at(&street, side, |index| Sender::open(index).unwrap()));
    let mut receivers = [0, 1].map(|side| at(&street, side, |index| Receiver::open(index, 1 << 20).unwrap()));
    // Of the second port, whose frames have no place at the other end; of no port; of the first.
    for tags in [&[(0x8100, 150)][..], &[], &[(0x88a8, 200), (0x8100, 5)], &[(0x88a8, 199), (0x8100, 4094)]] {
        senders[0].send(&[tagged(tags)]).unwrap();
    }
    assert_eq!(next(&mut receivers[1]), tagged(&[(0x8100, 4094)]), "the receiver has lost the outer tag");
    senders[1].send(&[tagged(&[(0x88a8, 100), (0x8100, 7)])]).unwrap();
    assert_eq!(next(&mut receivers[0]), tagged(&[(0x8100, 7)]));
    let ended = Snapshot::sum(&node.stop().threads.unwrap());
    let received: Vec<u64> = ended.ports.iter().map(|port| port.received).collect();
    assert_eq!((received, ended.accounting.drops[DropReason::NoLine]), (vec![1, 2, 1], 2));
}
