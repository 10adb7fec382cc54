//! An attachment to a node: rings, the list of commands that the node applies, and frames that wait for it.
//!
//! ```text
//! changes > collected > list, one at a time > node
//! frames that may not leave before these changes are applied: held > ring
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::net::Ipv4Addr;

use weir_bng::{NodeCommand, PortName, Tags};
use weir_control::client::Attached;
use weir_node::PortState;
use weir_punt::{Consumer, How, Injection, Injections, Producer, Punts, Tag};

use crate::node::{Connection, Order};

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

    /// Shows frames to the node, and gives it the next list if it has applied the one before.
    pub(super) fn flush(&mut self, connection: &Connection) {
        for (_, injections) in &mut self.threads {
            injections.commit();
        }
        if self.in_flight.is_none() && !self.collected.is_empty() {
            let rest = self.collected.split_off(self.collected.len().min(MOST));
            let changes = mem::replace(&mut self.collected, rest);
            self.list += 1;
            // Frames that waited for the changes that are left wait on.
            if !self.collected.is_empty() {
                let next = self.list + 1;
                self.held.iter_mut().for_each(|(list, _)| *list = next);
            }
            self.in_flight = Some(changes.clone());
            connection.order(Order::Commands { attachment: self.attachment, list: self.list, changes });
        }
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
            let address = |change: &NodeCommand| match change {
                NodeCommand::AddSession(add) => Some(add.address),
                NodeCommand::RemoveSession { .. } => None,
            };
            let without: HashSet<Ipv4Addr> = refused.iter().filter_map(address).collect();
            self.held.retain(|(_, frame)| client(&frame.bytes).is_none_or(|of| !without.contains(&of)));
        }
        if self.collected.is_empty() {
            self.send_held(self.list);
        }
        refused
    }
}

/// The address that a DHCP server gives in a frame.
fn client(frame: &[u8]) -> Option<Ipv4Addr> {
    let address: [u8; 4] = frame.get(YIADDR)?.try_into().ok()?;
    Some(address.into())
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
