//! Receiving alone, of either kind: counts whatever test frames arrive at an interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_port::packet::Sender;

use crate::counts::{Arrivals, Expected, Watch};
use crate::packet::PacketReceiver;
use crate::xdp::{Interface, XdpReceiver};
use crate::{LoadError, TesterKind};

/// Flow groups that are distinguished, 0 to this - 1; each costs the kernel 15 KB per CPU.
pub const GROUPS: u16 = 64;
/// Time between two looks at the end of receiving.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two calls of a live view.
const SECOND: Duration = Duration::from_secs(1);

/// Counts at one interface.
pub enum Receiver {
    /// An XDP program.
    Xdp(Box<XdpReceiver>),
    /// A packet ring.
    Packet(Box<PacketReceiver>),
}

/// When receiving ends: at the first of these.
pub struct Until<'a> {
    /// After this time.
    pub duration: Option<Duration>,
    /// After this many test frames.
    pub frames: Option<u64>,
    /// When this is set.
    pub stop: &'a AtomicBool,
}

impl Receiver {
    /// Starts counting in the calling thread's network namespace; with `reflects`, test frames are sent back.
    pub fn start(kind: TesterKind, port: Interface, reflects: bool) -> Result<Self, LoadError> {
        Ok(match kind {
            TesterKind::Xdp => {
                let receiver = XdpReceiver::new(port, GROUPS)?;
                receiver.arm(Expected::Any, reflects, Watch::default())?;
                Receiver::Xdp(Box::new(receiver))
            }
            TesterKind::Packet => {
                let sender = reflects.then(|| Sender::open(port.ifindex)).transpose()?.map(Arc::new);
                Receiver::Packet(Box::new(PacketReceiver::open(port.ifindex, GROUPS, sender)?))
            }
        })
    }

    /// Counts until the end; `each_second` sees what has been counted so far.
    pub fn run(
        &mut self,
        until: &Until,
        mut each_second: impl FnMut(&Arrivals),
    ) -> Result<Arrivals, LoadError> {
        let start = Instant::now();
        let mut next = SECOND;
        loop {
            let elapsed = start.elapsed();
            let enough = until.frames.is_some_and(|frames| self.received() >= frames);
            if enough
                || until.duration.is_some_and(|end| elapsed >= end)
                || until.stop.load(Ordering::Relaxed)
            {
                return self.arrivals();
            }
            if elapsed >= next {
                next += SECOND;
                each_second(&self.arrivals()?);
            }
            self.look(until.duration.map_or(LOOK, |end| end.saturating_sub(elapsed).min(LOOK)))?;
        }
    }

    fn received(&self) -> u64 {
        match self {
            Receiver::Xdp(receiver) => receiver.received(),
            Receiver::Packet(receiver) => receiver.received(),
        }
    }

    /// What was counted so far.
    pub fn arrivals(&mut self) -> Result<Arrivals, LoadError> {
        match self {
            Receiver::Xdp(receiver) => Ok(receiver.arrivals()?),
            Receiver::Packet(receiver) => Ok(receiver.arrivals()),
        }
    }

    /// Lets frames arrive; the XDP program counts without us.
    fn look(&mut self, time: Duration) -> Result<(), LoadError> {
        match self {
            Receiver::Xdp(_) => std::thread::sleep(time),
            Receiver::Packet(receiver) => drop(receiver.look()?),
        }
        Ok(())
    }
}
