//! The tester on the link: it answers for its own addresses, and asks for those of the box.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_packet::neighbour::{Heard, Host, answer, parse, question};
use weir_port::neighbour::NeighbourSocket;
use weir_port::packet::PacketError;

use crate::error::{Error, Result};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Mac;

/// How long the box is asked for its address: a bridge or a switch between may still be learning.
const PATIENCE: Duration = Duration::from_secs(5);
/// A question is repeated after this long.
const REPEAT: Duration = Duration::from_millis(200);
/// Time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A thread that answers questions about the tester's addresses until this is dropped.
pub(super) struct Responder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Starts answering on an interface for these hosts.
    pub(super) fn start(here: &Namespace, ifindex: u32, hosts: Vec<Host>) -> Result<Responder> {
        let socket = here.run(|| NeighbourSocket::open(ifindex)).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = here.spawn("neighbours", move || {
            while !stopped.load(Ordering::Relaxed) {
                // An interface that went down ends it; the trial will say so.
                let Ok(frame) = socket.receive(LOOK) else { return };
                if let Some(reply) = frame.and_then(|frame| reply(&frame, &hosts))
                    && socket.send(&reply).is_err()
                {
                    return;
                }
            }
        })?;
        Ok(Responder { stop, thread: Some(thread) })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed why; there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

fn reply(frame: &[u8], hosts: &[Host]) -> Option<Vec<u8>> {
    let Heard::Question { from, target } = parse(frame)? else { return None };
    let host = hosts.iter().find(|host| host.ip == target)?;
    Some(answer(*host, from))
}

/// The Ethernet address of `target`, asked by `from`.
///
/// # Errors
/// [`Error::Input`] if there is no answer.
pub(super) fn resolve(ifindex: u32, from: Host, target: std::net::IpAddr) -> Result<Mac> {
    let socket = NeighbourSocket::open(ifindex).map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        socket.send(&question(from, target)).map_err(failed)?;
        let again = Instant::now() + REPEAT;
        while let Some(left) = again.checked_duration_since(Instant::now()) {
            let Some(frame) = socket.receive(left).map_err(failed)? else { continue };
            match parse(&frame) {
                Some(Heard::Answer(host)) if host.ip == target => return Ok(host.mac),
                _ => {}
            }
        }
    }
    Err(Error::Input(format!(
        "no neighbour answers for {target}, the address of the device: check cable and address (`weir setup` prints the \
         configuration of the device), or set its MAC address with `mac` in [external]"
    )))
}

fn failed(error: PacketError) -> Error {
    Error::Input(error.to_string())
}
