//! A TAP device: what the machine sends by it arrives here, and what is sent here arrives at the machine. A system call
//! for each frame.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::{Account, BATCH, CaptureError, Chunk, FRONT, Lost, Pool, Port};
use crate::capture::Interface;

/// linux/if_tun.h.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;

/// The node's side of a TAP device.
pub struct Tap {
    file: File,
    interface: Interface,
    received: u64,
    sent: u64,
    lost: Lost,
    stopped: bool,
}

impl Tap {
    /// Opens the device of this name, in the calling thread's network namespace, makes it if there is none, gives it the
    /// Ethernet address `mac` if one is given, and sets it up. One that it made vanishes with it.
    ///
    /// # Errors
    /// No permission, no such name.
    pub fn open(name: &str, mac: Option<[u8; 6]>) -> Result<Tap, CaptureError> {
        let refused =
            |step| move |source| CaptureError::Refused { interface: name.to_string(), step, source };
        if CString::new(name).is_err() || name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(CaptureError::Option(format!("`{name}` is no name of an interface")));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/net/tun").map_err(refused("opening /dev/net/tun"))?;
        // SAFETY: all-zero is a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
        // SAFETY: the kernel reads and writes one ifreq.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &mut request) };
        if done < 0 {
            return Err(refused("making it")(io::Error::last_os_error()));
        }
        // The machine finishes checksums and cuts segments itself, whatever an earlier owner of the device promised to do.
        // SAFETY: an open device, and a number.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0) };
        if done < 0 {
            return Err(refused("asking for whole frames")(io::Error::last_os_error()));
        }
        let interface = Interface::named(name)?;
        mac.map_or(Ok(()), |mac| interface.set_mac(mac)).map_err(refused("giving it its address"))?;
        interface.set_up().map_err(refused("setting it up"))?;
        Ok(Tap { file, interface, received: 0, sent: 0, lost: Lost::default(), stopped: false })
    }
}

impl Tap {
    /// The same device for another thread, which sends there and receives nothing.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn sender(&self) -> io::Result<Tap> {
        let (file, interface) = (self.file.try_clone()?, self.interface.clone());
        Ok(Tap { file, interface, received: 0, sent: 0, lost: Lost::default(), stopped: true })
    }
}

impl Port for Tap {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()> {
        if self.stopped {
            return Ok(());
        }
        for _ in 0..BATCH {
            // Without a chunk they wait in the device's queue.
            let Some(mut chunk) = pool.take() else { break };
            chunk.set_range(FRONT..FRONT + pool.longest());
            match self.file.read(pool.bytes_mut(&chunk)) {
                Ok(bytes) => {
                    chunk.set_range(FRONT..FRONT + bytes);
                    into.push(chunk);
                    self.received += 1;
                }
                Err(error) => {
                    pool.give_back(chunk);
                    match error.kind() {
                        io::ErrorKind::WouldBlock => break,
                        io::ErrorKind::Interrupted => {}
                        // It is down.
                        _ if error.raw_os_error() == Some(libc::EIO) => break,
                        _ => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        for chunk in frames.drain(..) {
            // A device that is down takes none.
            match self.file.write(pool.bytes(&chunk)) {
                Ok(_) => self.sent += 1,
                Err(_) => self.lost.no_room += 1,
            }
            pool.give_back(chunk);
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.stopped = true;
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.stopped).then(|| self.file.as_fd())
    }

    fn check(&mut self) -> io::Result<()> {
        self.interface.check()
    }

    fn account(&mut self) -> io::Result<Account> {
        Ok(Account { received: self.received, sent: self.sent, drops: self.lost.drops() })
    }

    fn method(&self) -> String {
        "TAP".into()
    }
}
