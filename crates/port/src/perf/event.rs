//! An event that the kernel counts or samples (perf_event_open(2)).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

const OPEN_CLOEXEC: libc::c_ulong = 8;

/// struct perf_event_attr (linux/perf_event.h), its first 112 bytes.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Attributes {
    /// PERF_TYPE_*.
    pub kind: u32,
    /// Bytes of this structure; [`open`] says it.
    pub size: u32,
    /// Which event of this kind.
    pub config: u64,
    /// Events, or a frequency, from one sample to the next; 0: it is only counted.
    pub frequency: u64,
    /// PERF_SAMPLE_*.
    pub sample_of: u64,
    /// PERF_FORMAT_*.
    pub read_format: u64,
    /// The bits from `disabled` on.
    pub flags: u64,
    /// What follows.
    pub rest: [u64; 8],
}

/// Where events are counted.
#[derive(Debug, Clone, Copy)]
pub enum Of {
    /// Those of a thread, wherever it runs.
    Thread(u32),
    /// Those of a CPU, whichever thread is there.
    Cpu(usize),
}

/// Opens an event.
///
/// # Errors
/// It is not allowed, or the kernel does not have it.
pub fn open(attributes: Attributes, of: Of) -> io::Result<OwnedFd> {
    let attributes = Attributes { size: size_of::<Attributes>() as u32, ..attributes };
    let (any, no_group) = (-1, -1);
    let (thread, cpu) = match of {
        Of::Thread(thread) => (thread as libc::pid_t, any),
        Of::Cpu(cpu) => (any, cpu as i32),
    };
    // SAFETY: the attributes live through the call, and say how long they are.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, cpu, no_group, OPEN_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just returned.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
