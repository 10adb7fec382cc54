//! What happens to a frame before the pipeline: its tags and headers are read, a router checks its receiver and its source, and a
//! node of several threads finds the thread that it belongs to.

use super::Plane;
use crate::batch::{Batch, Frames, Set, Verdict};
use crate::dir::{Dir, EntryPoint};
use crate::drops::DropReason;
use crate::frame::{ETHERNET, Frame, Kind, Passage};
use crate::icmp::{self, Error};
use crate::nat::Nat;
use crate::pipeline::{Entries, Exit};
use crate::punter::{is_pppoe, is_pppoe_session};
use crate::route::Refusal;
use crate::stages::OneOf;
use crate::steer::Directed;
use crate::tags::{PortTags, Tag, TagSet, Tags};
use crate::threads::{Handover, Ingress};
use crate::time::Time;

/// The frames of a batch in front of the pipeline.
#[derive(Default)]
struct Admission {
    /// They go to the stages.
    admitted: Set,
    /// For a router: about neighbours, or not for the node at all.
    others: Set,
    /// They came in on the left.
    of_left: Set,
    /// They came in by ports of subscribers, of these in PPPoE sessions.
    of_subscribers: Set,
    of_sessions: Set,
}

impl Admission {
    /// These have their verdicts.
    fn take_out(&mut self, gone: Set) {
        (self.admitted, self.others) = (self.admitted.without(gone), self.others.without(gone));
    }

    fn dir(&self, i: usize) -> Dir {
        if self.of_left.contains(i) { Dir::Outward } else { Dir::Inward }
    }
}

impl Plane {
    /// Reads the headers of frames off the wire; frames that do not concern the stages get their verdict here.
    pub(super) fn admit(&mut self, now: Time, batch: &mut Batch<'_>) -> Entries {
        let mut sets = self.open_all(batch);
        self.admit_subscribers(now, batch, &mut sets);
        let no_ip = self.admit_others(now, batch, &mut sets);
        sets.admitted = self.check_sources(now, batch, sets.admitted, sets.of_left);
        if self.pipeline.has_access && !sets.of_subscribers.is_empty() {
            sets.admitted = self.hold_from_subscribers(now, batch, sets.admitted, sets.of_subscribers);
        }
        self.entries(now, batch, &sets, no_ip)
    }

    /// Reads tags and headers of all frames, and sorts them.
    #[inline]
    fn open_all(&mut self, batch: &mut Batch<'_>) -> Admission {
        let mut sets = Admission::default();
        let has_subscribers = self.pipeline.has_access || !self.pipeline.subscribers.is_empty();
        let router = if let Exit::Router(router) = &self.pipeline.exit { Some(&**router) } else { None };
        for (i, frame) in batch.frames.iter_mut().enumerate() {
            if let Err(reason) = open(frame, self.pipeline.tags(frame.port)) {
                self.accounting.drops.count(reason);
                batch.verdicts[i] = Verdict::Dropped(reason);
                continue;
            }
            match self.pipeline.enters(frame.port) {
                Some(Dir::Outward) => sets.of_left.insert(i),
                Some(Dir::Inward) => {}
                None => {
                    self.accounting.drops.count(DropReason::PortGone);
                    batch.verdicts[i] = Verdict::Dropped(DropReason::PortGone);
                    continue;
                }
            }
            if has_subscribers && self.pipeline.has_subscribers(frame.port) {
                if self.pipeline.is_access(frame.port) && is_pppoe_session(frame) {
                    if let Err(reason) = frame.open_session() {
                        self.accounting.drops.count(reason);
                        batch.verdicts[i] = Verdict::Dropped(reason);
                        continue;
                    }
                    sets.of_sessions.insert(i);
                }
                sets.of_subscribers.insert(i);
            }
            if router.map_or(frame.is_ip(), |router| router.takes_in(frame)) {
                sets.admitted.insert(i)
            } else {
                sets.others.insert(i)
            }
        }
        sets
    }

    /// Finds the subscribers of frames, and takes out what is for the control program, for the node's side of a session, and what is
    /// not a subscriber's to send.
    #[inline]
    fn admit_subscribers(&mut self, now: Time, batch: &mut Batch<'_>, sets: &mut Admission) {
        if !sets.of_subscribers.is_empty() {
            self.find_subscribers(batch, sets.of_subscribers);
        }
        if !sets.of_sessions.is_empty() {
            let taken = self.take_sessions(now, batch, sets.of_sessions);
            sets.take_out(sets.of_sessions.without(taken));
        }
        if self.punter.is_some() {
            let rest = self.punt_to_control(now, batch, sets.admitted.or(sets.others));
            (sets.admitted, sets.others) = (sets.admitted.and(rest), sets.others.and(rest));
        }
        if self.pipeline.has_access && !sets.of_subscribers.is_empty() {
            let of_subscribers = sets.of_subscribers.and(sets.admitted.or(sets.others));
            let taken = self.take_from_subscribers(now, batch, of_subscribers);
            sets.take_out(of_subscribers.without(taken));
        }
    }

    /// What a router does with frames that its stages do not see; returns those without a packet of IP that pass the stages all the same.
    #[inline]
    fn admit_others(&mut self, now: Time, batch: &mut Batch<'_>, sets: &mut Admission) -> Set {
        let mut no_ip = Set::EMPTY;
        for i in sets.others {
            // The thread that hands a frame over has done this already.
            let is_new = batch.ingress[i] == Ingress::Wire;
            match is_new.then(|| self.on_neighbour_frame(now, &batch[i])).flatten() {
                Some(verdict) => self.decide(batch, i, verdict),
                None if batch[i].is_ip() => sets.admitted.insert(i),
                None => no_ip.insert(i),
            }
        }
        no_ip
    }

    /// Where all that is admitted enters the pipeline.
    #[inline]
    fn entries(&mut self, now: Time, batch: &mut Batch<'_>, sets: &Admission, no_ip: Set) -> Entries {
        let is_own = batch.handed == 0 && self.steering.is_alone();
        let mut entries = if is_own {
            Entries::begin(sets.admitted.and(sets.of_left), sets.admitted.without(sets.of_left))
        } else {
            Entries::default()
        };
        for i in no_ip {
            // They belong to no thread in particular.
            entries.insert_no_ip(i, EntryPoint::Begin(sets.dir(i)));
        }
        if is_own {
            return entries;
        }
        for i in sets.admitted {
            let ingress = batch.ingress[i];
            match self.enter(now, &mut batch[i], ingress, sets.dir(i)) {
                Ok(entry) => {
                    entries.insert(i, entry);
                    if ingress == Ingress::Machine {
                        entries.note_machine(i);
                    }
                }
                Err(verdict) => self.decide(batch, i, verdict),
            }
        }
        entries
    }

    /// Finds the subscribers that frames come from; other threads have told those of the frames that they handed over.
    #[inline(never)]
    fn find_subscribers(&self, batch: &mut Batch<'_>, set: Set) {
        let mut fresh = set;
        set.filter(|&i| batch.ingress[i] != Ingress::Wire).for_each(|i| fresh.remove(i));
        self.pipeline.subscribers.find_senders(&mut Frames(&mut batch.frames), fresh);
    }

    /// Has a router check the sources of frames; returns those that it accepts. Frames from other threads were checked there.
    fn check_sources(&mut self, now: Time, batch: &mut Batch<'_>, set: Set, of_left: Set) -> Set {
        let mut fresh = set;
        if batch.handed > 0 {
            set.filter(|&i| batch.ingress[i] != Ingress::Wire).for_each(|i| fresh.remove(i));
        }
        let mut taken = set;
        if self.pipeline.nats().next().is_some() {
            for i in fresh.without(of_left) {
                if self.is_impostor(&batch[i]) {
                    taken.remove(i);
                    self.decide(batch, i, Verdict::Dropped(DropReason::MartianSource));
                }
            }
        }
        let Exit::Router(router) = &self.pipeline.exit else { return taken };
        let (refused, refusals) =
            router.check_sources(Frames(&mut batch.frames), fresh.and(taken), of_left.and(taken));
        for i in refused {
            let Some(refusal) = refusals[i] else { continue };
            let (reason, error) = match refusal {
                Refusal::Source(reason) => (reason, None),
                Refusal::Ttl => (DropReason::TtlExpired, Some(Error::TimeExceeded)),
                Refusal::SourceRouted => (DropReason::SourceRouted, Some(Error::Routed)),
            };
            let back = if of_left.contains(i) {
                EntryPoint::Inward { below: 0 }
            } else {
                EntryPoint::Outward { above: self.pipeline.stages.len() }
            };
            if let Some(error) = error {
                self.outbox.report(now, &batch[i], error, back);
            }
            self.decide(batch, i, Verdict::Dropped(reason));
        }
        taken.without(refused)
    }

    /// Whether a frame from outside has a source that a NAT of the node allocates to its hosts.
    fn is_impostor(&self, frame: &Frame<'_>) -> bool {
        self.pipeline.nats().any(|nat| nat.table.is_impostor(frame))
    }

    /// Where a frame with this ingress enters the pipeline, or its verdict if it does not.
    #[inline]
    fn enter(
        &mut self,
        now: Time,
        frame: &mut Frame<'_>,
        ingress: Ingress,
        dir: Dir,
    ) -> Result<EntryPoint, Verdict> {
        let elsewhere = match ingress {
            Ingress::Machine => {
                frame.passage = Passage::FromMachine;
                return Ok(EntryPoint::Begin(dir.opposite()));
            }
            Ingress::Wire => {
                self.steering.elsewhere(now, Directed { frame, dir }, &self.pipeline.stages, &mut self.outbox)
            }
            Ingress::Meets => {
                self.steering.meet(now, Directed { frame, dir }, &self.pipeline.stages, &mut self.outbox)
            }
            Ingress::Found => None,
            Ingress::Turned(nat) | Ingress::Asks(nat) | Ingress::Awaited(nat) => {
                return self.enter_nat(now, frame, ingress, nat);
            }
        };
        elsewhere.map_or(Ok(EntryPoint::Begin(dir)), Err)
    }

    /// Where a frame enters that the NAT of another thread has handed over, or its verdict.
    #[cold]
    fn enter_nat(
        &mut self,
        now: Time,
        frame: &mut Frame<'_>,
        ingress: Ingress,
        number: u8,
    ) -> Result<EntryPoint, Verdict> {
        let nat = self.steering.nat(number);
        let nat = nat.and_then(|k| Some((k, Nat::of_mut(self.pipeline.stages.get_mut(k)?)?)));
        let Some((k, nat)) = nat else {
            // The stage has gone from this thread, or has not come yet: no host has a public address here.
            return match ingress {
                Ingress::Turned(_) => Err(Verdict::Dropped(DropReason::NatNoMapping)),
                _ => Ok(EntryPoint::Begin(Dir::Outward)),
            };
        };
        match ingress {
            Ingress::Turned(_) => Ok(EntryPoint::Inward { below: k + 1 }),
            Ingress::Asks(_) if nat.table.awaits(now, frame) => {
                let to = nat.table.owner_of_source(frame);
                Err(Verdict::Handed(Handover { to, ingress: Ingress::Awaited(number) }))
            }
            Ingress::Asks(_) => Ok(EntryPoint::Outward { above: k + 1 }),
            _ => {
                frame.is_awaited = true;
                Ok(EntryPoint::Outward { above: k })
            }
        }
    }

    /// The verdict of a frame that a router's stages do not see: about neighbours, or not for the node at all.
    #[cold]
    pub(super) fn on_neighbour_frame(&mut self, now: Time, frame: &Frame<'_>) -> Option<Verdict> {
        let Exit::Router(router) = &mut self.pipeline.exit else { return None };
        let (dst, _) = frame.macs();
        if dst[0] & 1 == 0 && dst != router.mac(frame.port) {
            return Some(Verdict::Dropped(DropReason::NotForUs));
        }
        match frame.kind() {
            Kind::V4 => None,
            Kind::V6 if !icmp::is_about_neighbours(frame) => None,
            Kind::Other if is_pppoe(frame) => Some(Verdict::Dropped(DropReason::Pppoe)),
            Kind::Other => Some(Verdict::Dropped(DropReason::NoProtocol)),
            _ => match router.on_neighbour_frame(frame, now, &mut self.outbox) {
                Some(true) => Some(Verdict::Local),
                Some(false) => Some(Verdict::Dropped(DropReason::NotForUs)),
                None if frame.kind() == Kind::Arp => Some(Verdict::Dropped(DropReason::NoProtocol)),
                None => Some(Verdict::Local),
            },
        }
    }
}

/// Reads the headers of a frame of a port with these tags.
#[inline]
fn open(frame: &mut Frame<'_>, tags: &PortTags) -> Result<(), DropReason> {
    let tags = match tags {
        PortTags::Fixed(tags) => tags,
        PortTags::Lines(lines) => return open_line(frame, lines),
    };
    if tags.is_empty() {
        frame.read(ETHERNET - 2)?;
        // Where a packet's type stands there is no tag.
        if frame.is_ip() {
            return Ok(());
        }
    }
    untag(frame, tags).and_then(|at| frame.read(at))
}

/// The same where the port has several lines.
#[inline(never)]
fn open_line(frame: &mut Frame<'_>, lines: &TagSet) -> Result<(), DropReason> {
    frame.tags = lines.of_frame(frame.bytes())?;
    let at = behind_priority(frame.bytes(), ETHERNET - 2 + 4 * frame.tags.count())?;
    frame.read(at)
}

/// Where the type stands behind the tags of the port; a frame with other tags is not the port's.
fn untag(frame: &mut Frame<'_>, tags: &[Tag]) -> Result<usize, DropReason> {
    let bytes = frame.bytes();
    let (mut at, mut vids) = (ETHERNET - 2, [0; 2]);
    for (vid, tag) in vids.iter_mut().zip(tags) {
        let &[a, b, high, low] =
            bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(DropReason::Malformed)?;
        // The upper four bits of a tag are its priority.
        let there = [a, b, high & 15, low];
        if there != *tag {
            let is_inner = at == ETHERNET - 2 && tags.get(1) == Some(&there);
            return Err(if is_inner { DropReason::HiddenVlan } else { DropReason::UnknownVlan });
        }
        *vid = u16::from_be_bytes([high & 15, low]);
        at += 4;
    }
    let at = behind_priority(bytes, at)?;
    let [outer, inner] = vids;
    frame.tags = Tags { outer, inner };
    Ok(at)
}

/// Where the type stands, which is behind a tag that names a priority, if there is one here. Another tag is not the port's.
fn behind_priority(bytes: &[u8], at: usize) -> Result<usize, DropReason> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or(DropReason::Malformed)? {
        // It names a priority and no VLAN (IEEE 802.1Q, section 9.6). Behind it no other tag may hide.
        [0x81, 0x00, high, 0] if high & 15 == 0 => match bytes.get(at + 4..) {
            Some([0x81, 0x00, ..] | [0x88, 0xa8, ..]) => Err(DropReason::UnknownVlan),
            _ => Ok(at + 4),
        },
        [0x81, 0x00, ..] | [0x88, 0xa8, ..] => Err(DropReason::UnknownVlan),
        _ => Ok(at),
    }
}
