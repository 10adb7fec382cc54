//! Tests the requirements of the RFCs: scenarios against the plane in virtual time, and against an external device.
//!
//! ```text
//!   t0 --- [ box ] --- t1        a packet in, then a marker behind it each way: what came before it has come through
//! ```
//!
//! A marker is an answered flow of hosts that no scenario uses; it passes the box behind the packets of a step, so
//! that "nothing left" is an event and no time-out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use weir_packet::checksum::write_ipv4;
use weir_plane::scenario::{End, Scenario, Target, VirtualNode, suites};
use weir_port::packet::{PacketError, Receiver, Sender};
use weir_testbed::bed::Bed;
use weir_testbed::error::Error as BedError;
use weir_testbed::interface::Port;
use weir_testbed::topology::Side;

/// Whether a requirement is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Kept,
    /// It is not: the first line of the scenario that was not so, and what was seen.
    Broken(String),
    /// The scenario cannot be run from outside.
    Untried,
}

/// A requirement and what became of it.
#[derive(Debug, Clone)]
pub struct Finding {
    /// `RFC 4787 REQ-1`
    pub reference: String,
    /// What must be so.
    pub title: String,
    /// File and line of the scenario.
    pub place: String,
    /// For each target that was asked for, in that order.
    pub verdicts: Vec<Verdict>,
}

/// What stopped the tests.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The bed.
    #[error(transparent)]
    Bed(#[from] BedError),
    /// A socket.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The box passes nothing.
    #[error(
        "no test packet passed the device within {0:?}: check that it forwards from 198.18.0.0/16 to 198.19.0.0/16, \
         translates to {1}, and has neighbour entries for the tester's hosts"
    )]
    Deaf(Duration, IpAddr),
}

/// How long a marker may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The scenarios' public address.
const PUBLIC: &str = "192.0.2.1";
/// The hosts of the marker's flow, on side a and b.
const MARKERS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 250, 250), Ipv4Addr::new(198, 19, 250, 250)];
const MARKER_PORTS: [u16; 2] = [40_000, 40_001];

/// Tries all scenarios against the plane, and against `bed`'s box if there is one.
///
/// # Errors
/// [`ConformanceError`].
pub fn examine(bed: Option<&Bed>) -> Result<Vec<Finding>, ConformanceError> {
    let mut findings = Vec::new();
    for (file, scenarios) in suites() {
        for scenario in scenarios {
            let mut verdicts = vec![verdict(scenario.run(&mut VirtualNode::default()))];
            if let Some(bed) = bed {
                verdicts.push(over_wires(bed, &scenario)?);
            }
            findings.push(Finding {
                place: format!("{file}:{}", scenario.line),
                reference: scenario.reference,
                title: scenario.title,
                verdicts,
            });
        }
    }
    Ok(findings)
}

fn verdict(outcome: Result<(), String>) -> Verdict {
    outcome.map_or_else(Verdict::Broken, |()| Verdict::Kept)
}

fn over_wires(bed: &Bed, scenario: &Scenario) -> Result<Verdict, ConformanceError> {
    if !scenario.wire {
        return Ok(Verdict::Untried);
    }
    bed.reset()?;
    let public = bed.dut_address(Side::B);
    let mut wires = Wires::open(bed, public)?;
    let outcome = scenario.clone().moved(PUBLIC, &public.to_string()).run(&mut wires);
    match wires.failed {
        Some(error) => Err(error),
        None => Ok(verdict(outcome)),
    }
}

/// A box between two wires.
struct Wires {
    ends: [WireEnd; 2],
    public: IpAddr,
    /// The port that the box gave the marker's flow.
    marker_port: u16,
    seen: Vec<(End, Vec<u8>)>,
    markers: u32,
    failed: Option<ConformanceError>,
}

struct WireEnd {
    port: Port,
    sender: Sender,
    receiver: Receiver,
}

const BUFFER: i32 = 4 << 20;

impl Wires {
    fn open(bed: &Bed, public: IpAddr) -> Result<Wires, ConformanceError> {
        let open = |port: Port| -> Result<WireEnd, PacketError> {
            let open = || Ok((Sender::open(port.ifindex)?, Receiver::open(port.ifindex, BUFFER)?));
            let (sender, receiver) = port.namespace.run(open)?;
            Ok(WireEnd { port, sender, receiver })
        };
        let [a, b] = bed.ports();
        let ends = [open(a)?, open(b)?];
        let mut wires = Wires { ends, public, marker_port: 0, seen: Vec::new(), markers: 0, failed: None };
        wires.mark(0)?;
        Ok(wires)
    }

    fn transmit(&mut self, end: usize, packet: &[u8]) -> Result<(), PacketError> {
        let port = &self.ends[end].port;
        let frame = [&port.next_hop_mac[..], &port.mac, &[8, 0], packet].concat();
        let frames = [frame];
        while self.ends[end].sender.send(&frames)? == 0 {}
        Ok(())
    }

    /// Sends a marker from one end and waits until it left at the other; what came before it is kept.
    fn mark(&mut self, from: usize) -> Result<(), ConformanceError> {
        self.markers += 1;
        let number = self.markers;
        let (src, dst) = match from {
            0 => ((MARKERS[0], MARKER_PORTS[0]), (MARKERS[1], MARKER_PORTS[1])),
            _ => {
                let IpAddr::V4(public) = self.public else {
                    unreachable!("scenarios over wires are of IPv4")
                };
                ((MARKERS[1], MARKER_PORTS[1]), (public, self.marker_port))
            }
        };
        self.transmit(from, &marker(src, dst, number))?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            // Both ends are emptied: what turned back in the box left where it came from.
            for end in [from, 1 - from] {
                let wait = if end == from { Duration::ZERO } else { Duration::from_millis(20) };
                let mut packets = Vec::new();
                self.ends[end].receiver.receive(wait, |frame| packets.extend(ipv4(frame)))?;
                let mut through = false;
                for packet in packets {
                    match marked(&packet) {
                        Some((arrived, port)) if end == 1 - from && arrived == number => {
                            if from == 0 {
                                self.marker_port = port;
                            }
                            through = true;
                        }
                        Some(_) => {}
                        None => self.seen.push(([End::Left, End::Right][end], packet)),
                    }
                }
                if through {
                    return Ok(());
                }
            }
        }
        Err(ConformanceError::Deaf(PATIENCE, self.public))
    }

    fn keep(&mut self, outcome: Result<(), ConformanceError>) {
        if let Err(error) = outcome {
            self.failed.get_or_insert(error);
        }
    }
}

impl Target for Wires {
    /// The box is what it is; its scenarios ask for nothing but a translation to its address.
    fn configure(&mut self, _text: &str) -> Result<(), String> {
        Ok(())
    }

    fn send(&mut self, _at: Duration, end: End, packet: &[u8]) {
        let outcome = self.transmit(usize::from(end == End::Right), packet);
        self.keep(outcome.map_err(Into::into));
    }

    /// Scenarios that need time are not run over wires.
    fn wait(&mut self, _until: Duration) {}

    fn left(&mut self) -> Vec<(End, Vec<u8>)> {
        for from in [0, 1] {
            let outcome = self.mark(from);
            self.keep(outcome);
        }
        // Once more: what the second marker met may have turned back.
        let outcome = self.mark(0);
        self.keep(outcome);
        std::mem::take(&mut self.seen)
    }

    /// A box that merges segments before it looks at them (GRO) lets a marker overtake them.
    fn patience(&self) -> u32 {
        200
    }

    fn drops(&self) -> Option<BTreeMap<String, u64>> {
        None
    }

    fn sound(&self) -> Result<(), String> {
        match &self.failed {
            Some(error) => Err(error.to_string()),
            None => Ok(()),
        }
    }
}

/// The IPv4 packet of a frame without Ethernet's padding.
fn ipv4(frame: &[u8]) -> Option<Vec<u8>> {
    let packet = frame.get(14..).filter(|packet| frame[12..14] == [8, 0] && packet.len() >= 20)?;
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    packet.get(..total).map(<[u8]>::to_vec)
}

const MAGIC: &[u8; 8] = b"weirmark";

fn marker(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend([src.0.octets(), dst.0.octets()].concat());
    write_ipv4(&mut packet);
    // Without a checksum of UDP.
    packet.extend([src.1.to_be_bytes(), dst.1.to_be_bytes(), [0, 20], [0, 0]].concat());
    packet.extend(MAGIC);
    packet.extend(number.to_be_bytes());
    packet
}

/// Number and source port of a marker.
fn marked(packet: &[u8]) -> Option<(u32, u16)> {
    let udp = packet.get(20..40).filter(|udp| udp[8..16] == *MAGIC)?;
    let number = u32::from_be_bytes([udp[16], udp[17], udp[18], udp[19]]);
    Some((number, u16::from_be_bytes([udp[0], udp[1]])))
}
