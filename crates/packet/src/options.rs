//! Options behind the headers of IPv4 (RFC 791, section 3.1) and TCP (RFC 9293, section 3.1), which have one form.
//!
//! ```text
//!  0: the end | 1: filler, a byte alone | kind, length of the whole, value | ...
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

/// The options in their order, each whole: its kind first, then its length if it is no filler. They end before one that is
/// shorter than its own head or longer than the rest.
#[inline]
pub fn options(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let bytes = match *rest {
            [] | [0, ..] => return None,
            [1, ..] => 1,
            [_, bytes, ..] if bytes >= 2 => bytes.into(),
            _ => return None,
        };
        let (option, behind) = rest.split_at_checked(bytes)?;
        rest = behind;
        Some(option)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_where_they_say_nothing_that_can_be_read() {
        for (bytes, expected) in [
            (&[][..], &[][..]),
            (&[1, 2, 4, 5, 180, 0, 9], &[&[1][..], &[2, 4, 5, 180]]),
            (&[3, 3, 7, 8, 2], &[&[3, 3, 7], &[8, 2]]),
            (&[1, 7, 1, 1], &[&[1]]),
            (&[1, 7, 0, 1], &[&[1]]),
            (&[1, 7, 4, 1], &[&[1]]),
            (&[1, 7], &[&[1]]),
        ] {
            assert_eq!(options(bytes).collect::<Vec<_>>(), expected, "{bytes:?}");
        }
    }
}
