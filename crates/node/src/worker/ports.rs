//! Ports of a thread, which are added, changed and removed between two batches.
//!
//! Invariant: each number that the plane may name has a port. A number whose port was removed, or is not added yet, has a port that
//! receives nothing and drops all frames that it is to send.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_port::duplex::{Account, Chooser, Chunk, Pool, Port};

use super::{Recipient, Worker};
use crate::counters::Shown;

/// What a thread gets of a text's ports.
pub(crate) struct PortParts {
    /// The parts of ports that come.
    pub(crate) new: Vec<(usize, Box<dyn Port>)>,
    /// Ports that go.
    pub(crate) gone: Vec<usize>,
    /// By port: who gets its frames, and the tags that they have.
    pub(crate) machine: Vec<(Recipient, Vec<[u8; 4]>)>,
    /// By port, the length of its longest frame without tags; 0: there is no port.
    pub(crate) longest: Vec<usize>,
}

/// The port of a number without one: it receives nothing and drops all frames.
struct NoPort;

impl Port for NoPort {
    fn receive(&mut self, _: &mut Pool, _: &mut Vec<Chunk>) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        frames.drain(..).for_each(|chunk| pool.give_back(chunk));
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_over(&self) -> bool {
        true
    }

    fn account(&mut self) -> io::Result<Account> {
        Ok(Account::default())
    }

    fn method(&self) -> String {
        "none".into()
    }
}

/// What was in the places of ports, and where counters are shown from now on.
pub(crate) type Replaced = (Vec<Box<dyn Port>>, Arc<Shown>);

impl Worker {
    /// Makes places for ports up to this number, before the plane names them.
    pub(crate) fn make_places(&mut self, places: usize) -> io::Result<Arc<Shown>> {
        let places = places.max(self.ports.len());
        self.ports.resize_with(places, || Box::new(NoPort));
        self.out.resize_with(places, Vec::new);
        self.punted.iter_mut().for_each(|queues| queues.resize_with(places, Vec::new));
        self.show_anew()
    }

    /// Takes ports that come into their places, which the plane knows by now, and others away, which it names no more. Returns what was
    /// in these places, to be closed by the caller, and where counters are shown from now on.
    pub(crate) fn exchange_ports(&mut self, parts: PortParts) -> io::Result<Replaced> {
        let PortParts { new, gone, machine, longest } = parts;
        let gone = gone.into_iter().map(|n| (n, Box::new(NoPort) as Box<dyn Port>));
        let new = new.into_iter().map(|(n, mut port)| {
            port.begin(&mut self.pool);
            (n, port)
        });
        let replaced = gone.chain(new).map(|(n, port)| std::mem::replace(&mut self.ports[n], port)).collect();
        self.machine.set_ports(machine);
        if let Some(control) = &mut self.control {
            control.longest = longest;
        }
        Ok((replaced, self.show_anew()?))
    }

    /// Takes the chunks back that a port had which was closed.
    pub(crate) fn take_back(&mut self, chunks: Vec<Chunk>) {
        chunks.into_iter().for_each(|chunk| self.pool.give_back(chunk));
    }

    /// By what these ports take other frames from their interfaces.
    pub(crate) fn choosers(&self, numbers: &[usize]) -> io::Result<Vec<Option<Chooser>>> {
        numbers.iter().map(|&n| self.ports[n].chooser()).collect()
    }

    /// A snapshot has another form.
    fn show_anew(&mut self) -> io::Result<Arc<Shown>> {
        let shown = Arc::new(Shown::new(&self.snapshot()?));
        self.new_shown = Some(shown.clone());
        Ok(shown)
    }

    /// Whether no frame is on its way here from another thread.
    pub(crate) fn is_unhanded(&self) -> bool {
        self.exchange.is_empty()
    }
}
