//! Quotas of MikroTik's dictionary: bytes, and how many times 4 GiB beyond (Gigawords).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::attribute::Attributes;
use crate::account::Limits;

/// MikroTik.
const VENDOR: u32 = 14988;
/// Mikrotik-Recv-Limit and its Gigawords: from the subscriber.
const UP: (u8, u8) = (1, 14);
/// Mikrotik-Xmit-Limit: to the subscriber.
const DOWN: (u8, u8) = (2, 15);
/// Mikrotik-Total-Limit.
const TOTAL: (u8, u8) = (17, 18);

/// Whether an attribute of a vendor is a quota.
pub fn is_quota(vendor: u32, kind: u8) -> bool {
    let kinds = [UP, DOWN, TOTAL];
    vendor == VENDOR && kinds.iter().any(|(low, high)| [*low, *high].contains(&kind))
}

/// The quotas of an Accept or a CoA-Request.
///
/// # Errors
/// A value is no number of four bytes.
pub fn quotas(attributes: &Attributes) -> Result<Limits, String> {
    let word = |kind: u8| {
        let value = attributes.of_vendor(VENDOR, kind).next();
        let number = |value: &[u8]| {
            let bytes: [u8; 4] = value.try_into().ok()?;
            Some(u64::from(u32::from_be_bytes(bytes)))
        };
        let wrong = || format!("attribute {kind} of vendor {VENDOR} is no number of four bytes");
        value.map(|value| number(value).ok_or_else(wrong)).transpose()
    };
    let bytes = |(low, high): (u8, u8)| -> Result<Option<u64>, String> {
        Ok(match (word(low)?, word(high)?) {
            (None, None) => None,
            (low, high) => Some(high.unwrap_or(0) << 32 | low.unwrap_or(0)),
        })
    };
    Ok(Limits {
        up_bytes: bytes(UP)?,
        down_bytes: bytes(DOWN)?,
        total_bytes: bytes(TOTAL)?,
        ..Limits::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_beyond_four_gigabytes_are_read() {
        let mut attributes = Attributes::default();
        attributes.push_vendor(VENDOR, 17, &7_u32.to_be_bytes());
        attributes.push_vendor(VENDOR, 18, &3_u32.to_be_bytes());
        attributes.push_vendor(VENDOR, 1, &9_u32.to_be_bytes());
        let total_bytes = Some((3 << 32) + 7);
        assert_eq!(quotas(&attributes), Ok(Limits { total_bytes, up_bytes: Some(9), ..Limits::default() }));
        attributes.push_vendor(VENDOR, 2, &[1]);
        assert!(quotas(&attributes).is_err());
        assert!(is_quota(VENDOR, 15) && !is_quota(VENDOR, 8) && !is_quota(9, 1));
    }
}
