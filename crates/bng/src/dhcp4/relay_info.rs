//! What an access node or a relay says of a line (option 82, RFC 3046).
//!
//! ```text
//!  1, length, circuit-id | 2, length, remote-id | other sub-options
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use crate::drops::DropReason;

/// Agent circuit ID.
pub const CIRCUIT_ID: u8 = 1;
/// Agent remote ID.
pub const REMOTE_ID: u8 = 2;

/// The first sub-option of a code, byte for byte; `None`: there is none.
///
/// # Errors
/// A sub-option is longer than the rest of option 82.
pub fn sub_option(mut option: &[u8], code: u8) -> Result<Option<&[u8]>, DropReason> {
    let mut found = None;
    while let [number, len, rest @ ..] = option {
        let (value, behind) = rest.split_at_checked((*len).into()).ok_or(DropReason::Option82Malformed)?;
        if *number == code && found.is_none() {
            found = Some(value);
        }
        option = behind;
    }
    if option.is_empty() { Ok(found) } else { Err(DropReason::Option82Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_options_are_found_byte_for_byte() {
        let option = [1, 3, 0, 4, 255, 2, 0, 9, 1, 7, 1, 1, 8];
        assert_eq!(sub_option(&option, CIRCUIT_ID), Ok(Some(&[0, 4, 255][..])));
        assert_eq!(sub_option(&option, REMOTE_ID), Ok(Some(&[][..])));
        assert_eq!(sub_option(&option, 3), Ok(None));
        for bad in [&[1][..], &[1, 2, 9], &[2, 0, 1]] {
            assert_eq!(sub_option(bad, CIRCUIT_ID), Err(DropReason::Option82Malformed), "{bad:?}");
        }
    }
}
