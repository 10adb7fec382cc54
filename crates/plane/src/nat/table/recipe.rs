//! The NAT's part of a recipe: the session of a flow and its rewrite, and what is refreshed when the recipe was used.

use weir_packet::headers::TCP;

use super::Table;
use crate::address::mapped4;
use crate::dir::Dir;
use crate::nat::flow::is_v4;
use crate::nat::outside::{Endpoint, Space};
use crate::nat::sessions::Sessions;
use crate::nat::slot::{Inside, Kind, Remote};
use crate::prefix::is_unicast4;
use crate::recipe::{Ends, Key, NatNote, Never, Note, Part, Rewrite, Uses};
use crate::table::tcp::Progress;
use crate::table::tcp::{Segment, Side};
use crate::table::timers::{Class, Tick};
use crate::time::Time;

/// The mapping and the session of a flow, and the rewrite.
struct Found {
    mapping: u32,
    session: u32,
    side: Side,
    rewrite: Rewrite,
}

impl Table {
    /// What the NAT does to frames with this key in the direction `dir`; `None`: nothing.
    ///
    /// # Errors
    /// They must pass the stage.
    pub(crate) fn recipe(&self, now: Time, key: &Key, dir: Dir) -> Result<Option<Part>, Never> {
        let (src, dst) = match key.ends {
            Ends::V4 { src, dst } => (src, dst),
            Ends::V6 { dst, .. } => {
                let is_translated = self.config.prefix64.is_some_and(|prefix| prefix.extract(dst).is_some());
                // Most of them get an identification.
                return if is_translated { Err(Never::Identification) } else { Ok(None) };
            }
        };
        if self.is_special() {
            return Err(Never::Configured);
        }
        if key.stays_inside || !is_unicast4(src) || !is_unicast4(dst) || self.node.local.contains(&dst) {
            return Err(Never::Destination);
        }
        let found = match dir {
            Dir::Outward => self.outward_found(key, (src, dst))?,
            Dir::Inward => self.inward_found(key, (src, dst))?,
        };
        let (sessions, ages) = (&self.sessions, &self.ages);
        let slot = &sessions[found.session];
        let is_open = key.proto != TCP || slot.track.class == Class::TcpEstablished;
        let is_over = |number: u32| {
            let slot = &sessions[number];
            ages.over(slot.track.class, slot.seen, Tick::of(now))
        };
        if !is_open || slot.is_called() || is_over(found.session) || is_over(found.mapping) {
            return Err(Never::NoSession);
        }
        let refreshes = found.side == Side::Inside || key.proto == TCP || self.config.inbound_refresh;
        let ends = [found.session, found.mapping].map(|number| {
            let slot = &sessions[number];
            ages.end(slot.track.class, slot.seen)
        });
        let until = match ends {
            [Some(a), Some(b)] => Some(Tick::earlier(a, b)),
            [a, b] => a.or(b),
        };
        Ok(Some(Part {
            class: None,
            rewrite: found.rewrite,
            sessions: vec![found.mapping, found.session],
            until,
            note: Note::Nat(NatNote { session: found.session, side: found.side, refreshes }),
        }))
    }

    fn outward_found(&self, key: &Key, (src, dst): (u32, u32)) -> Result<Found, Never> {
        if self.is_public(dst) {
            return Err(Never::Destination);
        }
        if !key.keeps_whole {
            return Err(Never::Identification);
        }
        let inside = Inside { address: mapped4(src), port: key.ports.0, proto: key.proto };
        let remote = Remote { address: dst, port: key.ports.1 };
        let table = self;
        let mapping = table.sessions.mapping(Sessions::hash(&table.secret, &inside), &inside);
        let mapping = match mapping {
            0 => table.sessions.session(&table.secret, &inside, remote, Kind::Private),
            mapping => mapping,
        };
        let session = self.session_found(mapping, &inside, remote)?;
        let slot = &table.sessions[mapping];
        let rewrite = Rewrite::Source(table.outside.address(slot.outside), slot.outside_port);
        Ok(Found { mapping, session, side: Side::Inside, rewrite })
    }

    fn inward_found(&self, key: &Key, (src, dst): (u32, u32)) -> Result<Found, Never> {
        let table = self;
        let outside = table.outside.number(dst).ok_or(Never::Destination)?;
        let space = Space::of(key.proto).ok_or(Never::Kind)?;
        let mapping = table.outside.slot(Endpoint { outside, space, port: key.ports.1 });
        let inside = table.sessions[mapping].inside();
        if table.sessions[mapping].kind() == Kind::Redirected || mapping != 0 && !is_v4(&inside) {
            return Err(Never::Configured);
        }
        let session = self.session_found(mapping, &inside, Remote { address: src, port: key.ports.0 })?;
        let rewrite = Rewrite::Destination(inside.address[3], inside.port);
        Ok(Found { mapping, session, side: Side::Outside, rewrite })
    }

    /// The session of a mapping with a remote end.
    fn session_found(&self, mapping: u32, inside: &Inside, remote: Remote) -> Result<u32, Never> {
        let table = self;
        if mapping == 0 {
            return Err(Never::NoSession);
        }
        if !table.by_remote(inside.proto) {
            return Ok(mapping);
        }
        let (slot, end) = (&table.sessions[mapping], table.end(inside.proto, remote));
        if slot.track.class != Class::Lasting && slot.remote() == end {
            return Ok(mapping);
        }
        match table.sessions.session(&table.secret, inside, end, Kind::Session) {
            0 => Err(Never::NoSession),
            session => Ok(session),
        }
    }

    /// The epoch of a session.
    pub(crate) fn epoch(&self, number: u32) -> u32 {
        self.sessions.epoch(number)
    }

    /// A frame of a recipe's flow was passed on: follows its TCP segment.
    pub(crate) fn segment(&mut self, note: &NatNote, segment: &Segment) {
        let slot = &mut self.sessions[note.session];
        if slot.track.class == Class::TcpEstablished {
            slot.track.advance(note.side, segment);
        }
    }

    /// Refreshes the session of a recipe by its uses.
    pub(crate) fn used(&mut self, note: &NatNote, uses: &Uses) {
        if note.refreshes {
            self.sessions[note.session].seen.set_later(uses.last);
        }
    }

    /// The session of frames with this key, and what it does to them.
    pub(crate) fn session_for(&self, key: &Key, dir: Dir) -> Option<(u32, Rewrite)> {
        let Ends::V4 { src, dst } = key.ends else { return None };
        let key = Key { keeps_whole: true, ..*key };
        let found = match dir {
            Dir::Outward => self.outward_found(&key, (src, dst)),
            Dir::Inward => self.inward_found(&key, (src, dst)),
        };
        found.ok().map(|found| (found.session, found.rewrite))
    }

    /// The state of an open TCP connection.
    pub(crate) fn progress(&self, session: u32) -> Option<Progress> {
        let track = &self.sessions[session].track;
        (track.class == Class::TcpEstablished).then(|| track.progress())
    }

    /// Sets the state of an open TCP connection, as the fast path has followed it.
    pub(crate) fn catch_up(&mut self, session: u32, progress: &Progress) {
        let track = &mut self.sessions[session].track;
        if track.class == Class::TcpEstablished {
            track.catch_up(progress);
        }
    }

    /// Whether sessions that change are recorded for [`Table::renewed`].
    pub(crate) fn watch(&mut self, is_on: bool) {
        self.sessions.renewed = is_on.then(Vec::new);
    }

    /// Sessions that have changed since the last call.
    pub(crate) fn renewed(&mut self) -> Vec<u32> {
        self.sessions.renewed.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
