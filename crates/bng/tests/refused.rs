//! Sessions that the node does not take: they end with a cause, and their clients are told.

use std::time::Duration;

use weir_bng::radius::attribute::number;
use weir_bng::scenario::{described, frame};
use weir_bng::{DropReason, EndCause, Event, Input, Lacks, NodeCommand, Punt, SessionId};

use crate::accounting::{Book, START, STOP};
use crate::pppoe::{Frame, TEXT, World, anna};

const RADIUS: &str = "radius one 192.0.2.9:1812 secret-file one accounting 1813";
const FULL: &str = "a node has at most 9 sessions: remove some first";

fn world(more: &str) -> (World, Book) {
    let mut world = World::of(&format!("{TEXT}, {RADIUS}{more}"), vec![anna()]);
    let book = Book::default();
    world.accounting = book.server();
    (world, book)
}

/// The node refuses the session that it was told of last, as it refuses all: what it has is kept back.
fn refuse(world: &mut World, lacks: Lacks) -> SessionId {
    let session = world.bng.sessions().last().expect("a session").id;
    world.node.retain(|add| add.session != session);
    // The frame that follows the session does not leave.
    world.frames.retain(|frame| !matches!(frame, Frame::ToClient(..)));
    world.input(Input::NodeRefused { session, lacks, why: FULL });
    session
}

fn cause(book: &Book) -> Option<u32> {
    let stops = book.told(STOP).into_values();
    stops.last()?.u32(number::ACCT_TERMINATE_CAUSE)
}

fn ended(world: &World) -> Vec<EndCause> {
    let cause = |event: &Event| match event {
        Event::SessionEnded { cause, .. } => Some(*cause),
        _ => None,
    };
    world.events.iter().filter_map(cause).collect()
}

/// Runs until a new session is told to the node, and lets the node refuse it.
fn dial_and_refuse(world: &mut World, lacks: Lacks) {
    let padi = world.devices[0].client.dial(world.now);
    world.frames.push_back(Frame::FromClient(0, padi));
    world.is_disk_slow = true;
    world.run(Duration::from_secs(1));
    world.is_disk_slow = false;
    world.store();
    refuse(world, lacks);
}

#[test]
fn r10_a_new_session_that_the_node_refuses_ends_and_its_client_is_told() {
    for (lacks, number, name) in
        [(Lacks::Place, 9, EndCause::Refused), (Lacks::Port, 8, EndCause::PortRemoved)]
    {
        let (mut world, book) = world("");
        dial_and_refuse(&mut world, lacks);
        world.run(Duration::from_secs(1));
        assert!(world.devices[0].client.padt().is_some(), "the client has a PADT");
        assert_eq!((world.online().len(), world.node.len(), ended(&world)), (0, 0, vec![name]));
        book.assert_balanced("refused");
        assert_eq!((book.told(START).len(), cause(&book)), (1, Some(number)));
        let why = world.bng.why_mac(world.devices[0].mac());
        assert_eq!(why.reason, format!("its session has ended: {name}: {FULL}"));
        // It is not begun again and again.
        world.devices[0].client.reset();
        world.dial(0);
        world.run(Duration::from_secs(2));
        assert_eq!((world.online().len(), world.drops(DropReason::NodeRefused)), (0, 1));
        assert!(world.bng.why_mac(world.devices[0].mac()).reason.ends_with(FULL));
        world.run(Duration::from_secs(20));
        world.devices[0].client.reset();
        world.dial(0);
        assert_eq!(world.online().len(), 1, "the node has room again");
        world.assert_counted();
    }
}

#[test]
fn a_session_that_was_in_the_node_has_the_grace_for_a_node_that_takes_it() {
    for takes in [true, false] {
        let (mut world, book) = world("");
        world.dial(0);
        let session = world.bng.sessions().next().expect("a session").id;
        world.input(Input::Counted { session, counters: weir_bng::Counters::default() });
        refuse(&mut world, Lacks::Place);
        world.run(Duration::from_secs(40));
        assert_eq!(world.online().len(), 1);
        // A node with another text gets the sessions that it does not have.
        world.input(Input::NodeTable(&[]));
        if !takes {
            refuse(&mut world, Lacks::Place);
        }
        world.run(Duration::from_secs(30));
        assert_eq!(world.online().len(), usize::from(takes));
        assert_eq!(ended(&world), if takes { vec![] } else { vec![EndCause::Refused] });
        assert_eq!(cause(&book), (!takes).then_some(9));
        world.assert_counted();
    }
}

#[test]
fn a_change_that_the_node_refuses_leaves_no_session_in_the_node() {
    let (mut world, _) = world("");
    world.dial(0);
    let session = world.bng.sessions().next().expect("a session").id;
    world.input(Input::Counted { session, counters: weir_bng::Counters::default() });
    let mut out = Vec::new();
    world.bng.input(world.time(), Input::NodeRefused { session, lacks: Lacks::Place, why: FULL }, &mut out);
    world.now += Duration::from_secs(60);
    world.bng.input(world.time(), Input::Timer, &mut out);
    let removes =
        |output: &weir_bng::Output| *output == weir_bng::Output::Node(NodeCommand::RemoveSession { session });
    assert!(out.iter().any(removes), "{out:?}");
}

#[test]
fn a_lease_that_the_node_refuses_is_not_renewed() {
    let (mut world, book) = world(", subscriber dora mac 02:00:00:00:00:07 plan basic");
    let say = |world: &mut World, text: &str, refuses: bool| {
        let bytes = frame(text, 0).expect("a frame");
        let (port, tags) = ("access1".parse().expect("a port"), weir_bng::Tags::None);
        world.is_disk_slow = refuses;
        world.input(Input::Punt(Punt { port, tags, bytes: &bytes }));
        if refuses {
            world.is_disk_slow = false;
            world.store();
            refuse(world, Lacks::Place);
        }
        world.run(Duration::from_secs(1));
        let frame = world.sent.pop().map(|bytes| described(&bytes).expect("an answer"));
        frame.map(|fields| fields[0].1.clone()).unwrap_or_default()
    };
    let request = "request 02:00:00:00:00:07 want 100.64.0.2 server 100.64.0.1";
    assert_eq!(say(&mut world, "discover 02:00:00:00:00:07", false), "offer");
    assert_eq!(say(&mut world, request, true), "", "its ACK does not leave");
    assert_eq!((world.online().len(), cause(&book)), (0, Some(9)));
    assert_eq!(say(&mut world, request, false), "nak");
    assert_eq!(say(&mut world, "discover 02:00:00:00:00:07", false), "");
    world.run(Duration::from_secs(10));
    assert_eq!(say(&mut world, "discover 02:00:00:00:00:07", false), "offer");
    assert_eq!(say(&mut world, request, false), "ack");
    world.assert_counted();
}
