//! A TAP device: what the machine sends by it arrives here, and what is sent here arrives at the machine. A system call
//! for each frame, with what of it is left to a network card (IFF_VNET_HDR): a large frame comes by one call and is cut here,
//! and a checksum is finished here.
//! Source: Documentation/networking/tuntap.rst, drivers/net/tun.c.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use weir_packet::offload::checksum::finish;
use weir_packet::offload::virtio;

use super::large::LargeFrame;
use super::{Account, BATCH, CaptureError, Chunk, Lost, Pool, Port, copied};
use crate::capture::Interface;

/// linux/if_tun.h.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;
/// What a sender may leave to us: checksums, then large frames of TCP, with congestion notification too, then of UDP, which
/// came with Linux 6.2.
const OFFLOADS: [libc::c_uint; 2] = [0x6f, 0x0f];
/// Nothing is left to do with what we send.
const WHOLE: [u8; virtio::BYTES] = [0; virtio::BYTES];

/// The node's side of a TAP device.
pub struct Tap {
    file: File,
    interface: Interface,
    large: LargeFrame,
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
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
        // SAFETY: the kernel reads and writes one ifreq.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &mut request) };
        if done < 0 {
            return Err(refused("making it")(io::Error::last_os_error()));
        }
        take_offloads(&file).map_err(refused("asking for its offloads"))?;
        let interface = Interface::named(name)?;
        mac.map_or(Ok(()), |mac| interface.set_mac(mac)).map_err(refused("giving it its address"))?;
        interface.set_up().map_err(refused("setting it up"))?;
        let large = LargeFrame::default();
        Ok(Tap { file, interface, large, received: 0, sent: 0, lost: Lost::default(), stopped: false })
    }
}

/// Has the kernel leave to us whatever we know to do.
fn take_offloads(file: &File) -> io::Result<()> {
    let bytes = virtio::BYTES as libc::c_int;
    // SAFETY: an open device, and a number that lives through the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETVNETHDRSZ as _, &raw const bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for offloads in OFFLOADS {
        // SAFETY: an open device, and a number.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) }
            >= 0
        {
            return Ok(());
        }
    }
    Err(io::Error::last_os_error())
}

impl Tap {
    /// Gives it this largest payload of a frame.
    ///
    /// # Errors
    /// No permission, or the kernel takes no such length.
    pub fn set_mtu(&self, bytes: u16) -> Result<(), CaptureError> {
        self.interface.set_mtu(bytes.into()).map_err(self.interface.refused("giving it its MTU"))
    }

    /// The same device for another thread, which sends there and receives nothing.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn sender(&self) -> io::Result<Tap> {
        let (file, interface) = (self.file.try_clone()?, self.interface.clone());
        let large = LargeFrame::default();
        Ok(Tap { file, interface, large, received: 0, sent: 0, lost: Lost::default(), stopped: true })
    }

    /// The next frame: a chunk, or the large frame from now on. False if there is none.
    fn take(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<bool> {
        let mut file = &self.file;
        let brought = match self.large.bring(|room| file.read(room)) {
            Ok(brought) => brought,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(false),
                    io::ErrorKind::Interrupted => Ok(true),
                    // It is down.
                    _ if error.raw_os_error() == Some(libc::EIO) => Ok(false),
                    _ => Err(error),
                };
            }
        };
        let Some((header, frame)) = brought else { return Ok(true) };
        let bytes = frame.len();
        let is_known = match virtio::read(header) {
            Some(offloads) if offloads.large.is_some() => self.large.cut_brought(bytes),
            Some(offloads) if offloads.partial.is_none_or(|partial| finish(frame, partial)) => {
                into.extend(copied(pool, frame, &mut self.lost));
                true
            }
            _ => false,
        };
        self.lost.unknown_offload += u64::from(!is_known);
        Ok(true)
    }
}

impl Port for Tap {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()> {
        if self.stopped {
            return Ok(());
        }
        let before = into.len();
        for _ in 0..BATCH {
            if self.large.is_there() {
                into.extend(self.large.next_segment(pool, &mut self.lost));
            } else if pool.free() == 0 || !self.take(pool, into)? {
                // Without a chunk they wait in the device's queue.
                break;
            }
        }
        self.received += (into.len() - before) as u64;
        Ok(())
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        for chunk in frames.drain(..) {
            // A device that is down takes none.
            match self.file.write_vectored(&[IoSlice::new(&WHOLE), IoSlice::new(pool.bytes(&chunk))]) {
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
