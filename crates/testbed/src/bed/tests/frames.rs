//! UDP frames by hand and packet sockets: tests must not trust the code that they test.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::*;

/// A UDP frame, parsed or to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) to_mac: Mac,
    pub(super) from_mac: Mac,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) ports: (u16, u16),
    pub(super) hops: u8,
    pub(super) payload: Vec<u8>,
    /// Built with a wrong UDP checksum.
    pub(super) spoilt: bool,
}

impl Frame {
    /// Flow number `flow` from this side to the other.
    pub(super) fn new(ip: IpVersion, from: Side, flow: u16) -> Frame {
        let to = if from == Side::A { Side::B } else { Side::A };
        Frame {
            to_mac: [0; 6],
            from_mac: [0; 6],
            source: host(from, ip),
            destination: host(to, ip),
            ports: (10_000 + flow, 9),
            hops: 64,
            payload: format!("weir test {flow:08}").into_bytes(),
            spoilt: false,
        }
    }

    pub(super) fn reply(&self) -> Frame {
        Frame {
            source: self.destination,
            destination: self.source,
            ports: (self.ports.1, self.ports.0),
            ..self.clone()
        }
    }

    /// The bytes that go out of this port.
    pub(super) fn to(&self, port: &Port) -> Vec<u8> {
        let mut udp = vec![];
        let length = (8 + self.payload.len()) as u16;
        for word in [self.ports.0, self.ports.1, length, 0] {
            udp.extend(word.to_be_bytes());
        }
        udp.extend(&self.payload);
        let (source, destination) = (octets(self.source), octets(self.destination));
        let pseudo = [&source[..], &destination, &[0, 17], &length.to_be_bytes()].concat();
        let sum = checksum(&[&pseudo[..], &udp].concat()) ^ u16::from(self.spoilt);
        udp[6..8].copy_from_slice(&sum.to_be_bytes());

        let mut frame = [port.next_hop_mac, port.mac].concat();
        if self.source.is_ipv4() {
            let mut header = vec![0x45, 0];
            header.extend((20 + length).to_be_bytes());
            header.extend([0, 0, 0x40, 0, self.hops, 17, 0, 0]);
            header.extend([source, destination].concat());
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([0x08, 0x00]);
            frame.extend(header);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([17, self.hops]);
            frame.extend([source, destination].concat());
        }
        frame.extend(udp);
        frame
    }

    /// A UDP frame of a test, or None.
    fn parse(bytes: &[u8]) -> Option<Frame> {
        let mac = |at: usize| bytes[at..at + 6].try_into().ok();
        let ip = bytes.get(14..)?;
        let (source, destination, hops, udp): (IpAddr, IpAddr, u8, &[u8]) = match bytes.get(12..14)? {
            [0x08, 0x00] if ip[9] == 17 => {
                assert_eq!(checksum(&ip[..20]), 0, "the IP checksum is right");
                let address = |at: usize| <[u8; 4]>::try_from(&ip[at..at + 4]).unwrap().into();
                (address(12), address(16), ip[8], &ip[20..])
            }
            [0x86, 0xdd] if ip[6] == 17 => {
                let address = |at: usize| <[u8; 16]>::try_from(&ip[at..at + 16]).unwrap().into();
                (address(8), address(24), ip[7], &ip[40..])
            }
            _ => return None,
        };
        let word = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
        let payload = udp[8..usize::from(word(4))].to_vec();
        let frame = Frame {
            to_mac: mac(0)?,
            from_mac: mac(6)?,
            source,
            destination,
            ports: (word(0), word(2)),
            hops,
            payload,
            spoilt: false,
        };
        frame.payload.starts_with(b"weir test").then_some(frame)
    }
}

fn host(side: Side, ip: IpVersion) -> IpAddr {
    match side.network(ip).0 {
        // An address that a /24 or /64 around the DUT's own would take for a broadcast or a neighbour.
        IpAddr::V4(network) => {
            let [a, b, ..] = network.octets();
            [a, b, 1, 255].into()
        }
        IpAddr::V6(network) => {
            let mut groups = network.segments();
            (groups[3], groups[7]) = (1, 0x55);
            groups.into()
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An AF_PACKET socket on one port.
pub(super) struct PacketSocket(File);

impl PacketSocket {
    pub(super) fn open(port: &Port) -> PacketSocket {
        port.namespace.run(|| PacketSocket(File::from(Self::bind(port.ifindex).unwrap())))
    }

    fn bind(ifindex: u32) -> io::Result<OwnedFd> {
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        sys::set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Frames count against the sender's buffer until IP takes them: the default stands for 277 small
        // ones, and a sender that waits for room never fills a backlog of 1000. Not without privileges.
        let _ = sys::set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 1 << 26);
        // A lost frame ends the test instead of hanging it.
        let limit = libc::timeval { tv_sec: 60, tv_usec: 0 };
        let (size, level, name) = (size_of_val(&limit) as u32, libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        // SAFETY: pointer and size describe `limit`.
        sys::check(unsafe {
            libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const limit).cast(), size)
        })?;
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: ifindex as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: pointer and size describe `address`.
        sys::check(unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32)
        })?;
        Ok(fd)
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        (&self.0).write_all(frame)
    }

    /// The next test frame.
    pub(super) fn receive(&self) -> Frame {
        let mut buffer = [0; 2048];
        loop {
            let length = (&self.0).read(&mut buffer).expect("a test frame within a minute");
            if let Some(frame) = Frame::parse(&buffer[..length]) {
                return frame;
            }
        }
    }
}
