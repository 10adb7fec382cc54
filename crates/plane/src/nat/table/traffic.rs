//! What frames do to mappings and sessions: they use them, begin them, and find them over.
//!
//! ```text
//!  inside end   > hash > slot >  the fast path: it is the right one, it is alive, only its time changes
//! outside port > entry > slot >                  otherwise: found, begun anew, filtered, created, refused
//! ```

use weir_packet::headers::TCP;

use super::Table;
use crate::drops::DropReason;
use crate::frame::Frame;
use crate::nat::flow::{Arrival, Flow};
use crate::nat::outside::Endpoint;
use crate::nat::sessions::Sessions;
use crate::nat::slot::{Inside, Kind, Remote, Slot};
use crate::nat::words::Dependence;
use crate::table::tcp::{Effect, Segment, Side};
use crate::table::timers::{Class, Tick};
use crate::time::Time;

impl Table {
    /// The mapping of a frame from the inside, which may be new. `guess` is the likely slot of its hash. Each frame comes here: a
    /// call would cost some cycles.
    #[inline(always)]
    pub(crate) fn outbound(
        &mut self,
        now: Time,
        flow: Flow,
        hash: u32,
        guess: u32,
    ) -> Result<u32, DropReason> {
        let tick = Tick::of(now);
        let (kind, by_remote) = (self.kind(), self.by_remote(flow.inside.proto));
        let slot = &mut self.sessions[guess];
        let is_it = slot.is(&flow.inside, kind) && !self.ages.over(slot.track.class, slot.seen, tick);
        if is_it && !by_remote {
            slot.seen.set(tick);
            return Ok(guess);
        }
        if is_it && slot.remote() == flow.remote {
            match slot.track.class {
                Class::TcpEstablished if Segment::is_plain(flow.segment.flags) => {
                    slot.track.advance(Side::Inside, &flow.segment);
                    slot.seen.set(tick);
                    return Ok(guess);
                }
                Class::Udp | Class::Icmp => {
                    slot.seen.set(tick);
                    return Ok(guess);
                }
                _ => {}
            }
        }
        if is_it
            && kind == Kind::Mapping
            && self.further_session(tick, (Side::Inside, &flow.inside, flow.remote), &flow.segment)
        {
            return Ok(guess);
        }
        self.outbound_slow(now, flow, hash)
    }

    /// A frame of a further session of a mapping; false if there is none, or if more changes than its time.
    #[inline]
    fn further_session(
        &mut self,
        tick: Tick,
        (side, inside, remote): (Side, &Inside, Remote),
        segment: &Segment,
    ) -> bool {
        let end = self.end(inside.proto, remote);
        let number = self.sessions.session(&self.secret, inside, end, Kind::Session);
        let slot = &mut self.sessions[number];
        let is_plain = match slot.track.class {
            Class::TcpEstablished => Segment::is_plain(segment.flags),
            Class::Udp | Class::Icmp => side == Side::Inside || self.config.inbound_refresh,
            _ => false,
        };
        if number == 0 || !is_plain || slot.is_called() || self.ages.over(slot.track.class, slot.seen, tick) {
            return false;
        }
        if slot.track.class == Class::TcpEstablished {
            slot.track.advance(side, segment);
        }
        slot.seen.set(tick);
        true
    }

    /// By value: so none of it is written to memory where the fast way is enough.
    fn outbound_slow(&mut self, now: Time, flow: Flow, hash: u32) -> Result<u32, DropReason> {
        let flow = &flow;
        let mapping = match self.kind() {
            Kind::Private => {
                let fixed = self.sessions.mapping(Sessions::hash(&self.secret, &flow.inside), &flow.inside);
                match fixed {
                    0 => self.sessions.session(&self.secret, &flow.inside, flow.remote, Kind::Private),
                    fixed => fixed,
                }
            }
            _ => match self.sessions.mapping(hash, &flow.inside) {
                0 if self.was_private => {
                    self.sessions.session(&self.secret, &flow.inside, flow.remote, Kind::Private)
                }
                mapping => mapping,
            },
        };
        let mapping = self.alive(now, mapping);
        if mapping == 0 {
            return self.create(now, flow);
        }
        let session = self.session_of(now, mapping, flow.remote);
        if self.is_free(mapping) {
            return self.create(now, flow);
        }
        if session == 0 {
            self.join(now, mapping, Side::Inside, flow)?;
        } else {
            self.heard(now, session, Side::Inside, &flow.segment);
        }
        Ok(mapping)
    }

    /// The mapping that a frame from the outside may use. `guess` is the slot that has its port.
    #[inline]
    pub(crate) fn inbound(&mut self, now: Time, arrival: &Arrival, guess: u32) -> Result<u32, DropReason> {
        let tick = Tick::of(now);
        let by_remote = self.by_remote(arrival.proto);
        let slot = &mut self.sessions[guess];
        // It may have ended since it was looked up.
        let is_it = slot.owns_port() && !self.ages.over(slot.track.class, slot.seen, tick);
        if is_it && !by_remote && !self.config.inbound_refresh {
            return Ok(guess);
        }
        let is_open = slot.track.class == Class::TcpEstablished && Segment::is_plain(arrival.segment.flags);
        if is_it && is_open && slot.remote() == arrival.remote {
            slot.track.advance(Side::Outside, &arrival.segment);
            slot.seen.set(tick);
            return Ok(guess);
        }
        if is_it && slot.kind() == Kind::Mapping && by_remote {
            let inside = slot.inside();
            if self.further_session(tick, (Side::Outside, &inside, arrival.remote), &arrival.segment) {
                return Ok(guess);
            }
        }
        self.inbound_slow(now, arrival)
    }

    fn inbound_slow(&mut self, now: Time, arrival: &Arrival) -> Result<u32, DropReason> {
        let mapping = self.alive(now, self.outside.slot(arrival.endpoint));
        if mapping == 0 {
            return Err(DropReason::NatNoMapping);
        }
        let session = self.session_of(now, mapping, arrival.remote);
        if session != 0 {
            self.heard(now, session, Side::Outside, &arrival.segment);
            return Ok(mapping);
        }
        if self.is_free(mapping) {
            return Err(DropReason::NatNoMapping);
        }
        if !self.permits(now, mapping, arrival.remote) {
            return Err(DropReason::NatFiltered);
        }
        let inside = self.sessions[mapping].inside();
        self.join(
            now,
            mapping,
            Side::Outside,
            &Flow { inside, remote: arrival.remote, segment: arrival.segment },
        )?;
        Ok(mapping)
    }

    /// Whether a remote end without a session may use a mapping.
    fn permits(&mut self, now: Time, mapping: u32, remote: Remote) -> bool {
        let slot = &self.sessions[mapping];
        match self.config.filtering {
            _ if slot.is_fixed() => !slot.is_retired(),
            _ if slot.is_open() => true,
            Dependence::Independent => true,
            Dependence::AddressAndPort => false,
            Dependence::Address => {
                let has_session =
                    slot.track.class != Class::Lasting && slot.remote().address == remote.address;
                has_session || self.session_of(now, mapping, Remote { port: 0, ..remote }) != 0
            }
        }
    }

    /// Follows a segment or datagram of a session: its state, and its time.
    pub(super) fn heard(&mut self, now: Time, session: u32, side: Side, segment: &Segment) {
        if side == Side::Inside {
            self.call_is_over(session);
        }
        let slot = &mut self.sessions[session];
        let class = slot.track.class;
        let refreshes = match slot.inside().proto {
            TCP if slot.track.class != Class::Lasting => slot.track.segment(side, segment) == Effect::Refresh,
            _ => side == Side::Inside || self.config.inbound_refresh,
        };
        if refreshes {
            slot.seen = Tick::of(now);
        }
        if slot.track.class != class {
            self.sessions.renew(session);
        }
    }

    /// The mapping of an inside end, if there is one: nothing is created or refreshed.
    pub(crate) fn mapping_of(&mut self, now: Time, inside: &Inside, remote: Remote) -> Option<&Slot> {
        let fixed = self.sessions.mapping(Sessions::hash(&self.secret, inside), inside);
        let number = match fixed {
            0 => self.sessions.session(&self.secret, inside, remote, Kind::Private),
            fixed => fixed,
        };
        let number = self.alive(now, number);
        (number != 0).then(|| &self.sessions[number])
    }

    /// The mapping that has a port, if there is one: nothing is refreshed.
    pub(crate) fn holder(&mut self, now: Time, endpoint: Endpoint) -> Option<&Slot> {
        let number = self.alive(now, self.outside.slot(endpoint));
        (number != 0).then(|| &self.sessions[number])
    }

    /// Whether the mapping that has a port has a session with this remote end.
    pub(crate) fn has_session(&mut self, now: Time, endpoint: Endpoint, remote: Remote) -> bool {
        let mapping = self.alive(now, self.outside.slot(endpoint));
        mapping != 0 && self.session_of(now, mapping, remote) != 0
    }

    /// Whether there is a mapping for a frame that came to a public address.
    pub(crate) fn awaits(&mut self, now: Time, frame: &Frame<'_>) -> bool {
        self.endpoint(frame).is_some_and(|endpoint| self.holder(now, endpoint).is_some())
    }
}
