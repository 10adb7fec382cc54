//! A flood beside the sessions: PADI that no device sent, or the same frames on a line that the BNG does not have.
//!
//! ```text
//!  frame k is due at begin + k * interval; its source address is made up, its line that of device k
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_bng::Mac;
use weir_bng::pppoe::discovery::{Code, Discovery};
use weir_bng::pppoe::tags::{HOST_UNIQ, SERVICE_NAME, TagList};
use weir_rng::Rng;

use crate::lines::Lines;
use crate::wire::tagged;

/// What the frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloodKind {
    /// PADI on the lines of the devices: the BNG may answer each.
    Padi,
    /// The same frames with VLAN tags that no device has: the BNG drops each.
    UnknownVlan,
}

/// Frames that no device sent, while sessions are held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flood {
    /// What they are.
    pub kind: FloodKind,
    /// Frames/s.
    pub per_s: f64,
}

/// A flood in progress.
#[derive(Debug)]
pub(crate) struct Flooding {
    flood: Flood,
    lines: Lines,
    begin_ns: u64,
    end_ns: u64,
    pub(crate) sent: u64,
    rng: Rng,
}

impl Flooding {
    pub(crate) fn new(flood: Flood, lines: Lines, begin_ns: u64, end_ns: u64, seed: u64) -> Flooding {
        Flooding { flood, lines, begin_ns, end_ns, sent: 0, rng: Rng::new(seed) }
    }

    /// When the next frame is due; `u64::MAX`: never.
    pub(crate) fn due_ns(&self) -> u64 {
        let due_ns = self.begin_ns.saturating_add((self.sent as f64 * 1e9 / self.flood.per_s) as u64);
        if due_ns < self.end_ns { due_ns } else { u64::MAX }
    }

    /// The next frame with its tags, if one is due.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if self.due_ns() > now_ns {
            return None;
        }
        let number = self.sent as u32;
        self.sent += 1;
        let [.., a, b, c, d] = self.rng.next_u64().to_be_bytes();
        // Not those of devices, which begin with 02.
        let src = Mac([6, 0, a, b, c, d]);
        let mut list = TagList::default();
        list.push(SERVICE_NAME, b"");
        list.push(HOST_UNIQ, &self.sent.to_be_bytes());
        let padi = Discovery { dst: Mac::BROADCAST, src, code: Code::Padi, session_id: 0, tags: list };
        let tags = match self.flood.kind {
            FloodKind::Padi => self.lines.tags(number % self.lines.count()),
            FloodKind::UnknownVlan => self.lines.outside(),
        };
        Some(tagged(tags, padi.write()?))
    }
}

#[cfg(test)]
mod tests {
    use weir_bng::Tags;

    use super::*;
    use crate::wire::untagged;

    /// The tags of a flood's first three frames.
    fn tags(kind: FloodKind, lines: &str) -> Vec<Tags> {
        let flood = Flood { kind, per_s: 1000.0 };
        let mut flooding = Flooding::new(flood, lines.parse().unwrap(), 0, 3_000_000, 1);
        let mut found = Vec::new();
        let mut macs = Vec::new();
        while flooding.due_ns() != u64::MAX {
            let due_ns = flooding.due_ns();
            assert!(due_ns == 0 || flooding.next(due_ns - 1).is_none());
            let frame = flooding.next(due_ns).unwrap();
            let mut room = Vec::new();
            let (tags, frame) = untagged(&frame, &mut room).unwrap();
            let padi = Discovery::read(frame).unwrap();
            assert_eq!(padi.code, Code::Padi);
            assert!(!macs.contains(&padi.src));
            macs.push(padi.src);
            found.push(tags);
        }
        found
    }

    #[test]
    fn padis_take_turns_on_lines_and_others_are_on_none() {
        let two = |outer, inner| Tags::Two { outer, inner };
        assert_eq!(tags(FloodKind::Padi, "100.1-2"), [two(100, 1), two(100, 2), two(100, 1)]);
        assert_eq!(tags(FloodKind::UnknownVlan, "100.1-2"), [two(99, 1); 3]);
        assert_eq!(tags(FloodKind::UnknownVlan, "1-9"), [Tags::One(10); 3]);
        assert_eq!(tags(FloodKind::UnknownVlan, "untagged"), [Tags::One(1); 3]);
    }
}
