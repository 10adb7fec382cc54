//! Routing updates while frames pass (RFC 2544, section 11.3): routes that no test frame takes come and go.
//!
//! A thread stands for the DUT's routing daemon. It is the DUT's control plane, so it runs on the DUT's CPU and its
//! time is a cost of the DUT; what a change does to the forwarding path (flushed caches, a tree rebuilt) comes on top.
//! Of a pair of changes one adds a route and one removes it. A daemon that is late makes up for it without pause.

use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_packet::flow::IpVersion;

use crate::bed::Bed;
use crate::error::Result;
use crate::topology::Side;
use weir_linux::cpu::ThreadTimes;
use weir_linux::rtnl::Rtnl;

/// Most changes per second that a plan may ask for.
pub const MAX_CHANGES_PER_S: u32 = 100_000;
/// Routes that come and go.
const ROUTES: u64 = 64;

/// A daemon at work; it stops when dropped.
pub struct Updates {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<Made>>>,
}

/// What a daemon has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// Routes added and removed.
    pub changes: u64,
    /// CPU time of the daemon, ns.
    pub run_ns: u64,
}

impl Updates {
    /// Starts the daemon of a bed; None where the DUT has no routes.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(bed: &Bed, changes_per_s: u32) -> Result<Option<Updates>> {
        let (Some(dut), Some([_, port])) = (bed.dut(), bed.dut_ports()) else { return Ok(None) };
        let (stop, stopped) = channel();
        let (ip, cpus) = (bed.spec().ip, bed.spec().dut_cpus.clone());
        let gap = Duration::from_secs(1) / changes_per_s.max(1);
        let thread = dut.spawn("routes", move || {
            // Without the right to move there it runs where the scheduler puts it.
            let _ = weir_port::thread::pin_to(cpus[0]);
            let own = weir_port::thread::number();
            let (mut rtnl, start) = (Rtnl::open()?, Instant::now());
            let mut change = |n: u64| {
                let (to, gateway) = (route(ip, n / 2 % ROUTES), Side::B.tester(ip));
                match n % 2 {
                    0 => rtnl.add_route(to, gateway, port.ifindex),
                    _ => rtnl.remove_route(to),
                }
            };
            let mut changes = 0;
            // The thread that waits is stopped by the sender's end.
            while let Err(RecvTimeoutError::Timeout) =
                stopped.recv_timeout((start + gap * changes as u32).saturating_duration_since(Instant::now()))
            {
                change(changes)?;
                changes += 1;
            }
            if changes % 2 == 1 {
                change(changes)?;
            }
            Ok(Made { changes, run_ns: ThreadTimes::of(own).map_or(0, |times| times.run_ns) })
        })?;
        Ok(Some(Updates { stop: Some(stop), thread: Some(thread) }))
    }

    /// Ends the daemon; all of its routes are gone.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn stop(mut self) -> Result<Made> {
        drop(self.stop.take());
        self.thread.take().expect("joined once").join().expect("the daemon does not panic")
    }
}

impl Drop for Updates {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its result is not needed.
            let _ = thread.join();
        }
    }
}

/// Route `n`: to networks for documentation (RFC 5737, RFC 3849) that carry no test traffic.
fn route(ip: IpVersion, n: u64) -> (IpAddr, u8) {
    match ip {
        IpVersion::V4 => ([203, 0, 113, 4 * n as u8].into(), 30),
        IpVersion::V6 => ([0x2001, 0xdb8, 0xffff, n as u16, 0, 0, 0, 0].into(), 64),
    }
}
