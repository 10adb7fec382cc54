//! The AF_PACKET tester: frames built here, sent in batches through a socket, received through a ring.
//!
//! Slower and less exact than the XDP tester, but it needs no eBPF: an unprivileged user namespace will do,
//! and frames may be as long as the interface takes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_packet::flow::Direction;
use weir_port::packet::{PacketError, Sender};

use crate::counts::{Counts, Expected, GroupCounts, Load, PortCounts, Sent, TesterDrops, Traffic};
use crate::loss::date_groups;
use crate::{Control, Start};

mod generator;
mod receiver;

pub use generator::PacketGenerator;
pub use receiver::PacketReceiver;

/// Nothing arriving for this long means that nothing is under way any more; blocks are retired after 2 ms.
const QUIET: Duration = Duration::from_millis(20);

/// Sends from and counts at two ports. Everything must be called in the network namespace of the ports.
pub struct PacketTester {
    generator: PacketGenerator,
    /// `None` where a port is not used, and while its receiver is at work.
    receivers: [Option<PacketReceiver>; 2],
    traffic: Traffic,
    work: Work,
}

/// Receivers at work, from the start of sending until all has arrived.
#[derive(Default)]
struct Work {
    threads: [Option<JoinHandle<Returned>>; 2],
    /// Test frames that have arrived; at a reflector, those that came back.
    arrived: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
}

/// A receiver after its work, and how that went.
type Returned = (PacketReceiver, Result<(), PacketError>);

impl PacketTester {
    /// Opens all sockets. A port with index 0 neither sends nor receives.
    pub fn new(ifindex: [u32; 2], traffic: Traffic) -> Result<Self, PacketError> {
        let reflects = traffic.direction == Direction::Reflect;
        let sender = |port: usize, wanted: bool| -> Result<Option<Arc<Sender>>, PacketError> {
            let open = (ifindex[port] != 0 && wanted).then(|| Sender::open(ifindex[port]));
            Ok(open.transpose()?.map(Arc::new))
        };
        let senders = [sender(0, true)?, sender(1, traffic.sends(1) || reflects)?];
        let reflector = senders[1].clone().filter(|_| reflects);
        let receiver = |port: usize, reflector| {
            let open = || PacketReceiver::open(ifindex[port], traffic.flows.groups, reflector);
            (ifindex[port] != 0).then(open).transpose()
        };
        let receivers = [receiver(0, None)?, receiver(1, reflector)?];
        let generator = PacketGenerator::new(senders, traffic.clone());
        Ok(PacketTester { generator, receivers, traffic, work: Work::default() })
    }

    /// See [`crate::Tester::arm`].
    pub(crate) fn arm(&mut self, load: &Load, epoch: u8) -> Result<(), PacketError> {
        // Of a trial that was given up.
        self.stop_receiving()?;
        let reflects = self.traffic.direction == Direction::Reflect;
        for (port, receiver) in self.receivers.iter_mut().enumerate() {
            let arrives =
                |s: &usize| self.traffic.sends(*s) && (reflects || self.traffic.arrival(*s) == port);
            let stream = (0..2).find(arrives).map(|s| s as u8);
            if let Some(receiver) = receiver {
                receiver.arm(Expected::Only { epoch, stream }, load.watch());
            }
        }
        Ok(())
    }

    /// See [`crate::Tester::send`]. What arrives before it is in the ring.
    pub(crate) fn send(&mut self, load: &Load, start: Start, control: &Control) -> Result<Sent, PacketError> {
        for stream in self.generator.sends() {
            if let Some(receiver) = &mut self.receivers[self.traffic.arrival(stream)] {
                receiver.time_from(start.timed_from_ns(load));
            }
        }
        self.start_receiving();
        let arrived = &self.work.arrived;
        let (streams, sending) =
            self.generator.send(load, start, control, || arrived.load(Ordering::Relaxed))?;
        Ok(Sent { streams, sending })
    }

    /// See [`crate::Tester::settle`].
    pub(crate) fn settle(
        &mut self,
        load: &Load,
        sent: Sent,
        control: &Control,
    ) -> Result<Counts, PacketError> {
        let Sent { mut streams, sending } = sent;
        let frames = streams.iter().map(|stream| stream.sent).sum();
        self.work.wait_until_quiet(frames, load.drain.unwrap_or(QUIET), control);
        self.stop_receiving()?;
        for stream in &mut streams {
            if let Some(receiver) = &self.receivers[self.traffic.arrival(stream.stream)] {
                for (i, group) in stream.groups.iter_mut().enumerate() {
                    *group = GroupCounts { sent: group.sent, ..receiver.group(i).clone() };
                }
                let Ok(()) = date_groups(stream, &self.traffic, load, |i, sender| {
                    Ok::<_, Infallible>(receiver.lost(i, sender))
                });
            }
        }
        let mut ports = [PortCounts::default(); 2];
        let mut drops = Vec::new();
        for (port, receiver) in self.receivers.iter_mut().enumerate() {
            let Some(receiver) = receiver else { continue };
            let arrivals = receiver.arrivals();
            ports[port] = arrivals.port;
            drops.extend(ring_drops(port, arrivals.ring_drops));
        }
        Ok(Counts { streams, ports, sending, drops })
    }

    fn start_receiving(&mut self) {
        self.work = Work::default();
        let reflects = self.traffic.direction == Direction::Reflect;
        for (port, receiver) in self.receivers.iter_mut().enumerate() {
            let Some(mut receiver) = receiver.take() else { continue };
            // At a reflector the same frames pass once more; what counts as arrived is what came back.
            let arrived = if reflects && port == 1 { Arc::default() } else { self.work.arrived.clone() };
            let done = self.work.done.clone();
            self.work.threads[port] = Some(thread::spawn(move || {
                let result = receiver.run(&done, &arrived);
                (receiver, result)
            }));
        }
    }

    /// Waits until all receivers have read what is there.
    fn stop_receiving(&mut self) -> Result<(), PacketError> {
        self.work.done.store(true, Ordering::Release);
        let mut results = Vec::new();
        for (port, thread) in self.work.threads.iter_mut().enumerate() {
            let Some(thread) = thread.take() else { continue };
            let (receiver, result) = thread.join().expect("a receiver does not panic");
            self.receivers[port] = Some(receiver);
            results.push(result);
        }
        results.into_iter().collect()
    }
}

impl Drop for PacketTester {
    fn drop(&mut self) {
        // A receiver that failed has nothing more to tell.
        let _ = self.stop_receiving();
    }
}

impl Work {
    /// Returns when all that was sent has arrived, or nothing more does.
    fn wait_until_quiet(&self, sent: u64, quiet: Duration, control: &Control) {
        let mut last = (self.arrived.load(Ordering::Relaxed), Instant::now());
        while last.0 < sent && last.1.elapsed() < quiet && !control.stopped() {
            thread::sleep(Duration::from_micros(500));
            let now = self.arrived.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
    }
}

fn ring_drops(port: usize, frames: u64) -> Option<TesterDrops> {
    let source = format!("port {} PACKET_STATISTICS tp_drops", ["a", "b"][port]);
    (frames > 0).then(|| TesterDrops { name: "tester ring full".into(), frames, source })
}
