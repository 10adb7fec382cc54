//! Frames of PPPoE sessions at access ports, whose headers were read when they came in (see [`Frame::open_session`]).
//!
//! ```text
//! a packet      its session is known > as a frame of IP over Ethernet       unknown > dropped, PADT to its sender
//! LCP           echo request > answered    echo reply > the session is alive
//! other PPP, and all that is of a session that is not known yet > control program
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Plane;
use crate::access::SubscriberEvent;
use crate::access::lcp::{self, Heard};
use crate::batch::{Batch, Set, Verdict};
use crate::dir::EntryPoint;
use crate::drops::DropReason;
use crate::frame::{Frame, HEAD_ROOM, Line};
use crate::pipeline::Exit;
use crate::punter::sender;
use crate::threads::Ingress;
use crate::time::Time;

/// EtherType of discovery, version and type, code of a PADT.
const PADT: [u8; 4] = [0x88, 0x63, 0x11, 0xa7];

impl Plane {
    /// Decides about frames of sessions; returns those of `set` that go on.
    #[inline(never)]
    pub(super) fn take_sessions(&mut self, now: Time, batch: &mut Batch<'_>, set: Set) -> Set {
        let mut passed = set;
        if batch.is_injected {
            return passed;
        }
        for i in set {
            if batch.ingress[i] != Ingress::Wire {
                continue;
            }
            if let Some(verdict) = self.session_verdict(now, &mut batch[i]) {
                passed.remove(i);
                self.decide(batch, i, verdict);
            }
        }
        passed
    }

    fn session_verdict(&mut self, now: Time, frame: &mut Frame<'_>) -> Option<Verdict> {
        let Exit::Router(router) = &self.pipeline.exit else { return None };
        let own = router.mac(frame.port);
        if *frame.receiver() != own {
            return Some(Verdict::Dropped(DropReason::NotForUs));
        }
        let is_known = self.pipeline.subscribers.line(frame.subscriber).is_some();
        match (frame.is_ip(), is_known) {
            (true, true) | (false, false) => None,
            (true, false) => Some(Verdict::Dropped(self.refuse_session(now, frame))),
            (false, true) => {
                let (magic, most_bytes) = self.pipeline.subscribers.heard_lcp(frame.subscriber);
                match lcp::answer(frame.ip_mut(), magic, most_bytes) {
                    Heard::Answered(bytes) => {
                        frame.turn_back(own, bytes);
                        Some(Verdict::Out(frame.port))
                    }
                    Heard::Reply => Some(Verdict::Local),
                    Heard::Broken => Some(Verdict::Dropped(DropReason::LcpEcho)),
                    Heard::Other => None,
                }
            }
        }
    }

    /// Asks sessions that are silent whether they live, a bounded number of them. True: there are more.
    pub(super) fn ask_silent_sessions(&mut self, now: Time) -> bool {
        let Exit::Router(router) = &self.pipeline.exit else { return false };
        let outbox = &mut self.outbox;
        self.pipeline.subscribers.ask_silent(now, |Line { port, tags, mac, pppoe_session }, id, magic| {
            let (places, own) = (&mut [[0; 4]; 2], router.mac(port));
            let (tags, request) = (tags.write(places).concat(), lcp::request(pppoe_session, id, magic));
            outbox.send(
                EntryPoint::Leave(port),
                port,
                [&[0; HEAD_ROOM][..], &mac, &own, &tags, &request].concat(),
            );
        })
    }

    /// PPPoE sessions that have died or come alive since the last call: no answer to echo requests of the node, or something after that.
    pub fn subscriber_events(&mut self) -> Vec<SubscriberEvent> {
        self.pipeline.subscribers.take_events()
    }

    /// Tells the sender of a packet that its session has ended, if the node may (RFC 2516, section 5.5).
    #[cold]
    fn refuse_session(&mut self, now: Time, frame: &Frame<'_>) -> DropReason {
        let Exit::Router(router) = &self.pipeline.exit else { return DropReason::PppoeSession };
        if !self.pipeline.subscribers.terminates(now, sender(frame)) {
            return DropReason::PppoeSession;
        }
        let ((_, to), own) = (frame.macs(), router.mac(frame.port));
        let (places, id) = (&mut [[0; 4]; 2], frame.pppoe_session.to_be_bytes());
        let tags = frame.tags.write(places).concat();
        let padt = [&[0; HEAD_ROOM][..], &to, &own, &tags, &PADT, &id, &[0, 0]].concat();
        self.outbox.send(EntryPoint::Leave(frame.port), frame.port, padt);
        DropReason::PppoeTerminated
    }
}
