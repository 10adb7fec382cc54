//! The class of an attack, by its usual name: from its rates and from the common properties of its frames.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::counts::{Direction, Rates};
use crate::evidence::{Evidence, Share};

/// A kind is named where so much of the traffic is of it.
const MOST: f64 = 0.5;
/// So much of the sample comes from the port of a service that answers more than it is asked: its other frames are fragments,
/// which have no ports.
const FROM_SERVICE: f64 = 0.3;

/// Services over UDP that were used to amplify (US-CERT TA14-017A, and those found since).
const AMPLIFIERS: [(u16, &str); 20] = [
    (17, "QOTD"),
    (19, "CharGEN"),
    (53, "DNS"),
    (69, "TFTP"),
    (111, "portmapper"),
    (123, "NTP"),
    (137, "NetBIOS"),
    (161, "SNMP"),
    (389, "CLDAP"),
    (427, "SLP"),
    (520, "RIP"),
    (623, "IPMI"),
    (1434, "MS SQL"),
    (1900, "SSDP"),
    (3283, "ARD"),
    (3702, "WS-Discovery"),
    (5353, "mDNS"),
    (5683, "CoAP"),
    (10_001, "Ubiquiti"),
    (11_211, "memcached"),
];

/// The kind of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// TCP connections are asked for.
    SynFlood,
    /// Other TCP segments.
    TcpFlood,
    /// UDP, from no service that amplifies.
    UdpFlood,
    /// ICMP or ICMPv6.
    IcmpFlood,
    /// Fragments.
    FragmentFlood,
    /// Answers of a service to questions that were asked in the name of the host.
    Amplification(&'static str),
    /// Nothing has the majority.
    Mixed,
}

impl Class {
    /// The kind of traffic with these rates, of which this is a sample.
    pub(crate) fn of(rates: &Rates, evidence: &Evidence, direction: Direction) -> Class {
        let is_most = |pps: f64| rates.pps > 0.0 && pps >= MOST * rates.pps;
        if direction == Direction::In
            && is_most(rates.udp_pps)
            && let Some(service) = evidence.source_ports.iter().find_map(amplifier)
        {
            return Class::Amplification(service);
        }
        let is_syn = rates.syn_pps >= MOST * rates.tcp_pps;
        match () {
            () if is_most(rates.fragment_pps) => Class::FragmentFlood,
            () if is_most(rates.tcp_pps) && is_syn => Class::SynFlood,
            () if is_most(rates.tcp_pps) => Class::TcpFlood,
            () if is_most(rates.udp_pps) => Class::UdpFlood,
            () if is_most(rates.icmp_pps) => Class::IcmpFlood,
            () => Class::Mixed,
        }
    }
}

fn amplifier(port: &Share<u16>) -> Option<&'static str> {
    let service = AMPLIFIERS.iter().find(|(known, _)| *known == port.value && port.share >= FROM_SERVICE);
    service.map(|(_, name)| *name)
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::SynFlood => "SYN flood",
            Class::TcpFlood => "TCP flood",
            Class::UdpFlood => "UDP flood",
            Class::IcmpFlood => "ICMP flood",
            Class::FragmentFlood => "fragment flood",
            Class::Amplification(service) => return write!(f, "{service} amplification"),
            Class::Mixed => "mixed traffic",
        })
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of `[all, TCP, SYN, UDP, ICMP, fragments]`, and the commonest source port with its share.
    fn check(
        [pps, tcp_pps, syn_pps, udp_pps, icmp_pps, fragment_pps]: [f64; 6],
        port: (u16, f64),
        name: &str,
    ) {
        let rates = Rates { pps, tcp_pps, syn_pps, udp_pps, icmp_pps, fragment_pps, ..Rates::default() };
        let evidence = Evidence {
            frames_sampled: 100,
            others: Vec::new(),
            source_ports: vec![Share { value: port.0, share: port.1 }],
            destination_ports: Vec::new(),
            protocols: Vec::new(),
            frame_bytes: Vec::new(),
        };
        assert_eq!(Class::of(&rates, &evidence, Direction::In).to_string(), name);
        if name.ends_with("amplification") {
            let out = Class::of(&rates, &evidence, Direction::Out).to_string();
            assert!(!out.ends_with("amplification"), "who answers is no victim: {out}");
        }
    }

    #[test]
    fn attacks_have_the_names_that_operators_know() {
        check([100.0, 95.0, 94.0, 5.0, 0.0, 0.0], (4000, 0.01), "SYN flood");
        check([100.0, 95.0, 10.0, 5.0, 0.0, 0.0], (443, 0.9), "TCP flood");
        check([100.0, 0.0, 0.0, 99.0, 0.0, 0.0], (53, 0.97), "DNS amplification");
        check([100.0, 0.0, 0.0, 99.0, 0.0, 60.0], (53, 0.4), "DNS amplification");
        check([100.0, 0.0, 0.0, 99.0, 0.0, 0.0], (11_211, 0.8), "memcached amplification");
        check([100.0, 0.0, 0.0, 99.0, 0.0, 0.0], (53, 0.1), "UDP flood");
        check([100.0, 0.0, 0.0, 99.0, 0.0, 60.0], (0, 0.6), "fragment flood");
        check([100.0, 0.0, 0.0, 2.0, 98.0, 0.0], (8, 1.0), "ICMP flood");
        check([100.0, 40.0, 0.0, 40.0, 20.0, 0.0], (53, 0.4), "mixed traffic");
        check([0.0; 6], (53, 1.0), "mixed traffic");
    }
}
