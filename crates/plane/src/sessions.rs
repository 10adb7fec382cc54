//! The sessions of a plane to be shown: a page at a time, so that no frame waits; they are formatted elsewhere.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::filter::{Connection, Filter, FilterSession};
use crate::nat::{Mapped, Nat, NatSession};
use crate::plane::Plane;
use crate::stages::OneOf;
use crate::table::page::Page;

/// The place from which the next page is read, in the present text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    /// The stage, from 0.
    stage: usize,
    /// The number in its table.
    number: u32,
}

/// A mapping or session of a NAT, or a connection of a filter, as it was when the page was made. Its record is made outside of the
/// frame loop.
#[derive(Debug, Clone, Copy)]
pub struct Session(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Nat(Mapped),
    Filter(Connection),
}

/// The same for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum SessionRecord {
    /// Of a NAT.
    Nat(NatSession),
    /// Of a filter.
    Filter(FilterSession),
}

impl Session {
    /// The record of it.
    pub fn record(&self) -> SessionRecord {
        match &self.0 {
            Kind::Nat(mapped) => SessionRecord::Nat(mapped.record()),
            Kind::Filter(connection) => SessionRecord::Filter(connection.record()),
        }
    }
}

impl SessionRecord {
    /// Whether an address is one of its ends.
    pub fn has(&self, address: IpAddr) -> bool {
        match self {
            SessionRecord::Nat(nat) => {
                let outside = [Some(nat.outside), Some(nat.remote), nat.server].into_iter().flatten();
                nat.inside.ip() == address || outside.map(|end| IpAddr::V4(*end.ip())).any(|ip| ip == address)
            }
            SessionRecord::Filter(filter) => [filter.from.ip(), filter.to.ip()].contains(&address),
        }
    }
}

impl fmt::Display for SessionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionRecord::Nat(nat) => nat.fmt(f),
            SessionRecord::Filter(filter) => filter.fmt(f),
        }
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record().fmt(f)
    }
}

impl Plane {
    /// Mappings and sessions of NAT and connections of filters from a place on, a few hundred at most, and where to go on if
    /// there may be more. What comes and goes between two calls may be missing, or be there twice.
    pub fn sessions(&self, from: Cursor) -> (Vec<Session>, Option<Cursor>) {
        let Cursor { stage, number } = from;
        let Some(at) = self.pipeline.stages.get(stage) else { return (Vec::new(), None) };
        let (sessions, next) = if let Some(nat) = Nat::of(at) {
            let Page { records, next } = nat.table.shown(number);
            (records.into_iter().map(|one| Session(Kind::Nat(one))).collect(), next)
        } else if let Some(filter) = Filter::of(at) {
            let Page { records, next } = filter.shown(number);
            (records.into_iter().map(|one| Session(Kind::Filter(one))).collect(), next)
        } else {
            (Vec::new(), None)
        };
        match next {
            Some(number) => (sessions, Some(Cursor { stage, number })),
            None => (sessions, Some(Cursor { stage: stage + 1, number: 0 })),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::ops::Range;

    use weir_packet::flow::Flow;
    use weir_packet::frame::{Ends, Signature};

    use super::*;
    use crate::batch::{Batch, Verdict};
    use crate::config::Config;
    use crate::frame::{Frame, HEAD_ROOM, PortId};
    use crate::time::Time;

    /// A page holds no frame up longer than some batches do: so much is much less.
    const BOUND: u32 = 512;
    const LOOKED_AT_BOUND: u32 = 4096;
    /// Hosts inside, and flows of each.
    const HOSTS: u32 = 400;
    const FLOWS: u32 = 500;

    /// The address and port of a flow's inside end.
    fn end(flow: u32) -> ([u8; 4], u16) {
        ((0x0a00_0000 + flow / FLOWS).to_be_bytes(), (1000 + flow % FLOWS) as u16)
    }

    /// A question of each of these flows passes outward.
    fn pass(plane: &mut Plane, now: Time, flows: Range<u32>) {
        let mut bufs: Vec<Vec<u8>> = flows.map(question).collect();
        let mut batch = Batch::default();
        bufs.iter_mut().for_each(|buf| {
            let end = buf.len();
            batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(0)));
        });
        plane.run(now, &mut batch);
        assert!(batch.outcome().all(|(_, verdict)| verdict == Verdict::Out(PortId(1))));
    }

    fn question(flow: u32) -> Vec<u8> {
        let (src, sport) = end(flow);
        let flow = Flow { src: u32::from_be_bytes(src), dst: 0xc613_0009, sport, dport: 53, group: 0 };
        let frame = Ends::v4([2; 6], [2; 6]).frame(&flow, 64, Signature::default());
        [&[0; HEAD_ROOM][..], &frame].concat()
    }

    /// All that is shown, a page at a time, with something in between; how many pages those were, too.
    fn shown(plane: &mut Plane, mut between: impl FnMut(&mut Plane)) -> (HashMap<String, u32>, u32) {
        let (mut all, mut pages, mut from) = (HashMap::new(), 0, Some(Cursor::default()));
        while let Some(cursor) = from {
            let (some, next) = plane.sessions(cursor);
            assert!(some.len() <= BOUND as usize, "{} sessions at once", some.len());
            some.iter().for_each(|one| *all.entry(one.to_string()).or_default() += 1);
            between(plane);
            (pages, from) = (pages + 1, next);
        }
        (all, pages)
    }

    #[test]
    fn a_large_table_is_shown_by_small_pages_while_frames_pass_and_sessions_begin() {
        let text = "lan > filter(accept outward, accept state established) > nat(public 192.0.2.0/28) > wan";
        let mut plane = Plane::new(&Config::read("n", text).expect("right"), &[[2; 6], [4; 6]]);
        let all = HOSTS * FLOWS;
        (0..all / 50).for_each(|n| pass(&mut plane, Time::from_ms(1), 50 * n..50 * (n + 1)));
        let mut flow = 0;
        let (lines, pages) = shown(&mut plane, |plane| {
            // Some that are known, and one that is not.
            pass(plane, Time::from_ms(2), 50 * flow..50 * (flow + 1));
            pass(plane, Time::from_ms(2), all + flow..all + flow + 1);
            flow += 1;
        });
        assert!(pages >= 2 * all / BOUND, "{pages} pages");
        assert!(lines.values().all(|times| *times == 1), "nothing moves meanwhile");
        let mut found = HashMap::<&str, u32>::new();
        for line in lines.keys() {
            let inside = line.split(' ').nth(1).expect("an inside end");
            *found.entry(inside).or_default() += 1;
        }
        for flow in 0..all {
            let ([a, b, c, d], port) = end(flow);
            assert_eq!(found.get(&*format!("{a}.{b}.{c}.{d}:{port}")), Some(&2), "in filter and NAT");
        }
        // A table of which nothing is left is looked at by pages, too.
        let later = Time::from_ms(400_000);
        while plane.nat_usage().sessions > 0 || plane.connections() > 0 {
            plane.tick(later);
        }
        let (lines, pages) = shown(&mut plane, |_| {});
        assert!(lines.is_empty() && pages >= 2 * all / LOOKED_AT_BOUND, "{lines:?}, {pages} pages");
    }
}
