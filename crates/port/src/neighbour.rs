//! A packet socket for ARP and neighbour discovery on one interface, and for nothing else: a filter in the kernel
//! keeps the test frames away.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::packet::{PacketError, bind, raw_socket, set, set_at};

/// Larger than any of these frames.
const LONGEST: usize = 256;

/// Sends and receives frames about neighbours.
#[derive(Debug)]
pub struct NeighbourSocket {
    fd: OwnedFd,
    ifindex: u32,
}

/// Kernel code that lets ARP pass, and ICMPv6 of the types 135 and 136. Offsets are those of an Ethernet frame.
fn filter() -> [libc::sock_filter; 10] {
    const HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // Steps to skip if it is, if it is not.
    let code = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        code(HALF, 0, 0, 12),
        code(IS, 6, 0, 0x0806),
        code(IS, 0, 6, 0x86dd),
        code(BYTE, 0, 0, 20),
        code(IS, 0, 4, 58),
        code(BYTE, 0, 0, 54),
        code(IS, 1, 0, 135),
        code(IS, 0, 1, 136),
        code(RETURN, 0, 0, LONGEST as u32),
        code(RETURN, 0, 0, 0),
    ]
}

impl NeighbourSocket {
    /// Opens the socket. While it is open, the interface takes all multicast frames, as questions about an address
    /// that the kernel does not have come to multicast addresses of their own.
    pub fn open(ifindex: u32) -> Result<Self, PacketError> {
        let fail = |step| move |source| PacketError { ifindex, step, source };
        let fd = raw_socket().map_err(fail("opening"))?;
        let mut code = filter();
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
        set_at(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program).map_err(fail("filtering"))?;
        // SAFETY: all-zero is a valid request; the fields that matter are set below.
        let mut all_multicast: libc::packet_mreq = unsafe { std::mem::zeroed() };
        all_multicast.mr_ifindex = ifindex as i32;
        all_multicast.mr_type = libc::PACKET_MR_ALLMULTI as u16;
        set(&fd, libc::PACKET_ADD_MEMBERSHIP, &all_multicast).map_err(fail("joining groups"))?;
        set(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32).map_err(fail("ignoring own frames"))?;
        bind(&fd, ifindex, libc::ETH_P_ALL as u16).map_err(fail("binding"))?;
        Ok(NeighbourSocket { fd, ifindex })
    }

    /// Sends a frame.
    pub fn send(&self, frame: &[u8]) -> Result<(), PacketError> {
        // SAFETY: pointer and length describe `frame`.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(self.failed("sending")) } else { Ok(()) }
    }

    /// The next frame, if one comes in time.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Vec<u8>>, PacketError> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd.
        match unsafe { libc::poll(&mut poll, 1, timeout.as_millis() as i32) } {
            0 => return Ok(None),
            n if n < 0 => return self.unless_interrupted("waiting"),
            _ => {}
        }
        let mut frame = vec![0; LONGEST];
        // SAFETY: pointer and length describe `frame`.
        let length = unsafe {
            libc::recv(self.fd.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if length < 0 {
            return self.unless_interrupted("receiving");
        }
        frame.truncate(length as usize);
        Ok(Some(frame))
    }

    fn unless_interrupted(&self, step: &'static str) -> Result<Option<Vec<u8>>, PacketError> {
        let error = self.failed(step);
        match error.source.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        }
    }

    fn failed(&self, step: &'static str) -> PacketError {
        PacketError { ifindex: self.ifindex, step, source: io::Error::last_os_error() }
    }
}
