//! Memory that is shared with the kernel, or given to it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A mapping that is undone when it is dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the owner of the mapping, on whichever thread.
unsafe impl Send for Mapping {}
// SAFETY: a mapping itself has no state; code that makes pointers into its memory is responsible for access to it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `bytes` of what `fd` offers at `offset`, present from the start so that no frame waits for a page.
    pub(crate) fn shared(fd: BorrowedFd<'_>, bytes: usize, offset: libc::off_t) -> io::Result<Mapping> {
        Mapping::map(bytes, libc::MAP_SHARED, fd.as_raw_fd(), offset)
    }

    /// `bytes` of fresh memory.
    pub(crate) fn fresh(bytes: usize) -> io::Result<Mapping> {
        Mapping::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(bytes: usize, flags: i32, fd: i32, offset: libc::off_t) -> io::Result<Mapping> {
        // Miri knows no memory that is there before it is used.
        let flags = if cfg!(miri) { flags } else { flags | libc::MAP_POPULATE };
        // SAFETY: a fresh mapping at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, offset)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: NonNull::new(start.cast()).expect("mmap returns no null"), bytes })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Pointer to a `T` that begins `at` bytes into it.
    pub(crate) fn at<T>(&self, at: usize) -> *mut T {
        assert!(at + size_of::<T>() <= self.bytes, "{at} of {} bytes", self.bytes);
        // SAFETY: within the mapping, by the assertion.
        let pointer = unsafe { self.start.as_ptr().add(at) };
        assert!(pointer.cast::<T>().is_aligned(), "{at} is no place for such a value");
        pointer.cast()
    }
}

#[cfg(test)]
impl Mapping {
    /// The same memory, for a thread that plays the kernel.
    ///
    /// # Safety
    /// It is used no longer than this mapping lives.
    pub(crate) unsafe fn again(&self) -> std::mem::ManuallyDrop<Mapping> {
        std::mem::ManuallyDrop::new(Mapping { start: self.start, bytes: self.bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in map(); nothing borrows from it without borrowing this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
