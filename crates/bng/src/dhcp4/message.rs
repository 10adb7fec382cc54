//! A message of DHCPv4 (RFC 2131, section 2).
//!
//! ```text
//!   0 op, htype, hlen, hops | 4 xid | 8 secs, flags | 12 ciaddr | 16 yiaddr | 20 siaddr | 24 giaddr
//!  28 chaddr: 16 | 44 sname: 64 | 108 file: 128 | 236 magic cookie | 240 options, end, zeros
//! ```
//! Options that the sender wrote into `file` and `sname` (overload, RFC 2132, section 9.3) stand behind the others, in this order
//! (RFC 3396, section 5); all are written into the field for options.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::Ipv4Addr;

use weir_packet::fields::{be16, be32};

use super::options::{MESSAGE_TYPE, OVERLOAD, Options};
use crate::drops::DropReason;
use crate::mac::Mac;

/// From a client.
pub const BOOTREQUEST: u8 = 1;
/// From a server.
pub const BOOTREPLY: u8 = 2;
/// Flag of a client that receives no unicast before it has an address (RFC 2131, section 2).
pub const BROADCAST: u16 = 0x8000;

const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Bytes before the options.
pub(crate) const FIXED_BYTES: usize = 240;
/// Shortest message that is written: as long as one of BOOTP (RFC 951, section 3), since relays may drop shorter ones.
const LEAST_BYTES: usize = 300;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// [`BOOTREQUEST`] or [`BOOTREPLY`].
    pub op: u8,
    /// How many relays have passed it on.
    pub hops: u8,
    /// Number by which a client knows the answers to its question.
    pub xid: u32,
    /// Seconds since the client began.
    pub secs: u16,
    /// [`BROADCAST`], and others that must be zero.
    pub flags: u16,
    /// Address that the client has.
    pub ciaddr: Ipv4Addr,
    /// Address that it gets.
    pub yiaddr: Ipv4Addr,
    /// Next server of its boot.
    pub siaddr: Ipv4Addr,
    /// The relay.
    pub giaddr: Ipv4Addr,
    /// Ethernet address of the client.
    pub chaddr: Mac,
    /// Name of the server; zeros where options stood there.
    pub sname: [u8; 64],
    /// Name of the boot file; zeros where options stood there.
    pub file: [u8; 128],
    /// All options but [`OVERLOAD`].
    pub options: Options,
}

/// Type of a message (RFC 2132, section 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageType {
    /// The client looks for servers.
    Discover = 1,
    /// A server offers an address.
    Offer = 2,
    /// The client takes an address, asks whether it still has it, or prolongs its lease.
    Request = 3,
    /// Another host uses the address.
    Decline = 4,
    /// The server grants it.
    Ack = 5,
    /// The server refuses it.
    Nak = 6,
    /// The client gives its address back.
    Release = 7,
    /// The client has an address and asks for the rest.
    Inform = 8,
}

impl MessageType {
    const ALL: [MessageType; 8] = [
        MessageType::Discover,
        MessageType::Offer,
        MessageType::Request,
        MessageType::Decline,
        MessageType::Ack,
        MessageType::Nak,
        MessageType::Release,
        MessageType::Inform,
    ];

    /// The type of a number.
    pub fn of(number: u8) -> Option<MessageType> {
        MessageType::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether only servers send it.
    pub fn is_of_server(self) -> bool {
        matches!(self, MessageType::Offer | MessageType::Ack | MessageType::Nak)
    }

    /// Its name: `discover`.
    pub const fn name(self) -> &'static str {
        match self {
            MessageType::Discover => "discover",
            MessageType::Offer => "offer",
            MessageType::Request => "request",
            MessageType::Decline => "decline",
            MessageType::Ack => "ack",
            MessageType::Nak => "nak",
            MessageType::Release => "release",
            MessageType::Inform => "inform",
        }
    }
}

impl Message {
    /// An empty message of a client.
    pub fn request(xid: u32, chaddr: Mac) -> Message {
        let none = Ipv4Addr::UNSPECIFIED;
        Message {
            op: BOOTREQUEST,
            hops: 0,
            xid,
            secs: 0,
            flags: 0,
            ciaddr: none,
            yiaddr: none,
            siaddr: none,
            giaddr: none,
            chaddr,
            sname: [0; 64],
            file: [0; 128],
            options: Options::default(),
        }
    }

    /// Reads the payload of a UDP datagram.
    ///
    /// # Errors
    /// It is no message of DHCP of a host with an Ethernet address, or its options contradict their lengths.
    pub fn read(bytes: &[u8]) -> Result<Message, DropReason> {
        let short = DropReason::DhcpShort;
        let &[op, htype, hlen, hops, ..] = bytes else { return Err(short) };
        let address = |at| be32(bytes, at).map(Ipv4Addr::from).ok_or(short);
        let mut message = Message {
            op,
            hops,
            xid: be32(bytes, 4).ok_or(short)?,
            secs: be16(bytes, 8).ok_or(short)?,
            flags: be16(bytes, 10).ok_or(short)?,
            ciaddr: address(12)?,
            yiaddr: address(16)?,
            siaddr: address(20)?,
            giaddr: address(24)?,
            chaddr: Mac(field(bytes, 28)?),
            sname: field(bytes, 44)?,
            file: field(bytes, 108)?,
            options: Options::default(),
        };
        if bytes.get(236..FIXED_BYTES).is_some_and(|cookie| cookie != COOKIE) {
            return Err(DropReason::DhcpCookie);
        }
        message.options.read(bytes.get(FIXED_BYTES..).ok_or(short)?)?;
        if (htype, hlen) != (1, 6) {
            return Err(DropReason::DhcpHardware);
        }
        message.read_overload()?;
        Ok(message)
    }

    /// Options in the fields `file` and `sname`.
    fn read_overload(&mut self) -> Result<(), DropReason> {
        let Some([overload]) = self.options.fixed::<1>(OVERLOAD)? else { return Ok(()) };
        if !(1..=3).contains(&overload) {
            return Err(DropReason::DhcpOptions);
        }
        if overload & 1 != 0 {
            self.options.read(&std::mem::replace(&mut self.file, [0; 128]))?;
        }
        if overload & 2 != 0 {
            self.options.read(&std::mem::replace(&mut self.sname, [0; 64]))?;
        }
        // Also one that stands within those fields, which says nothing there.
        self.options.remove(OVERLOAD);
        Ok(())
    }

    /// Its type.
    ///
    /// # Errors
    /// It has none, several, or an unknown one.
    pub fn message_type(&self) -> Result<MessageType, DropReason> {
        let number = self.options.fixed::<1>(MESSAGE_TYPE)?;
        number.and_then(|[number]| MessageType::of(number)).ok_or(DropReason::DhcpMessageType)
    }

    /// The payload of a UDP datagram, at least 300 bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEAST_BYTES);
        bytes.extend([self.op, 1, 6, self.hops]);
        bytes.extend(self.xid.to_be_bytes());
        bytes.extend(self.secs.to_be_bytes());
        bytes.extend(self.flags.to_be_bytes());
        for address in [self.ciaddr, self.yiaddr, self.siaddr, self.giaddr] {
            bytes.extend(address.octets());
        }
        bytes.extend(self.chaddr.0);
        bytes.extend([0; 10]);
        bytes.extend(self.sname);
        bytes.extend(self.file);
        bytes.extend(COOKIE);
        bytes.extend(self.options.as_bytes());
        bytes.push(255);
        bytes.resize(bytes.len().max(LEAST_BYTES), 0);
        bytes
    }
}

/// The field at a place.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], DropReason> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(DropReason::DhcpShort)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let mut message = Message::request(0x1234_5678, Mac([2, 0, 0, 0, 0, 1]));
        message.secs = 7;
        message.flags = BROADCAST;
        message.giaddr = Ipv4Addr::new(192, 0, 2, 1);
        message.options.push(MESSAGE_TYPE, &[1]);
        message.options.push(61, &[1, 2, 0, 0, 0, 0, 1]);
        message
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let bytes = message().write();
        assert_eq!(bytes.len(), 300);
        assert_eq!(Message::read(&bytes), Ok(message()));
        assert_eq!(message().message_type(), Ok(MessageType::Discover));
    }

    #[test]
    fn options_overflow_into_file_and_sname() {
        let mut sent = message();
        sent.options.push(OVERLOAD, &[3]);
        sent.options.push(43, &[1, 2]);
        // The last option ends with the field: it needs no end.
        sent.file[..5].copy_from_slice(&[43, 1, 3, 255, 9]);
        sent.sname[62..].copy_from_slice(&[60, 0]);
        let read = Message::read(&sent.write()).unwrap();
        assert_eq!(read.options.get(43).as_deref(), Some(&[1, 2, 3][..]));
        assert!(read.options.has(60) && !read.options.has(OVERLOAD));
        assert_eq!((read.file, read.sname), ([0; 128], [0; 64]));
        assert_eq!(Message::read(&read.write()), Ok(read));
    }

    #[test]
    fn what_is_no_message_is_refused_by_name() {
        let good = message().write();
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Message::read(&bytes).unwrap_err()
        };
        assert_eq!(changed(236, 0), DropReason::DhcpCookie);
        assert_eq!(changed(1, 6), DropReason::DhcpHardware);
        assert_eq!(changed(2, 16), DropReason::DhcpHardware);
        assert_eq!(changed(241, 255), DropReason::DhcpOptions);
        for len in 0..FIXED_BYTES {
            assert!(Message::read(&good[..len]).is_err(), "{len}");
        }
        assert!(Message::read(&good[..FIXED_BYTES]).is_ok(), "without options, without an end");
        let mut bad = message();
        bad.options.push(OVERLOAD, &[4]);
        assert_eq!(Message::read(&bad.write()), Err(DropReason::DhcpOptions));
        bad = message();
        bad.options.push(OVERLOAD, &[1]);
        bad.file[126..].copy_from_slice(&[60, 1]);
        assert_eq!(Message::read(&bad.write()), Err(DropReason::DhcpOptions));
        bad = message();
        bad.options.push(MESSAGE_TYPE, &[1]);
        assert_eq!(bad.message_type(), Err(DropReason::DhcpOptionLength), "two types");
    }
}
