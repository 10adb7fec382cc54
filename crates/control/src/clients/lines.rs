//! The lines of a client, as far as their bytes have arrived.
//!
//! Invariant: never more than the longest line and one read are held.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{self, ErrorKind, Read};
use std::time::Instant;

/// Bytes of a read.
const READ_BYTES: usize = 64 << 10;

/// Bytes of a client.
pub(super) struct Lines {
    longest: usize,
    held: Vec<u8>,
    /// So many of them have no line end.
    searched: usize,
    /// When the line began that has not ended.
    pub(super) begun: Option<Instant>,
    /// No more bytes come.
    pub(super) has_ended: bool,
}

/// A line that has more bytes than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    pub(super) fn new(longest: usize) -> Lines {
        Lines { longest, held: Vec::new(), searched: 0, begun: None, has_ended: false }
    }

    /// Takes what has arrived, one read at most.
    pub(super) fn read(&mut self, mut from: impl Read) -> io::Result<()> {
        let mut piece = [0; READ_BYTES];
        match from.read(&mut piece) {
            Ok(0) => self.has_ended = true,
            Ok(read) => {
                self.held.extend_from_slice(piece.get(..read).unwrap_or_default());
                self.begun.get_or_insert_with(Instant::now);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The next whole line, without its end. The end of the bytes also ends a line.
    pub(super) fn next(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        let new = self.held.get(self.searched..).unwrap_or_default();
        let end = new.iter().position(|&byte| byte == b'\n').map(|at| self.searched + at);
        self.searched = self.held.len();
        match end {
            Some(end) => Some(self.take(end)),
            None if self.held.len() > self.longest => Some(Err(TooLong)),
            None if self.has_ended && !self.held.is_empty() => Some(self.take(self.held.len())),
            None => None,
        }
    }

    /// The line of this length.
    fn take(&mut self, length: usize) -> Result<Vec<u8>, TooLong> {
        let rest = self.held.split_off(length);
        let line = std::mem::replace(&mut self.held, rest.get(1..).unwrap_or_default().to_vec());
        self.searched = 0;
        self.begun = (!self.held.is_empty()).then(Instant::now);
        if length > self.longest { Err(TooLong) } else { Ok(line) }
    }

    /// The time of a line that has begun counts from now on: the node did not read before.
    pub(super) fn restart(&mut self) {
        self.begun = self.begun.map(|_| Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines) -> Vec<String> {
        let text = |line: Result<Vec<u8>, TooLong>| {
            line.map_or("too long".into(), |line| String::from_utf8(line).expect("text"))
        };
        let mut found = Vec::new();
        while let Some(line) = lines.next() {
            found.push(text(line));
            if found.last().is_some_and(|line| line == "too long") {
                break;
            }
        }
        found
    }

    #[test]
    fn lines_are_whole_however_their_bytes_arrive() {
        let text = "a\n\nbc\r\nthe end";
        for length in 1..=text.len() {
            let mut lines = Lines::new(7);
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(length) {
                lines.read(piece).expect("bytes");
                found.extend(all(&mut lines));
            }
            assert_eq!(
                (found.as_slice(), lines.begun.is_some()),
                (&["a".into(), String::new(), "bc\r".into()][..], true)
            );
            lines.read(&b""[..]).expect("the end");
            assert_eq!((all(&mut lines), lines.begun), (vec!["the end".to_string()], None));
            assert!(lines.has_ended && all(&mut lines).is_empty());
        }
    }

    #[test]
    fn a_line_has_a_longest_length() {
        for (text, expected) in [
            ("1234567\n1", vec!["1234567"]),
            ("12345678\n", vec!["too long"]),
            ("1\n12345678", vec!["1", "too long"]),
            ("1234567", vec![]),
        ] {
            let mut lines = Lines::new(7);
            lines.read(text.as_bytes()).expect("bytes");
            assert_eq!(all(&mut lines), expected, "{text}");
        }
    }
}
