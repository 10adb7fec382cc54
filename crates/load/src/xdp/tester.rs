//! Generator and receivers together: one trial after the other at two ports, or at one of them.

use std::time::{Duration, Instant};

use weir_packet::flow::Direction;
use weir_port::bpf::BpfError;

use super::{IdleLoopback, Interface, XdpError, XdpGenerator, XdpReceiver};
use crate::counts::{Counts, Expected, GroupCounts, Load, Sent, StreamCounts, Traffic};
use crate::loss::date_groups;
use crate::{Control, Start};

/// Nothing arriving for this long means that nothing is under way any more.
const QUIET: Duration = Duration::from_millis(10);

/// Sends from and counts at two ports. Everything must be called in the network namespace of the ports.
pub struct XdpTester {
    pub(super) generator: XdpGenerator,
    pub(super) receivers: [XdpReceiver; 2],
    pub(super) traffic: Traffic,
    pub(super) ports: [Interface; 2],
    /// How long a call of the generator took before the last trial.
    call: Option<Duration>,
}

impl XdpTester {
    /// Loads and attaches everything. A port without ifindex (0) neither sends nor receives.
    pub fn new(
        ports: [Interface; 2],
        traffic: Traffic,
        slot: Option<IdleLoopback>,
    ) -> Result<Self, XdpError> {
        let mut generator = XdpGenerator::new(ports.map(|port| port.ifindex), traffic.clone())?;
        if let Some(lo) = slot {
            generator.hold_slot(lo)?;
        }
        let groups = traffic.flows.groups;
        let receivers = [XdpReceiver::new(ports[0], groups)?, XdpReceiver::new(ports[1], groups)?];
        Ok(XdpTester { generator, receivers, traffic, ports, call: None })
    }

    /// See [`XdpGenerator::hold_slot`].
    pub fn hold_slot(&mut self, lo: IdleLoopback) -> Result<(), XdpError> {
        self.generator.hold_slot(lo)
    }

    /// See [`crate::Tester::arm`].
    pub(crate) fn arm(&mut self, load: &Load, epoch: u8) -> Result<(), BpfError> {
        for (port, receiver) in self.receivers.iter().enumerate() {
            let stream = (0..2).find(|&s| self.traffic.sends(s) && self.traffic.arrival(s) == port);
            let expected = Expected::Only { epoch, stream: stream.map(|s| s as u8) };
            let reflects = self.traffic.direction == Direction::Reflect && port == 1;
            receiver.arm(expected, reflects, load.watch())?;
        }
        if let Some(checker) = self.receivers[0].checker() {
            self.generator.salt = checker.salt();
        }
        self.call = Some(self.generator.ready()?);
        Ok(())
    }

    /// See [`crate::Tester::call`].
    pub(crate) fn call(&self) -> Option<Duration> {
        self.call
    }

    /// All frames that arrived since the last trial began, whatever they are.
    pub(crate) fn all_arrived(&self) -> u64 {
        let all = |receiver: &XdpReceiver| {
            let port = receiver.port_counts();
            receiver.received() + port.stale + port.misdelivered + port.reflected + port.corrupted
        };
        self.receivers.iter().map(all).sum()
    }

    /// See [`crate::Tester::send`].
    pub(crate) fn send(&self, load: &Load, start: Start, control: &Control) -> Result<Sent, XdpError> {
        for stream in self.generator.sends() {
            let receiver = &self.receivers[self.traffic.arrival(stream)];
            receiver.time_from(start.timed_from_ns(load));
            receiver.mark_from(start.at_ns);
        }
        let sending = self.generator.send(load, start, control, || self.arrived())?;
        Ok(Sent { streams: self.generator.streams(), sending })
    }

    /// See [`crate::Tester::settle`].
    pub(crate) fn settle(&self, load: &Load, sent: Sent, control: &Control) -> Result<Counts, BpfError> {
        let frames = sent.streams.iter().map(|stream| stream.sent).sum();
        self.wait_until_quiet(frames, load.drain.unwrap_or(QUIET), control);
        let streams = sent.streams.into_iter().map(|s| self.with_arrivals(s, load));
        let streams = streams.collect::<Result<_, _>>()?;
        let ports = [self.receivers[0].port_counts(), self.receivers[1].port_counts()];
        Ok(Counts { streams, ports, sending: sent.sending, drops: Vec::new() })
    }

    fn arrived(&self) -> u64 {
        match self.traffic.direction {
            Direction::Reflect => self.receivers[0].received(),
            Direction::Forward | Direction::Both => self.receivers.iter().map(XdpReceiver::received).sum(),
        }
    }

    /// Returns when all that was sent has arrived, or nothing more does.
    fn wait_until_quiet(&self, sent: u64, quiet: Duration, control: &Control) {
        let mut last = (self.arrived(), Instant::now());
        while last.0 < sent && last.1.elapsed() < quiet && !control.stopped() {
            let now = self.arrived();
            if now != last.0 {
                last = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn with_arrivals(&self, mut stream: StreamCounts, load: &Load) -> Result<StreamCounts, BpfError> {
        let receiver = &self.receivers[self.traffic.arrival(stream.stream)];
        let arrived = |(i, group): (usize, &GroupCounts)| receiver.group(i as u32, group.sent);
        stream.groups = stream.groups.iter().enumerate().map(arrived).collect::<Result<_, _>>()?;
        if load.overload {
            stream.marks = receiver.marks(stream.start_ns);
        }
        if load.ipdv {
            for (i, group) in stream.groups.iter_mut().enumerate() {
                group.ipdv = Some(Box::new(receiver.ipdv(i)));
            }
        }
        date_groups(&mut stream, &self.traffic, load, |i, sender| receiver.lost(i, sender))?;
        Ok(stream)
    }
}
