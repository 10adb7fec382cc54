//! The check of translated frames in a receiving program: its tables, and what it found.

use std::net::Ipv4Addr;

use weir_packet::flow::Flow;
use weir_packet::frame::Transport;
use weir_port::bpf::{BpfError, Memory, Program};
use weir_port::translation::{Check, KEPT, KEPT_BYTES, KINDS, Kept, PUBLIC_RANGES, Range, Talk, Tuple, side};

use crate::tcp::{Act, FLOOD, Part};
use crate::translation::{Evidence, NatFault, Outside};

/// Which side of a NAT a receiver is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NatSide {
    Inside,
    Outside,
}

/// The tables of a program on one side.
pub(super) struct Checker {
    tuples: Memory<Tuple>,
    checks: Memory<Check>,
    kept: Memory<Kept>,
    /// Where the program is an end of TCP connections.
    talk: Option<Memory<Talk>>,
    /// Never read here: the program marks its entries with the round.
    _claims: Memory<u64>,
}

/// Entries of the table of claims: at most half of them are in use.
fn claims(flows: u32) -> u32 {
    flows.saturating_mul(2).next_power_of_two().max(64)
}

impl Checker {
    /// Sizes of the program's maps for so many flows.
    pub(super) fn sizes(flows: u32) -> [(&'static str, u32); 2] {
        [("tuples", flows.max(1)), ("claims", claims(flows))]
    }

    /// Of a program that was loaded with these sizes.
    pub(super) fn new(program: &Program, flows: u32, transport: Transport) -> Result<Checker, BpfError> {
        let talk = match transport {
            Transport::Udp => None,
            Transport::Syn => Some(program.memory("talk", 1)?),
        };
        Ok(Checker {
            talk,
            tuples: program.memory("tuples", flows.max(1) as usize)?,
            checks: program.memory("checks", 1)?,
            kept: program.memory("kept", KINDS * KEPT)?,
            _claims: program.memory("claims", claims(flows) as usize)?,
        })
    }

    /// Expects these flows from now on, in this order.
    pub(super) fn expect(&self, at: NatSide, flows: &[Flow], public: &[(Ipv4Addr, Ipv4Addr)]) {
        for (i, flow) in flows.iter().enumerate() {
            // What belongs to no connection has no destination.
            let dst = if flow.group == FLOOD { 0 } else { flow.dst.to_be() };
            let src = flow.src.to_be();
            let (sport, dport) = (flow.sport.to_be(), flow.dport.to_be());
            self.tuples.set(i, &Tuple { src, dst, sport, dport, ..Tuple::default() });
        }
        let mut allowed = [Range::default(); PUBLIC_RANGES];
        for (to, (first, last)) in allowed.iter_mut().zip(public) {
            *to = Range { first: u32::from(*first), last: u32::from(*last) };
        }
        let side = if at == NatSide::Outside { side::OUTSIDE } else { side::INSIDE };
        let (count, allowed_count) = (flows.len() as u32, public.len().min(PUBLIC_RANGES) as u32);
        let round = self.checks.get(0).round;
        let claims = claims(self.flow_room()) - 1;
        self.checks.set(0, &Check { side, count, round, claims, allowed, allowed_count, ..Check::default() });
    }

    fn flow_room(&self) -> u32 {
        self.tuples.len() as u32
    }

    /// Counts from zero, and forgets what was seen unless connections go on.
    pub(super) fn arm(&self, part: Option<Part>) {
        let before = self.checks.get(0);
        let goes_on = part.is_some_and(|part| part.act != Act::Hold);
        let round = if goes_on { before.round } else { before.round.wrapping_add(1).max(1) };
        self.checks.set(0, &Check { round, good: 0, flows: 0, faults: [0; KINDS], ..before });
        self.forget_evidence();
        if let (Some(talk), Some(part)) = (&self.talk, part) {
            let (salt, hold) = (self.salt(), u32::from(part.act != Act::Whole));
            talk.set(0, &Talk { salt, first: part.first, hold, ..Talk::default() });
        }
    }

    /// Where sequence numbers of this round begin; late frames of another round have others.
    pub(super) fn salt(&self) -> u32 {
        self.checks.get(0).round.wrapping_mul(0x9e37_79b9) << 8
    }

    /// What was said in this trial; nothing where there are no TCP connections.
    pub(super) fn talk(&self) -> Option<Talk> {
        self.talk.as_ref().map(|talk| talk.get(0))
    }

    /// What was counted in this round.
    pub(super) fn counts(&self) -> Check {
        self.checks.get(0)
    }

    /// The outside tuple of each flow that was seen in this round, in the order of sending.
    pub(super) fn outside(&self) -> Vec<Option<Outside>> {
        let Check { round, count, .. } = self.counts();
        let tuple = |i: u32| {
            let tuple = self.tuples.get(i as usize);
            (tuple.seen == round).then(|| Outside {
                address: Ipv4Addr::from(u32::from_be(tuple.outside)),
                port: u16::from_be(tuple.outside_port),
            })
        };
        (0..count).map(tuple).collect()
    }

    /// The frames that were kept in this round.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let counts = self.counts();
        let mut list = Vec::new();
        for (kind, &fault) in NatFault::ALL.iter().enumerate() {
            let found = counts.faults[kind].min(KEPT as u64) as usize;
            // The second half of clashes has frames of the flows that were there first.
            let upto = if fault == NatFault::Clashed && found > 0 { KEPT } else { found };
            let kept = (0..upto).map(|n| self.kept.get(kind * KEPT + n)).filter(|one| one.length > 0);
            list.extend(kept.map(|one| Evidence {
                fault,
                flow: one.flow,
                at_ns: one.time_ns,
                wire_len: one.length,
                bytes: one.frame[..KEPT_BYTES.min(one.length as usize)].to_vec(),
            }));
        }
        list.sort_by_key(|one| one.at_ns);
        list
    }

    /// Forgets the frames that were kept.
    fn forget_evidence(&self) {
        let nothing = Kept { time_ns: 0, flow: 0, length: 0, frame: [0; KEPT_BYTES] };
        (0..KINDS * KEPT).for_each(|i| self.kept.set(i, &nothing));
    }
}
