//! A place in the kernel's XDP dispatcher, which has 48 (BPF_DISPATCHER_MAX). A program that is attached anywhere has one if one
//! was free when it was attached. Without it, the kernel puts the program there for each call on live frames and takes it out
//! again, which takes 16 to 40 ms where a place is free, and nothing where all are in use (kernel/bpf/dispatcher.c). A second link of such
//! a program takes a place, and the end of the first one gives it up: the old link goes first.

use std::fs::File;
use std::io;
use std::time::Duration;

use super::{Link, Mode, Program};

/// The loopback of a network namespace.
const LOOPBACK: u32 = 1;

/// A call on live frames that takes longer is that of a program without a slot, or the host held the machine.
pub const SLOW_CALL: Duration = Duration::from_millis(5);

/// Keeps a program attached to the loopback of a network namespace in which nothing else is.
pub struct Slot {
    _namespace: File,
    _link: Link,
}

impl Slot {
    /// Takes a slot if one is free.
    ///
    /// # Errors
    /// `EPERM`: a network namespace takes CAP_SYS_ADMIN, and a confined program begins no thread.
    pub fn held(program: &Program) -> io::Result<Slot> {
        let hold = || {
            // SAFETY: no pointers; it is the namespace of this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let namespace = File::open("/proc/thread-self/ns/net")?;
            let link = program.attach(LOOPBACK, Mode::Generic).map_err(io::Error::other)?;
            Ok(Slot { _namespace: namespace, _link: link })
        };
        // Where a program is confined no thread begins: it stays without a slot.
        std::thread::scope(|scope| {
            let holder = std::thread::Builder::new().spawn_scoped(scope, hold)?;
            holder.join().unwrap_or_else(|_| Err(io::Error::other("the thread that takes a slot panicked")))
        })
    }
}
