//! The memory of a ring: a memfd that keeps its size, and its mapping. All unsafe code of this crate.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::geometry::{HEADER_WORDS, WORD_BYTES};
use crate::ring::Memory;
use crate::{Descriptors, Geometry, Kind, PuntError, wake};

/// A ring with nothing in it: for this process and for the other one.
pub(crate) fn create<K: Kind>(geometry: Geometry) -> Result<(Descriptors, Descriptors), PuntError> {
    let memory = sealable().map_err(PuntError::system("making memory (memfd_create)"))?;
    let bytes = (geometry.words() * WORD_BYTES) as u64;
    ftruncate(&memory, bytes).map_err(PuntError::system("giving the memory its size"))?;
    // All of it now, or a full machine would end the process with SIGBUS later.
    fallocate(&memory, FallocateFlags::empty(), 0, bytes).map_err(PuntError::system("reserving memory"))?;
    let header = geometry.header::<K>().map(u64::to_ne_bytes).concat();
    let memory = File::from(memory);
    memory.write_all_at(&header, 0).map_err(PuntError::system("writing the header"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&memory, seals).map_err(PuntError::system("sealing the memory"))?;
    let own = memory.try_clone().map_err(PuntError::system("cloning a descriptor"))?;
    let (own_wake, wake) = wake::pair().map_err(PuntError::system("making a pair of sockets"))?;
    Ok((Descriptors { memory: own.into(), wake: own_wake }, Descriptors { memory: memory.into(), wake }))
}

/// A memfd whose size can be sealed.
fn sealable() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("weir-punt", flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => memfd_create("weir-punt", flags),
        done => done,
    }
}

/// Maps a ring, with what its header said when it was looked at.
pub(crate) fn attach<K: Kind>(
    memory: BorrowedFd<'_>,
) -> Result<(Mapping, Geometry, [u64; HEADER_WORDS]), PuntError> {
    // Another kind of file has no seals at all.
    let seals = fcntl_get_seals(memory).map_err(|_| PuntError::Unsealed)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(PuntError::Unsealed);
    }
    let geometry = Geometry::of_header::<K>(header(memory)?)?;
    let found = fstat(memory).map_err(PuntError::system("asking for the size of the memory"))?.st_size as u64;
    let expected = (geometry.words() * WORD_BYTES) as u64;
    if found != expected {
        return Err(PuntError::Size { found, expected });
    }
    // SAFETY: by the seal and the size above, which the kernel keeps, the file has so many bytes for as long as it is mapped.
    let mapping = unsafe { Mapping::new(memory, geometry.words()) };
    let mapping = mapping.map_err(PuntError::system("mapping the memory"))?;
    Ok((mapping, geometry, geometry.header::<K>()))
}

/// The first words of a file, read once.
fn header(memory: BorrowedFd<'_>) -> Result<[u64; HEADER_WORDS], PuntError> {
    let mut bytes = [[0; WORD_BYTES]; HEADER_WORDS];
    let file = File::from(memory.try_clone_to_owned().map_err(PuntError::system("cloning a descriptor"))?);
    match file.read_exact_at(bytes.as_flattened_mut(), 0) {
        Ok(()) => Ok(bytes.map(u64::from_ne_bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(PuntError::NoRing),
        Err(error) => Err(PuntError::System { action: "reading the header", source: error }),
    }
}

/// A mapping of shared memory as words, undone when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping has one owner, and is undone by it; all access is atomic, on any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// # Safety
    /// The file has so many words for as long as the mapping lives.
    unsafe fn new(memory: BorrowedFd<'_>, words: usize) -> io::Result<Mapping> {
        // Present from the start, so that no frame waits for a page.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at a place that the kernel chooses.
        let start =
            unsafe { mmap(std::ptr::null_mut(), words * WORD_BYTES, access, flags, memory.as_fd(), 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, words })
    }
}

impl Memory for Mapping {
    type Word = AtomicU64;

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped, at the beginning of a page, until this is dropped (new()), and the file has them
        // (attach()). Any bits are a value. The other process may write any of them at any time: here they are only read and
        // written as atomic words.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in new(); nothing borrows from it without borrowing this.
        let done = unsafe { munmap(self.start.as_ptr().cast(), self.words * WORD_BYTES) };
        debug_assert!(done.is_ok(), "{done:?}");
    }
}
