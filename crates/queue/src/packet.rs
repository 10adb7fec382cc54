//! What a queue knows of a packet. The packet itself is a handle that the queue passes on and never looks at.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The ECN field of IP (RFC 3168, RFC 9331).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecn {
    /// The endpoints do not know ECN: congestion is signalled by drops.
    #[default]
    NotEct,
    /// ECN with the classic response.
    Ect0,
    /// ECN with a scalable response (L4S).
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// From the two low bits of the traffic class; others are ignored.
    pub fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two low bits of the traffic class.
    pub fn bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        }
    }

    /// May be marked.
    pub fn capable(self) -> bool {
        self != Ecn::NotEct
    }

    /// Belongs to the low-latency queue of RFC 9332: ECT(1) and CE.
    pub(crate) fn scalable(self) -> bool {
        matches!(self, Ecn::Ect1 | Ecn::Ce)
    }
}

/// A packet as queues see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes on the wire, as the link counts them; at least 1.
    pub bytes: u32,
    /// Hash of the 5-tuple.
    pub flow: u32,
    /// The sender: an address or a hash of it, for fairness between hosts.
    pub source: u32,
    /// The receiver, likewise.
    pub destination: u32,
    /// The ECN field, changed by a mark.
    pub ecn: Ecn,
    /// Packet value, 0 to [`crate::ppv::LEVELS`] - 1: the higher, the later it is dropped. 0 without a marker.
    pub value: u16,
    /// When it entered the queue; set by [`crate::Queue::offer`].
    pub arrival: Time,
    /// What is queued: a frame's place in memory, a segment's number.
    pub payload: T,
}

impl<T> Packet<T> {
    /// A packet of a flow that has both of its hosts for itself and does not know ECN.
    pub fn new(bytes: u32, flow: u32, payload: T) -> Packet<T> {
        Packet {
            bytes,
            flow,
            source: flow,
            destination: flow,
            ecn: Ecn::NotEct,
            value: 0,
            arrival: Time::ZERO,
            payload,
        }
    }

    /// The packet and its payload.
    pub fn apart(self) -> (Packet<()>, T) {
        let Packet { bytes, flow, source, destination, ecn, value, arrival, payload } = self;
        (Packet { bytes, flow, source, destination, ecn, value, arrival, payload: () }, payload)
    }
}

impl Packet<()> {
    /// The packet with a payload.
    pub fn carrying<T>(self, payload: T) -> Packet<T> {
        let Packet { bytes, flow, source, destination, ecn, value, arrival, payload: () } = self;
        Packet { bytes, flow, source, destination, ecn, value, arrival, payload }
    }
}
