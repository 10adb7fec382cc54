//! Common properties of the frames of an attack: the most frequent sources, ports and sizes of a sample.

use std::net::IpAddr;

use serde::Serialize;
use weir_packet::headers::{Headers, protocol_name};

use crate::counts::Direction;
use crate::prefix::{address, bits};

/// Candidates kept of each kind.
const CANDIDATES: usize = 64;
/// Of the frames of a watched host, one in so many is looked at, on average.
const SAMPLED_ONE_IN: u32 = 8;

/// The commonest values of a stream in fixed memory (Space-Saving, Metwally et al. 2005): each that makes up more
/// than 1 in [`CANDIDATES`] is there.
#[derive(Debug, Clone)]
struct Commonest<T>(Vec<(T, u32)>);

impl<T: Copy + PartialEq> Commonest<T> {
    fn add(&mut self, value: T) {
        if let Some((_, count)) = self.0.iter_mut().find(|(other, _)| *other == value) {
            *count += 1;
        } else if self.0.len() < CANDIDATES {
            self.0.push((value, 1));
        } else if let Some(least) = self.0.iter_mut().min_by_key(|(_, count)| *count) {
            *least = (value, least.1 + 1);
        }
    }

    /// The `most` commonest, with their shares of `sampled` frames.
    fn top(&self, most: usize, sampled: u64) -> Vec<(T, f64)> {
        let mut all = self.0.clone();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        // What was pushed out and came back is counted too high by at most this.
        let error = if self.0.len() < CANDIDATES { 0 } else { all[CANDIDATES - 1].1 - 1 };
        let certain = all.iter().filter(|(_, count)| *count > error);
        certain.take(most).map(|&(v, n)| (v, f64::from(n - error) / sampled.max(1) as f64)).collect()
    }
}

/// A sample of the frames of a watched host or group.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    others: Commonest<u128>,
    source_ports: Commonest<u16>,
    destination_ports: Commonest<u16>,
    protocols: Commonest<u8>,
    frame_bytes: Commonest<u32>,
    frames: u64,
    /// State of the generator that decides which frame is next.
    random: u32,
    skip: u32,
}

/// What was found in it. Shares are 0..1 of the frames looked at, and not too high.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// Frames that were looked at.
    pub frames_sampled: u64,
    /// The other side: sources of what comes in, destinations of what goes out.
    pub others: Vec<Share<IpAddr>>,
    /// Source ports; ICMP has its type here.
    pub source_ports: Vec<Share<u16>>,
    /// Destination ports; ICMP has its code here.
    pub destination_ports: Vec<Share<u16>>,
    /// Protocols by name or number.
    pub protocols: Vec<Share<String>>,
    /// Bytes on the wire without FCS.
    pub frame_bytes: Vec<Share<u32>>,
}

/// One value and how much of the sample has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share<T> {
    /// The value.
    pub value: T,
    /// Its share, 0..1.
    pub share: f64,
}

impl Sample {
    pub(crate) fn new(seed: u32) -> Sample {
        Sample {
            others: Commonest(Vec::new()),
            source_ports: Commonest(Vec::new()),
            destination_ports: Commonest(Vec::new()),
            protocols: Commonest(Vec::new()),
            frame_bytes: Commonest(Vec::new()),
            frames: 0,
            random: seed | 1,
            skip: 0,
        }
    }

    /// Looks at a frame, or lets it pass. Which, is random: an attack in step with a fixed interval would hide in it.
    pub(crate) fn offer(&mut self, headers: &Headers, wire_bytes: u32, direction: Direction) {
        if let Some(skip) = self.skip.checked_sub(1) {
            self.skip = skip;
            return;
        }
        // xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.skip = self.random % (2 * SAMPLED_ONE_IN - 1);
        self.frames += 1;
        self.others.add(bits(match direction {
            Direction::In => headers.src,
            Direction::Out => headers.dst,
        }));
        self.source_ports.add(headers.ports.0);
        self.destination_ports.add(headers.ports.1);
        self.protocols.add(headers.protocol);
        self.frame_bytes.add(wire_bytes);
    }

    /// The `most` commonest of each kind.
    pub(crate) fn evidence(&self, most: usize) -> Evidence {
        fn shares<T: Copy + PartialEq, U>(
            of: &Commonest<T>,
            (most, frames): (usize, u64),
            shown: impl Fn(T) -> U,
        ) -> Vec<Share<U>> {
            of.top(most, frames).into_iter().map(|(v, share)| Share { value: shown(v), share }).collect()
        }
        let of = (most, self.frames);
        Evidence {
            frames_sampled: self.frames,
            others: shares(&self.others, of, address),
            source_ports: shares(&self.source_ports, of, |port| port),
            destination_ports: shares(&self.destination_ports, of, |port| port),
            protocols: shares(&self.protocols, of, |number| {
                protocol_name(number).map_or_else(|| number.to_string(), str::to_string)
            }),
            frame_bytes: shares(&self.frame_bytes, of, |bytes| bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_is_found_among_the_many_and_never_overstated() {
        let mut sample = Sample::new(3);
        // A third of the frames come from one of 100,001 sources, half go to port 53.
        for n in 0..100_000_u32 {
            let src = if n % 3 == 0 { 9 } else { 0xc612_0000 + n };
            let headers = Headers {
                src: std::net::Ipv4Addr::from(src).into(),
                dst: [198, 19, 0, 1].into(),
                protocol: 17,
                ports: ((n % 50_000) as u16, if n % 2 == 0 { 53 } else { (n % 10_000) as u16 }),
                tcp_flags: 0,
                later_fragment: false,
                is_cut: false,
                header_bytes: 42,
            };
            sample.offer(&headers, 60, Direction::In);
        }
        let evidence = sample.evidence(3);
        assert!((10_000..15_000).contains(&evidence.frames_sampled), "{}", evidence.frames_sampled);
        assert_eq!(evidence.others[0].value.to_string(), "0.0.0.9");
        assert!((0.30..0.35).contains(&evidence.others[0].share), "{evidence:?}");
        assert!(evidence.others[1..].iter().all(|other| other.share < 0.02), "{evidence:?}");
        assert_eq!(evidence.destination_ports[0].value, 53);
        assert!((0.45..0.52).contains(&evidence.destination_ports[0].share), "{evidence:?}");
        assert_eq!(evidence.protocols, [Share { value: "UDP".to_string(), share: 1.0 }]);
        assert_eq!(evidence.frame_bytes, [Share { value: 60, share: 1.0 }]);
    }
}
