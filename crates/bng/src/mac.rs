//! MAC addresses as people write them: `02:00:00:00:00:01`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::str::FromStr;

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All stations of a link.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Whether one station can have it: no group address, and not zero.
    pub fn is_station(self) -> bool {
        let [first, ..] = self.0;
        first & 1 == 0 && self.0 != [0; 6]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    /// Reads six bytes of two hexadecimal digits with `:` or `-` between them.
    fn from_str(text: &str) -> Result<Mac, String> {
        let wrong = || format!("`{text}` is no MAC address: use 02:00:00:00:00:01");
        let mut parts = text.split([':', '-']);
        let mut mac = [0; 6];
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            let is_hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| is_hex).ok_or_else(wrong)?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Mac(mac)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let mac = Mac([2, 0, 0, 0xab, 0, 1]);
        assert_eq!(mac.to_string(), "02:00:00:ab:00:01");
        assert_eq!(["02:00:00:ab:00:01", "02-00-00-AB-00-01"].map(str::parse), [Ok(mac), Ok(mac)]);
        for text in ["", "02:00:00:ab:00", "02:00:00:ab:00:01:02", "+2:00:00:ab:00:01", "2:0:0:ab:0:1"] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
        assert!(mac.is_station() && !Mac::BROADCAST.is_station() && !Mac::default().is_station());
    }
}
