//! Whether the driver of an interface takes frames that an XDP program redirects to it. The kernel answers behind the lock of all
//! interfaces (RTNL), which another program may hold for seconds: a thread of its own asks, and the threads of frames read the answer.
//!
//! ```text
//!   a thread that may wait: look > ask the kernel, or try a frame > [answer] > read by threads of frames, for each batch
//! ```
//! Invariant: a thread of frames makes no request to the kernel about this.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::live::Live;
use crate::capture::Interface;

/// The answer, for all parts of a port.
#[derive(Debug, Default)]
pub(super) struct Redirects {
    are_taken: AtomicBool,
    /// Frames that have left to try it, which the counters of the interface have beside those of the port.
    probes: AtomicU64,
}

impl Redirects {
    pub(super) fn are_taken(&self) -> bool {
        self.are_taken.load(Ordering::Relaxed)
    }

    pub(super) fn probes(&self) -> u64 {
        self.probes.load(Ordering::Relaxed)
    }
}

/// Asks the kernel for a port whether redirected frames are taken. It waits as long as the kernel does.
pub struct RedirectWatch {
    interface: Interface,
    /// By this one a frame is tried: Linux before 6.3 does not say, and of other interfaces than veth nothing is known there.
    probe: Option<Live>,
    answer: Weak<Redirects>,
}

impl RedirectWatch {
    /// Asks in the calling thread's network namespace; false: the port is closed, and nothing is asked any more.
    pub fn look(&mut self) -> bool {
        let Some(answer) = self.answer.upgrade() else { return false };
        let are_taken = self.interface.takes_redirected().unwrap_or_else(|| {
            self.probe.as_mut().is_some_and(|live| {
                answer.probes.fetch_add(1, Ordering::Relaxed);
                live.takes_one()
            })
        });
        answer.are_taken.store(are_taken, Ordering::Relaxed);
        true
    }
}

/// The answer for an interface of the calling thread's network namespace as it is now, and what asks again.
pub(super) fn watched(interface: &Interface) -> (Arc<Redirects>, RedirectWatch) {
    let redirects = Arc::new(Redirects::default());
    // Where the program cannot be loaded, frames leave by the socket.
    let probe = match weir_linux::netdev::is_known() {
        true => None,
        false => Live::open(interface).ok().flatten(),
    };
    let mut watch = RedirectWatch { interface: interface.clone(), probe, answer: Arc::downgrade(&redirects) };
    watch.look();
    (redirects, watch)
}
