//! What is counted of one direction of a subscriber, or of all with the same plan and group.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Kind};

/// Classes of a subscriber's frames.
pub(crate) const CLASSES: usize = 4;

/// Frames and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl FrameKind {
    /// Best effort of IPv4.
    pub(super) const USUAL: FrameKind = FrameKind { is_v6: false, class: 0 };

    /// As a number.
    #[inline]
    pub(super) fn note(self) -> u16 {
        u16::from(self.class) << 1 | u16::from(self.is_v6)
    }

    /// Of a number.
    #[inline]
    pub(super) fn from_note(note: u16) -> FrameKind {
        FrameKind { is_v6: note & 1 != 0, class: (note >> 1) as u8 }
    }

    /// Of a packet.
    #[inline]
    pub(super) fn of(frame: &Frame<'_>) -> FrameKind {
        FrameKind { is_v6: frame.kind() == Kind::V6, class: frame.class.min(CLASSES as u8 - 1) }
    }
}

impl Traffic {
    #[inline]
    pub(super) fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }

    fn is_none(self) -> bool {
        self.frames == 0
    }
}

/// What a frame is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameKind {
    pub(super) is_v6: bool,
    /// 0 to 3.
    pub(super) class: u8,
}

/// Frames and bytes by family and class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KindCounts {
    v4: [Traffic; CLASSES],
    v6: [Traffic; CLASSES],
}

/// Frames and bytes of a family and a class in a direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCount {
    /// `from` the subscriber, or `to` it.
    pub direction: String,
    /// 4 or 6.
    pub ip: u8,
    /// 0 to 3.
    pub class: u8,
    /// Frames.
    pub frames: u64,
    /// Bytes of whole frames without FCS.
    pub bytes: u64,
}

impl KindCounts {
    #[inline]
    pub(super) fn count(&mut self, kind: FrameKind, bytes: usize) {
        let family = if kind.is_v6 { &mut self.v6 } else { &mut self.v4 };
        if let Some(traffic) = family.get_mut(usize::from(kind.class)) {
            traffic.add(bytes);
        }
    }

    /// Adds the best effort of IPv4, which is what is left of all.
    pub(super) fn complete(&mut self, all: Traffic) {
        let others = self.v4.iter().skip(1).chain(&self.v6);
        let [frames, bytes] =
            others.fold([0, 0], |[frames, bytes], of| [frames + of.frames, bytes + of.bytes]);
        if let Some(rest) = self.v4.first_mut() {
            *rest = Traffic { frames: all.frames - frames, bytes: all.bytes - bytes };
        }
    }

    /// Those that are not zero.
    pub(super) fn shown(&self, direction: &'static str) -> impl Iterator<Item = ClassCount> {
        let all = [(4, self.v4), (6, self.v6)];
        let rows = all
            .into_iter()
            .flat_map(|(ip, family)| (0..).zip(family).map(move |(class, of)| (ip, class, of)));
        rows.filter(|(.., of)| !of.is_none()).map(move |(ip, class, Traffic { frames, bytes })| ClassCount {
            direction: direction.into(),
            ip,
            class,
            frames,
            bytes,
        })
    }
}
