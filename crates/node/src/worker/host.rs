//! The machine that the node runs on: which stack gets the frames for the node itself, and what that stack sends.
//!
//! ```text
//!   port > plane > punted > tags of the port off > TAP device of the port > machine
//!   port < tags of the port on < stages of the plane < TAP device of the port < machine
//! ```
//! So the machine needs no interface with VLAN tags: on its TAP device it sees the link of the port without them.
//!
//! Invariant: each port has one recipient. A TAP device is heard by one thread, the first; all threads send there.

use std::io;
use std::os::fd::BorrowedFd;

use weir_plane::{Ingress, Plane, PortId};
use weir_port::duplex::{Chunk, Pool, Port};

use super::Worker;
use crate::handover::Origin;

/// Bytes of both Ethernet addresses, behind which tags stand.
const ADDRESSES: usize = 12;

/// The recipient of frames for the node itself that came in by a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// The stack behind the port.
    Kernel,
    /// The TAP device of this number.
    Tap(usize),
    /// None: they are dropped.
    None,
}

/// A TAP device, and the port by which frames leave that the machine sends there.
struct HostTap {
    device: Box<dyn Port>,
    port: PortId,
}

/// The machine, as a thread of the node sees it.
pub(crate) struct Machine {
    taps: Vec<HostTap>,
    /// By port: who gets its frames, and the tags that they have.
    ports: Vec<(Recipient, Vec<[u8; 4]>)>,
}

impl Machine {
    /// At these ports, with the same recipient for all.
    pub(crate) fn at(ports: &[weir_plane::Port], recipient: Recipient) -> Machine {
        Machine { taps: Vec::new(), ports: ports.iter().map(|port| (recipient, port.tags())).collect() }
    }

    /// By port, who gets its frames, and the tags that they have.
    pub(crate) fn set_ports(&mut self, ports: Vec<(Recipient, Vec<[u8; 4]>)>) {
        self.ports = ports;
    }

    /// A TAP device gets the frames of the ports `takes`; what the machine sends there leaves by `port`.
    pub(crate) fn add_tap(&mut self, device: Box<dyn Port>, port: PortId, takes: &[usize]) {
        for &taken in takes {
            self.ports[taken].0 = Recipient::Tap(self.taps.len());
        }
        self.taps.push(HostTap { device, port });
    }

    /// Gives the machine frames that came in by `port`, which has this number.
    fn give(
        &mut self,
        number: usize,
        port: &mut dyn Port,
        pool: &mut Pool,
        frames: &mut Vec<Chunk>,
    ) -> io::Result<()> {
        let (recipient, tags) = &self.ports[number];
        match *recipient {
            Recipient::Kernel => port.leave_to_machine(pool, frames),
            Recipient::Tap(tap) => {
                frames.iter_mut().for_each(|chunk| untag(pool, chunk, tags));
                self.taps[tap].device.send(pool, frames)
            }
            Recipient::None => {
                frames.drain(..).for_each(|chunk| pool.give_back(chunk));
                Ok(())
            }
        }
    }

    /// Can be read when the machine has sent a frame.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.taps.iter().filter_map(|tap| tap.device.descriptor())
    }

    /// From now on the machine sends nothing more.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.taps.iter_mut().try_for_each(|tap| tap.device.stop())
    }
}

impl Worker {
    /// Gives the machine what is its own, the queue of the first reason first.
    pub(super) fn leave_to_machine(&mut self) -> io::Result<()> {
        for queues in &mut self.punted {
            let ports = self.ports.iter_mut().zip(queues).enumerate();
            for (number, (port, queue)) in ports.filter(|(_, (_, queue))| !queue.is_empty()) {
                self.machine.give(number, &mut **port, &mut self.pool, queue)?;
            }
        }
        Ok(())
    }

    /// Passes what the machine has sent through the plane; false if there was nothing.
    pub(super) fn hear_machine(&mut self) -> io::Result<bool> {
        let mut any = false;
        for n in 0..self.machine.taps.len() {
            let HostTap { device, port } = &mut self.machine.taps[n];
            device.receive(&mut self.pool, &mut self.arrived)?;
            if !self.arrived.is_empty() {
                any = true;
                let origin = Origin { ingress: Ingress::Machine, ..Origin::wire(*port) };
                self.arrived_by.resize(self.arrived.len(), origin);
                self.pass_batch(Plane::send);
                self.resume();
            }
        }
        Ok(any)
    }
}

/// Takes the tags of its port out of a frame, as far as it has them: frames of the node's own have none.
fn untag(pool: &mut Pool, chunk: &mut Chunk, tags: &[[u8; 4]]) {
    let bytes = pool.bytes_mut(chunk);
    let is_tag = |(there, tag): &(&[u8; 4], &[u8; 4])| {
        // The upper four bits of a tag are its priority.
        let [a, b, high, low] = **there;
        [a, b, high & 15, low] == **tag
    };
    let behind = bytes.get(ADDRESSES..).unwrap_or_default().as_chunks().0;
    let removed = 4 * behind.iter().zip(tags).take_while(is_tag).count();
    if removed > 0 {
        bytes.copy_within(..ADDRESSES, removed);
        let range = chunk.range();
        chunk.set_range(range.start + removed..range.end);
    }
}
