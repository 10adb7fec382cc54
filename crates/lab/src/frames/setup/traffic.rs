//! Traffic of a point: hosts, addresses, flows.

use weir_load::counts::Traffic;
use weir_packet::flow::{self, FlowSpec};
use weir_packet::frame::{Ends, Transport};
use weir_testbed::dut::Function;
use weir_testbed::interface::Port;
use weir_testbed::topology::Side;

use crate::frames::PointSpec;

/// First host on side a and on side b: the upper half of each network, out of the way of the DUT's own
/// addresses. IPv6 uses the same numbers as its last four bytes.
pub const FIRST_HOST: [u32; 2] = [0xc612_8000, 0xc613_8000];
/// Upper 12 bytes of the IPv6 networks 2001:db8:18::/48 and 2001:db8:19::/48.
const PREFIX: [[u8; 12]; 2] = [prefix(0x18), prefix(0x19)];

/// Upper 12 bytes of 2001:db8:64::/96, which stands for IPv4 behind the NAT64 of the test bed.
const PREFIX64: [u8; 12] = prefix(0x64);

const fn prefix(subnet: u8) -> [u8; 12] {
    [0x20, 0x01, 0x0d, 0xb8, 0, subnet, 0, 0, 0, 0, 0, 0]
}

/// The frames that a point asks for, between these ports.
pub fn traffic(spec: &PointSpec, ports: &[Port; 2], seed: u64) -> Traffic {
    // Behind a NAT64 a network of IPv6 stands for the hosts on side b.
    let there = if spec.dut.function() == Function::Nat64 { PREFIX64 } else { PREFIX[1] };
    let ends = |from: usize, to: usize| Ends {
        ip: spec.dut.ip_on([Side::A, Side::B][from], spec.ip),
        src_mac: ports[from].mac,
        dst_mac: ports[from].next_hop_mac,
        src_prefix: PREFIX[from],
        dst_prefix: [PREFIX[0], there][to],
        keeps_whole: spec.keeps_whole,
    };
    Traffic {
        sizes: spec.frame.clone(),
        transport: spec.transport,
        direction: spec.direction,
        flows: FlowSpec {
            count: spec.flows,
            order: spec.order,
            groups: spec.groups as u16,
            hosts: if spec.transport == Transport::Syn { flow::MOST_HOSTS } else { flow::HOSTS },
            networks: networks(spec),
            src: FIRST_HOST[0],
            dst: FIRST_HOST[1],
            seed,
        },
        ends: [ends(0, 1), ends(1, 0)],
        seed,
    }
}

/// The same, addressed to a host other than the remote end, as at a mirror port: programs that tap the interface get the frames,
/// and the kernel does nothing else with them.
pub fn mirrored(mut traffic: Traffic) -> Traffic {
    const SOMEBODY_ELSE: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
    traffic.ends[0].dst_mac = SOMEBODY_ELSE;
    traffic
}

pub(crate) fn networks(spec: &PointSpec) -> u32 {
    spec.routing.map_or(1, |routing| routing.networks)
}
