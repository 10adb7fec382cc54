//! An XDP program at an interface, for as long as this value lives.

use std::io;
use std::os::fd::OwnedFd;

use super::tap::promiscuous;
use super::{CaptureError, Interface, Options};
use crate::bpf::{BpfError, Link, Mode, Program, object};
use crate::packet::raw_socket;

/// The program, and what keeps it attached.
pub(crate) struct Attached {
    pub(crate) program: Program,
    mode: Mode,
    interface: Interface,
    /// Keeps the interface in promiscuous mode, where that was asked for.
    _member: OwnedFd,
    _link: Link,
}

impl Attached {
    /// Loads a program with maps for `queues` receive queues, and attaches it: in the driver if that can be, in the
    /// kernel's receive path else.
    pub(crate) fn new(
        interface: &Interface,
        options: &Options,
        what: &'static str,
        object: &'static object::Aligned<[u8]>,
        queues: u32,
    ) -> Result<Attached, CaptureError> {
        Attached::with(interface, options, load(what, object, queues)?)
    }

    /// The same with a program that is loaded.
    pub(crate) fn with(
        interface: &Interface,
        options: &Options,
        program: Program,
    ) -> Result<Attached, CaptureError> {
        let member = raw_socket().map_err(interface.refused("opening a packet socket"))?;
        if options.promiscuous {
            promiscuous(&member, interface.index())
                .map_err(interface.refused("turning promiscuous mode on"))?;
        }
        let (mode, link) = attach(&program, interface.index())?;
        Ok(Attached { program, mode, interface: interface.clone(), _member: member, _link: link })
    }

    /// Frames of a receive queue that the program has counted.
    pub(crate) fn arrived(&self, queue: u32) -> io::Result<u64> {
        let counts = self.program.read_per_cpu::<u64>("arrived", queue).map_err(io::Error::other)?;
        Ok(counts.iter().sum())
    }

    pub(crate) fn mode(&self) -> &'static str {
        match self.mode {
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }

    /// In the driver, before there is a socket buffer?
    pub(crate) fn is_native(&self) -> bool {
        self.mode == Mode::Native
    }

    pub(crate) fn interface(&self) -> &Interface {
        &self.interface
    }
}

fn load(
    what: &'static str,
    object: &'static object::Aligned<[u8]>,
    queues: u32,
) -> Result<Program, BpfError> {
    // An object has those of the maps that it needs.
    Program::load(what, object, &[("arrived", queues), ("sockets", queues)])
}

fn attach(program: &Program, index: u32) -> Result<(Mode, Link), BpfError> {
    match program.attach(index, Mode::Native) {
        Ok(link) => Ok((Mode::Native, link)),
        // A program that is there already is there in either mode: the first error says so.
        Err(first) => {
            program.attach(index, Mode::Generic).map(|link| (Mode::Generic, link)).map_err(|_| first)
        }
    }
}
