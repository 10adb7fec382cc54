//! Which thread of a node with several NATs a frame belongs to: each NAT in turn says where it sends the frame, until one knows
//! the thread.
//!
//! ```text
//!  outward   host i > nat 0: port p of A, allocated by the thread of i > nat 1: port q of B, allocated by the same thread
//!  inward    q of B > nat 1: the thread that allocates q                        (by configuration: p of A, and on at nat 0)
//! ```
//! Invariant: a flow as one NAT sees it, and as the next one does, belongs to the same thread: no frame is handed over between
//! NATs.

use weir_packet::steer::{mix4, mix6};

use super::{Directed, addresses, nat};
use crate::dir::Dir;
use crate::frame::{Fragment, Kind};
use crate::icmp::quoted6;
use crate::nat::{Departs, Destination, Nat, Receiver, Sender, has_ports_of};
use crate::stages::{OneOf, Stage};

/// The stages that are NATs, from inside.
#[derive(Debug, Default)]
pub(super) struct Nats(Vec<usize>);

/// The thread that a frame belongs to.
pub(super) enum Owner {
    Thread(u8),
    /// The thread that this hash picks.
    Hash(u32),
}

impl Nats {
    /// The NATs among some stages.
    pub(super) fn of(stages: &[Stage]) -> Nats {
        let is_nat = |(k, stage): (usize, &Stage)| Nat::of(stage).is_some().then_some(k);
        Nats(stages.iter().enumerate().filter_map(is_nat).collect())
    }

    /// The stage of the NAT of this number.
    pub(super) fn stage(&self, number: u8) -> Option<usize> {
        self.0.get(usize::from(number)).copied()
    }

    /// The thread that a frame belongs to, in the direction `dir`. A later fragment for a port belongs to that of its first one.
    pub(super) fn owner(&self, directed: Directed<'_, '_>, stages: &[Stage]) -> Owner {
        let Directed { frame, dir } = directed;
        match (frame.kind(), dir) {
            (Kind::V4, Dir::Outward) => Owner::Hash(self.outward(Sender::of(frame), stages)),
            (Kind::V4, Dir::Inward) => self.inward(Receiver::of(frame), stages),
            _ => Owner::Hash(self.of_v6(directed, stages)),
        }
    }

    /// The thread that the answer to a frame of the node's machine belongs to, which leaves in the direction `dir`.
    pub(super) fn owner_of_answer(&self, directed: Directed<'_, '_>, stages: &[Stage]) -> Owner {
        let Directed { frame, dir } = directed;
        match (frame.kind(), dir) {
            (Kind::V4, Dir::Outward) => self.inward(Receiver::of_answer(frame), stages),
            (Kind::V4, Dir::Inward) => Owner::Hash(self.outward(Sender::of_answer(frame), stages)),
            _ => Owner::Hash(addresses(frame)),
        }
    }

    fn outward(&self, mut from: Sender, stages: &[Stage]) -> u32 {
        let Sender { address: inside, remote, .. } = from;
        for &k in &self.0 {
            match nat(stages, k).table.departs(&from) {
                Departs::As(address) => from.address = address,
                Departs::Host => return mix4(inside),
                Departs::Remote => return mix4(remote),
            }
        }
        // Where the NAT is one-to-one, a remote host sees another address.
        if from.address == inside { mix4(inside).wrapping_add(mix4(remote)) } else { mix4(inside) }
    }

    fn inward(&self, mut to: Receiver, stages: &[Stage]) -> Owner {
        let mut is_inside = false;
        for &k in self.0.iter().rev() {
            match nat(stages, k).table.destination(&to) {
                Destination::On => {}
                Destination::Inside(address, port) => {
                    to = to.at(address, port);
                    is_inside = true;
                }
                Destination::Thread(thread) => return Owner::Thread(thread),
                Destination::Remote => return Owner::Hash(mix4(to.remote)),
            }
        }
        if is_inside {
            Owner::Hash(mix4(to.address))
        } else {
            Owner::Hash(mix4(to.address).wrapping_add(mix4(to.remote)))
        }
    }

    fn of_v6(&self, directed: Directed<'_, '_>, stages: &[Stage]) -> u32 {
        let Directed { frame, dir } = directed;
        if dir == Dir::Inward || frame.kind() != Kind::V6 {
            return addresses(frame);
        }
        let (inside, remote) = quoted6(frame).map_or(frame.addresses6(), |(src, dst)| (dst, src));
        if self.0.iter().any(|&k| nat(stages, k).table.stands_for(remote)) {
            mix6(inside)
        } else {
            mix6(inside).wrapping_add(mix6(remote))
        }
    }

    /// Whether a frame is a fragment with an owner that only its packet's first fragment tells.
    pub(super) fn is_piece(&self, directed: Directed<'_, '_>, stages: &[Stage]) -> bool {
        let Directed { frame, dir } = directed;
        if frame.kind() != Kind::V4 {
            return frame.is_piece_of_icmp();
        }
        if dir == Dir::Outward {
            return frame.is_piece_of_icmp();
        }
        if frame.fragment() == Fragment::Whole || !has_ports_of(frame.proto()) {
            return false;
        }
        let (_, mut address) = frame.addresses4();
        for &k in self.0.iter().rev() {
            let nat = &nat(stages, k).table;
            match nat.paired(address) {
                same if same == address && nat.is_public(address) => return true,
                inside => address = inside,
            }
        }
        false
    }
}
