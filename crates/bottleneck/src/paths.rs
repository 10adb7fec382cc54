//! What is behind the link: a delay for each path, by address, and losses, jitter, reordering.

use std::net::IpAddr;

use weir_queue::Time;
use weir_rng::Rng;

/// Addresses that begin alike: `10.0.0.0/8`, `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// Reads `10.0.0.0/8`, or an address, which is a prefix of one.
    pub(crate) fn read(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("`{text}` is no prefix: use 10.0.1.0/24 or 2001:db8::/32");
        let (address, length) =
            text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), |length| length.trim().parse().map_err(|_| wrong()))?;
        if length > most {
            return Err(wrong());
        }
        Ok(Prefix { address, length })
    }

    /// Whether an address begins so.
    pub fn has(&self, address: IpAddr) -> bool {
        let same =
            |different: u128, bits: u8| different.checked_shr((bits - self.length).into()).unwrap_or(0) == 0;
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same((own.to_bits() ^ other.to_bits()).into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits() ^ other.to_bits(), 128),
            _ => false,
        }
    }
}

/// One-way delays, by address.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Paths {
    /// Of all others.
    pub delay: Time,
    /// Of frames with such a source or destination; the first that fits counts.
    pub prefixes: Vec<(Prefix, Time)>,
}

impl Paths {
    pub(crate) fn others(&self) -> usize {
        self.prefixes.len()
    }

    /// The number of the path of a frame.
    pub(crate) fn of(&self, source: IpAddr, destination: IpAddr) -> usize {
        let fits = |(prefix, _): &(Prefix, Time)| prefix.has(source) || prefix.has(destination);
        self.prefixes.iter().position(fits).unwrap_or(self.others())
    }

    pub(crate) fn delay_of(&self, path: usize) -> Time {
        self.prefixes.get(path).map_or(self.delay, |(_, delay)| *delay)
    }

    /// The shortest of them.
    pub(crate) fn shortest(&self) -> Time {
        self.prefixes.iter().map(|(_, delay)| *delay).fold(self.delay, Time::min)
    }

    /// The longest of them.
    pub fn longest(&self) -> Time {
        self.prefixes.iter().map(|(_, delay)| *delay).fold(self.delay, Time::max)
    }
}

/// What happens to frames behind the link, beside the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairment {
    /// Share of frames that are lost, 0 to below 1.
    pub loss: f64,
    /// Mean number of frames that are lost in a row (Gilbert's model); 1: each by itself.
    pub burst: f64,
    /// Up to so much more delay, uniform; the order is kept.
    pub jitter: Time,
    /// Share of frames that are overtaken, 0 to below 1 ..
    pub reorder: f64,
    /// .. because they take so much longer.
    pub reorder_by: Time,
}

impl Default for Impairment {
    fn default() -> Impairment {
        let none = Time::ZERO;
        Impairment { loss: 0.0, burst: 1.0, jitter: none, reorder: 0.0, reorder_by: Time::from_ms(1) }
    }
}

/// The state of losses and delays of one direction.
#[derive(Debug)]
pub(crate) struct Fortune {
    rng: Rng,
    in_burst: bool,
    /// When the last frame of each path comes out.
    last: Vec<Time>,
}

impl Fortune {
    pub(crate) fn new(seed: u64) -> Fortune {
        Fortune { rng: Rng::new(seed), in_burst: false, last: Vec::new() }
    }

    /// When a frame comes out that has left the link at `at`; `None` if it is lost.
    pub(crate) fn arrival(&mut self, at: Time, path: usize, paths: &Paths, how: &Impairment) -> Option<Time> {
        if self.loses(how) {
            return None;
        }
        let mut at = at + paths.delay_of(path);
        if how.jitter > Time::ZERO {
            at += Time::from_ps((self.rng.unit() * how.jitter.ps() as f64) as u64);
        }
        if how.reorder > 0.0 && self.rng.unit() < how.reorder {
            return Some(at + how.reorder_by);
        }
        if path >= self.last.len() {
            self.last.resize(path + 1, Time::ZERO);
        }
        let last = self.last.get_mut(path)?;
        *last = at.max(*last);
        Some(*last)
    }

    fn loses(&mut self, how: &Impairment) -> bool {
        if how.loss <= 0.0 {
            return false;
        }
        if how.burst <= 1.0 {
            return self.rng.unit() < how.loss;
        }
        // In the state of bursts for the share `loss` of all frames, and for `burst` of them at a time.
        let leaves = 1.0 / how.burst;
        let enters = leaves * how.loss / (1.0 - how.loss);
        let p = if self.in_burst { leaves } else { enters };
        self.in_burst ^= self.rng.unit() < p;
        self.in_burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_its_addresses() {
        for (prefix, address, has) in [
            ("10.0.1.0/24", "10.0.1.255", true),
            ("10.0.1.0/24", "10.0.2.0", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
        ] {
            assert_eq!(
                Prefix::read(prefix).unwrap().has(address.parse().unwrap()),
                has,
                "{prefix} {address}"
            );
        }
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/x"] {
            assert!(Prefix::read(text).unwrap_err().contains("use 10.0.1.0/24"), "{text}");
        }
    }

    #[test]
    fn losses_have_their_share_and_their_length() {
        for burst in [1.0, 8.0] {
            let how = Impairment { loss: 0.05, burst, ..Impairment::default() };
            let mut fortune = Fortune::new(3);
            let mut lost = |_| fortune.arrival(Time::ZERO, 0, &Paths::default(), &how).is_none();
            let lost: Vec<bool> = (0..400_000).map(&mut lost).collect();
            let all = lost.iter().filter(|&&lost| lost).count() as f64;
            let begins = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            let length = all / begins;
            let expected = if burst > 1.0 { burst } else { 1.0 / 0.95 };
            assert!(
                (all / 4e5 - 0.05).abs() < 0.005 && (length / expected - 1.0).abs() < 0.1,
                "{all}, {length}"
            );
        }
    }

    #[test]
    fn jitter_keeps_the_order_of_a_path_and_reordering_does_not() {
        let paths = Paths { delay: Time::from_ms(10), ..Paths::default() };
        let run = |how: Impairment| -> Vec<Time> {
            let mut fortune = Fortune::new(5);
            (0..1000).map(|ms| fortune.arrival(Time::from_ms(ms), 0, &paths, &how).unwrap()).collect()
        };
        let jitter = run(Impairment { jitter: Time::from_ms(5), ..Impairment::default() });
        assert!(
            jitter.is_sorted()
                && jitter.iter().zip(0..).all(|(at, ms)| {
                    let delay = *at - Time::from_ms(ms);
                    (Time::from_ms(10)..=Time::from_ms(15)).contains(&delay)
                })
        );
        let reordered =
            run(Impairment { reorder: 0.1, reorder_by: Time::from_ms(3), ..Impairment::default() });
        let overtaken = reordered.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((60..140).contains(&overtaken), "{overtaken}");
    }
}
