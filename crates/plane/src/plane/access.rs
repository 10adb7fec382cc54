//! Frames of access ports on their way in: which go on, which are answered, which are dropped.
//!
//! ```text
//! no session         > dropped (what is to be punted has been)
//! ARP, neighbour     > for the node, or for another subscriber: answered; changes nothing
//! solicitations
//! a packet of IP     > state, source, rate > counted, goes on; of a walled subscriber, see `access/walled.rs`
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::IpAddr;

use weir_packet::neighbour::{self, Heard};

use super::Plane;
use crate::access::Denied;
use crate::address::words_of;
use crate::batch::{Batch, Frames, Set, Verdict};
use crate::dir::EntryPoint;
use crate::drops::DropReason;
use crate::frame::{Frame, Kind};
use crate::icmp;
use crate::pipeline::Exit;
use crate::prefix::is_link_local;
use crate::threads::Ingress;
use crate::time::Time;

impl Plane {
    /// Decides about frames of `set` that came in by access ports; returns those that go on. What the control program has injected
    /// is from no subscriber.
    #[inline(never)]
    pub(super) fn take_from_subscribers(&mut self, now: Time, batch: &mut Batch<'_>, set: Set) -> Set {
        let mut passed = set;
        if batch.is_injected {
            return passed;
        }
        for i in set {
            if batch.ingress[i] != Ingress::Wire || !self.pipeline.is_access(batch[i].port) {
                continue;
            }
            let verdict = match batch[i].kind() {
                Kind::V6 if icmp::is_about_neighbours(&batch[i]) => Some(self.answer_solicitation(&batch[i])),
                Kind::V4 | Kind::V6 => {
                    let taken = self.pipeline.subscribers.take_from(now, &mut batch[i]);
                    if taken == Err(Denied::WalledReset) {
                        self.outbox.reset(now, &batch[i], EntryPoint::Inward { below: 0 });
                    }
                    taken.err().map(|denied| Verdict::Dropped(denied.into()))
                }
                Kind::Arp => self.answer_subscriber(&batch[i]),
                Kind::Other => None,
            };
            if let Some(verdict) = verdict {
                passed.remove(i);
                self.decide(batch, i, verdict);
            }
        }
        passed
    }

    /// Keeps packets of subscribers that have to wait for a rate; returns the others of `set`.
    pub(super) fn hold_from_subscribers(
        &mut self,
        now: Time,
        batch: &mut Batch<'_>,
        set: Set,
        of_subscribers: Set,
    ) -> Set {
        let (mut passed, mut fresh) = (set, Set::EMPTY);
        if batch.is_injected {
            return passed;
        }
        for i in set.and(of_subscribers) {
            if batch.ingress[i] == Ingress::Wire && self.pipeline.is_access(batch[i].port) {
                fresh.insert(i);
            }
        }
        let Batch { frames, verdicts, .. } = batch;
        let kept = |i, ticket| {
            passed.remove(i);
            verdicts[i] = Verdict::Kept(ticket);
        };
        self.pipeline.subscribers.hold_from(now, &Frames(frames), fresh, &mut self.outbox, kept);
        passed
    }

    /// The verdict of an ARP message of a device at an access port; `None`: it asks for the node itself.
    ///
    /// The node answers for other subscribers, since their devices do not hear each other (TR-101, R-179). It is silent about the
    /// address of the device that asks, which may ask to find out whether another one has it (RFC 5227).
    fn answer_subscriber(&mut self, frame: &Frame<'_>) -> Option<Verdict> {
        let subscribers = &self.pipeline.subscribers;
        if subscribers.line(frame.subscriber).is_none() {
            return Some(Verdict::Dropped(DropReason::NoSubscriber));
        }
        if subscribers.is_blocked(frame.subscriber) {
            return Some(Verdict::Dropped(DropReason::SubscriberBlocked));
        }
        let Some(heard) = neighbour::parse(&frame.untagged()) else {
            return Some(Verdict::Dropped(DropReason::NoProtocol));
        };
        let (Heard::Question { from, .. } | Heard::Answer(from)) = heard;
        let is_own = |address| subscribers.has_address(frame.subscriber, address);
        let is_probe = from.ip.is_unspecified();
        if !is_probe && !is_own(from.ip) || from.mac != frame.macs().1 {
            return Some(Verdict::Dropped(DropReason::SubscriberSource));
        }
        let Heard::Question { target, .. } = heard else {
            return Some(Verdict::Dropped(DropReason::NotForUs));
        };
        let Exit::Router(router) = &self.pipeline.exit else { return None };
        if router.is_own(frame.port, target) {
            return None;
        }
        let other = subscribers.lookup_to(words_of(target));
        if is_own(target) || other.is_none() || !matches!(target, IpAddr::V4(_)) {
            return Some(Verdict::Dropped(DropReason::NotForUs));
        }
        router.answer_for(frame, target, from, &mut self.outbox);
        Some(Verdict::Local)
    }

    /// The verdict of neighbour discovery of a device at an access port, as [`Plane::answer_subscriber`] has it for ARP. A device may
    /// ask from its address on the link, and so may a router that subscribers are behind.
    fn answer_solicitation(&mut self, frame: &Frame<'_>) -> Verdict {
        let subscribers = &self.pipeline.subscribers;
        let is_router = subscribers.is_router(frame.line());
        if subscribers.line(frame.subscriber).is_none() && !is_router {
            return Verdict::Dropped(DropReason::NoSubscriber);
        }
        if subscribers.is_blocked(frame.subscriber) {
            return Verdict::Dropped(DropReason::SubscriberBlocked);
        }
        let Some(Heard::Question { from, target }) = neighbour::parse(&frame.untagged()) else {
            return Verdict::Dropped(DropReason::NotForUs);
        };
        let is_own = |address| subscribers.has_address(frame.subscriber, address);
        let is_right = from.ip.is_unspecified() || is_link_local(from.ip) || is_own(from.ip);
        if !is_right || from.mac != frame.macs().1 {
            return Verdict::Dropped(DropReason::SubscriberSource);
        }
        let Exit::Router(router) = &self.pipeline.exit else { return Verdict::Dropped(DropReason::NotForUs) };
        let is_others = || !is_own(target) && !subscribers.lookup_to(words_of(target)).is_none();
        if !router.is_own(frame.port, target) && (is_router || !is_others()) {
            return Verdict::Dropped(DropReason::NotForUs);
        }
        router.answer_for(frame, target, from, &mut self.outbox);
        Verdict::Local
    }
}
