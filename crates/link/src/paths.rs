//! What is to be behind the link: a delay for each path, by address, and losses, jitter, reordering.

use std::net::IpAddr;

use weir_config::rate::quantity;
use weir_config::unit;
use weir_queue::Time;

use crate::buffer::time;

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

/// One-way delays by address, and what else happens to frames behind the link.
#[derive(Debug, Clone, PartialEq)]
pub struct Paths {
    /// Delay of all other paths.
    pub delay: Time,
    /// Delays of frames with such a source or destination; the first that fits counts.
    pub prefixes: Vec<(Prefix, Time)>,
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

impl Default for Paths {
    fn default() -> Paths {
        let none = Time::ZERO;
        let (prefixes, reorder_by) = (Vec::new(), Time::from_ms(1));
        Paths { delay: none, prefixes, loss: 0.0, burst: 1.0, jitter: none, reorder: 0.0, reorder_by }
    }
}

impl Paths {
    /// Sets what `name` says; `None` if that is none of these. After a mistake all is as it was.
    pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        Some(match name {
            "delay" => time(value).map(|delay| self.delay = delay),
            "path" => self.set_path(value),
            "loss" => unit::share(value).map(|share| self.loss = share),
            "burst" => burst(value).map(|frames| self.burst = frames),
            "jitter" => time(value).map(|jitter| self.jitter = jitter),
            "reorder" => unit::share(value).map(|share| self.reorder = share),
            "reorder-by" => time(value).map(|by| self.reorder_by = by),
            _ => return None,
        })
    }

    fn set_path(&mut self, value: &str) -> Result<(), String> {
        if value == "clear" {
            self.prefixes.clear();
            return Ok(());
        }
        let wrong = || format!("`{value}` is no path: use 10.0.1.0/24=10ms");
        let (prefix, delay) = value.split_once('=').ok_or_else(wrong)?;
        let (prefix, delay) = (Prefix::read(prefix.trim())?, time(delay)?);
        match self.prefixes.iter_mut().find(|(known, _)| *known == prefix) {
            Some((_, known)) => *known = delay,
            None => self.prefixes.push((prefix, delay)),
        }
        Ok(())
    }

    /// The number of the path of frames that no prefix fits.
    pub fn others(&self) -> usize {
        self.prefixes.len()
    }

    /// The number of the path of a frame.
    pub fn of(&self, source: IpAddr, destination: IpAddr) -> usize {
        let fits = |(prefix, _): &(Prefix, Time)| prefix.has(source) || prefix.has(destination);
        self.prefixes.iter().position(fits).unwrap_or(self.others())
    }

    pub(crate) fn delay_of(&self, path: usize) -> Time {
        self.prefixes.get(path).map_or(self.delay, |(_, delay)| *delay)
    }

    /// The shortest delay.
    pub fn shortest(&self) -> Time {
        self.prefixes.iter().map(|(_, delay)| *delay).fold(self.delay, Time::min)
    }

    /// The longest delay.
    pub fn longest(&self) -> Time {
        self.prefixes.iter().map(|(_, delay)| *delay).fold(self.delay, Time::max)
    }

    /// Frames come out after this time at the latest.
    pub fn latest(&self) -> Time {
        self.longest() + self.jitter + self.reorder_by
    }
}

fn burst(text: &str) -> Result<f64, String> {
    let frames = quantity(text).ok().filter(|frames| (1.0..=1e6).contains(frames));
    frames.ok_or_else(|| format!("`{text}` is no length of a burst: use 1 to 1M frames"))
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
}
