//! A control program of a node that runs: another process, which is this program started again. It is killed and stopped while
//! the node forwards, and its rings are overwritten.
//!
//! ```text
//!   client  lan > node > wan  server         node > punts > control program > injections > node
//! ```

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use weir_linux::descriptors;
use weir_node::{Attachment, AttachmentId, Config, Node, Opened, Rings, Snapshot};
use weir_plane::scenario::packet;
use weir_plane::{DropReason, PuntReason};
use weir_port::duplex::{Memory, MemoryEnd, Port};
use weir_punt::{
    Consumer, Damage, Descriptors, How, Injection, Injections, Producer, Punts, Refused, Tag, Tags,
};
use weir_testkit::{Dice, PATIENCE, Watch, number};

use crate::run::{next, until};

/// Set where this program is the control program.
const IS_CONTROL_PROGRAM: &str = "WEIR_TEST_CONTROL_PROGRAM";
const CLIENT: [u8; 6] = [2, 0, 0, 0, 0xcc, 5];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0xcc, 9];
const LAN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WAN: [u8; 6] = [2, 0, 0, 0, 0, 2];
const SLOTS: u32 = 64;
/// The tags of the first port.
const TAGS: [u8; 8] = [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9];
const NODE: &str = "lan(198.18.0.1/24, mac 02:00:00:00:00:01, vlan 7.9, punt dhcp4 arp pppoe_discovery) > \
                    route(default via 198.19.0.9) > \
                    wan(198.19.0.1/24, mac 02:00:00:00:00:02, neighbour 198.19.0.9 02:00:00:00:cc:09) \
                    limits(punt-dhcp4 10000000, punt-pppoe-discovery 10000000)";

/// The program: it sends DHCP back to where it came from, and has the packets go on that stand in PPPoE discovery.
#[test]
fn control_program() {
    if std::env::var_os(IS_CONTROL_PROGRAM).is_none() {
        return;
    }
    let mut passed = Vec::new();
    if descriptors::receive(std::io::stdin(), &mut [0; 8], &mut passed).is_err() {
        return;
    }
    let Ok([memory, wake, to_memory, to_wake]) = <[OwnedFd; 4]>::try_from(passed) else {
        return;
    };
    let mut punts = Consumer::<Punts>::attach(Descriptors { memory, wake }).expect("a ring of punts");
    let injections = Descriptors { memory: to_memory, wake: to_wake };
    let mut injections = Producer::<Injections>::attach(injections).expect("a ring of injections");
    while punts.wait(None).expect("poll works") {
        while punts.take(64, |punt| inject(&mut injections, &punt)) > 0 {
            injections.commit();
        }
        assert_eq!((punts.damage().total(), injections.damage().total()), (0, 0));
    }
}

fn inject(injections: &mut Producer<Injections>, punt: &weir_punt::Punt<'_>) {
    let (to, rest) = punt.bytes.split_at(6);
    let (from, rest) = rest.split_at(6);
    let (how, bytes) = if punt.reason == PuntReason::Dhcp4.number() {
        (How::Leave, [from, to, rest].concat())
    } else {
        (How::Enter, [to, from, &[8, 0], &rest[8..]].concat())
    };
    let injection = Injection { how, port: punt.port, tags: punt.tags, bytes: &bytes };
    while injections.push(&injection) == Err(Refused::Full) {
        injections.commit();
        std::thread::yield_now();
    }
}

/// A node between two wires, and what was sent.
struct Rig {
    node: Option<Node>,
    lan: MemoryEnd,
    wan: MemoryEnd,
    forwarded: u32,
}

impl Rig {
    fn new(text: &str) -> Rig {
        let config = Config::read("test", text, &|name| Err(format!("no file {name}")))
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let [(left, lan), (right, wan)] = [(); 2].map(|()| Memory::new().expect("descriptors"));
        let ports = vec![vec![Box::new(left) as Box<dyn Port>, Box::new(right)]];
        let node = Opened::between(&config, ports).expect("memory").start().expect("a thread");
        Rig { node: Some(node), lan, wan, forwarded: 0 }
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("it runs")
    }

    /// Frames pass the node, each as it was sent and in its order.
    fn forward(&mut self, frames: u32) {
        let line = |n: u32| format!("udp 198.18.0.5:{} > 198.19.77.77:9 len {}", 1 + n % 60_000, n % 900);
        let numbers = self.forwarded..self.forwarded + frames;
        for n in numbers.clone() {
            assert!(self.lan.send(&tagged(LAN, &[8, 0], &packet(&line(n)).expect("a packet"))));
        }
        for n in numbers {
            let sent = packet(&format!("{} ttl 63", line(n))).expect("a packet");
            assert_eq!(next(&self.wan), [&SERVER[..], &WAN, &[8, 0], &sent].concat(), "frame {n}");
        }
        self.forwarded += frames;
    }

    /// A client asks by DHCP; this is the number of its message.
    fn ask(&self, n: u16) {
        assert!(self.lan.send(&tagged([255; 6], &[8, 0], &dhcp(n))));
    }

    /// Ends the node, and returns its last counters, which balance.
    fn ended(&mut self) -> Snapshot {
        let threads = self.node.take().expect("it runs").stop().threads.expect("no port failed");
        let last = Snapshot::sum(&threads);
        assert!(last.accounting.balance(), "{last:?}");
        assert_eq!(last.panics, 0);
        last
    }
}

/// A frame of the client to an Ethernet address, with the tags of the first port.
fn tagged(to: [u8; 6], kind: &[u8], rest: &[u8]) -> Vec<u8> {
    [&to[..], &CLIENT, &TAGS, kind, rest].concat()
}

/// A packet in PPPoE discovery.
fn padi(inside: &[u8]) -> Vec<u8> {
    let length = (inside.len() as u16).to_be_bytes();
    tagged(LAN, &[0x88, 0x63], &[&[0x11, 9, 0, 0][..], &length, inside].concat())
}

fn dhcp(n: u16) -> Vec<u8> {
    packet(&format!("udp 0.0.0.0:68 > 255.255.255.255:67 id {n} len 240")).expect("a packet")
}

/// A control program that is attached.
struct Program {
    id: AttachmentId,
    child: Child,
    _watch: Watch,
}

impl Program {
    fn attached(node: &Node) -> Program {
        let (socket, other) = UnixStream::pair().expect("descriptors are left");
        let mut program = Command::new(std::env::current_exe().expect("the path of this program"));
        program.args(["--exact", "control::control_program", "--nocapture", "--test-threads", "1"]);
        program.env(IS_CONTROL_PROGRAM, "1").stdin(OwnedFd::from(other)).stdout(Stdio::null());
        let child = program.spawn().expect("this program runs again");
        let watch = Watch::new(&child);
        let attachment = node.attach_control(SLOTS).expect("there is memory");
        for Rings { punts, injections } in &attachment.threads {
            let all = [&punts.memory, &punts.wake, &injections.memory, &injections.wake].map(AsFd::as_fd);
            descriptors::send(&socket, &[0], &all).expect("the socket is new");
        }
        Program { id: attachment.id, child, _watch: watch }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it has not been waited for");
    }

    fn stop(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED);
        assert!(stopped.is_ok_and(|status| status.is_some_and(|(_, status)| status.stopped())));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the node has no control program any more.
fn await_detached(node: &Node) {
    let deadline = Instant::now() + PATIENCE;
    while node.control_states().expect("it runs")[0].attached.is_some() {
        assert!(Instant::now() < deadline, "the node notices that the program has ended");
        std::thread::yield_now();
    }
}

#[test]
fn a_program_answers_and_has_frames_go_on() {
    let mut rig = Rig::new(NODE);
    // Nothing is attached yet.
    rig.ask(1);
    until(rig.node(), |seen| seen.accounting.drops[DropReason::NoControl] == 1);
    let mut program = Program::attached(rig.node());
    for n in 2..50 {
        rig.ask(n);
        let expected = [&CLIENT[..], &[255; 6], &TAGS, &[8, 0], &dhcp(n)].concat();
        assert_eq!(next(&rig.lan), expected, "{n}");
        let line = format!("udp 198.18.0.5:{n} > 198.19.77.77:9");
        let inside = packet(&line).expect("a packet");
        assert!(rig.lan.send(&padi(&inside)));
        let expected = packet(&format!("{line} ttl 63")).expect("a packet");
        assert_eq!(next(&rig.wan), [&SERVER[..], &WAN, &[8, 0], &expected].concat(), "{n}");
        rig.forward(3);
    }
    let states = rig.node().control_states().expect("it runs");
    assert_eq!((states[0].attached, &states[0].damage[..]), (Some(program.id), &[][..]));
    let seen = turned(rig.node()).accounting;
    let of = |reason| seen.control.of(reason);
    assert_eq!((of(PuntReason::Dhcp4), of(PuntReason::PppoeDiscovery)), (48, 48), "{seen:?}");
    assert_eq!((seen.injected, seen.drops.total()), (96, 1), "{seen:?}");
    assert_eq!(seen.left, 96 + u64::from(rig.forwarded), "{seen:?}");
    // The node begins anew, and still has its program.
    rig.node().forget().expect("it runs");
    rig.ask(50);
    assert!(next(&rig.lan).ends_with(&dhcp(50)));
    // Another one takes its place: the first ends by itself.
    let second = Program::attached(rig.node());
    assert!(program.child.wait().expect("it was started here").success());
    rig.node().detach_control(program.id).expect("it runs");
    rig.ask(50);
    assert!(next(&rig.lan).ends_with(&dhcp(50)), "the second one is still attached");
    rig.node().detach_control(second.id).expect("it runs");
    await_detached(rig.node());
    rig.ask(51);
    until(rig.node(), |seen| seen.accounting.drops[DropReason::NoControl] == 1);
    let last = rig.ended().accounting;
    // Since it has begun anew.
    let of = |reason| last.control.of(reason);
    assert_eq!((of(PuntReason::Dhcp4), of(PuntReason::PppoeDiscovery)), (2, 0), "{last:?}");
    assert_eq!((last.injected, last.left, last.drops.total()), (2, 2, 1), "{last:?}");
}

#[test]
fn a_program_that_is_killed_at_any_instant_costs_no_forwarded_frame() {
    let seed = number("PUNT_SEED", 1);
    let mut dice = Dice::new(seed);
    let mut rig = Rig::new(NODE);
    let (mut answered, mut n) = (0, 0_u16);
    let kills = number("PUNT_KILLS", 1000);
    for kill in 0..kills {
        let mut program = Program::attached(rig.node());
        // Some are killed before they have begun, the others at work.
        let answers = if dice.one_in(4) { 0 } else { 1 + dice.roll(3) };
        for _ in 0..answers {
            n = n.wrapping_add(1);
            rig.ask(n);
            next(&rig.lan);
            answered += 1;
        }
        (0..dice.roll(20)).for_each(|more| rig.ask(more as u16));
        (0..dice.roll(20_000)).for_each(|_| std::hint::spin_loop());
        program.signal(Signal::KILL);
        rig.forward(1 + dice.roll(10_usize) as u32);
        program.child.wait().expect("it was started here");
        if dice.one_in(10) {
            await_detached(rig.node());
            rig.ask(0);
        }
        // What it has injected before it was killed has left whole.
        while let Some(answer) = rig.lan.receive() {
            assert!(answer.starts_with(&[&CLIENT[..], &[255; 6], &TAGS, &[8, 0]].concat()), "{answer:02x?}");
            assert_eq!(answer.len(), 22 + dhcp(0).len(), "kill {kill} of seed {seed}");
            answered += 1;
        }
    }
    let last = rig.ended();
    while rig.lan.receive().is_some() {
        answered += 1;
    }
    assert_eq!(last.damaged, 0, "seed {seed}: {last:?}");
    let all = &last.accounting;
    assert_eq!(all.injected, answered, "seed {seed}: {last:?}");
    assert_eq!(all.left, u64::from(rig.forwarded) + answered, "seed {seed}: {last:?}");
    assert_eq!(all.drops.total(), all.drops[DropReason::NoControl], "seed {seed}: {last:?}");
    assert!(all.drops[DropReason::NoControl] >= kills / 20 && answered > kills, "seed {seed}: {last:?}");
}

#[test]
fn a_program_that_is_stopped_under_a_flood_costs_no_forwarded_frame() {
    const FLOOD: u16 = 3000;
    let mut rig = Rig::new(NODE);
    let program = Program::attached(rig.node());
    rig.ask(0);
    next(&rig.lan);
    program.stop();
    let arp = [0, 1, 8, 0, 6, 4, 0, 1].iter().chain(&CLIENT).chain(&[198, 18, 0, 5]).chain(&[0; 6]);
    let arp: Vec<u8> = arp.chain(&[198, 18, 0, 77]).copied().collect();
    for n in 1..=FLOOD {
        rig.ask(n);
        assert!(rig.lan.send(&tagged([255; 6], &[8, 6], &arp)));
        if n % 20 == 0 {
            rig.forward(10);
        }
    }
    // The flood has left room for another reason.
    let inside = packet("udp 198.18.0.5:1 > 198.19.77.77:9").expect("a packet");
    assert!(rig.lan.send(&padi(&inside)));
    let came = 2 + 2 * u64::from(FLOOD) + u64::from(rig.forwarded);
    let seen = until(rig.node(), |seen| seen.accounting.entered == came).accounting;
    let full = u64::from(FLOOD) - u64::from(SLOTS / 2);
    assert!(seen.drops[DropReason::PuntFull] >= full && seen.drops[DropReason::PuntArp] > 0, "{seen:?}");
    let [dhcp4, padi] = [PuntReason::Dhcp4, PuntReason::PppoeDiscovery].map(|reason| seen.control.of(reason));
    assert!(dhcp4 > u64::from(SLOTS / 4) && padi == 1 && seen.balance(), "{seen:?}");
    assert_eq!(seen.left, 1 + u64::from(rig.forwarded), "{seen:?}");
    // It goes on with what is in its ring: DHCP and ARP, whose frames it has go on as what they are not.
    program.signal(Signal::CONT);
    for _ in 1..dhcp4 {
        next(&rig.lan);
    }
    assert!(next(&rig.wan).ends_with(&inside[20..]));
    rig.ask(7);
    assert!(next(&rig.lan).ends_with(&dhcp(7)));
    rig.forward(10);
    let last = rig.ended();
    assert_eq!(last.accounting.control.of(PuntReason::Dhcp4), dhcp4 + 1, "{last:?}");
    assert_eq!(last.accounting.injected, last.accounting.control.total(), "{last:?}");
    assert_eq!(last.damaged, 0, "{last:?}");
}

/// A control program in this process.
struct Own {
    attachment: Attachment,
    punts: Consumer<Punts>,
    injections: Producer<Injections>,
    memory: [File; 2],
}

impl Own {
    fn attached(node: &Node) -> Own {
        let mut attachment = node.attach_control(SLOTS).expect("there is memory");
        let Rings { punts, injections } = attachment.threads.remove(0);
        let memory = [&punts.memory, &injections.memory];
        let memory = memory.map(|memory| File::from(memory.try_clone().expect("descriptors are left")));
        Own {
            attachment,
            punts: Consumer::attach(punts).expect("a ring of punts"),
            injections: Producer::attach(injections).expect("a ring of injections"),
            memory,
        }
    }

    /// Puts a record in, and has the node look at it.
    fn inject(&mut self, port: u16, tags: Tags, bytes: &[u8]) {
        for how in [How::Leave, How::Enter] {
            self.injections.push(&Injection { how, port, tags, bytes }).expect("room");
        }
        self.injections.commit();
    }
}

#[test]
fn each_thread_has_rings_and_answers_may_take_any() {
    let config =
        Config::read("test", &format!("{NODE} run(threads 2)"), &|name| Err(format!("no file {name}")))
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let (mut ports, mut wires) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let [(left, lan), (right, wan)] = [(); 2].map(|()| Memory::new().expect("descriptors"));
        ports.push(vec![Box::new(left) as Box<dyn Port>, Box::new(right)]);
        wires.push([lan, wan]);
    }
    let node = Opened::between(&config, ports).expect("memory").start().expect("threads");
    let attachment = node.attach_control(SLOTS).expect("there is memory");
    assert_eq!(
        (attachment.threads.len(), &attachment.ports[..]),
        (2, &["lan".to_string(), "wan".into()][..])
    );
    let ends = |Rings { punts, injections }| {
        let punts = Consumer::<Punts>::attach(punts).expect("a ring of punts");
        (punts, Producer::<Injections>::attach(injections).expect("a ring of injections"))
    };
    let mut ends: Vec<_> = attachment.threads.into_iter().map(ends).collect();
    for (n, thread) in [(1, 0), (2, 1), (3, 1), (4, 0)] {
        assert!(wires[thread][0].send(&tagged([255; 6], &[8, 0], &dhcp(n))));
        let mut taken = Vec::new();
        while taken.is_empty() {
            assert!(ends[thread].0.wait(Some(PATIENCE)).expect("poll works"), "the node runs");
            ends[thread].0.take(1, |punt| taken = punt.bytes.to_vec());
        }
        assert!(taken.ends_with(&dhcp(n)), "{n}");
        // By the ring of the other thread; it leaves there.
        let other = 1 - thread;
        let injection = Injection { how: How::Leave, port: 1, tags: Tags::Untagged, bytes: &taken };
        ends[other].1.push(&injection).expect("room");
        ends[other].1.commit();
        assert_eq!(next(&wires[other][1]), taken, "{n}");
    }
    let all = Snapshot::sum(&node.stop().threads.expect("no port failed")).accounting;
    assert!(all.balance(), "{all:?}");
    assert_eq!((all.control.total(), all.injected, all.left), (4, 4, 4), "{all:?}");
}

/// A whole turn of the thread has passed: each request is answered before the next turn.
fn turned(node: &Node) -> Snapshot {
    node.count().expect("it runs");
    Snapshot::sum(&node.count().expect("it runs"))
}

#[test]
fn what_fits_no_port_is_counted_and_the_program_stays() {
    let mut rig = Rig::new(NODE);
    let mut own = Own::attached(rig.node());
    let frame = [&LAN[..], &CLIENT, &[8, 0], &[7; 100]].concat();
    let tag = |tpid| Tag { tpid, tci: 7 };
    for (n, (port, tags, bytes)) in (1..).zip([
        (2, Tags::Untagged, &frame[..]),
        (u16::MAX, Tags::Untagged, &frame),
        (0, Tags::Untagged, &frame[..13]),
        (0, Tags::Untagged, &[]),
        (0, Tags::Untagged, &[&frame[..], &[0; 1500]].concat()[..1515]),
        (0, Tags::One(tag(0x0800)), &frame),
    ]) {
        own.inject(port, tags, bytes);
        let seen = until(rig.node(), |seen| seen.accounting.injected == 2 * n).accounting;
        assert_eq!(seen.drops[DropReason::InjectedInvalid], 2 * n, "{seen:?}");
    }
    // Without the tags of the port it is none of its frames; with them it is read.
    own.inject(0, Tags::Untagged, &frame);
    own.inject(0, Tags::Two { outer: tag(0x88a8), inner: Tag { tpid: 0x8100, tci: 9 } }, &frame);
    let seen = until(rig.node(), |seen| seen.accounting.injected == 16).accounting;
    assert_eq!((seen.drops[DropReason::UnknownVlan], seen.drops[DropReason::Malformed]), (1, 1), "{seen:?}");
    assert_eq!((next(&rig.lan), next(&rig.lan).len()), (frame.clone(), frame.len() + 8));
    rig.forward(10);
    assert_eq!(rig.node().control_states().expect("it runs")[0].attached, Some(own.attachment.id));
    assert!(own.punts.woke());
    assert_eq!(rig.ended().damaged, 0);
}

#[test]
fn a_program_whose_rings_are_damaged_is_detached() {
    let mut rig = Rig::new(NODE);
    let producer_index = 128;
    for (n, (at, value, damage)) in (1..).zip([
        (producer_index, u64::MAX / 2, Damage::Index),
        (256, 77, Damage::Index),
        (0, 0, Damage::Header),
        // A record that neither leaves nor enters, one that is longer than its slot, and one whose inner tag stands alone.
        (4096, 60, Damage::How),
        (4096, u64::from(u32::MAX) | 1 << 48, Damage::Length),
        (4104, 0x0007_8100_0000_0000, Damage::Tags),
    ]) {
        let mut own = Own::attached(rig.node());
        let frame = [&LAN[..], &CLIENT, &[0x88, 0xcc], &[7; 46]].concat();
        own.injections
            .push(&Injection { how: How::Leave, port: 0, tags: Tags::Untagged, bytes: &frame })
            .expect("room");
        own.memory[1].write_all_at(&u64::to_ne_bytes(value), at).expect("a memfd can be written to");
        if at != producer_index {
            own.injections.commit();
        }
        let seen = until(rig.node(), |seen| seen.damaged == n);
        assert_eq!(seen.damaged, n, "{damage:?}: {seen:?}");
        let state = &rig.node().control_states().expect("it runs")[0];
        assert_eq!(state.attached, None, "{damage:?}");
        assert!(state.damage.contains(&damage), "{damage:?}: {state:?}");
        rig.forward(10);
    }
    // Also one that overwrites what only the node writes.
    let own = Own::attached(rig.node());
    own.memory[0].write_all_at(&[9; 8], producer_index).expect("a memfd can be written to");
    rig.ask(1);
    assert_eq!(until(rig.node(), |seen| seen.damaged == 7).damaged, 7);
    rig.forward(10);
    rig.ended();
}

#[test]
fn whatever_stands_in_the_rings_the_node_forwards() {
    let seed = number("PUNT_SEED", 1);
    let mut dice = Dice::new(seed);
    let mut rig = Rig::new(NODE);
    let mut detached = 0;
    for _ in 0..300 {
        let mut own = Own::attached(rig.node());
        let frame = [&LAN[..], &CLIENT, &[8, 0], &[7; 100]].concat();
        for _ in 0..1 + dice.roll(20) {
            own.inject(0, Tags::Untagged, &frame);
            let bytes: Vec<u8> = (0..1 + dice.roll(40)).map(|_| dice.roll(256_usize) as u8).collect();
            // The header, an index or a flag, or the first records.
            let at = [dice.roll(32), 128 * (1 + dice.roll(3)), 4096 + dice.roll(20_000)][dice.roll(3_usize)];
            let memory = &own.memory[dice.roll(2_usize)];
            memory.write_all_at(&bytes, at as u64).expect("a memfd can be written to");
            rig.ask(1);
            while rig.lan.receive().is_some() {}
        }
        rig.forward(2);
        let seen = turned(rig.node());
        assert!(seen.accounting.balance(), "seed {seed}: {seen:?}");
        detached = seen.damaged;
    }
    assert!(detached > 100, "seed {seed}: only {detached} were noticed");
    let last = rig.ended();
    println!(
        "{} of 300 were detached, {} frames were invalid",
        last.damaged,
        last.accounting.drops[DropReason::InjectedInvalid]
    );
}
