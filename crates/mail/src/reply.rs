//! Replies of SMTP servers (RFC 5321, section 4.2), taken from bytes that may be anything. Pure.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// A line longer than this is none; RFC 5321, section 4.5.3.1.5, allows 512 bytes.
const LINE: usize = 4096;
/// A reply of more than this does not end; the longest in use, to EHLO, are below 2 KiB.
const REPLY: usize = 16 * 1024;

/// A complete reply in the bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    /// 200..=599.
    pub(crate) code: u16,
    bytes: &'a [u8],
}

/// What is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// No code at the beginning of a line, or lines with different codes.
    Malformed,
    /// Longer than any reply.
    TooLong,
}

impl<'a> Reply<'a> {
    /// The first reply of these bytes and its length; `None` if it is not complete.
    pub(crate) fn first(bytes: &'a [u8]) -> Result<Option<(Reply<'a>, usize)>, NoReply> {
        let (mut code, mut length) = (None, 0);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if line.len() > LINE || length + line.len() > REPLY {
                return Err(NoReply::TooLong);
            }
            if line.last() != Some(&b'\n') {
                return Ok(None);
            }
            length += line.len();
            let (of_line, is_last) = parse(line).ok_or(NoReply::Malformed)?;
            if code.is_some_and(|code| code != of_line) {
                return Err(NoReply::Malformed);
            }
            code = Some(of_line);
            if is_last {
                let bytes = bytes.get(..length).unwrap_or_default();
                return Ok(Some((Reply { code: of_line, bytes }, length)));
            }
        }
        Ok(None)
    }

    /// Its lines without codes.
    pub(crate) fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.split(|&byte| byte == b'\n').filter_map(|line| Some(line.get(4..)?.trim_ascii_end()))
    }
}

/// The code of a line, and whether it is the last one of its reply.
fn parse(line: &[u8]) -> Option<(u16, bool)> {
    let (digits, rest) = line.split_first_chunk::<3>()?;
    let code = digits.iter().try_fold(0, |code: u16, digit| {
        digit.is_ascii_digit().then(|| code * 10 + u16::from(digit - b'0'))
    })?;
    let is_last = match rest.first()? {
        b'-' => false,
        b' ' | b'\r' | b'\n' => true,
        _ => return None,
    };
    (200..600).contains(&code).then_some((code, is_last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_found_in_any_bytes() {
        let long = [b'2'; LINE + 1];
        let endless = b"250-more\r\n".repeat(REPLY / 10 + 1);
        for (bytes, expected) in [
            (&b""[..], Ok(None)),
            (b"220 mx ESMTP\r\n", Ok(Some((220, 14)))),
            (b"250-mx\r\n250-PIPELINING\r\n250 8BITMIME\r\n250 of the next\r\n", Ok(Some((250, 38)))),
            (b"250\r\n", Ok(Some((250, 5)))),
            (b"250 bare\n", Ok(Some((250, 9)))),
            (b"250-mx\r\n25", Ok(None)),
            (b"250-mx\r\n251 x\r\n", Err(NoReply::Malformed)),
            (b"hello\r\n", Err(NoReply::Malformed)),
            (b"199 x\r\n", Err(NoReply::Malformed)),
            (b"600 x\r\n", Err(NoReply::Malformed)),
            (b"2500 x\r\n", Err(NoReply::Malformed)),
            (b"\r\n", Err(NoReply::Malformed)),
            (b"\xff\xfe\n", Err(NoReply::Malformed)),
            (&long, Err(NoReply::TooLong)),
            (&endless, Err(NoReply::TooLong)),
        ] {
            let found = Reply::first(bytes).map(|found| found.map(|(reply, length)| (reply.code, length)));
            assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(bytes.get(..60).unwrap_or(bytes)));
        }
    }

    #[test]
    fn lines_of_a_reply_have_their_text() {
        let (reply, _) = Reply::first(b"250-mx\r\n250-SIZE 10\r\n250 STARTTLS\r\n").unwrap().unwrap();
        assert_eq!(reply.lines().collect::<Vec<_>>(), [&b"mx"[..], b"SIZE 10", b"STARTTLS"]);
    }
}
