//! Who sends and who receives: the tester.
//!
//! ```text
//!            stream 0 (a>b)                    stream 1 (b>a)
//!  [a] generator --------> DUT --------> receiver [b]
//!  [a] receiver  <-------- DUT <-------- generator [b]
//! ```
//! A [`Tester`] owns both ports. [`Tester::trial`] sends at a given load for a given time, waits until what
//! is under way has arrived, and returns what was sent and received. Two kinds behind one interface: XDP
//! (live frames out, counting in the driver) and AF_PACKET sockets for those who may not load eBPF.

pub mod counts;
pub mod generate;
pub mod histogram;
pub mod ipdv;
mod loss;
pub mod packet;
pub mod receive;
mod schedule;
pub mod sequence;
pub mod xdp;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use counts::{Counts, Load, Traffic};
use weir_port::bpf::now_ns;
use weir_port::packet::PacketError;
use xdp::{Interface, XdpError, XdpTester};

/// How long a late sender may go on after the nominal end, as a share of the duration, and at least.
const GRACE_SHARE: f64 = 0.02;
const GRACE_MIN: Duration = Duration::from_millis(10);
/// Time from arming a generator to its first frame.
const LEAD: Duration = Duration::from_micros(500);
/// Time between two looks at a trial's progress.
const LOOK: Duration = Duration::from_millis(100);

/// Which trial it is, and when its first frame is due.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// Number of the trial, modulo 256.
    epoch: u8,
    /// CLOCK_MONOTONIC ns.
    at_ns: u64,
}

impl Start {
    /// Soon, but not before all programs and threads run.
    fn of(epoch: u8) -> Start {
        Start { epoch, at_ns: now_ns() + LEAD.as_nanos() as u64 }
    }

    /// When the first frame is due that is timed, CLOCK_MONOTONIC ns.
    fn timed_from_ns(self, load: &Load) -> u64 {
        self.at_ns.saturating_add(load.timed_from.as_nanos() as u64)
    }
}

fn grace(duration: Duration) -> Duration {
    duration.mul_f64(GRACE_SHARE).max(GRACE_MIN)
}

/// What the outside has to do with a trial while it runs.
pub struct Control<'a> {
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    /// When progress was told last, ns.
    last_ns: AtomicU64,
}

impl<'a> Control<'a> {
    /// `stop` ends sending; `progress` is told frames sent and received so far, ten times a second.
    pub fn new(stop: &'a AtomicBool, progress: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        Control { stop, progress, last_ns: AtomicU64::new(now_ns()) }
    }

    /// Shall sending end?
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self, sent: u64, received: u64) {
        let now = now_ns();
        if now - self.last_ns.load(Ordering::Relaxed) >= LOOK.as_nanos() as u64 {
            self.last_ns.store(now, Ordering::Relaxed);
            (self.progress)(sent, received);
        }
    }
}

/// What can go wrong while sending and receiving.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// In the XDP tester.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// An eBPF program.
    #[error(transparent)]
    Bpf(#[from] weir_port::bpf::BpfError),
    /// In the AF_PACKET tester.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

/// How frames are sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TesterKind {
    /// XDP programs on both sides.
    Xdp,
    /// AF_PACKET sockets on both sides.
    Packet,
}

/// Sends and receives at two ports. All calls are made in the network namespace of the ports.
pub enum Tester {
    /// XDP programs.
    Xdp(Box<XdpTester>),
    /// AF_PACKET sockets.
    Packet(Box<packet::PacketTester>),
}

impl Tester {
    /// Makes a tester of one kind; an interface with index 0 is not used.
    pub fn new(
        kind: TesterKind,
        ports: [Interface; 2],
        traffic: Traffic,
        slot: Option<xdp::IdleLoopback>,
    ) -> Result<Self, LoadError> {
        Ok(match kind {
            TesterKind::Xdp => Tester::Xdp(Box::new(XdpTester::new(ports, traffic, slot)?)),
            TesterKind::Packet => {
                let ifindex = [ports[0].ifindex, ports[1].ifindex];
                Tester::Packet(Box::new(packet::PacketTester::new(ifindex, traffic)?))
            }
        })
    }

    /// Keeps the dispatcher's slot of an XDP generator in place of [`Tester::new`]; call this in the network namespace
    /// of that loopback interface.
    pub fn hold_slot(&mut self, lo: xdp::IdleLoopback) -> Result<(), LoadError> {
        match self {
            Tester::Xdp(tester) => Ok(tester.hold_slot(lo)?),
            Tester::Packet(_) => Ok(()),
        }
    }

    /// Sends `load`, waits until all has arrived, returns what was counted.
    pub fn trial(&mut self, load: &Load, control: &Control) -> Result<Counts, LoadError> {
        match self {
            Tester::Xdp(tester) => Ok(tester.trial(load, control)?),
            Tester::Packet(tester) => Ok(tester.trial(load, control)?),
        }
    }
}
