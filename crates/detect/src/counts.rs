//! The counters of a host in a slot, and the rates over a second of slots.

use serde::Serialize;
use weir_packet::headers::{Headers, ICMP, ICMP6, TCP, UDP};

/// Length of a slot.
pub(crate) const SLOT_NS: u64 = 100_000_000;
/// Slots of the second over which rates are taken.
pub(crate) const WINDOW: usize = 10;
/// Bytes that say as much about a rate in bits/s as a frame does about one in frames/s, however large the frames are:
/// those of the largest frame of an Ethernet.
const LARGEST_FRAME_BYTES: f64 = 1514.0;
/// A share of SYN says something from so many TCP frames/s on.
pub(crate) const SYN_SHARE_MIN_PPS: f64 = 1000.0;

/// Frames of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u32,
    /// Bytes on the wire without FCS; a slot at 343 Gbit/s fills it.
    pub(crate) bytes: u32,
    pub(crate) tcp: u32,
    pub(crate) udp: u32,
    pub(crate) icmp: u32,
    pub(crate) syn: u32,
    pub(crate) fragments: u32,
    pub(crate) flows: u32,
}

/// How much a captured frame counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Frames on the wire: 1, or the segments that GRO or LRO have joined.
    pub(crate) frames: u32,
    /// Their bytes on the wire without FCS.
    pub(crate) bytes: u32,
}

/// Bytes of Ethernet, two VLAN tags, PPPoE and two MPLS labels: an IP packet of a whole MTU is in a frame that is so much longer.
const ENCAPSULATION_BYTES: u32 = 14 + 8 + 8 + 8;
/// Bytes of Ethernet, in front of what the MTU limits.
const ETHERNET_BYTES: u32 = 14;
/// Segments that a frame counts for, at most: a length in a file may be anything. 512 KiB are the most that Linux joins.
const MOST_SEGMENTS: u32 = 1024;

impl Load {
    /// That of a frame with these headers and so many bytes, where no IP packet on the wire is longer than `mtu`. A longer one is
    /// made of segments with the same headers, of which all but the last are as long as the MTU allows.
    #[inline]
    pub(crate) fn of(headers: &Headers, wire_bytes: u32, mtu: u32) -> Load {
        if wire_bytes <= mtu + ENCAPSULATION_BYTES {
            return Load { frames: 1, bytes: wire_bytes };
        }
        let header_bytes = u32::from(headers.header_bytes);
        let segment = (mtu + ETHERNET_BYTES).saturating_sub(header_bytes).max(1);
        let segments = wire_bytes.saturating_sub(header_bytes).div_ceil(segment).clamp(1, MOST_SEGMENTS);
        Load { frames: segments, bytes: wire_bytes.saturating_add((segments - 1) * header_bytes) }
    }

    /// Bytes of one of the frames, as far as they are as long as each other.
    pub(crate) fn frame_bytes(self, mtu: u32) -> u32 {
        if self.frames == 1 { self.bytes } else { mtu + ETHERNET_BYTES }
    }
}

impl Counts {
    /// Adds a frame; `new_flow` is 1 if it is the first of its flow, otherwise 0.
    #[inline]
    pub(crate) fn add(&mut self, headers: &Headers, load: Load, new_flow: u32) {
        let add = |count: &mut u32, more: u32| *count = count.saturating_add(more);
        add(&mut self.frames, load.frames);
        add(&mut self.bytes, load.bytes);
        match headers.protocol {
            TCP => {
                add(&mut self.tcp, load.frames);
                add(&mut self.syn, u32::from(headers.opens()));
            }
            UDP => add(&mut self.udp, load.frames),
            ICMP | ICMP6 => add(&mut self.icmp, load.frames),
            _ => {}
        }
        add(&mut self.fragments, u32::from(headers.later_fragment));
        add(&mut self.flows, new_flow);
    }
}

/// What has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Frames/s.
    Pps,
    /// Bits/s, FCS not counted.
    BitsPerS,
    /// New flows/s.
    FlowsPerS,
    /// TCP frames/s.
    TcpPps,
    /// UDP frames/s.
    UdpPps,
    /// ICMP frames/s.
    IcmpPps,
    /// Frames/s that are fragments, but not the first.
    FragmentPps,
    /// TCP connections that are asked for, per second.
    SynPps,
    /// Share of those in all TCP frames, 0..1, from 1000 TCP frames/s on.
    SynShare,
}

impl Metric {
    /// All of them, with their names in a configuration.
    pub(crate) const ALL: [(Metric, &'static str); 9] = [
        (Metric::Pps, "pps"),
        (Metric::BitsPerS, "bits_per_s"),
        (Metric::FlowsPerS, "flows_per_s"),
        (Metric::TcpPps, "tcp_pps"),
        (Metric::UdpPps, "udp_pps"),
        (Metric::IcmpPps, "icmp_pps"),
        (Metric::FragmentPps, "fragment_pps"),
        (Metric::SynPps, "syn_pps"),
        (Metric::SynShare, "syn_share"),
    ];

    /// What arrives at random and is counted in this metric, in its unit; `None`: it is no count.
    pub(crate) fn event(self) -> Option<f64> {
        match self {
            Metric::SynShare => None,
            Metric::BitsPerS => Some(LARGEST_FRAME_BYTES * 8.0),
            _ => Some(1.0),
        }
    }
}

/// Which way the frames of a host go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the host.
    In,
    /// From the host.
    Out,
}

/// Rates over a second, or over one slot.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    /// Frames/s.
    pub pps: f64,
    /// Bits/s, FCS not counted.
    pub bits_per_s: f64,
    /// New flows/s; zero where no limit asks for them.
    pub flows_per_s: f64,
    /// TCP frames/s.
    pub tcp_pps: f64,
    /// UDP frames/s.
    pub udp_pps: f64,
    /// ICMP frames/s.
    pub icmp_pps: f64,
    /// Fragments/s without the first ones.
    pub fragment_pps: f64,
    /// Asked-for TCP connections/s.
    pub syn_pps: f64,
    /// Their share in all TCP frames.
    pub syn_share: f64,
}

impl Rates {
    /// The rates of these slots together, each of [`SLOT_NS`].
    pub(crate) fn of(slots: &[Counts]) -> Rates {
        let seconds = slots.len() as f64 * SLOT_NS as f64 / 1e9;
        let rate = |count: fn(&Counts) -> u32| {
            slots.iter().map(|slot| f64::from(count(slot))).sum::<f64>() / seconds.max(1e-9)
        };
        let (tcp_pps, syn_pps) = (rate(|c| c.tcp), rate(|c| c.syn));
        Rates {
            pps: rate(|c| c.frames),
            bits_per_s: rate(|c| c.bytes) * 8.0,
            flows_per_s: rate(|c| c.flows),
            tcp_pps,
            udp_pps: rate(|c| c.udp),
            icmp_pps: rate(|c| c.icmp),
            fragment_pps: rate(|c| c.fragments),
            syn_pps,
            syn_share: if tcp_pps >= SYN_SHARE_MIN_PPS { syn_pps / tcp_pps } else { 0.0 },
        }
    }

    /// One of them.
    pub(crate) fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Pps => self.pps,
            Metric::BitsPerS => self.bits_per_s,
            Metric::FlowsPerS => self.flows_per_s,
            Metric::TcpPps => self.tcp_pps,
            Metric::UdpPps => self.udp_pps,
            Metric::IcmpPps => self.icmp_pps,
            Metric::FragmentPps => self.fragment_pps,
            Metric::SynPps => self.syn_pps,
            Metric::SynShare => self.syn_share,
        }
    }
}

/// What a host may do in one direction; `None`: as much as it likes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Limits([Option<f64>; Metric::ALL.len()]);

impl Limits {
    pub(crate) fn get(&self, metric: Metric) -> Option<f64> {
        self.0[metric as usize]
    }

    /// The same, but not above `limit`.
    pub(crate) fn at_most(mut self, metric: Metric, limit: f64) -> Limits {
        let old = &mut self.0[metric as usize];
        *old = Some(old.map_or(limit, |old| old.min(limit)));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The metric that exceeds its limit most, after both are multiplied with `share` of the limit.
    pub(crate) fn exceeded(&self, rates: &Rates, share: f64) -> Option<(Metric, f64)> {
        let over = Metric::ALL.iter().filter_map(|&(metric, _)| {
            let limit = self.get(metric)?;
            let excess = rates.get(metric) / (limit * share);
            (excess >= 1.0).then_some((metric, limit, excess))
        });
        over.max_by(|a, b| a.2.total_cmp(&b.2)).map(|(metric, limit, _)| (metric, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_was_joined_counts_as_its_segments() {
        let headers = |protocol, header_bytes| Headers {
            src: [192, 0, 2, 1].into(),
            dst: [198, 18, 0, 9].into(),
            protocol,
            ports: (80, 4000),
            tcp_flags: 0,
            later_fragment: false,
            is_cut: false,
            header_bytes,
        };
        // Ethernet, IPv4, TCP with time stamps: 66 bytes of headers and 1448 of payload in each segment.
        for (wire_bytes, mtu, header_bytes, frames, bytes) in [
            (60, 1500, 54, 1, 60),
            (1514, 1500, 66, 1, 1514),
            (1522, 1500, 74, 1, 1522),
            (66 + 2 * 1448, 1500, 66, 2, 2 * 1514),
            (57_900, 1500, 66, 40, 57_900 + 39 * 66),
            (9014, 9000, 66, 1, 9014),
            (9014, 1500, 66, 7, 9014 + 6 * 66),
            (57_900, 9000, 66, 7, 57_900 + 6 * 66),
            // Nonsense of a file.
            (u32::MAX, 1500, u16::MAX, MOST_SEGMENTS, u32::MAX),
            (u32::MAX, 68, 66, MOST_SEGMENTS, u32::MAX),
        ] {
            let load = Load::of(&headers(TCP, header_bytes), wire_bytes, mtu);
            assert_eq!(load, Load { frames, bytes }, "{wire_bytes} bytes, MTU {mtu}");
        }
        let mut counts = Counts::default();
        for _ in 0..3 {
            counts.add(&headers(UDP, 42), Load { frames: 1 << 31, bytes: 1 << 31 }, 0);
        }
        assert_eq!((counts.frames, counts.udp), (u32::MAX, u32::MAX), "it is full, not small again");
    }
}
