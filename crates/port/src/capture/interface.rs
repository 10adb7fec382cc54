//! The interface at which a capture looks, and whether it is still there.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::CaptureError;

/// An interface, found by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
}

impl Interface {
    /// An interface of the calling thread's network namespace.
    pub(crate) fn named(name: &str) -> Result<Interface, CaptureError> {
        let missing = || CaptureError::NoInterface(name.into());
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: a string that ends in zero and lives through the call.
        match unsafe { libc::if_nametoindex(text.as_ptr()) } {
            0 => Err(missing()),
            index => Ok(Interface { name: name.into(), index }),
        }
    }

    /// Fails when the interface is no longer in the network namespace of `socket`.
    pub(crate) fn check(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: all-zero is a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = self.index as i32;
        // SAFETY: the kernel reads and writes one ifreq.
        match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME as _, &mut request) } {
            0 => Ok(()),
            _ => Err(io::Error::other(CaptureError::Gone(self.name.clone()))),
        }
    }

    /// Gives a step's error its place.
    pub(crate) fn refused(&self, step: &'static str) -> impl FnOnce(io::Error) -> CaptureError {
        let interface = self.name.clone();
        move |source| CaptureError::Refused { interface, step, source }
    }
}
