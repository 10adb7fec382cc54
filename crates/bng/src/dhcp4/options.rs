//! Options of DHCPv4 (RFC 2132), in the order and number in which they were sent.
//!
//! ```text
//!  0: filler | 255: the end | code, length of the value, value | ...
//! ```
//! Several options of one code are one option in parts (RFC 3396): [`Options::get`] joins them, and [`Options::push`] writes
//! a value of more than 255 bytes so. What is not understood stays as it is.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::borrow::Cow;
use std::net::Ipv4Addr;

use crate::drops::DropReason;

/// Subnet mask.
pub const SUBNET_MASK: u8 = 1;
/// Routers of the subnet.
pub const ROUTER: u8 = 3;
/// Name servers.
pub const DNS: u8 = 6;
/// The address that a client asks for.
pub const REQUESTED_ADDRESS: u8 = 50;
/// How long a lease is, s.
pub const LEASE_TIME: u8 = 51;
/// Which of the fields `file` and `sname` hold options.
pub const OVERLOAD: u8 = 52;
/// Type of the message.
pub const MESSAGE_TYPE: u8 = 53;
/// The address of the server.
pub const SERVER_ID: u8 = 54;
/// Codes of options that the client wants.
pub const PARAMETER_LIST: u8 = 55;
/// Text of an error.
pub const ERROR_TEXT: u8 = 56;
/// Longest message that the client accepts.
pub const MAX_SIZE: u8 = 57;
/// When to renew a lease (T1), s after it was granted.
pub const RENEWAL_TIME: u8 = 58;
/// When to rebind a lease (T2), s after it was granted.
pub const REBINDING_TIME: u8 = 59;
/// Client identifier.
pub const CLIENT_ID: u8 = 61;
/// Relay agent information (RFC 3046).
pub const RELAY_INFO: u8 = 82;
/// URI of the captive-portal API (RFC 8910).
pub const CAPTIVE_PORTAL: u8 = 114;
/// Classless static routes (RFC 3442).
pub const CLASSLESS_ROUTES: u8 = 121;
/// The same for clients of Microsoft.
pub const CLASSLESS_ROUTES_MS: u8 = 249;

const PAD: u8 = 0;
const END: u8 = 255;
/// Most bytes of a value in one part.
const MOST_BYTES: usize = 255;

/// Options, each code 1 to 254 with its value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Code, length, value of each; no filler and no end.
    bytes: Vec<u8>,
}

impl Options {
    /// Takes in the options of a field, up to its end or an option that says so.
    ///
    /// # Errors
    /// An option is longer than the rest of the message.
    pub(crate) fn read(&mut self, mut field: &[u8]) -> Result<(), DropReason> {
        loop {
            match field {
                [] | [END, ..] => return Ok(()),
                [PAD, rest @ ..] => field = rest,
                [code, len, rest @ ..] => {
                    let (value, behind) =
                        rest.split_at_checked((*len).into()).ok_or(DropReason::DhcpOptions)?;
                    self.push_part(*code, value);
                    field = behind;
                }
                [_] => return Err(DropReason::DhcpOptions),
            }
        }
    }

    /// A part of at most 255 bytes.
    fn push_part(&mut self, code: u8, value: &[u8]) {
        self.bytes.push(code);
        self.bytes.push(u8::try_from(value.len()).unwrap_or(u8::MAX));
        self.bytes.extend(value.iter().take(MOST_BYTES));
    }

    /// Adds an option behind the others, in parts if it is long.
    pub fn push(&mut self, code: u8, value: &[u8]) {
        if value.is_empty() {
            self.push_part(code, value);
        }
        value.chunks(MOST_BYTES).for_each(|part| self.push_part(code, part));
    }

    /// Code and value of each, as they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let [code, len, behind @ ..] = rest else { return None };
            let (value, behind) = behind.split_at_checked((*len).into())?;
            rest = behind;
            Some((*code, value))
        })
    }

    /// The value of an option, its parts joined; `None`: there is none of this code.
    pub fn get(&self, code: u8) -> Option<Cow<'_, [u8]>> {
        let mut parts = self.iter().filter(|(found, _)| *found == code).map(|(_, value)| value);
        let first = parts.next()?;
        Some(parts.fold(Cow::Borrowed(first), |mut value, part| {
            value.to_mut().extend(part);
            value
        }))
    }

    /// Whether there is an option of this code.
    pub fn has(&self, code: u8) -> bool {
        self.iter().any(|(found, _)| found == code)
    }

    /// Takes out all options of a code.
    pub fn remove(&mut self, code: u8) {
        let mut rest = Options::default();
        for (found, value) in self.iter().filter(|(found, _)| *found != code) {
            rest.push_part(found, value);
        }
        *self = rest;
    }

    /// The value of an option of so many bytes.
    ///
    /// # Errors
    /// It has another length.
    pub fn fixed<const N: usize>(&self, code: u8) -> Result<Option<[u8; N]>, DropReason> {
        let Some(value) = self.get(code) else { return Ok(None) };
        <[u8; N]>::try_from(&*value).map(Some).map_err(|_| DropReason::DhcpOptionLength)
    }

    /// The address that an option holds.
    ///
    /// # Errors
    /// It has another length.
    pub fn address(&self, code: u8) -> Result<Option<Ipv4Addr>, DropReason> {
        Ok(self.fixed::<4>(code)?.map(Ipv4Addr::from))
    }

    /// Adds addresses.
    pub fn push_addresses(&mut self, code: u8, addresses: &[Ipv4Addr]) {
        let bytes: Vec<u8> = addresses.iter().flat_map(Ipv4Addr::octets).collect();
        self.push(code, &bytes);
    }

    /// Adds a time, s.
    pub fn push_seconds(&mut self, code: u8, seconds: u32) {
        self.push(code, &seconds.to_be_bytes());
    }

    /// Bytes that they take in a message, without an end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: &[u8]) -> Result<Options, DropReason> {
        let mut options = Options::default();
        options.read(field).map(|()| options)
    }

    #[test]
    fn order_doubles_and_unknown_options_are_kept() {
        let options =
            read(&[0, 53, 1, 1, 224, 2, 9, 9, 0, 61, 1, 7, 224, 0, 61, 2, 8, 9, 255, 1, 2]).unwrap();
        let seen: Vec<_> = options.iter().collect();
        assert_eq!(
            seen,
            [(53, &[1][..]), (224, &[9, 9]), (61, &[7]), (224, &[]), (61, &[8, 9])],
            "in the order of the message"
        );
        assert_eq!(options.get(61).as_deref(), Some(&[7, 8, 9][..]), "parts are joined (RFC 3396)");
        assert_eq!(options.get(62), None);
        assert_eq!(options.fixed::<4>(53), Err(DropReason::DhcpOptionLength));
        assert_eq!(options.fixed::<1>(53), Ok(Some([1])));
    }

    #[test]
    fn options_longer_than_their_field_are_refused() {
        for field in [&[53][..], &[53, 2, 1], &[1, 4, 255, 255, 255], &[0, 0, 9]] {
            assert_eq!(read(field), Err(DropReason::DhcpOptions), "{field:?}");
        }
        for field in [&[][..], &[0, 0], &[255], &[53, 1, 1], &[53, 0]] {
            assert!(read(field).is_ok(), "{field:?}");
        }
    }

    #[test]
    fn long_values_are_written_in_parts() {
        for len in [0, 1, 255, 256, 510, 511, 1000] {
            let value: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut options = Options::default();
            options.push(43, &value);
            options.push(1, &[255, 255, 255, 0]);
            let again = read(options.as_bytes()).unwrap();
            assert_eq!(again, options);
            assert_eq!(again.get(43).as_deref(), Some(&*value), "{len}");
            options.remove(43);
            assert_eq!(options.as_bytes(), [1, 4, 255, 255, 255, 0]);
        }
    }
}
