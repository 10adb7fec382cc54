//! The AF_PACKET tester: frames built here, sent in batches through a socket, received through a ring.
//!
//! Slower and less exact than the XDP tester, but it needs no eBPF: an unprivileged user namespace will do,
//! and frames may be as long as the interface takes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_packet::flow::Direction;
use weir_port::packet::{PacketError, Sender};

use crate::counts::{Counts, Expected, GroupCounts, Load, PortCounts, StreamCounts, TesterDrops, Traffic};
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
    receivers: [Option<PacketReceiver>; 2],
    traffic: Traffic,
    epoch: u8,
}

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
        Ok(PacketTester { generator, receivers, traffic, epoch: 0 })
    }

    /// Sends `load`, waits until all has arrived, returns what was counted.
    pub fn trial(&mut self, load: &Load, control: &Control) -> Result<Counts, PacketError> {
        self.epoch = self.epoch.wrapping_add(1);
        let reflects = self.traffic.direction == Direction::Reflect;
        for (port, receiver) in self.receivers.iter_mut().enumerate() {
            let arrives =
                |s: &usize| self.traffic.sends(*s) && (reflects || self.traffic.arrival(*s) == port);
            let stream = (0..2).find(arrives).map(|s| s as u8);
            if let Some(receiver) = receiver {
                receiver.arm(Expected::Only { epoch: self.epoch, stream }, load.watch());
            }
        }
        let (mut streams, sending) = self.send_and_receive(load, control)?;
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

    fn send_and_receive(
        &mut self,
        load: &Load,
        control: &Control,
    ) -> Result<(Vec<StreamCounts>, Duration), PacketError> {
        // At a reflector the same frames pass once more; what counts as arrived is what came back.
        let reflects = self.traffic.direction == Direction::Reflect;
        let (done, arrived, elsewhere) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let generator = &self.generator;
        let start = Start::of(self.epoch);
        self.receivers.iter_mut().flatten().for_each(|r| r.time_from(start.timed_from_ns(load)));
        let [a, b] = &mut self.receivers;
        std::thread::scope(|scope| {
            let at_b = if reflects { &elsewhere } else { &arrived };
            let done = &done;
            let handles = [(a, &arrived), (b, at_b)].map(|(receiver, arrived)| {
                receiver.as_mut().map(|receiver| scope.spawn(move || receiver.run(done, arrived)))
            });
            let sent = generator.send(load, start, control, || arrived.load(Ordering::Relaxed));
            if let Ok((streams, _)) = &sent {
                let quiet = load.drain.unwrap_or(QUIET);
                wait_until_quiet(&arrived, streams.iter().map(|s| s.sent).sum(), || control.stopped(), quiet);
            }
            done.store(true, Ordering::Release);
            for handle in handles.into_iter().flatten() {
                handle.join().expect("a receiver does not panic")?;
            }
            sent
        })
    }
}

fn ring_drops(port: usize, frames: u64) -> Option<TesterDrops> {
    let source = format!("port {} PACKET_STATISTICS tp_drops", ["a", "b"][port]);
    (frames > 0).then(|| TesterDrops { name: "tester ring full".into(), frames, source })
}

fn wait_until_quiet(arrived: &AtomicU64, sent: u64, stopped: impl Fn() -> bool, quiet: Duration) {
    let mut last = (arrived.load(Ordering::Relaxed), Instant::now());
    while last.0 < sent && last.1.elapsed() < quiet && !stopped() {
        std::thread::sleep(Duration::from_micros(500));
        let now = arrived.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
}
