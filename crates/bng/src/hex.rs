//! Bytes that need not be a text, as one word: `eth0/1:100` where all of them are plain letters, else `0x0104`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;

/// Shows bytes as one word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a>(pub(crate) &'a [u8]);

/// A letter that a word may contain without being misread as the end of an item.
fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b',' | b'#' | b'(' | b')')
}

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::str::from_utf8(self.0).ok();
        match text.filter(|text| !text.is_empty() && self.0.iter().all(is_plain) && !text.starts_with("0x")) {
            Some(text) => f.write_str(text),
            None => {
                f.write_str("0x")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// The bytes of a word; `None`: no bytes in hexadecimal digits follow `0x`.
pub(crate) fn bytes(word: &str) -> Option<Vec<u8>> {
    let Some(digits) = word.strip_prefix("0x") else { return Some(word.as_bytes().to_vec()) };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for (of, word) in [
            (&b"eth0/1:100"[..], "eth0/1:100"),
            (b"", "0x"),
            (b"0x1", "0x307831"),
            (b"a b", "0x612062"),
            (b"a,b", "0x612c62"),
            (&[1, 4, 0xff], "0x0104ff"),
            ("é".as_bytes(), "0xc3a9"),
        ] {
            assert_eq!(Word(of).to_string(), word);
            assert_eq!(bytes(word).as_deref(), Some(of), "{word}");
        }
        assert_eq!([bytes("0x1"), bytes("0x+1"), bytes("0xgg")], [None, None, None]);
    }
}
