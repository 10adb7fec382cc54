//! How the first fragment of a packet is translated, and the others alike.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use super::handover::hairpin_entry;
use super::nat64::header::{LONGER, to_v4, to_v6, too_long};
use super::next::Next;
use super::table::Table;
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::fragment;
use crate::frame::{ETHERNET, Frame, HEAD_ROOM, Kind, PortId, Subscriber};
use crate::stage::Step;

/// What the first fragment became.
#[derive(Debug, Clone, Copy)]
pub(super) enum Translation {
    /// A packet of the same version of IP with these addresses and this identification.
    Rewritten { ends: (u32, u32), id: u16 },
    /// From IPv6 to IPv4; the transport of the whole packet has so many bytes under its checksum.
    ToV4 { ends: (u32, u32), id: u16, bytes: usize },
    /// From IPv4 to IPv6.
    ToV6 { ends: (u128, u128), bytes: usize },
    /// It belongs to this other thread.
    Elsewhere { thread: u8 },
    /// It goes to another box with the same public address.
    Beyond,
    /// Not translated yet: all fragments are here, and come once more, the first one first.
    Gathered { bytes: usize },
}

impl Translation {
    /// Translates a fragment alike; false if its buffer has no room for that.
    ///
    /// # Errors
    /// There is no such fragment.
    pub(super) fn apply(self, frame: &mut Frame<'_>) -> Result<bool, DropReason> {
        match self {
            Translation::Rewritten { ends: (src, dst), id } => {
                frame.set_src4(src);
                frame.set_dst4(dst);
                frame.set_id4(id);
            }
            Translation::ToV4 { ends, id, bytes } => to_v4(frame, ends, id, bytes)?,
            Translation::ToV6 { ends, bytes } => return to_v6(frame, ends, bytes),
            Translation::Gathered { .. } => unreachable!("the first fragment has made another of it"),
            Translation::Elsewhere { .. } | Translation::Beyond => {
                unreachable!("no fragment of it comes so far")
            }
        }
        Ok(true)
    }
}

/// A frame without enough room in its port's memory is translated as a copy.
fn apply_to_copy(table: &Table, step: &mut Step<'_, '_>, i: usize, translation: Translation) -> Next {
    match translated_copy(step.frames[i].copy(), step.frames[i].port, translation) {
        Ok(buf) => send_on(table, step, i, buf),
        Err(reason) => Next::Drop(reason),
    }
}

/// A frame of IPv4 becomes one of IPv6, or several: a packet that may be cut is cut, if not every link carries it (RFC 7915,
/// section 4).
pub(super) fn send6(table: &Table, step: &mut Step<'_, '_>, i: usize, translation: Translation) -> Next {
    let frame = &mut step.frames[i];
    if let Some(mtu) = too_long(frame) {
        // Without tags.
        let (dst, src) = frame.macs();
        frame.set_ethernet(dst, src, &[]);
        let (known, later) = (frame.known_of_copy(), fragment::cut(frame, mtu));
        step.outbox.keep_copies(later.len());
        let entry = step.onward(Dir::Inward);
        for buf in later {
            match translated_copy(buf, known.port, translation) {
                Ok(buf) => step.outbox.emit_copy(entry, known, buf),
                Err(reason) => {
                    step.outbox.discard_copies(1);
                    step.drops.count(reason);
                }
            }
        }
    }
    match translation.apply(&mut step.frames[i]) {
        Ok(true) => Next::On,
        Ok(false) => apply_to_copy(table, step, i, translation),
        Err(reason) => Next::Drop(reason),
    }
}
/// A translated frame replaces the original; it goes to an inside host if it is for a public address.
pub(super) fn send_on(table: &Table, step: &mut Step<'_, '_>, i: usize, mut buf: Vec<u8>) -> Next {
    let (mut known, end) = (step.frames[i].known_of_copy(), buf.len());
    let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, known.port);
    if let Err(reason) = frame.read(ETHERNET - 2) {
        return Next::Drop(reason);
    }
    let entry = match frame.kind() {
        Kind::V4 if table.is_public(frame.addresses4().1) => {
            (known.policed_host, known.subscriber) = (0, Subscriber::NONE);
            hairpin_entry(table, step, &frame)
        }
        Kind::V4 => step.onward(Dir::Outward),
        _ => step.onward(Dir::Inward),
    };
    step.keep_copy(i);
    step.outbox.emit_copy(entry, known, buf);
    Next::Gone
}

/// The translation of a frame with head room in front.
///
/// # Errors
/// There is no such fragment.
fn translated_copy(mut buf: Vec<u8>, port: PortId, translation: Translation) -> Result<Vec<u8>, DropReason> {
    let end = buf.len();
    buf.resize(end.saturating_add(LONGER), 0);
    let mut longer = Frame::new(&mut buf, HEAD_ROOM, end, port);
    longer.read(ETHERNET - 2)?;
    let has_room = translation.apply(&mut longer)?;
    debug_assert!(has_room, "it was made");
    Ok(longer.copy())
}
