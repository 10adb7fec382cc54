//! Fields of packets in network order, by their place; `None` behind the end of the packet.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

/// The field of two bytes at a place.
#[inline]
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The field of four bytes at a place.
#[inline]
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a field of which the caller knows that it is there: without its bytes nothing is written, and a debug build
/// panics.
#[inline]
pub fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    let place = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    debug_assert!(place.is_some(), "{N} bytes at {at}");
    if let Some(place) = place {
        *place = field;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_up_to_the_end_and_no_further() {
        let mut bytes = [1, 2, 3, 4, 5];
        assert_eq!(
            [0, 3, 4, 5, usize::MAX].map(|at| be16(&bytes, at)),
            [Some(0x102), Some(0x405), None, None, None]
        );
        assert_eq!([1, 2, 9].map(|at| be32(&bytes, at)), [Some(0x0203_0405), None, None]);
        put(&mut bytes, 3, 0xaabb_u16.to_be_bytes());
        assert_eq!(bytes, [1, 2, 3, 0xaa, 0xbb]);
    }
}
