//! Frames leave many at a time without a socket buffer each: an XDP program that is run in live-frames mode copies them
//! into pages of the kernel and redirects these to the interface.
//!
//! ```text
//!   chunks > [slots that we share with the program] > one run per frame > pages > driver
//! ```
//! A call costs some 6 us and each frame 50 ns; a socket in copy mode makes a socket buffer of each frame, and has each
//! pass the receiving end alone, which costs half a microsecond.
//!
//! The other end counts the frames that it takes out of its queue, and the kernel adds them to those that this end has sent:
//! so it is known when all have been taken, as long as no other program sends frames by this interface meanwhile.
//!
//! Only for veth: each call has a pool of pages of its own, and where pages are still on their way at its end, the kernel
//! looks after the pool once a second until they are back. The other end of a veth takes them before that.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{self, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::super::{CaptureError, Chunk, Pool};
use crate::bpf::{Memory, Program, Slot, object};
use crate::capture::Interface;
use crate::shared::{LEAVING, LEAVING_BYTES, Leave};

/// Frames between two readings of the receiving end, which has a ring of 256.
const BATCH: u32 = 64;
/// A frame that no host receives: to a group that no bridge forwards (IEEE 802.1Q, table 8-1), of a protocol for
/// experiments (IEEE 802, local experimental Ethertype 1).
const UNRECEIVED: [u8; 14] = [0x01, 0x80, 0xc2, 0, 0, 0x0f, 2, 0, 0, 0, 0, 0, 0x88, 0xb5];
const SHORTEST: usize = 60;

pub(super) struct Live {
    interface: Interface,
    program: Program,
    state: Memory<Leave>,
    slots: Memory<[u8; LEAVING_BYTES]>,
    _slot: Slot,
    taken: Option<Taken>,
    /// What `taken` reads when all have been taken that have left.
    expected: u64,
    /// Probes of another thread that are counted in `expected`, see [`super::redirects`].
    probes: u64,
}

impl Live {
    /// For an interface of the calling thread's network namespace; `None` if its driver is not made for it, or the process
    /// may not.
    ///
    /// # Errors
    /// The kernel lacks what it takes: `bpf_xdp_store_bytes` and live frames came with Linux 5.18.
    pub(super) fn open(interface: &Interface) -> Result<Option<Live>, CaptureError> {
        if !interface.is_veth() {
            return Ok(None);
        }
        let program = Program::load("program by which frames leave", object::LEAVE, &[])?;
        let state = program.memory::<Leave>("bss", 1)?;
        program.write("interface", 0, &interface.index())?;
        let slots = program.memory("frames", LEAVING)?;
        // A frame of no length goes nowhere; older kernels refuse even that.
        program.run_live(&[0; SHORTEST], 1, 1)?;
        let slot = match Slot::held(&program) {
            // It takes a network namespace of its own, which needs CAP_SYS_ADMIN: frames then leave one by one.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Ok(None),
            slot => slot.map_err(interface.refused("keeping an XDP program at hand"))?,
        };
        Ok(Some(Live {
            interface: interface.clone(),
            program,
            state,
            slots,
            _slot: slot,
            taken: Taken::open(interface.name()).ok(),
            expected: 0,
            probes: 0,
        }))
    }

    /// Tries with a frame whether the other end takes frames, where the kernel does not say.
    pub(super) fn takes_one(&mut self) -> bool {
        let mut frame = [0; SHORTEST];
        frame[..UNRECEIVED.len()].copy_from_slice(&UNRECEIVED);
        let Ok(before) = self.interface.redirected() else { return false };
        self.slots.fill(0, &frame);
        self.state.set(0, &Leave { next: 0, bytes: [SHORTEST as u16; LEAVING] });
        self.run(&frame, 1) == 0 && self.interface.redirected().is_ok_and(|after| after > before)
    }

    /// Whether these frames can leave so.
    pub(super) fn can_take(frames: &[Chunk]) -> bool {
        frames.iter().all(|frame| frame.range().len() <= LEAVING_BYTES)
    }

    /// Frames are about to leave so, and all before them have been taken.
    pub(super) fn begin(&mut self, probes: u64) {
        self.probes = probes;
        self.expected = self.taken.as_ref().and_then(Taken::read).unwrap_or_default();
    }

    /// Whether the other end has taken all that has left since then, or has had no room for it. True where the kernel does not
    /// let us read its counters.
    pub(super) fn all_taken(&self, probes: u64) -> bool {
        let expected = self.expected + (probes - self.probes);
        self.taken.as_ref().and_then(Taken::read).is_none_or(|taken| taken >= expected)
    }

    /// Sends; returns how many frames the kernel had no memory for.
    pub(super) fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> u64 {
        let mut refused = 0;
        for some in frames.chunks(LEAVING) {
            let mut state = Leave { next: 0, bytes: [0; LEAVING] };
            for (n, chunk) in some.iter().enumerate() {
                let bytes = pool.bytes(chunk);
                self.slots.fill(n, bytes);
                state.bytes[n] = bytes.len() as u16;
            }
            self.state.set(0, &state);
            let not_run = self.run(pool.bytes(&some[0]), some.len() as u32);
            self.expected += some.len() as u64 - not_run;
            refused += not_run;
        }
        frames.drain(..).for_each(|chunk| pool.give_back(chunk));
        refused
    }

    /// Has the first `count` frames of the slots leave; returns how many have not.
    fn run(&self, first: &[u8], count: u32) -> u64 {
        loop {
            // The program counts: a signal ends a call early, and the next one goes on.
            let left = count.saturating_sub(self.state.get(0).next);
            if left == 0 || self.program.run_live(first, left, BATCH).is_err() {
                return left.into();
            }
        }
    }
}

/// Counters of our end of a veth: frames that have left it, live ones only once the other end has taken them out of its
/// queue, and those that found no room there (veth_get_stats64 of drivers/net/veth.c).
struct Taken([File; 2]);

impl Taken {
    /// For an interface of the calling thread's network namespace.
    fn open(interface: &str) -> io::Result<Taken> {
        let sysfs = sysfs()?;
        let file = |counter: &str| {
            let path = format!("class/net/{interface}/statistics/{counter}");
            fs::openat(&sysfs, path, OFlags::RDONLY | OFlags::CLOEXEC, fs::Mode::empty()).map(File::from)
        };
        Ok(Taken([file("tx_packets")?, file("tx_dropped")?]))
    }

    fn read(&self) -> Option<u64> {
        let number = |file: &File| {
            let mut text = [0; 24];
            let bytes = file.read_at(&mut text, 0).ok()?;
            std::str::from_utf8(text.get(..bytes)?).ok()?.trim().parse::<u64>().ok()
        };
        self.0.iter().map(number).sum()
    }
}

/// What /sys is in the calling thread's network namespace, mounted nowhere: the one at /sys may be that of another.
fn sysfs() -> io::Result<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?)
}
