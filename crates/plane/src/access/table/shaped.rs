//! Frames of subscribers at the shapers: which pass at once, which wait, which go on now.
//!
//! Frames from a subscriber count when they are accepted, frames to it when they leave: both as they are on its line.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::steer::{flow, mix4, mix6};

use super::super::counts::FrameKind;
use super::{Subscribers, Tables, pppoe_bytes};
use crate::batch::{Frames, PerFrame, Set};
use crate::dir::{Dir, EntryPoint};
use crate::drops::{DropReason, Drops};
use crate::frame::{Fragment, Frame, Kind, Known, Line};
use crate::kept::{Then, Ticket};
use crate::outbox::Outbox;
use crate::shape::{Departed, GroupState, Offered, QueueFigures, ShapeConfig, Shapers, Side, Why, plan};
use crate::time::Time;

/// Frames that one call emits in a direction; more of them leave behind the next batch.
const AT_ONCE: usize = 256;
/// Frames of them that are found before the first one is emitted: what the others need arrives meanwhile.
const GROUP: usize = 32;
/// Classes of subscribers' frames end here; the last one is strict.
const STRICT: u8 = 3;

impl Subscribers {
    /// Frames of `set` were accepted from their subscribers. Those that have to wait are kept, and `kept` is told their tickets.
    pub(crate) fn hold_from(
        &mut self,
        now: Time,
        frames: &Frames<'_, '_>,
        set: Set,
        outbox: &mut Outbox,
        mut kept: impl FnMut(usize, Ticket),
    ) {
        let Some(tables) = &mut self.0 else { return };
        let Some(shapers) = tables.shapers.as_mut().filter(|shapers| shapers.is_at(Side::From)) else {
            return;
        };
        shapers.touch_slots(Side::From, set.map(|i| frames[i].subscriber.index));
        let mut packets = PerFrame::all(Offered::default());
        for i in set {
            let line =
                tables.from.record(frames[i].subscriber.index).map_or_else(Line::default, |side| side.line);
            packets[i] = offered(&frames[i], frames[i].bytes().len() + pppoe_bytes(line), Side::From);
        }
        shapers.touch((Side::From, now), &packets, set);
        for i in set {
            let Some(side) = tables.from.record(packets[i].subscriber) else { continue };
            let (line, bits_per_s) = (side.line, side.bucket.bits_per_s());
            if shapers.takes(Side::From, bits_per_s) {
                let keep = || {
                    let ticket = outbox.keep(&frames[i]);
                    kept(i, ticket);
                    ticket
                };
                shapers.offer((Side::From, now), &packets[i], |config| plan(config, line, bits_per_s), keep);
            }
        }
    }

    /// Frames of `set` are on their way to subscribers, and complete soon.
    pub(crate) fn touch_slots_to(&self, frames: &Frames<'_, '_>, set: Set) {
        let shapers = self.0.as_ref().and_then(|tables| tables.shapers.as_ref());
        if let Some(shapers) = shapers.filter(|shapers| shapers.is_at(Side::To)) {
            shapers.touch_slots(Side::To, set.map(|i| frames[i].subscriber.index));
        }
    }

    /// Frames of `set`, which [`Subscribers::touch_slots_to`] knows, are complete and go to subscribers. Those that have to wait are kept, and `kept` is told their tickets.
    pub(crate) fn hold_all_to(
        &mut self,
        now: Time,
        frames: &Frames<'_, '_>,
        set: Set,
        outbox: &mut Outbox,
        mut kept: impl FnMut(usize, Ticket),
    ) {
        let Some(tables) = &mut self.0 else { return };
        let Some(shapers) = tables.shapers.as_ref().filter(|shapers| shapers.is_at(Side::To)) else { return };
        let mut packets = PerFrame::all(Offered::default());
        for i in set {
            packets[i] = offered(&frames[i], frames[i].bytes().len(), Side::To);
        }
        shapers.touch((Side::To, now), &packets, set);
        for i in set {
            if let Some(ticket) = tables.hold_packet_to(now, &packets[i], || outbox.keep(&frames[i])) {
                kept(i, ticket);
            }
        }
    }

    /// A frame for a subscriber is complete. `Some`: it has to wait, and was kept.
    #[inline]
    pub(crate) fn hold_to(&mut self, now: Time, frame: &Frame<'_>, outbox: &mut Outbox) -> Option<Ticket> {
        let packet = offered(frame, frame.bytes().len(), Side::To);
        self.0.as_mut()?.hold_packet_to(now, &packet, || outbox.keep(frame))
    }

    /// The same for a fragment that the node has made of a frame. `Err`: it need not wait.
    pub(crate) fn hold_fragment_to(
        &mut self,
        now: Time,
        frame: &Frame<'_>,
        (known, buf): (Known, Vec<u8>),
        outbox: &mut Outbox,
    ) -> Result<(), Vec<u8>> {
        let packet = offered(frame, buf.len().saturating_sub(crate::frame::HEAD_ROOM), Side::To);
        let mut buf = Some(buf);
        let keep = || outbox.keep_made(known, buf.take().unwrap_or_default());
        self.0.as_mut().map(|tables| tables.hold_packet_to(now, &packet, keep));
        buf.map_or(Ok(()), Err)
    }

    /// Emits frames that waited and may go on now, and drops those that were dropped. True: there is more.
    pub(crate) fn emit_shaped(&mut self, now: Time, outbox: &mut Outbox, drops: &mut Drops) -> bool {
        let Some(tables) = &mut self.0 else { return false };
        match &tables.shapers {
            Some(shapers) if !shapers.is_quiet(now) => tables.emit_shaped(now, outbox, drops),
            _ => false,
        }
    }

    /// When frames that wait may go on.
    pub(crate) fn shaped_due(&self, now: Time) -> Option<Time> {
        self.0.as_ref()?.shapers.as_ref()?.due(now)
    }

    /// Frames that wait, after a panic.
    pub(crate) fn recover(&mut self) -> Vec<Ticket> {
        let shapers = self.0.as_mut().and_then(|tables| tables.shapers.as_mut());
        shapers.map(|shapers| shapers.recover()).unwrap_or_default()
    }

    /// Ports and groups of subscribers, at ports with these names.
    pub(crate) fn group_states(&self, ports: &[String]) -> Vec<GroupState> {
        let shapers = self.0.as_ref().and_then(|tables| tables.shapers.as_ref());
        shapers.map(|shapers| shapers.group_states(ports)).unwrap_or_default()
    }

    /// The queues from a subscriber, and to it.
    pub(in crate::access) fn queues(&self, index: u32) -> [QueueFigures; 2] {
        let shapers = self.0.as_ref().and_then(|tables| tables.shapers.as_ref());
        shapers.map(|shapers| shapers.backlogs(index).map(QueueFigures::from)).unwrap_or_default()
    }
}

impl Tables {
    #[inline]
    fn hold_packet_to(
        &mut self,
        now: Time,
        packet: &Offered,
        keep: impl FnOnce() -> Ticket,
    ) -> Option<Ticket> {
        let shapers = self.shapers.as_mut()?;
        let side = self.to.record(packet.subscriber)?;
        let (line, bits_per_s) = (side.line, side.bucket.bits_per_s());
        if !shapers.takes(Side::To, bits_per_s) {
            return None;
        }
        let mut ticket = None;
        let keep = || *ticket.insert(keep());
        if shapers.offer((Side::To, now), packet, |config| plan(config, line, bits_per_s), keep) {
            self.sent(packet.subscriber, packet.note, packet.bytes);
        }
        ticket
    }

    /// The text says this of shaping.
    pub(super) fn set_shape(&mut self, config: &ShapeConfig) {
        let Tables { shapers, from, to, seed, .. } = self;
        match shapers {
            Some(shapers) => shapers.take(config, |index| {
                (from[index].line, [from[index].bucket.bits_per_s(), to[index].bucket.bits_per_s()])
            }),
            None => *shapers = Some(Box::new(Shapers::new(config, *seed))),
        }
    }

    /// A subscriber has other rates.
    pub(super) fn set_plan(&mut self, index: u32) {
        let Tables { shapers, from, to, .. } = self;
        if let Some(shapers) = shapers {
            let rates = [from[index].bucket.bits_per_s(), to[index].bucket.bits_per_s()];
            shapers.set_plan(index, from[index].line, rates);
        }
    }

    #[inline(never)]
    fn emit_shaped(&mut self, now: Time, outbox: &mut Outbox, drops: &mut Drops) -> bool {
        let mut more = false;
        for side in Side::BOTH {
            let Some(shapers) = &mut self.shapers else { return false };
            shapers.advance(side, now);
            let mut left = AT_ONCE;
            let mut group = std::mem::take(&mut self.departing);
            loop {
                self.find_departing(side, now, &mut group, left.min(GROUP), outbox);
                left -= group.len();
                if group.is_empty() {
                    break;
                }
                group.drain(..).for_each(|departing| self.emit_departing(side, departing, outbox));
            }
            self.departing = group;
            more |= left == 0;
            for (ticket, lost) in self.shapers.iter_mut().flat_map(|shapers| shapers.lost(side)) {
                outbox.discard(ticket);
                drops.count(match lost.why {
                    Why::Aqm => DropReason::QueueAqm,
                    Why::Limit => DropReason::QueueLimit,
                    Why::Removed => DropReason::NoSubscriber,
                });
            }
        }
        more
    }

    /// The next frames that go on now, at most so many; what is needed to emit them is on its way.
    #[inline]
    fn find_departing(
        &mut self,
        side: Side,
        now: Time,
        group: &mut Vec<(Ticket, Departed)>,
        most: usize,
        outbox: &Outbox,
    ) {
        let Some(shapers) = &mut self.shapers else { return };
        while group.len() < most
            && let Some((ticket, departed)) = shapers.next(side, now)
        {
            outbox.kept.touch(ticket);
            if side == Side::To {
                self.to.touch(departed.subscriber);
            }
            group.push((ticket, departed));
        }
    }

    #[inline]
    fn emit_departing(&mut self, side: Side, (ticket, departed): (Ticket, Departed), outbox: &mut Outbox) {
        let then = match side {
            Side::To => {
                let line = self.sent(departed.subscriber, departed.note, departed.bytes);
                Then::Whole { port: line.port, is_marked: departed.is_marked }
            }
            Side::From if departed.is_marked => Then::Marked(EntryPoint::Begin(Dir::Outward)),
            Side::From => Then::On(EntryPoint::Begin(Dir::Outward)),
        };
        outbox.emit(ticket, then);
    }

    /// A frame leaves for a subscriber: it counts. Returns where it is.
    #[inline]
    fn sent(&mut self, index: u32, note: u16, bytes: u32) -> Line {
        let side = &mut self.to[index];
        side.traffic.add(bytes as usize);
        let (line, labels) = (side.line, side.labels);
        self.count(index, labels, 1, FrameKind::from_note(note), bytes as usize);
        line
    }
}

/// A frame as the shapers see it.
#[inline]
fn offered(frame: &Frame<'_>, bytes: usize, side: Side) -> Offered {
    let (source, destination) = match frame.kind() {
        Kind::V4 => {
            let (src, dst) = frame.addresses4();
            (mix4(src), mix4(dst))
        }
        Kind::V6 => {
            let (src, dst) = frame.addresses6();
            (mix6(src), mix6(dst))
        }
        Kind::Arp | Kind::Other => (0, 0),
    };
    // Fragments have no ports, so that they count for none of a packet that is cut.
    let ports = if frame.fragment() == Fragment::Whole { frame.ports() } else { (0, 0) };
    Offered {
        subscriber: frame.subscriber.index,
        bytes: bytes as u32,
        flow: flow(source, destination, ports, frame.proto()),
        host: if side == Side::From { source } else { destination },
        class: STRICT - frame.class.min(STRICT),
        is_ect: frame.ecn() != 0,
        note: FrameKind::of(frame).note(),
    }
}
