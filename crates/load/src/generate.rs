//! Sending only, with either method: for an interface without a receiver of this tester.

use std::sync::Arc;
use std::time::Duration;

use weir_port::packet::Sender;

use crate::counts::{Load, StreamCounts, Traffic};
use crate::packet::PacketGenerator;
use crate::xdp::{IdleLoopback, XdpGenerator};
use crate::{Control, LoadError, Start, TesterKind};

/// Sends stream 0 out of one interface. All calls but [`Generator::hold_slot`] are made in its network namespace.
pub enum Generator {
    /// Live frames of an XDP program.
    Xdp(Box<XdpGenerator>),
    /// A packet socket.
    Packet(Box<PacketGenerator>),
}

impl Generator {
    /// Makes a generator of one kind.
    pub fn new(kind: TesterKind, ifindex: u32, traffic: Traffic) -> Result<Self, LoadError> {
        Ok(match kind {
            TesterKind::Xdp => Generator::Xdp(Box::new(XdpGenerator::new([ifindex, 0], traffic)?)),
            TesterKind::Packet => {
                let sender = Arc::new(Sender::open(ifindex)?);
                Generator::Packet(Box::new(PacketGenerator::new([Some(sender), None], traffic)))
            }
        })
    }

    /// Makes calls of an XDP generator cheap, see [`IdleLoopback`]; call this in the loopback's namespace.
    pub fn hold_slot(&mut self, lo: IdleLoopback) -> Result<(), LoadError> {
        match self {
            Generator::Xdp(generator) => Ok(generator.hold_slot(lo)?),
            Generator::Packet(_) => Ok(()),
        }
    }

    /// Sends a steady `load` alternately, so that a thread that shares its CPU gets time between them. A packet socket paces
    /// itself as ever.
    pub fn send_with_pauses(
        &self,
        load: &Load,
        turn: Duration,
        control: &Control,
    ) -> Result<StreamCounts, LoadError> {
        match self {
            Generator::Xdp(generator) => {
                generator.send_with_pauses(load, turn, Start::of(1), control)?;
                Ok(generator.streams().swap_remove(0))
            }
            Generator::Packet(_) => Ok(self.send(load, control)?.0),
        }
    }

    /// Sends `load`; returns what was sent and how long that took.
    pub fn send(&self, load: &Load, control: &Control) -> Result<(StreamCounts, Duration), LoadError> {
        let start = Start::of(1);
        let (mut streams, sending) = match self {
            Generator::Xdp(generator) => {
                let sending = generator.send(load, start, control, || 0)?;
                (generator.streams(), sending)
            }
            Generator::Packet(generator) => generator.send(load, start, control, || 0)?,
        };
        Ok((streams.swap_remove(0), sending))
    }
}
