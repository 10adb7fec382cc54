//! The tester: senders and receivers of test frames.
//!
//! ```text
//!            stream 0 (a>b)                    stream 1 (b>a)
//!  [a] generator --------> DUT --------> receiver [b]
//!  [a] receiver  <-------- DUT <-------- generator [b]
//! ```
//! A [`Tester`] owns both ports. [`Tester::trial`] sends at a given load for a given time, waits until what
//! is under way has arrived, and returns what was sent and received. Two kinds behind one interface: XDP
//! (live frames out, counting in the driver) and AF_PACKET sockets for users without the right to load eBPF.
//!
//! Where the ports are on two hosts, each has a tester with one of them, and the program that controls both makes the three parts
//! of a trial one by one: all arm, all send, and each stream is settled where it arrives. Its dates are those of the
//! sender's clock, and its outages those of the receiver's; only latency needs both, and is not measured.
//!
//! Files:
//! - `schedule.rs`: when each frame is due, in steps and bursts
//! - `xdp.rs`, `packet.rs`: the two kinds of tester; `xdp/` sends by `bpf/gen.bpf.c` and counts by `bpf/recv.bpf.c`
//! - `sequence.rs`, `ipdv.rs`: order, duplicates, latency and its differences, from sequence numbers
//! - `loss.rs`: when frames were lost
//! - `translation.rs`, `xdp/translation.rs`: what a NAT does to each frame: leaks, clashes, wrong subscribers; the program's
//!   part is `bpf/translation.h`
//! - `tcp.rs`: both ends of TCP connections through a NAT, without sockets; the program's part is `bpf/tcp.bpf.c`, `bpf/tcp.h`
//! - `foreign.rs`: checks counts that another host sent
//! - `generate.rs`, `receive.rs`: a generator alone, a receiver alone
//! - `counts.rs`: the order and the result of a trial

pub mod counts;
pub mod foreign;
pub mod generate;
pub use weir_measure::histogram;
pub mod ipdv;
mod loss;
pub mod packet;
pub mod receive;
mod schedule;
pub mod sequence;
pub mod tcp;
pub mod translation;
pub mod xdp;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use counts::{Counts, Load, Sent, Traffic};
use serde::{Deserialize, Serialize};
use weir_port::bpf::now_ns;
use weir_port::packet::PacketError;
use xdp::{Interface, XdpError, XdpTester};

/// How long a late sender may go on after the nominal end, as a share of the duration, and at least.
const GRACE_SHARE: f64 = 0.02;
const GRACE_MIN: Duration = Duration::from_millis(10);
/// Time from arming a generator to its first frame.
const LEAD: Duration = Duration::from_micros(500);
/// After a trial whose frames are not all accounted for, nothing may arrive for so long before the next one begins: a
/// device that is slow to give them back has calls of 25 ms.
const DRAIN_QUIET: Duration = Duration::from_millis(60);
const DRAIN_MOST: Duration = Duration::from_secs(2);
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
    /// The earliest one.
    fn of(epoch: u8) -> Start {
        Start { epoch, at_ns: soon_ns() }
    }

    /// When the first frame is due that is timed, CLOCK_MONOTONIC ns.
    fn timed_from_ns(self, load: &Load) -> u64 {
        self.at_ns.saturating_add(load.timed_from.as_nanos() as u64)
    }
}

/// The earliest start, CLOCK_MONOTONIC ns: soon, but not before all programs and threads run.
pub fn soon_ns() -> u64 {
    now_ns() + LEAD.as_nanos() as u64
}

fn grace(duration: Duration) -> Duration {
    duration.mul_f64(GRACE_SHARE).max(GRACE_MIN)
}

/// Stop flag and progress report of a running trial.
pub struct Control<'a> {
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    /// When progress was reported last, ns.
    last_ns: AtomicU64,
}

impl<'a> Control<'a> {
    /// `stop` ends sending; `progress` gets frames sent and received so far, ten times a second.
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

/// An error while sending and receiving.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TesterKind {
    /// XDP programs on both sides.
    Xdp,
    /// AF_PACKET sockets on both sides.
    Packet,
}

/// Sends and receives at two ports, or at one where the other belongs to a tester on another host. All calls are made
/// in the network namespace of the ports.
pub struct Tester {
    means: Means,
    epoch: u8,
}

enum Means {
    Xdp(Box<XdpTester>),
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
        let means = match kind {
            TesterKind::Xdp => Means::Xdp(Box::new(XdpTester::new(ports, traffic, slot)?)),
            TesterKind::Packet => {
                let ifindex = [ports[0].ifindex, ports[1].ifindex];
                Means::Packet(Box::new(packet::PacketTester::new(ifindex, traffic)?))
            }
        };
        Ok(Tester { means, epoch: 0 })
    }

    /// Keeps the dispatcher's slot of an XDP generator in place of [`Tester::new`]; call this in the network namespace
    /// of that loopback interface.
    pub fn hold_slot(&mut self, lo: xdp::IdleLoopback) -> Result<(), LoadError> {
        match &mut self.means {
            Means::Xdp(tester) => Ok(tester.hold_slot(lo)?),
            Means::Packet(_) => Ok(()),
        }
    }

    /// Sends `load`, waits until all has arrived, returns what was counted.
    pub fn trial(&mut self, load: &Load, control: &Control) -> Result<Counts, LoadError> {
        self.arm(load, self.epoch.wrapping_add(1))?;
        let sent = self.send(load, soon_ns(), control)?;
        self.settle(load, sent, control)
    }

    /// The first part of a trial: forgets the last one, and counts from now on what trial `epoch` (modulo 256) sends,
    /// here or elsewhere.
    pub fn arm(&mut self, load: &Load, epoch: u8) -> Result<(), LoadError> {
        self.epoch = epoch;
        match &mut self.means {
            Means::Xdp(tester) => Ok(tester.arm(load, epoch)?),
            Means::Packet(tester) => Ok(tester.arm(load, epoch)?),
        }
    }

    /// The second part: sends the streams that leave here, the first frame at `at_ns` (CLOCK_MONOTONIC).
    pub fn send(&mut self, load: &Load, at_ns: u64, control: &Control) -> Result<Sent, LoadError> {
        let start = Start { epoch: self.epoch, at_ns };
        match &mut self.means {
            Means::Xdp(tester) => Ok(tester.send(load, start, control)?),
            Means::Packet(tester) => Ok(tester.send(load, start, control)?),
        }
    }

    /// The last part: waits until all of the streams that arrive here has arrived, wherever they were sent, and returns
    /// them with what was counted.
    pub fn settle(&mut self, load: &Load, sent: Sent, control: &Control) -> Result<Counts, LoadError> {
        match &mut self.means {
            Means::Xdp(tester) => Ok(tester.settle(load, sent, control)?),
            Means::Packet(tester) => Ok(tester.settle(load, sent, control)?),
        }
    }

    /// How long a call of the generator took before the last trial; `None` where sockets send.
    pub fn call(&self) -> Option<Duration> {
        self.as_xdp().and_then(XdpTester::call)
    }

    /// Waits until nothing of the last trial arrives any more, at most two seconds.
    pub fn drain(&self, control: &Control) {
        let arrived = || self.as_xdp().map_or(0, XdpTester::all_arrived);
        let begin = Instant::now();
        let mut last = (arrived(), begin);
        while last.1.elapsed() < DRAIN_QUIET && begin.elapsed() < DRAIN_MOST && !control.stopped() {
            std::thread::sleep(Duration::from_millis(1));
            let now = arrived();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
    }

    /// The XDP tester, which alone can check what a NAT does; `None` for the other kind.
    pub fn xdp(&mut self) -> Option<&mut XdpTester> {
        match &mut self.means {
            Means::Xdp(tester) => Some(tester),
            Means::Packet(_) => None,
        }
    }

    /// The same, to look at what it counted.
    pub fn as_xdp(&self) -> Option<&XdpTester> {
        match &self.means {
            Means::Xdp(tester) => Some(tester),
            Means::Packet(_) => None,
        }
    }

    /// Number of the last trial, modulo 256.
    pub fn epoch(&self) -> u8 {
        self.epoch
    }
}
