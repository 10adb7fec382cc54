//! Public addresses that other boxes have as well, each with ports of its own (RFC 6346; MAP, RFC 7597): a frame from such a box
//! is not spoofed, and a frame for its ports is not for a host behind this NAT.
//!
//! An address is shared where the text gives it some ports alone: `public 192.0.2.1 ports 2048-3071`. Then a frame is of this
//! NAT by its port, and one without a known port, such as a later fragment, may be of another box.

use std::ops::RangeInclusive;

use super::Table;
use crate::frame::{Fragment, Frame, Kind};
use crate::nat::flow::has_ports;
use crate::nat::outside::{LOW, Space};
use crate::nat::quoted::Receiver;

impl Table {
    /// The ports of a public address that are or were allocated here, in order.
    fn given_of(&self, address: u32) -> Vec<&RangeInclusive<u16>> {
        let of_it = self.given.iter().filter(|public| (public.first..=public.last).contains(&address));
        let mut all: Vec<_> = of_it.flat_map(|public| &public.ports).collect();
        all.sort_unstable_by_key(|ports| *ports.start());
        all
    }

    /// Whether other boxes have ports of a public address.
    fn is_shared(&self, address: u32) -> bool {
        let ranges = self.given_of(address);
        if ranges.is_empty() || self.config.pairs.at(address).is_some() {
            return false;
        }
        let mut next = u32::from(LOW);
        for range in ranges {
            if u32::from(*range.start()) > next {
                return true;
            }
            next = next.max(u32::from(*range.end()) + 1);
        }
        next <= u32::from(u16::MAX)
    }

    /// Whether an end of a shared address belongs to another box.
    fn is_of_another(&self, address: u32, port: u16, proto: u8) -> bool {
        let is_given = || self.given_of(address).iter().any(|ports| ports.contains(&port));
        self.is_shared(address) && !is_given() && self.config.forwards.at(proto, (address, port)).is_none()
    }

    /// Whether a frame from outside has one of this NAT's ends as its source.
    pub(crate) fn is_impostor(&self, frame: &Frame<'_>) -> bool {
        if frame.kind() != Kind::V4 || !self.is_public(frame.addresses4().0) {
            return false;
        }
        let ((address, _), (port, _)) = (frame.addresses4(), frame.ports());
        if has_ports(frame) && frame.fragment() != Fragment::Later {
            !self.is_of_another(address, port, frame.proto())
        } else {
            !self.is_shared(address)
        }
    }

    /// Whether a frame that goes to a public address, and is no later fragment, is for another box.
    pub(crate) fn is_for_another_box(&self, frame: &Frame<'_>) -> bool {
        let to = Receiver::of(frame);
        Space::of(to.proto).is_some() && self.is_of_another(to.address, to.port, to.proto)
    }
}
