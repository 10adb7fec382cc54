//! The XDP tester on both sides of a NAT: the flows of a [`Translation`] are sent, and each frame is checked where it
//! arrives.

use std::collections::HashMap;

use weir_packet::flow::{Direction, Flow};
use weir_port::bpf::BpfError;
use weir_port::translation::said;

use super::checker::NatSide;
use super::{XdpGenerator, XdpReceiver, XdpTester, table_entry};
use crate::tcp::Said;
use crate::translation::{Evidence, NatFault, Outside, Translated, Translation};

impl XdpTester {
    /// From now on sends these flows in place of those of the traffic, and checks what becomes of their addresses and
    /// ports: port a is inside of a NAT, port b outside.
    pub fn check_translation(&mut self, translation: &Translation) -> Result<(), BpfError> {
        let groups = self.traffic.flows.groups;
        let flows = self.generator.room();
        assert!(translation.flows.len() <= flows as usize, "the traffic has as many flows or more");
        if self.receivers.iter().any(|receiver| receiver.checker().is_none()) {
            for (port, receiver) in self.ports.iter().zip(&mut self.receivers) {
                // Two programs do not fit on one interface.
                receiver.detach();
                *receiver = XdpReceiver::checking(*port, groups, (flows, self.traffic.transport))?;
            }
        }
        self.generator.set_flows(0, &translation.flows)?;
        if self.traffic.direction == Direction::Both {
            let answers: Vec<Flow> = translation.flows.iter().map(|flow| flow.reversed()).collect();
            self.generator.set_flows(1, &answers)?;
        }
        for (receiver, at) in self.receivers.iter().zip([NatSide::Inside, NatSide::Outside]) {
            let checker = receiver.checker().expect("both have one by now");
            checker.expect(at, &translation.flows, &translation.public);
        }
        Ok(())
    }

    /// What a NAT did in the last trial; `None` without [`XdpTester::check_translation`].
    pub fn translated(&self) -> Option<Translated> {
        let [inside, outside] = self.checkers()?.map(|checker| checker.counts());
        let sum = |kind: usize| inside.faults[kind] + outside.faults[kind];
        let faults = NatFault::ALL.iter().enumerate().map(|(kind, &fault)| (fault, sum(kind)));
        Some(Translated {
            outside: outside.good,
            flows: outside.flows,
            inside: inside.good,
            flows_inside: inside.flows,
            faults: faults.filter(|(_, n)| *n > 0).collect(),
        })
    }

    /// What was said in TCP connections in the last trial; `None` where there are none.
    pub fn said(&self) -> Option<Said> {
        let [inside, outside] = self.checkers()?.map(|checker| checker.talk());
        let (inside, outside) = (inside?, outside?);
        let flooding = self.generator.streams().iter().find(|s| s.stream == 1).map_or(0, |s| s.sent);
        Some(Said {
            begun: outside.said[said::SYN],
            answered: inside.said[said::SYN],
            established: outside.said[said::ESTABLISHED],
            exchanged: inside.said[said::DATA],
            closed: outside.said[said::CLOSED],
            reset: outside.said[said::RESET],
            flooded: outside.said[said::FLOOD],
            flooding,
            repeated: inside.repeated + outside.repeated,
            unexpected: inside.unexpected + outside.unexpected,
        })
    }

    /// From now on port b sends SYN to these destinations, beside what port a sends.
    pub fn flood(&mut self, flows: &[Flow]) -> Result<(), BpfError> {
        self.generator.set_flows(1, flows)
    }

    /// The frames that show what was wrong in the last trial, oldest first.
    pub fn evidence(&self) -> Vec<Evidence> {
        let mut list: Vec<Evidence> =
            self.checkers().iter().flatten().flat_map(|checker| checker.evidence()).collect();
        list.sort_by_key(|one| one.at_ns);
        list
    }

    /// The outside tuple of each flow, in the order of sending; `None` for a flow of which no frame arrived in the last
    /// trial.
    pub fn outside_tuples(&self) -> Vec<Option<Outside>> {
        self.checkers().map_or(Vec::new(), |[_, outside]| outside.outside())
    }

    /// From now on port b sends to the outside tuples of these flows (RFC 9693: the state table of the responder).
    pub fn answer_to(&mut self, flows: &[(Flow, Outside)]) -> Result<(), BpfError> {
        let answer = |(flow, outside): &(Flow, Outside)| Flow {
            src: flow.dst,
            dst: u32::from(outside.address),
            sport: flow.dport,
            dport: outside.port,
            group: 0,
        };
        self.generator.set_flows(1, &flows.iter().map(answer).collect::<Vec<_>>())
    }

    fn checkers(&self) -> Option<[&super::checker::Checker; 2]> {
        Some([self.receivers[0].checker()?, self.receivers[1].checker()?])
    }
}

impl XdpGenerator {
    /// Flows that each stream has room for.
    fn room(&self) -> u32 {
        self.flow_room
    }

    /// What stream `stream` sends from now on, in this order.
    fn set_flows(&mut self, stream: usize, flows: &[Flow]) -> Result<(), BpfError> {
        let streams = if self.traffic.sends(1) { 2 } else { 1 };
        let table = self.program.memory("flows", (self.flow_room * streams) as usize)?;
        let first = stream * self.flow_room as usize;
        for (i, flow) in flows.iter().enumerate() {
            table.set(first + i, &table_entry(*flow));
        }
        self.flow_count[stream] = flows.len() as u32;
        Ok(())
    }
}

/// Flows that have an outside tuple which an earlier one has, too: number of the flow, and of the other one. Exact where
/// the program, which looks at a few entries of its table, may have missed one.
pub fn clashes(flows: &[Flow], outside: &[Option<Outside>]) -> Vec<(usize, usize)> {
    let mut holders = HashMap::with_capacity(flows.len());
    let mut list = Vec::new();
    for (i, (flow, outside)) in flows.iter().zip(outside).enumerate() {
        let Some(outside) = outside else { continue };
        if let Some(holder) = holders.insert((flow.dst, flow.dport, *outside), i) {
            list.push((i, holder));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn flows_clash_where_destination_and_outside_tuple_are_the_same() {
        let flow = |dst, sport| Flow { src: 1, dst, sport, dport: 53, group: 0 };
        let outside = |port| Some(Outside { address: Ipv4Addr::new(192, 0, 2, 1), port });
        let flows = [flow(7, 1), flow(7, 2), flow(8, 3), flow(7, 4)];
        assert_eq!(clashes(&flows, &[outside(5), outside(5), outside(5), outside(6)]), [(1, 0)]);
        assert_eq!(clashes(&flows, &[outside(5), None, None, outside(6)]), []);
    }
}
