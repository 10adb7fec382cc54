//! Frames of subscribers at the shapers: which pass at once, which wait, which go on now.
//!
//! Frames from a subscriber count when they are accepted, frames to it when they leave: both as they are on its line.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::steer::{flow, mix4, mix6};

use super::super::counts::FrameKind;
use super::{Subscribers, Tables, pppoe_bytes};
use crate::dir::{Dir, EntryPoint};
use crate::drops::{DropReason, Drops};
use crate::frame::{Fragment, Frame, Kind, Known, Subscriber};
use crate::kept::{Then, Ticket};
use crate::outbox::Outbox;
use crate::shape::{GroupState, Offered, QueueFigures, ShapeConfig, Shapers, Side, Why, plan};
use crate::time::Time;

/// Frames that one call emits in a direction; more of them leave behind the next batch.
const AT_ONCE: usize = 256;
/// Classes of subscribers' frames end here; the last one is strict.
const STRICT: u8 = 3;

impl Subscribers {
    /// A frame from its subscriber was accepted. `Some`: it has to wait, and was kept.
    #[inline]
    pub(crate) fn hold_from(&mut self, now: Time, frame: &Frame<'_>, outbox: &mut Outbox) -> Option<Ticket> {
        let tables = self.0.as_mut()?;
        let shapers = tables.shapers.as_mut()?;
        let side = tables.from.record(frame.subscriber.index)?;
        let (line, bits_per_s) = (side.line, side.bucket.bits_per_s());
        if !shapers.takes(Side::From, bits_per_s) {
            return None;
        }
        let packet = offered(frame, frame.bytes().len() + pppoe_bytes(line));
        let mut ticket = None;
        let keep = || *ticket.insert(outbox.keep(frame));
        shapers.offer((Side::From, now), &packet, |config| plan(config, line, bits_per_s), keep);
        ticket
    }

    /// A frame for a subscriber is complete. `Some`: it has to wait, and was kept.
    #[inline]
    pub(crate) fn hold_to(&mut self, now: Time, frame: &Frame<'_>, outbox: &mut Outbox) -> Option<Ticket> {
        let packet = offered(frame, frame.bytes().len());
        self.hold_packet_to(now, frame.subscriber, &packet, || outbox.keep(frame))
    }

    /// The same for a fragment that the node has made of a frame. `Err`: it need not wait.
    pub(crate) fn hold_fragment_to(
        &mut self,
        now: Time,
        frame: &Frame<'_>,
        (known, buf): (Known, Vec<u8>),
        outbox: &mut Outbox,
    ) -> Result<(), Vec<u8>> {
        let packet = offered(frame, buf.len().saturating_sub(crate::frame::HEAD_ROOM));
        let mut buf = Some(buf);
        let keep = || outbox.keep_made(known, buf.take().unwrap_or_default());
        self.hold_packet_to(now, frame.subscriber, &packet, keep);
        buf.map_or(Ok(()), Err)
    }

    #[inline]
    fn hold_packet_to(
        &mut self,
        now: Time,
        to: Subscriber,
        packet: &Offered,
        keep: impl FnOnce() -> Ticket,
    ) -> Option<Ticket> {
        let tables = self.0.as_mut()?;
        let shapers = tables.shapers.as_mut()?;
        let side = tables.to.record(to.index)?;
        let (line, bits_per_s) = (side.line, side.bucket.bits_per_s());
        if !shapers.takes(Side::To, bits_per_s) {
            return None;
        }
        let mut ticket = None;
        let keep = || *ticket.insert(keep());
        if shapers.offer((Side::To, now), packet, |config| plan(config, line, bits_per_s), keep) {
            tables.sent(to.index, packet.note, packet.bytes);
        }
        ticket
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
            while left > 0
                && let Some((ticket, departed)) = self.shapers.as_mut().and_then(|all| all.next(side, now))
            {
                left -= 1;
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

    /// A frame leaves for a subscriber: it counts. Returns where it is.
    #[inline]
    fn sent(&mut self, index: u32, note: u16, bytes: u32) -> crate::frame::Line {
        let side = &mut self.to[index];
        side.traffic.add(bytes as usize);
        let (line, labels) = (side.line, side.labels);
        self.count(index, labels, 1, FrameKind::from_note(note), bytes as usize);
        line
    }
}

/// A frame as the shapers see it.
#[inline]
fn offered(frame: &Frame<'_>, bytes: usize) -> Offered {
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
        class: STRICT - frame.class.min(STRICT),
        is_ect: frame.ecn() != 0,
        note: FrameKind::of(frame).note(),
    }
}
