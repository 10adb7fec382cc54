//! An attachment to a node: rings, the list of commands that the node applies, and frames that wait for it.
//!
//! ```text
//! changes > collected > list, one at a time > node
//! frames that may not leave before these changes are applied: held > ring
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::net::Ipv4Addr;

use weir_bng::ppp::packet::code;
use weir_bng::ppp::protocol;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::{Mac, NodeCommand, PortName, Tags};
use weir_control::client::Attached;
use weir_node::PortState;
use weir_punt::{Consumer, How, Injection, Injections, Producer, Punts, Tag};

use crate::node::Order;

/// Most commands of a list: the node answers after some milliseconds.
const MOST: usize = 2048;
/// Refusals of a node, after which it is not asked session by session.
const MOST_REFUSALS: usize = 100;
/// EtherTypes of tags: of an outer one in front of an inner one (802.1ad), of an inner one or one alone (802.1Q).
const OUTER: u16 = 0x88a8;
const INNER: u16 = 0x8100;
const VID: u16 = 0x0fff;
/// Where the address of the client (yiaddr) stands in a DHCP message over UDP, IPv4 without options and Ethernet.
const YIADDR: std::ops::Range<usize> = 58..62;

/// A frame for a client.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) port: PortName,
    pub(super) tags: Tags,
    pub(super) bytes: Vec<u8>,
}

/// What is attached.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) attachment: u64,
    /// Where punts come from and injections go, by thread of the node.
    pub(super) threads: Vec<(Consumer<Punts>, Producer<Injections>)>,
    pub(super) ports: PortTable,
    collected: Vec<NodeCommand>,
    /// The list that the node applies.
    in_flight: Option<Vec<NodeCommand>>,
    /// Number of the last list that was given to the node.
    list: u64,
    held: VecDeque<(u64, Frame)>,
    refusals: usize,
    /// The last list when the table was asked for; `None`: changes waited.
    pub(super) at_table: Option<u64>,
    /// The node was told that it has all sessions.
    pub(super) is_complete: bool,
    /// The node has refused a session, which was logged.
    pub(super) has_refused: bool,
    /// Frames that were not injected since the ring had no room, or the port has gone.
    pub(super) lost_frames: u64,
}

/// Names and numbers of ports.
#[derive(Debug, Default)]
pub(super) struct PortTable {
    names: Vec<Option<PortName>>,
    numbers: HashMap<PortName, u16>,
}

impl PortTable {
    pub(super) fn new(ports: &[PortState]) -> PortTable {
        let mut table = PortTable::default();
        for state in ports {
            let (Ok(name), Ok(number)) = (state.port.parse::<PortName>(), u16::try_from(state.number)) else {
                continue;
            };
            if table.names.len() <= state.number {
                table.names.resize(state.number + 1, None);
            }
            if let Some(place) = table.names.get_mut(state.number) {
                *place = Some(name.clone());
            }
            table.numbers.insert(name, number);
        }
        table
    }

    pub(super) fn name(&self, number: u16) -> Option<&PortName> {
        self.names.get(usize::from(number))?.as_ref()
    }
}

impl Link {
    pub(super) fn new(attachment: u64, attached: Attached, ports: &[PortState]) -> Link {
        Link {
            attachment,
            threads: attached.threads,
            ports: PortTable::new(ports),
            collected: Vec::new(),
            in_flight: None,
            list: 0,
            held: VecDeque::new(),
            refusals: 0,
            at_table: None,
            is_complete: false,
            has_refused: false,
            lost_frames: 0,
        }
    }

    /// A change of the node's table, for the next list.
    pub(super) fn change(&mut self, change: NodeCommand) {
        self.collected.push(change);
    }

    /// Sends a frame.
    pub(super) fn send(&mut self, frame: &Frame) {
        let sent = match (self.ports.numbers.get(&frame.port), self.threads.first_mut()) {
            (Some(&port), Some((_, injections))) => {
                let tags = tags_in_ring(frame.tags);
                let injection = Injection { how: How::Leave, port, tags, bytes: &frame.bytes };
                injections.push(&injection).is_ok()
            }
            _ => false,
        };
        self.lost_frames += u64::from(!sent);
    }

    /// Sends a frame when all changes so far are applied.
    pub(super) fn send_after_changes(&mut self, frame: Frame) {
        match (self.collected.is_empty(), &self.in_flight) {
            (false, _) => self.held.push_back((self.list + 1, frame)),
            (true, Some(_)) => self.held.push_back((self.list, frame)),
            (true, None) => self.send(&frame),
        }
    }

    /// Shows frames to the node. The next list, if the node has applied the one before.
    pub(super) fn flush(&mut self) -> Option<Order> {
        for (_, injections) in &mut self.threads {
            injections.commit();
        }
        if self.in_flight.is_some() || self.collected.is_empty() {
            return None;
        }
        let rest = self.collected.split_off(self.collected.len().min(MOST));
        let changes = mem::replace(&mut self.collected, rest);
        self.list += 1;
        // Frames that waited for the changes that are left wait on.
        if !self.collected.is_empty() {
            let next = self.list + 1;
            self.held.iter_mut().for_each(|(list, _)| *list = next);
        }
        self.in_flight = Some(changes.clone());
        Some(Order::Commands { attachment: self.attachment, list: self.list, changes })
    }

    /// The number of the last list, if the node has applied it and no change waits.
    pub(super) fn settled(&self) -> Option<u64> {
        (self.in_flight.is_none() && self.collected.is_empty()).then_some(self.list)
    }

    /// The node has applied a list.
    pub(super) fn applied(&mut self, list: u64) {
        self.refusals = 0;
        self.send_held(list);
    }

    /// Sends frames that waited for lists up to this one.
    fn send_held(&mut self, list: u64) {
        self.in_flight = None;
        while let Some((_, frame)) = self.held.pop_front_if(|(waits_for, _)| *waits_for <= list) {
            self.send(&frame);
        }
    }

    /// The node has refused a list because of its command at this place. The others are given to it again; those that are not are
    /// returned, and frames for their clients are dropped. After many refusals all sessions that wait are taken as refused: a node
    /// with another text refuses each of them.
    pub(super) fn refused(&mut self, place: usize) -> Vec<NodeCommand> {
        let Some(mut changes) = self.in_flight.take().filter(|changes| place < changes.len()) else {
            return Vec::new();
        };
        let mut refused = vec![changes.remove(place)];
        self.refusals += 1;
        changes.append(&mut self.collected);
        let is_kept = |change: &NodeCommand| {
            self.refusals < MOST_REFUSALS || !matches!(change, NodeCommand::AddSession(_))
        };
        let (kept, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_kept);
        self.collected = kept;
        refused.extend(others);
        if !self.held.is_empty() {
            let of = |change: &NodeCommand| match change {
                NodeCommand::AddSession(add) => match add.ppp {
                    Some(ppp) => Some(Of::Session(add.mac, ppp.id)),
                    None => Some(Of::Address(add.address)),
                },
                NodeCommand::RemoveSession { .. } => None,
            };
            let without: HashSet<Of> = refused.iter().filter_map(of).collect();
            self.held.retain(|(_, frame)| client(&frame.bytes).is_none_or(|of| !without.contains(&of)));
        }
        if self.collected.is_empty() {
            self.send_held(self.list);
        }
        refused
    }
}

/// What a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    /// The address that DHCP gives.
    Address(Ipv4Addr),
    /// The PPPoE session of a device.
    Session(Mac, u16),
}

fn client(frame: &[u8]) -> Option<Of> {
    if weir_bng::pppoe::is_pppoe(frame) {
        let frame = SessionFrame::read(frame).ok()?;
        return Some(Of::Session(frame.dst, frame.session_id));
    }
    let address: [u8; 4] = frame.get(YIADDR)?.try_into().ok()?;
    Some(Of::Address(address.into()))
}

/// Whether a frame leaves after the node knows its session: packets, and a Configure-Ack of the network layer, which packets of the
/// device follow.
pub(super) fn follows_session(frame: &[u8]) -> bool {
    let Ok(frame) = SessionFrame::read(frame) else { return false };
    let is_ack = frame.payload.first() == Some(&code::ACK);
    frame.protocol == protocol::IPV6 || is_ack && matches!(frame.protocol, protocol::IPCP | protocol::IPV6CP)
}

fn tags_in_ring(tags: Tags) -> weir_punt::Tags {
    let tag = |tpid, tci| Tag { tpid, tci };
    match tags {
        Tags::None => weir_punt::Tags::Untagged,
        Tags::One(vid) => weir_punt::Tags::One(tag(INNER, vid)),
        Tags::Two { outer, inner } => {
            weir_punt::Tags::Two { outer: tag(OUTER, outer), inner: tag(INNER, inner) }
        }
    }
}

/// The tags of a frame; a tag that names a priority and no VLAN (IEEE 802.1Q, section 9.6) is none.
pub(super) fn tags_of(tags: weir_punt::Tags) -> Tags {
    let vids = match tags {
        weir_punt::Tags::Untagged => (0, 0),
        weir_punt::Tags::One(tag) => (tag.tci & VID, 0),
        weir_punt::Tags::Two { outer, inner } => (outer.tci & VID, inner.tci & VID),
    };
    match vids {
        (0, 0) => Tags::None,
        (vid, 0) | (0, vid) => Tags::One(vid),
        (outer, inner) => Tags::Two { outer, inner },
    }
}

#[cfg(test)]
mod tests {
    use weir_bng::{AddSession, Rates, Service, SessionId};
    use weir_punt::Geometry;

    use super::*;

    /// A link, and the node's end of its ring.
    fn linked() -> (Link, Consumer<Injections>) {
        let geometry = Geometry::new(64, 2048).unwrap();
        let (injections, other) = Producer::<Injections>::create(geometry).unwrap();
        let (punts, _) = Consumer::<Punts>::create(geometry).unwrap();
        let mut ports = PortTable::default();
        ports.numbers.insert("access1".parse().unwrap(), 3);
        let link = Link {
            attachment: 1,
            threads: vec![(punts, injections)],
            ports,
            collected: Vec::new(),
            in_flight: None,
            list: 0,
            held: VecDeque::new(),
            refusals: 0,
            at_table: None,
            is_complete: false,
            has_refused: false,
            lost_frames: 0,
        };
        (link, Consumer::attach(other).unwrap())
    }

    fn address(number: u8) -> Ipv4Addr {
        [100, 64, 0, number].into()
    }

    fn add(number: u8) -> NodeCommand {
        NodeCommand::AddSession(AddSession {
            session: SessionId(number.into()),
            subscriber: "anna".parse().unwrap(),
            line: "access1".parse().unwrap(),
            mac: "02:00:00:00:00:01".parse().unwrap(),
            address: address(number),
            prefix: None,
            relay: None,
            ppp: None,
            service: Service::of_rates(Rates { down_bits_per_s: 1, up_bits_per_s: 1 }),
        })
    }

    /// A frame for the client of this address.
    fn frame(number: u8) -> Frame {
        let mut bytes = vec![0; 300];
        bytes[YIADDR].copy_from_slice(&address(number).octets());
        Frame { port: "access1".parse().unwrap(), tags: Tags::Two { outer: 100, inner: 7 }, bytes }
    }

    /// The numbers of the clients whose frames the node has got.
    fn sent(node: &mut Consumer<Injections>) -> Vec<u8> {
        let mut all = Vec::new();
        node.take(64, |injection| {
            assert_eq!((injection.how, injection.port), (How::Leave, 3));
            assert_eq!(tags_of(injection.tags), Tags::Two { outer: 100, inner: 7 });
            let Some(Of::Address(address)) = client(injection.bytes) else { panic!("DHCP") };
            all.push(address.octets()[3]);
        });
        all
    }

    fn sessions(order: Option<Order>) -> Vec<u64> {
        let Some(Order::Commands { changes, .. }) = order else { return Vec::new() };
        let session = |change: &NodeCommand| match change {
            NodeCommand::AddSession(add) => add.session.0,
            NodeCommand::RemoveSession { session } => session.0,
        };
        changes.iter().map(session).collect()
    }

    #[test]
    fn a_frame_waits_for_the_changes_before_it() {
        let (mut link, mut node) = linked();
        link.send_after_changes(frame(9));
        link.change(add(1));
        link.send_after_changes(frame(1));
        link.send(&frame(8));
        assert_eq!(sessions(link.flush()), [1]);
        assert_eq!(sent(&mut node), [9, 8]);
        link.change(add(2));
        link.send_after_changes(frame(2));
        assert_eq!((sessions(link.flush()), sent(&mut node)), (vec![], vec![]));
        link.applied(1);
        assert_eq!(sessions(link.flush()), [2]);
        assert_eq!(sent(&mut node), [1]);
        link.applied(2);
        link.flush();
        assert_eq!((sent(&mut node), link.settled()), (vec![2], Some(2)));
    }

    #[test]
    fn a_refused_session_keeps_its_frame_and_no_other_one() {
        let (mut link, mut node) = linked();
        for number in 1..=3 {
            link.change(add(number));
            link.send_after_changes(frame(number));
        }
        assert_eq!(sessions(link.flush()), [1, 2, 3]);
        assert_eq!(link.refused(1), [add(2)]);
        link.change(add(4));
        link.send_after_changes(frame(4));
        assert_eq!(sessions(link.flush()), [1, 3, 4]);
        assert!(sent(&mut node).is_empty());
        link.applied(2);
        link.flush();
        assert_eq!(sent(&mut node), [1, 3, 4]);
        assert!(link.refused(0).is_empty(), "nothing is in flight");
    }

    #[test]
    fn a_node_that_refuses_all_is_not_asked_for_each() {
        let (mut link, mut node) = linked();
        let gone = NodeCommand::RemoveSession { session: SessionId(250) };
        (0..200).for_each(|number| link.change(add(number)));
        link.change(gone);
        link.send_after_changes(frame(199));
        let mut asked = 0;
        while let [_, others @ ..] = &sessions(link.flush())[..]
            && !others.is_empty()
        {
            asked += 1;
            link.refused(0);
        }
        assert_eq!((asked, sent(&mut node)), (MOST_REFUSALS, vec![]));
    }

    #[test]
    fn frames_wait_for_all_lists_that_their_changes_are_in() {
        let (mut link, mut node) = linked();
        (0..=MOST).for_each(|_| link.change(add(1)));
        link.send_after_changes(frame(1));
        assert_eq!(sessions(link.flush()).len(), MOST);
        link.applied(1);
        assert_eq!(sessions(link.flush()).len(), 1);
        assert!(sent(&mut node).is_empty());
        link.applied(2);
        link.flush();
        assert_eq!(sent(&mut node), [1]);
    }
}
