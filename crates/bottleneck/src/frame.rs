//! The properties of a frame that a queue needs.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::net::IpAddr;

use weir_link::Paths;
use weir_packet::encapsulation::{Link, Unread};
use weir_packet::steer::{ends_of_frame, flow, mix4, mix6};
use weir_packet::{ecn, headers};
use weir_queue::ppv::marker::{self, Marker};
use weir_queue::{Ecn, Packet, Time};

/// Flows whose rates are known; more than these begin anew.
const MOST_FLOWS: usize = 100_000;

/// A frame as a queue sees it.
pub(crate) struct Seen {
    pub(crate) packet: Packet<()>,
    /// Its path.
    pub(crate) path: usize,
    /// It should carry a packet of IP, of which nothing can be read: frames with the same Ethernet addresses and type are one
    /// flow.
    pub(crate) is_unread: bool,
}

/// What can be seen of a frame: of its packet of IP, behind whatever encapsulates that, or of Ethernet alone.
pub(crate) fn see(frame: &[u8], paths: &Paths) -> Seen {
    let mut packet = Packet::new(frame.len().max(1) as u32, 0, ());
    let headers = match headers::read_link(Link::Ethernet, frame) {
        Ok(headers) => headers,
        Err(why) => {
            (packet.source, packet.destination, packet.flow) = ends_of_frame(frame);
            let is_unread = !matches!(why, Unread::Control(_));
            return Seen { packet, path: paths.others(), is_unread };
        }
    };
    let mix = |address: IpAddr| match address {
        IpAddr::V4(address) => mix4(address.to_bits()),
        IpAddr::V6(address) => mix6(address.to_bits()),
    };
    (packet.source, packet.destination) = (mix(headers.src), mix(headers.dst));
    packet.flow = flow(packet.source, packet.destination, headers.ports, headers.protocol);
    packet.ecn = Ecn::from_bits(ecn::bits(frame));
    Seen { packet, path: paths.of(headers.src, headers.dst), is_unread: false }
}

/// Gives packets the values that queues with packet values need: each flow has its own marker.
pub(crate) struct Markers {
    flows: HashMap<u32, Marker>,
    seed: u64,
}

impl Markers {
    pub(crate) fn new(seed: u64) -> Markers {
        Markers { flows: HashMap::new(), seed }
    }

    pub(crate) fn value(&mut self, flow: u32, bytes: u32, now: Time) -> u16 {
        if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&flow) {
            self.flows.clear();
        }
        let seed = self.seed ^ u64::from(flow);
        let marker = self.flows.entry(flow).or_insert_with(|| marker::Config::default().build(seed));
        marker.mark(bytes, now)
    }
}
