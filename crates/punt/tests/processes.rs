//! A control program that is killed or stopped at any instant. It is this program, started again.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use weir_punt::{Consumer, Descriptors, How, Injection, Injections, Producer, Punts, Refused};
use weir_testkit::{Dice, Watch, number};

use crate::{geometry, punt};

const SLOTS: u32 = 16;
/// Set where this program is the control program.
const IS_CLIENT: &str = "WEIR_TEST_PUNT_CLIENT";

/// Hands over two rings.
fn send(socket: &UnixStream, punts: Descriptors, injections: Descriptors) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let all = [&punts.memory, &punts.wake, &injections.memory, &injections.wake].map(AsFd::as_fd);
    assert!(control.push(SendAncillaryMessage::ScmRights(&all)));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty()).expect("the socket is new");
}

/// Takes them; `None`: the node is gone.
fn receive(socket: &impl AsFd) -> Option<[OwnedFd; 4]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(all) => all.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    descriptors.collect::<Vec<_>>().try_into().ok()
}

/// The control program: it wants each punt to be the next one and whole, and injects its frame, until the node is gone.
#[test]
fn client() {
    if std::env::var_os(IS_CLIENT).is_none() {
        return;
    }
    let Some([memory, wake, to_memory, to_wake]) = receive(&std::io::stdin()) else { return };
    let mut punts = Consumer::<Punts>::attach(Descriptors { memory, wake }).unwrap();
    let mut injections =
        Producer::<Injections>::attach(Descriptors { memory: to_memory, wake: to_wake }).unwrap();
    let (mut next, mut has_node, mut room) = (0, true, [0; 128]);
    while has_node {
        has_node = punts.wait(None).unwrap();
        let taken = punts.take(SLOTS as usize, |found| {
            assert_eq!(found, punt(next, &mut room));
            let injection =
                Injection { how: How::Leave, port: found.port, tags: found.tags, bytes: found.bytes };
            while injections.push(&injection) == Err(Refused::Full) {
                injections.commit();
                std::thread::yield_now();
            }
            next += 1;
        });
        injections.commit();
        has_node |= taken > 0;
        assert_eq!((punts.damage().total(), injections.damage().total()), (0, 0));
    }
}

/// A node with its control program.
struct Node {
    punts: Producer<Punts>,
    injections: Consumer<Injections>,
    /// Punts that were taken by the ring; the others were refused.
    punted: u64,
    refused: u64,
    /// Frames that came back.
    injected: u64,
    client: Child,
    _watch: Watch,
}

impl Node {
    fn new() -> Node {
        let (punts, to_client) = Producer::create(geometry(SLOTS)).expect("there is memory");
        let (injections, from_client) = Consumer::create(geometry(SLOTS)).expect("there is memory");
        let (socket, other) = UnixStream::pair().expect("descriptors are left");
        let mut program = Command::new(std::env::current_exe().expect("the path of this program"));
        program
            .args(["--exact", "processes::client", "--nocapture", "--test-threads", "1"])
            .env(IS_CLIENT, "1");
        let client = program
            .stdin(OwnedFd::from(other))
            .stdout(Stdio::null())
            .spawn()
            .expect("this program runs again");
        send(&socket, to_client, from_client);
        let watch = Watch::new(&client);
        Node { punts, injections, punted: 0, refused: 0, injected: 0, client, _watch: watch }
    }

    fn punt(&mut self, frames: u64) {
        let mut room = [0; 128];
        for _ in 0..frames {
            match self.punts.push(&punt(self.punted, &mut room)) {
                Ok(()) => self.punted += 1,
                Err(why) => {
                    assert_eq!(why, Refused::Full);
                    self.refused += 1;
                }
            }
        }
        self.punts.commit();
    }

    /// Takes all that was injected, each of which is the next one and whole.
    fn take(&mut self) {
        let (mut room, next) = ([0; 128], &mut self.injected);
        while self.injections.take(SLOTS as usize, |found| {
            let expected = punt(*next, &mut room);
            let expected = Injection {
                how: How::Leave,
                port: expected.port,
                tags: expected.tags,
                bytes: expected.bytes,
            };
            assert_eq!(found, expected);
            *next += 1;
        }) > 0
        {}
    }

    /// Punts until so many frames have come back.
    fn run(&mut self, until: u64, dice: &mut Dice) {
        while self.injected < until {
            self.punt(1 + dice.roll(2 * SLOTS as usize) as u64);
            assert!(self.injections.wait(None).expect("poll works"), "the program is at work");
            self.take();
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.client), signal).expect("it has not been waited for");
    }

    fn assert_intact(&self) {
        assert_eq!((self.punts.damage().total(), self.injections.damage().total()), (0, 0));
    }

    /// Waits until the program has ended, and takes what it has injected.
    fn ended(&mut self) -> ExitStatus {
        let status = self.client.wait().expect("it was started here");
        self.take();
        self.assert_intact();
        status
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

#[test]
fn a_program_that_is_killed_at_any_instant_leaves_only_whole_records_and_a_node_that_goes_on() {
    let seed = number("PUNT_SEED", 1);
    let mut dice = Dice::new(seed);
    for _ in 0..number("PUNT_KILLS", 1000) {
        let mut node = Node::new();
        // Some before they have begun, the others at work.
        let until = if dice.one_in(8) { 0 } else { dice.roll(200) as u64 };
        node.run(until, &mut dice);
        node.punt(dice.roll(2 * SLOTS as usize) as u64);
        (0..dice.roll(3000)).for_each(|_| std::hint::spin_loop());
        node.signal(Signal::KILL);
        // The node does not know yet.
        (0..4).for_each(|_| node.punt(SLOTS.into()));
        node.take();
        assert_eq!(node.ended().signal(), Some(Signal::KILL.as_raw()), "seed {seed}");
        // What is not taken any more fills the ring, and no more.
        (0..4).for_each(|_| node.punt(SLOTS.into()));
        assert!(node.refused > 0 && node.punted <= node.injected + 3 * u64::from(SLOTS), "seed {seed}");
        node.assert_intact();
    }
}

#[test]
fn a_program_that_is_stopped_does_not_hold_up_the_node_and_goes_on_later() {
    let mut dice = Dice::new(1);
    let mut node = Node::new();
    for round in 1..=20 {
        node.run(50 * round, &mut dice);
        node.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&node.client)), WaitOptions::UNTRACED);
        assert!(stopped.is_ok_and(|status| status.is_some_and(|(_, status)| status.stopped())));
        node.take();
        let (punted, refused) = (node.punted, node.refused);
        (0..1000).for_each(|_| node.punt(SLOTS.into()));
        assert!(node.punted - punted <= SLOTS.into(), "as many as there are slots");
        assert!(node.refused - refused >= 999 * u64::from(SLOTS), "the others are counted");
        node.signal(Signal::CONT);
    }
    // It takes what is left, and ends when the node does.
    let (punts, _) = Producer::create(geometry(SLOTS)).unwrap();
    drop(std::mem::replace(&mut node.punts, punts));
    while node.injected < node.punted {
        node.injections.wait(None).unwrap();
        node.take();
    }
    assert!(node.ended().success());
}
