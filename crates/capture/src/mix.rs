//! What is on the wire: protocols, sizes, and top senders, counted by each capturing thread for itself.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::encapsulation::{EtherType, Link, Unread};
use weir_packet::headers::{self, ICMP, ICMP6, TCP, UDP};

/// What frames are distinguished by.
pub const PROTOCOLS: [&str; 6] = ["TCP", "UDP", "ICMP", "other IP", "ARP", "other"];
/// Upper bounds of sizes in bytes with FCS, those of the counters of RFC 2819; the last has none.
pub const SIZES: [u32; 6] = [64, 127, 255, 511, 1023, 1518];
/// Protocols without IP that are counted apart: the first ones that come.
const MOST_NOT_IP: usize = 8;
/// Bytes of a frame check sequence, which captured frames have lost.
const FCS: u32 = 4;

/// Frames by protocol and by size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mix {
    /// In the order of [`PROTOCOLS`].
    pub protocols: [u64; PROTOCOLS.len()],
    /// In the order of [`SIZES`], and those that are larger.
    pub sizes: [u64; SIZES.len() + 1],
    /// Those without an IP packet that can be read, ARP among them: the first protocols that came, each with its frames.
    not_ip: [Option<(Unread, u64)>; MOST_NOT_IP],
}

impl Mix {
    /// Counts a frame; returns its sender.
    #[inline]
    pub(crate) fn count(&mut self, bytes: &[u8], wire_len: u32) -> Option<IpAddr> {
        self.sizes[SIZES.partition_point(|&most| most < wire_len + FCS)] += 1;
        let headers = headers::read_link(Link::Ethernet, bytes);
        let protocol = match headers.map(|headers| headers.protocol) {
            Ok(TCP) => 0,
            Ok(UDP) => 1,
            Ok(ICMP | ICMP6) => 2,
            Ok(_) => 3,
            Err(Unread::Control(EtherType(0x0806))) => 4,
            Err(_) => 5,
        };
        self.protocols[protocol] += 1;
        if let Err(unread) = headers {
            self.add_not_ip(unread, 1);
        }
        headers.ok().map(|headers| headers.src)
    }

    fn add_not_ip(&mut self, unread: Unread, frames: u64) {
        let is_its = |place: &&mut Option<(Unread, u64)>| place.is_none_or(|(other, _)| other == unread);
        if let Some(place) = self.not_ip.iter_mut().find(is_its) {
            *place = Some((unread, place.map_or(0, |(_, before)| before) + frames));
        }
    }

    /// Frames without an IP packet that can be read, by their protocols and why, as far as they are counted apart.
    pub fn not_ip(&self) -> impl Iterator<Item = (Unread, u64)> {
        self.not_ip.iter().flatten().copied()
    }

    /// Adds what another thread has counted.
    pub fn add(&mut self, other: &Mix) {
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.protocols, &other.protocols);
        add(&mut self.sizes, &other.sizes);
        other.not_ip().for_each(|(unread, frames)| self.add_not_ip(unread, frames));
    }
}

/// A sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Talker {
    /// Source address.
    pub address: IpAddr,
    /// Frames; never too few, and at most `uncertain` too many.
    pub frames: u64,
    /// Bytes of these frames, without FCS.
    pub bytes: u64,
    /// Frames that may be those of others.
    pub uncertain: u64,
}

/// Sources of which the frames are counted, in sets of [`WAYS`]: a new source takes the place of the one with the
/// fewest frames in its set and inherits its count (Metwally et al., Space-Saving, within each set).
pub(crate) struct Talkers {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// IPv4 addresses are mapped; 0 is an empty entry.
    address: u128,
    frames: u64,
    bytes: u64,
    uncertain: u64,
}

const SETS: usize = 1024;
const WAYS: usize = 4;

impl Talkers {
    pub(crate) fn new() -> Self {
        Talkers { slots: vec![Slot::default(); SETS * WAYS] }
    }

    #[inline]
    pub(crate) fn count(&mut self, address: IpAddr, bytes: u32) {
        self.add(address, 1, u64::from(bytes), 0);
    }

    fn add(&mut self, address: IpAddr, frames: u64, bytes: u64, uncertain: u64) {
        let address = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let folded = (address >> 64) as u64 ^ address as u64;
        let set = (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        let slots = &mut self.slots[set * WAYS..][..WAYS];
        let place = slots.iter().position(|slot| slot.address == address).unwrap_or_else(|| {
            let fewest = slots.iter().enumerate().min_by_key(|(_, slot)| slot.frames).expect("not empty").0;
            slots[fewest].address = address;
            slots[fewest].uncertain = slots[fewest].frames;
            slots[fewest].bytes = 0;
            fewest
        });
        slots[place].frames += frames;
        slots[place].bytes += bytes;
        slots[place].uncertain += uncertain;
    }

    /// Moves the counts of another table into this one.
    pub(crate) fn take_over(&mut self, other: &mut Talkers) {
        for slot in other.slots.iter_mut().filter(|slot| slot.frames > 0) {
            let Slot { address, frames, bytes, uncertain } = std::mem::take(slot);
            self.add(Ipv6Addr::from_bits(address).to_canonical(), frames, bytes, uncertain);
        }
    }

    pub(crate) fn forget(&mut self) {
        self.slots.fill(Slot::default());
    }

    /// Those with most frames, first.
    pub(crate) fn top(&self, most: usize) -> Vec<Talker> {
        let mut found: Vec<Slot> = self.slots.iter().filter(|slot| slot.frames > 0).copied().collect();
        found.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.frames));
        found.truncate(most);
        found
            .iter()
            .map(|slot| Talker {
                address: Ipv6Addr::from_bits(slot.address).to_canonical(),
                frames: slot.frames,
                bytes: slot.bytes,
                uncertain: slot.uncertain,
            })
            .collect()
    }
}

/// The talkers of several queues together, those with most frames first.
pub fn merge<'a>(lists: impl Iterator<Item = &'a [Talker]>, most: usize) -> Vec<Talker> {
    let mut all = Talkers::new();
    for talker in lists.flatten() {
        all.add(talker.address, talker.frames, talker.bytes, talker.uncertain);
    }
    all.top(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_rfc2819() {
        let mut mix = Mix::default();
        for wire_len in [60, 61, 123, 124, 1514, 1515] {
            mix.count(&[0; 14], wire_len);
        }
        assert_eq!(mix.sizes, [1, 2, 1, 0, 0, 1, 1]);
        assert_eq!(mix.protocols, [0, 0, 0, 0, 0, 6]);
    }

    #[test]
    fn protocols_are_distinguished_behind_a_tag_too() {
        let frame = |ethertype: &[u8], protocol: u8| {
            let mut ip = [0; 20];
            (ip[0], ip[9], ip[12]) = (0x45, protocol, 192);
            [&[0; 12], ethertype, &ip].concat()
        };
        let mut mix = Mix::default();
        assert_eq!(mix.count(&frame(&[8, 0], 6), 60), Some("192.0.0.0".parse().unwrap()));
        mix.count(&frame(&[0x81, 0, 0, 5, 8, 0], 17), 60);
        mix.count(&frame(&[8, 0], 1), 60);
        mix.count(&frame(&[8, 0], 47), 60);
        mix.count(&frame(&[8, 6], 0), 60);
        mix.count(&[], 60);
        assert_eq!(mix.protocols, [1; 6]);
        // In a PPPoE session.
        mix.count(&frame(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21], 6), 60);
        assert_eq!(mix.protocols, [2, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn what_is_not_ip_is_counted_by_its_protocol() {
        let mut mix = Mix::default();
        let frame = |ether_type: u16| [&[0; 12], &ether_type.to_be_bytes()[..], &[0; 46]].concat();
        for ether_type in (0x9900..0x9920).chain([0x9901, 0x0806]) {
            mix.count(&frame(ether_type), 60);
        }
        mix.add(&mix.clone());
        let counts: Vec<_> = mix.not_ip().map(|(unread, frames)| (unread.ether_type().0, frames)).collect();
        assert_eq!(counts[..3], [(0x9900, 2), (0x9901, 4), (0x9902, 2)]);
        assert_eq!((counts.len(), mix.protocols), (MOST_NOT_IP, [0, 0, 0, 0, 2, 66]));
    }

    #[test]
    fn the_heavy_ones_are_found_among_many() {
        let mut talkers = Talkers::new();
        // Three heavy sources among 100,000 that send once: never too few, and never a light one before them.
        for n in 0..100_000_u32 {
            talkers.count(IpAddr::from((0x0a00_0000 + n).to_be_bytes()), 60);
            if n % 20 == 0 {
                for (heavy, times) in [(1, 4), (2, 3), (3, 2)] {
                    (0..times).for_each(|_| talkers.count(IpAddr::from([192, 0, 2, heavy]), 100));
                }
            }
        }
        let top = talkers.top(3);
        for (talker, (last, frames)) in top.iter().zip([(1, 20_000), (2, 15_000), (3, 10_000)]) {
            assert_eq!(talker.address, IpAddr::from([192, 0, 2, last]));
            assert!(talker.frames >= frames && talker.frames - talker.uncertain <= frames, "{talker:?}");
        }
        let mut others = Talkers::new();
        others.count(IpAddr::from([192, 0, 2, 1]), 100);
        talkers.take_over(&mut others);
        assert_eq!((talkers.top(1)[0].frames, others.top(1)), (top[0].frames + 1, vec![]));
        talkers.forget();
        assert!(talkers.top(1).is_empty());
    }

    #[test]
    fn queues_are_added_up() {
        let talker = |last, frames| {
            let address = IpAddr::from([192, 0, 2, last]);
            Talker { address, frames, bytes: 60 * frames, uncertain: 1 }
        };
        let (a, b) = ([talker(1, 5), talker(2, 4)], [talker(2, 3)]);
        let merged = merge([a.as_slice(), &b].into_iter(), 1);
        assert_eq!(merged, [Talker { uncertain: 2, ..talker(2, 7) }]);
    }
}
