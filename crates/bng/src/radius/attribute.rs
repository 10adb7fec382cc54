//! Attributes, in the order in which they were sent.
//!
//! ```text
//! type: 1 | length with this header: 1 | value          26 (Vendor-Specific): vendor: 4 | type: 1 | length: 1 | value
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

/// Numbers of attributes, by their names in the RFCs.
#[allow(missing_docs)]
pub mod number {
    pub const USER_NAME: u8 = 1;
    pub const USER_PASSWORD: u8 = 2;
    pub const CHAP_PASSWORD: u8 = 3;
    pub const NAS_IP_ADDRESS: u8 = 4;
    pub const NAS_PORT: u8 = 5;
    pub const SERVICE_TYPE: u8 = 6;
    pub const FRAMED_PROTOCOL: u8 = 7;
    pub const FRAMED_IP_ADDRESS: u8 = 8;
    pub const FRAMED_IP_NETMASK: u8 = 9;
    pub const FILTER_ID: u8 = 11;
    pub const FRAMED_MTU: u8 = 12;
    pub const REPLY_MESSAGE: u8 = 18;
    pub const FRAMED_ROUTE: u8 = 22;
    pub const STATE: u8 = 24;
    pub const CLASS: u8 = 25;
    pub const VENDOR_SPECIFIC: u8 = 26;
    pub const SESSION_TIMEOUT: u8 = 27;
    pub const IDLE_TIMEOUT: u8 = 28;
    pub const CALLED_STATION_ID: u8 = 30;
    pub const CALLING_STATION_ID: u8 = 31;
    pub const NAS_IDENTIFIER: u8 = 32;
    pub const PROXY_STATE: u8 = 33;
    pub const ACCT_STATUS_TYPE: u8 = 40;
    pub const ACCT_DELAY_TIME: u8 = 41;
    pub const ACCT_INPUT_OCTETS: u8 = 42;
    pub const ACCT_OUTPUT_OCTETS: u8 = 43;
    pub const ACCT_SESSION_ID: u8 = 44;
    pub const ACCT_AUTHENTIC: u8 = 45;
    pub const ACCT_SESSION_TIME: u8 = 46;
    pub const ACCT_INPUT_PACKETS: u8 = 47;
    pub const ACCT_OUTPUT_PACKETS: u8 = 48;
    pub const ACCT_TERMINATE_CAUSE: u8 = 49;
    pub const ACCT_INPUT_GIGAWORDS: u8 = 52;
    pub const ACCT_OUTPUT_GIGAWORDS: u8 = 53;
    pub const EVENT_TIMESTAMP: u8 = 55;
    pub const CHAP_CHALLENGE: u8 = 60;
    pub const NAS_PORT_TYPE: u8 = 61;
    pub const MESSAGE_AUTHENTICATOR: u8 = 80;
    pub const ACCT_INTERIM_INTERVAL: u8 = 85;
    pub const NAS_PORT_ID: u8 = 87;
    pub const FRAMED_POOL: u8 = 88;
    pub const CHARGEABLE_USER_IDENTITY: u8 = 89;
    pub const NAS_IPV6_ADDRESS: u8 = 95;
    pub const FRAMED_INTERFACE_ID: u8 = 96;
    pub const FRAMED_IPV6_PREFIX: u8 = 97;
    pub const FRAMED_IPV6_ROUTE: u8 = 99;
    pub const FRAMED_IPV6_POOL: u8 = 100;
    pub const ERROR_CAUSE: u8 = 101;
    pub const DELEGATED_IPV6_PREFIX: u8 = 123;
    pub const FRAMED_IPV6_ADDRESS: u8 = 168;
    pub const DNS_SERVER_IPV6_ADDRESS: u8 = 169;
    pub const DELEGATED_IPV6_PREFIX_POOL: u8 = 171;
}

/// Enterprise numbers of vendors.
pub mod vendor {
    /// Microsoft (RFC 2548).
    pub const MICROSOFT: u32 = 311;
    /// Broadband Forum, of lines (RFC 4679).
    pub const ADSL_FORUM: u32 = 3561;
}

/// Most bytes of a value.
pub const MOST_BYTES: usize = 253;

/// Attributes with their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    bytes: Vec<u8>,
}

impl Attributes {
    /// Reads what is behind the header of a packet; `None`: a length contradicts the rest.
    pub fn read(bytes: &[u8]) -> Option<Attributes> {
        let mut rest = bytes;
        while let [_, len, ..] = rest {
            rest = rest.get(usize::from(*len)..).filter(|_| *len >= 2)?;
        }
        rest.is_empty().then(|| Attributes { bytes: bytes.to_vec() })
    }

    /// Adds an attribute; a value above 253 bytes is cut, an empty one is left out (RFC 2865, section 5).
    pub fn push(&mut self, kind: u8, value: &[u8]) {
        let value = value.get(..value.len().min(MOST_BYTES)).unwrap_or_default();
        if !value.is_empty() {
            let len = u8::try_from(value.len().saturating_add(2)).unwrap_or(u8::MAX);
            self.bytes.extend([kind, len]);
            self.bytes.extend(value);
        }
    }

    /// Adds an attribute as it was read, also one without a value.
    pub(super) fn push_raw(&mut self, kind: u8, value: &[u8]) {
        self.bytes.extend([kind, u8::try_from(value.len().saturating_add(2)).unwrap_or(u8::MAX)]);
        self.bytes.extend(value.iter().take(MOST_BYTES));
    }

    /// Adds a number of four bytes.
    pub fn push_u32(&mut self, kind: u8, value: u32) {
        self.push(kind, &value.to_be_bytes());
    }

    /// Adds an attribute of a vendor; a value above 247 bytes is cut.
    pub fn push_vendor(&mut self, vendor: u32, kind: u8, value: &[u8]) {
        let value = value.get(..value.len().min(MOST_BYTES.saturating_sub(6))).unwrap_or_default();
        let len = u8::try_from(value.len().saturating_add(2)).unwrap_or(u8::MAX);
        let whole = [&vendor.to_be_bytes()[..], &[kind, len], value].concat();
        self.push(number::VENDOR_SPECIFIC, &whole);
    }

    /// Type and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let [kind, len, behind @ ..] = rest else { return None };
            let (value, behind) = behind.split_at_checked(usize::from(*len).checked_sub(2)?)?;
            rest = behind;
            Some((*kind, value))
        })
    }

    /// The values of a type.
    pub fn all(&self, kind: u8) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The first value of a type.
    pub fn get(&self, kind: u8) -> Option<&[u8]> {
        self.all(kind).next()
    }

    /// The first value of a type, if it has as many bytes.
    pub fn fixed<const N: usize>(&self, kind: u8) -> Option<[u8; N]> {
        self.get(kind)?.try_into().ok()
    }

    /// The first value of a type, as a number of four bytes.
    pub fn u32(&self, kind: u8) -> Option<u32> {
        self.fixed(kind).map(u32::from_be_bytes)
    }

    /// The first value of a type as a text; other bytes than those of UTF-8 are replaced.
    pub fn text(&self, kind: u8) -> Option<String> {
        self.get(kind).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Attributes of vendors: vendor, type and value. Those of another form than the usual one are left out.
    pub fn vendors(&self) -> impl Iterator<Item = (u32, u8, &[u8])> {
        self.all(number::VENDOR_SPECIFIC).flat_map(|value| {
            let (vendor, mut rest) = value.split_first_chunk().unwrap_or((&[0; 4], &[]));
            let vendor = u32::from_be_bytes(*vendor);
            std::iter::from_fn(move || {
                let [kind, len, behind @ ..] = rest else { return None };
                let (value, behind) = behind.split_at_checked(usize::from(*len).checked_sub(2)?)?;
                rest = behind;
                Some((vendor, *kind, value))
            })
        })
    }

    /// The values of a vendor's type.
    pub fn of_vendor(&self, vendor: u32, kind: u8) -> impl Iterator<Item = &[u8]> {
        self.vendors()
            .filter(move |(of, found, _)| (*of, *found) == (vendor, kind))
            .map(|(_, _, value)| value)
    }

    /// Adds all of others behind these.
    pub fn extend(&mut self, others: &Attributes) {
        self.bytes.extend(&others.bytes);
    }

    /// As they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let mut attributes = Attributes::default();
        attributes.push(number::USER_NAME, b"anna@isp");
        attributes.push_u32(number::NAS_PORT, 7);
        attributes.push_vendor(vendor::ADSL_FORUM, 1, b"eth0/1");
        attributes.push(number::CLASS, b"");
        attributes.push(number::CLASS, &[7; 300]);
        let read = Attributes::read(attributes.as_bytes()).unwrap();
        assert_eq!(read, attributes);
        assert_eq!(read.text(number::USER_NAME).as_deref(), Some("anna@isp"));
        assert_eq!(read.u32(number::NAS_PORT), Some(7));
        assert_eq!(read.of_vendor(vendor::ADSL_FORUM, 1).next(), Some(&b"eth0/1"[..]));
        assert_eq!(read.all(number::CLASS).map(<[u8]>::len).collect::<Vec<_>>(), [253]);
    }

    #[test]
    fn several_attributes_of_a_vendor_in_one_are_read_and_damaged_ones_left_out() {
        let mut attributes = Attributes::default();
        attributes.push(26, &[0, 0, 0, 9, 1, 3, b'a', 2, 3, b'b', 3, 9]);
        attributes.push(26, &[0, 0]);
        let found: Vec<_> = attributes.vendors().collect();
        assert_eq!(found, [(9, 1, &b"a"[..]), (9, 2, b"b")]);
        for bad in [&[1][..], &[1, 0], &[1, 1, 0], &[1, 3]] {
            assert_eq!(Attributes::read(bad), None, "{bad:?}");
        }
    }
}
