//! I/O of a run: one thread between the interfaces and the [`Emulator`].
//!
//! ```text
//!  access interface <> AF_PACKET ring of 4,096 frames <> Emulator <> AF_PACKET ring <> far interface
//!                                                            <> TAP device of device 0
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bng::Mac;
use weir_linux::rtnl::Rtnl;
use weir_port::bpf::now_ns;
use weir_port::duplex::{
    self, BATCH, CaptureError, Chunk, FRONT, Packet, PacketOptions, Pool, Port, ReceiveMode, Tap, mac_of,
};

use crate::emulator::{Emulator, Output, Phase, Side};
use crate::options::Options;
use crate::summary::Summary;

/// Longest frame with two tags and the headers of PPPoE, without FCS.
const LONGEST: usize = 1530;
const CHUNKS: u32 = 1024;
/// Longest wait, so that a stop is seen.
const LOOK: Duration = Duration::from_millis(50);
/// A shorter wait costs more than it saves: the kernel may wake 50 us late.
const SPIN_NS: u64 = 60_000;

/// Interfaces of a run, in the network namespace of the calling thread.
#[derive(Debug, Clone, Copy)]
pub struct Interfaces<'a> {
    /// Where the devices are.
    pub access: &'a str,
    /// Where the own far end is.
    pub far: Option<&'a str>,
    /// The TAP device that is made for device 0, or for all.
    pub tap: Option<&'a str>,
}

/// Why a run could not be made or ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The options.
    #[error("{0}")]
    Options(String),
    /// An interface cannot be used.
    #[error(transparent)]
    Port(#[from] CaptureError),
    /// An interface failed meanwhile.
    #[error(
        "{interface} failed while frames were sent and received: {source}; check that it still exists and is up"
    )]
    Failed {
        /// Its name.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// No memory.
    #[error("no memory for frames: {0}")]
    Memory(io::Error),
    /// The address could not be set.
    #[error("{interface} did not get the address {address} or its MTU: {source}")]
    Address {
        /// The TAP device.
        interface: String,
        /// The address of device 0.
        address: Ipv4Addr,
        /// What the kernel said.
        source: weir_linux::Error,
    },
}

/// One interface with its frames on the way out.
pub(crate) struct Link {
    name: String,
    port: Box<dyn Port>,
    leaving: Vec<Chunk>,
    /// Frames for which no memory was left.
    no_room: u64,
}

impl Link {
    /// Opens the interface for all frames, also for other MAC addresses than its own.
    pub(crate) fn open(name: &str) -> Result<Link, CaptureError> {
        let options =
            PacketOptions { longest: LONGEST, mode: ReceiveMode::Promiscuous, tags: None, rings: 4 };
        let port = Packet::open_with(name, &options)?;
        Ok(Link {
            name: name.to_string(),
            port: Box::new(port),
            leaving: Vec::with_capacity(BATCH),
            no_room: 0,
        })
    }

    fn failed(&self, source: io::Error) -> RunError {
        RunError::Failed { interface: self.name.clone(), source }
    }

    /// Hands each frame that has arrived to `take`; their number.
    pub(crate) fn receive(
        &mut self,
        pool: &mut Pool,
        mut take: impl FnMut(&[u8]),
    ) -> Result<usize, RunError> {
        let mut arrived = Vec::with_capacity(BATCH);
        self.port.receive(pool, &mut arrived).map_err(|source| self.failed(source))?;
        let count = arrived.len();
        for chunk in arrived {
            take(pool.bytes(&chunk));
            pool.give_back(chunk);
        }
        Ok(count)
    }

    /// Adds a frame that `write` writes; false: there is none, or no room.
    pub(crate) fn push(&mut self, pool: &mut Pool, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let Some(mut chunk) = pool.take() else { return false };
        chunk.set_range(FRONT..FRONT + pool.longest());
        match write(pool.bytes_mut(&chunk)) {
            Some(bytes) => {
                chunk.set_range(FRONT..FRONT + bytes);
                self.leaving.push(chunk);
                true
            }
            None => {
                pool.give_back(chunk);
                false
            }
        }
    }

    /// Sends what was added.
    pub(crate) fn flush(&mut self, pool: &mut Pool) -> Result<(), RunError> {
        if self.leaving.is_empty() {
            return Ok(());
        }
        self.port
            .send(pool, &mut self.leaving)
            .map_err(|source| RunError::Failed { interface: self.name.clone(), source })
    }

    /// Frames that were lost here, by name.
    fn losses(&mut self) -> Vec<(String, u64)> {
        let drops = self.port.account().map(|account| account.drops).unwrap_or_default();
        let all =
            drops.into_iter().map(|drops| (drops.name, drops.frames)).chain([("no memory", self.no_room)]);
        let lost = all.filter(|(_, frames)| *frames > 0);
        lost.map(|(name, frames)| (format!("{}: {name}", self.name), frames)).collect()
    }
}

/// A frame that is copied out.
pub(crate) fn copied(frame: &[u8]) -> impl FnOnce(&mut [u8]) -> Option<usize> + '_ {
    |room| {
        room.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(frame.len())
    }
}

/// Memory for the frames of a thread.
pub(crate) fn pool() -> Result<Pool, RunError> {
    Pool::new(CHUNKS, LONGEST).map_err(RunError::Memory)
}

/// Waits for a frame on one of these, or for a time.
pub(crate) fn wait(links: &[&Link], time: Duration) -> Result<(), RunError> {
    let descriptors: Vec<BorrowedFd<'_>> = links.iter().filter_map(|link| link.port.descriptor()).collect();
    let failed =
        |source| RunError::Failed { interface: links.iter().map(|link| &*link.name).collect(), source };
    duplex::wait(&descriptors, time).map(drop).map_err(failed)
}

/// The interfaces, open.
struct Links {
    access: Link,
    far: Option<Link>,
    tap: Option<Link>,
    pool: Pool,
    /// Devices whose addresses the TAP device has.
    addressed: u32,
}

impl Links {
    fn open(interfaces: &Interfaces<'_>, options: &Options) -> Result<Links, RunError> {
        let tap = interfaces.tap.map(|name| -> Result<Link, RunError> {
            let port = Box::new(Tap::open(name, Some(options.first_mac.0))?);
            Ok(Link { name: name.to_string(), port, leaving: Vec::new(), no_room: 0 })
        });
        Ok(Links {
            access: Link::open(interfaces.access)?,
            far: interfaces.far.map(Link::open).transpose()?,
            tap: tap.transpose()?,
            pool: pool()?,
            addressed: 0,
        })
    }

    /// Takes in what has arrived; the number of frames.
    fn receive(
        &mut self,
        emulator: &mut Emulator,
        begin_ns: u64,
        out: &mut Vec<Output>,
    ) -> Result<usize, RunError> {
        let pool = &mut self.pool;
        let now_ns = || now_ns() - begin_ns;
        let mut count = self.access.receive(pool, |frame| emulator.access_frame(frame, now_ns(), out))?;
        if let Some(far) = &mut self.far {
            count += far.receive(pool, |frame| emulator.far_frame(frame, now_ns(), out))?;
        }
        if let Some(tap) = &mut self.tap {
            count += tap.receive(pool, |frame| emulator.tap_frame(frame, out))?;
        }
        Ok(count)
    }

    /// Sends what the emulator wants to send.
    fn send(&mut self, out: &mut Vec<Output>) -> Result<(), RunError> {
        for output in out.drain(..) {
            let (link, frame) = match &output {
                Output::Access(frame) => (Some(&mut self.access), frame),
                Output::Far(frame) => (self.far.as_mut(), frame),
                Output::Tap(frame) => (self.tap.as_mut(), frame),
            };
            if let Some(link) = link {
                link.no_room += u64::from(!link.push(&mut self.pool, copied(frame)));
            }
        }
        self.access.flush(&mut self.pool)?;
        let others = self.far.iter_mut().chain(&mut self.tap);
        for link in others {
            link.flush(&mut self.pool)?;
        }
        Ok(())
    }

    /// Sends the frames of the traffic and of the flood that are due, at most a batch of each on each side; their number.
    fn send_traffic(&mut self, emulator: &mut Emulator, now_ns: u64) -> Result<usize, RunError> {
        let sides = [(Side::Access, Some(&mut self.access)), (Side::Far, self.far.as_mut())];
        let mut count = 0;
        for (side, link) in sides {
            let Some(link) = link else { continue };
            while link.leaving.len() < BATCH
                && link.push(&mut self.pool, |frame| emulator.traffic(side, now_ns, frame))
            {
                count += 1;
            }
            link.flush(&mut self.pool)?;
        }
        while self.access.leaving.len() < BATCH
            && let Some(frame) = emulator.flood(now_ns)
        {
            count += 1;
            self.access.no_room += u64::from(!self.access.push(&mut self.pool, copied(&frame)));
        }
        self.access.flush(&mut self.pool)?;
        Ok(count)
    }

    /// Gives the TAP device the addresses of its devices, in their order, once they have them.
    fn address_tap(
        &mut self,
        emulator: &Emulator,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), RunError> {
        let Some(tap) = &self.tap else { return Ok(()) };
        for lease in emulator.tap_leases(self.addressed) {
            self.addressed += 1;
            let address = lease.address;
            let failed = |source| RunError::Address { interface: tap.name.clone(), address, source };
            let mut rtnl = Rtnl::open().map_err(failed)?;
            let index = rtnl.link(&tap.name).map_err(failed)?.ifindex;
            if let Some(mtu) = lease.mtu {
                rtnl.set_mtu(index, mtu.into()).map_err(failed)?;
            }
            rtnl.add_address(index, IpAddr::V4(address), lease.prefix_len).map_err(failed)?;
            observe(Event::Tap { name: &tap.name, address, gateway: lease.gateway });
        }
        Ok(())
    }

    fn wait(&self, time: Duration) -> Result<(), RunError> {
        let links: Vec<&Link> =
            [Some(&self.access), self.far.as_ref(), self.tap.as_ref()].into_iter().flatten().collect();
        wait(&links, time)
    }

    fn losses(&mut self) -> Vec<(String, u64)> {
        let mut losses = self.access.losses();
        losses.extend(self.far.as_mut().map(Link::losses).into_iter().flatten());
        losses.extend(self.tap.as_mut().map(Link::losses).into_iter().flatten());
        losses
    }
}

/// What an observer of a run is told.
pub enum Event<'a> {
    /// The interface has the address of device 0, or of another one; its user adds routes by this gateway.
    Tap {
        /// The interface.
        name: &'a str,
        /// Its address.
        address: Ipv4Addr,
        /// The gateway, if the BNG named one.
        gateway: Option<Ipv4Addr>,
    },
    /// Where the run is; told at every pass.
    Progress(&'a Emulator),
}

/// Makes a run, and returns its figures.
///
/// # Errors
/// The options contradict themselves, or an interface cannot be used.
pub fn run(
    options: Options,
    interfaces: &Interfaces<'_>,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Summary, RunError> {
    let mut links = Links::open(interfaces, &options)?;
    let far_mac = interfaces.far.map(mac_of).transpose()?.map_or(Mac::default(), Mac);
    let mut emulator = Emulator::new(options, far_mac).map_err(RunError::Options)?;
    let begin_ns = now_ns();
    let mut out = Vec::new();
    while emulator.phase() != Phase::Done {
        let now = now_ns() - begin_ns;
        if stop.load(Ordering::Relaxed) {
            emulator.stop(now);
        }
        emulator.advance(now, &mut out);
        let sent = out.len() + links.send_traffic(&mut emulator, now)?;
        links.send(&mut out)?;
        let received = links.receive(&mut emulator, begin_ns, &mut out)?;
        links.send(&mut out)?;
        links.address_tap(&emulator, observe)?;
        observe(Event::Progress(&emulator));
        let idle_ns = emulator.due_ns().saturating_sub(now_ns() - begin_ns);
        if sent + received == 0 && idle_ns > SPIN_NS {
            links.wait(LOOK.min(Duration::from_nanos(idle_ns - SPIN_NS / 2)))?;
        }
    }
    Ok(Summary { own_losses: links.losses(), ..emulator.summary() })
}
