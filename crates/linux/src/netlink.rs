//! Netlink: building messages, sending them, reading answers. Synchronous, over one socket.
//!
//! ```text
//! nlmsghdr (16 bytes) | family header | attribute (length, type, value, padding to 4) ...
//! ```
//! A socket stays in the network namespace in which it was opened, whichever thread uses it. Errors carry
//! the kernel's words (NETLINK_EXT_ACK). Source: linux/netlink.h, Documentation/userspace-api/netlink.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use crate::error::{Error, Result};
use crate::sys;

const HEADER_BYTES: usize = 16;
/// Larger than any message of a dump (NLMSG_GOODSIZE up to 32 KiB).
const BUFFER_BYTES: usize = 64 * 1024;
/// linux/netlink.h, not in the libc crate.
const NLMSGERR_ATTR_MSG: u16 = 1;
const NESTED: u16 = libc::NLA_F_NESTED as u16;

/// A request under construction.
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// `kind` is the message type, `flags` what goes beyond NLM_F_REQUEST, `family_header` what follows
    /// the netlink header.
    pub(crate) fn new(kind: u16, flags: libc::c_int, family_header: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(family_header);
        Message(bytes)
    }

    pub(crate) fn attr(mut self, kind: u16, value: &[u8]) -> Message {
        self.0.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn attr_u32(self, kind: u16, value: u32) -> Message {
        self.attr(kind, &value.to_ne_bytes())
    }

    pub(crate) fn attr_text(self, kind: u16, value: &str) -> Message {
        self.attr(kind, &[value.as_bytes(), b"\0"].concat())
    }

    /// An attribute that holds attributes, after `prefix` bytes of a structure.
    pub(crate) fn nest(mut self, kind: u16, prefix: &[u8], fill: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self = self.attr(kind | NESTED, prefix);
        self = fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }
}

/// One message of an answer.
#[derive(Debug)]
pub(crate) struct Reply(Vec<u8>);

impl Reply {
    /// The bytes after the netlink header.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.0
    }

    /// The attributes after a family header of this size.
    pub(crate) fn attrs(&self, family_header: usize) -> Attrs<'_> {
        Attrs(self.0.get(family_header..).unwrap_or_default())
    }
}

/// Attributes as (type without flags, value).
#[derive(Clone)]
pub(crate) struct Attrs<'a>(pub(crate) &'a [u8]);

impl<'a> Attrs<'a> {
    /// The value of the first attribute of this type.
    pub(crate) fn find(&self, kind: u16) -> Option<&'a [u8]> {
        self.clone().find_map(|(found, value)| (found == kind).then_some(value))
    }

    /// The value of an attribute that is a u32.
    pub(crate) fn find_u32(&self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.find(kind)?.get(..4)?.try_into().ok()?))
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & libc::NLA_TYPE_MASK as u16;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// A netlink socket.
pub(crate) struct Socket {
    file: File,
    sequence: u32,
    buffer: Vec<u8>,
}

/// An answer, as far as it has come.
#[derive(Default)]
struct Answer {
    replies: Vec<Reply>,
    /// Its last message has been read.
    done: bool,
    /// The objects changed during the dump (NLM_F_DUMP_INTR).
    changed: bool,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub(crate) fn open(protocol: libc::c_int) -> Result<Socket> {
        let open = || -> io::Result<File> {
            let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
            for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
                sys::set_option(fd.as_fd(), libc::SOL_NETLINK, option, 1)?;
            }
            Ok(File::from(fd))
        };
        let file = open().map_err(Error::os("open a netlink socket"))?;
        Ok(Socket { file, sequence: 0, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Asks for a change and waits for the acknowledgement. `what` is what an error begins with.
    pub(crate) fn request(&mut self, what: &str, message: Message) -> Result<()> {
        self.exchange(what, message, libc::NLM_F_ACK).map(drop)
    }

    /// Asks for one object.
    pub(crate) fn get(&mut self, what: &str, message: Message) -> Result<Vec<Reply>> {
        self.exchange(what, message, libc::NLM_F_ACK)
    }

    /// Asks for all objects, and again if they changed in between.
    pub(crate) fn dump(&mut self, what: &str, message: Message) -> Result<Vec<Reply>> {
        self.exchange(what, message, libc::NLM_F_DUMP)
    }

    fn exchange(&mut self, what: &str, mut message: Message, flags: libc::c_int) -> Result<Vec<Reply>> {
        let flags = flags as u16 | u16_at(&message.0, 6).expect("has a header");
        message.0[6..8].copy_from_slice(&flags.to_ne_bytes());
        loop {
            self.send(&mut message).map_err(Error::os(what))?;
            if let Some(replies) = self.receive(what)? {
                return Ok(replies);
            }
        }
    }

    fn send(&mut self, message: &mut Message) -> io::Result<()> {
        self.sequence += 1;
        let length = message.0.len() as u32;
        message.0[0..4].copy_from_slice(&length.to_ne_bytes());
        message.0[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        // An unconnected netlink socket writes to the kernel (port 0).
        self.file.write_all(&message.0)
    }

    /// All messages of an answer; None if a dump was interrupted by a change.
    fn receive(&mut self, what: &str) -> Result<Option<Vec<Reply>>> {
        let mut answer = Answer::default();
        while !answer.done {
            let length = self.file.read(&mut self.buffer).map_err(Error::os(what))?;
            answer.read(what, &self.buffer[..length], self.sequence)?;
        }
        Ok((!answer.changed).then_some(answer.replies))
    }
}

impl Answer {
    fn read(&mut self, what: &str, mut rest: &[u8], sequence: u32) -> Result<()> {
        while let (Some(length), Some(kind), Some(flags)) =
            (u32_at(rest, 0), u16_at(rest, 4), u16_at(rest, 6))
        {
            let (length, kind) = (length as usize, libc::c_int::from(kind));
            let Some(payload) = rest.get(HEADER_BYTES..length) else { break };
            // What is left of an earlier answer that ended with an error has another number.
            if u32_at(rest, 8) == Some(sequence) {
                self.changed |= flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                match kind {
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        self.done = true;
                        acknowledged(what, payload, kind)?;
                    }
                    _ => self.replies.push(Reply(payload.to_vec())),
                }
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(())
    }
}

/// Reads the error number and text of an NLMSG_ERROR or NLMSG_DONE.
fn acknowledged(what: &str, payload: &[u8], kind: libc::c_int) -> Result<()> {
    let errno = u32_at(payload, 0).unwrap_or(0) as i32;
    if errno >= 0 {
        return Ok(());
    }
    // With NETLINK_CAP_ACK the request's payload is not echoed: error, request's header, attributes.
    let attrs = if kind == libc::NLMSG_ERROR { 4 + HEADER_BYTES } else { 4 };
    let text = Attrs(payload.get(attrs..).unwrap_or_default()).find(NLMSGERR_ATTR_MSG);
    Err(Error::Netlink {
        what: what.into(),
        source: io::Error::from_raw_os_error(-errno),
        text: text.map(c_text).unwrap_or_default(),
    })
}

/// A string that may end with a NUL.
pub(crate) fn c_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let message = Message::new(7, 0, &[1, 2, 3, 4])
            .attr_text(5, "weir")
            .nest(6, &[9, 9, 9, 9], |m| m.attr_u32(1, 70_000).attr(2, &[1]))
            .attr_u32(8, 42);
        let reply = Reply(message.0[HEADER_BYTES..].to_vec());
        let attrs = reply.attrs(4);
        assert_eq!(attrs.find(5).map(c_text).as_deref(), Some("weir"));
        assert_eq!(attrs.find_u32(8), Some(42));
        let nested = attrs.find(6).unwrap();
        assert_eq!(nested[..4], [9, 9, 9, 9]);
        assert_eq!(Attrs(&nested[4..]).find_u32(1), Some(70_000));
        assert_eq!(Attrs(&nested[4..]).find(2), Some(&[1][..]));
        assert_eq!(attrs.find(99), None);
    }

    #[test]
    fn broken_attributes_end_the_list() {
        for bytes in [&[][..], &[8, 0, 1], &[8, 0, 1, 0, 1], &[0, 0, 1, 0], &[3, 0, 0, 0], &[255; 6]] {
            assert_eq!(Attrs(bytes).count(), 0, "{bytes:?}");
        }
    }
}
