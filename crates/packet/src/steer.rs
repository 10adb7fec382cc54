//! Which of several threads a frame belongs to: functions of addresses alone, simple enough for the kernel to compute
//! before a frame is received.
//!
//! ```text
//! address > mix > (sum of both ends) > pick > thread
//! ```
//! The sum makes both directions of a conversation one.

/// Odd factors of Weyl sequences and hashes (Knuth; SplitMix, murmur3).
pub const SPREAD: u32 = 0x9e37_79b1;
/// See [`SPREAD`].
pub const PICK: u32 = 0x85eb_ca6b;

/// By what frames are spread over threads when they are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// By their flow, as the kernel does.
    Flows,
    /// By both addresses, the same for either direction.
    Ends,
    /// By the source address.
    Sources,
}

/// An address of IPv4 with its bits spread.
#[inline]
pub fn mix4(address: u32) -> u32 {
    let spread = address.wrapping_mul(SPREAD);
    spread ^ spread >> 15
}

/// An address of IPv6 with its bits spread.
#[inline]
pub fn mix6(address: u128) -> u32 {
    let words = [96, 64, 32, 0].map(|shift| (address >> shift) as u32);
    mix4(words.into_iter().fold(0, |all: u32, word| all.wrapping_mul(SPREAD) ^ word))
}

/// A flow: its mixed source and destination, ports and protocol, mixed again. Neighbouring hosts with neighbouring ports are
/// flows of their own.
#[inline]
pub fn flow(source: u32, destination: u32, (sport, dport): (u16, u16), protocol: u8) -> u32 {
    let ports = u32::from(sport) << 16 | u32::from(dport);
    let ends = source.wrapping_mul(SPREAD) ^ destination.rotate_left(16);
    mix4(ends ^ mix4(ports).wrapping_mul(PICK) ^ u32::from(protocol))
}

/// A frame of Ethernet without a packet that can be read: its mixed source and destination, and its flow, by addresses and type.
pub fn ends_of_frame(frame: &[u8]) -> (u32, u32, u32) {
    let address = |at: usize| {
        let bytes = frame.get(at..).and_then(|rest| rest.first_chunk::<6>()).copied().unwrap_or_default();
        mix6(bytes.into_iter().fold(0, |all, byte| all << 8 | u128::from(byte)))
    };
    let kind =
        frame.get(12..).and_then(|rest| rest.first_chunk()).map_or(0, |kind| u16::from_be_bytes(*kind));
    let (destination, source) = (address(0), address(6));
    (source, destination, flow(source, destination, (kind, 0), 0))
}

/// The thread, of so many, of a mixed address or a sum of them.
#[inline]
pub fn pick(mixed: u32, of: u8) -> u8 {
    let spread = mixed.wrapping_mul(PICK) >> 16;
    ((spread * u32::from(of)) >> 16) as u8
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hosts_and_ports_that_count_alike_are_flows_of_their_own() {
        let alike = |host: u32| flow(mix4(0xc612_0000 | host), mix4(0xc000_0201), (7, host as u16), 17);
        let both = |n: u32| flow(mix4(0xc612_0000 | n >> 6), mix4(0xc000_0201), ((n & 63) as u16, 80), 6);
        for flows in [(0..4096).map(alike).collect::<HashSet<u32>>(), (0..4096).map(both).collect()] {
            assert!(flows.len() > 4090, "{}", flows.len());
        }
    }

    #[test]
    fn neighbours_are_spread_evenly() {
        for of in [1, 2, 3, 7, 64] {
            let count = |picks: &mut dyn Iterator<Item = u8>| {
                let mut count = vec![0_u32; usize::from(of)];
                picks.for_each(|thread| count[usize::from(thread)] += 1);
                (*count.iter().min().expect("some"), *count.iter().max().expect("some"))
            };
            let wide = 64 * 256;
            let fair = wide / u32::from(of);
            let v4 = count(&mut (0..wide).map(|n| pick(mix4(0xc612_0000 + n), of)));
            let v6 = count(&mut (0..wide).map(|n| pick(mix6(0x2001_0db8 << 96 | u128::from(n)), of)));
            // Two ends that count alike, as those of test traffic do.
            let ends = |n| mix4(0xc612_0000 + n).wrapping_add(mix4(0xc613_0000 + n));
            let both = count(&mut (0..wide).map(|n| pick(ends(n), of)));
            for (least, most) in [v4, v6, both] {
                assert!(least > fair * 3 / 5 && most < fair * 7 / 5, "{of}: {least} to {most} of {fair}");
            }
        }
    }
}
