//! Servers of each architecture: the same reply to each connection, by processes, threads or an event loop.
//!
//! ```text
//! fork, fork-exec    one process waits for connections, and starts one for each
//! prefork            processes that all wait for connections
//! thread             one thread waits, and starts one for each
//! pool               threads that all wait
//! poll, epoll        one thread for all connections
//! epoll-exclusive    several threads, one queue of connections; one of them is woken
//! reuseport          several threads, a queue each
//! io-uring           one thread that hands its calls to the kernel in batches
//! tokio              the event loop that most Rust programs have
//! ```
//! The server closes first: the pairs of addresses that then wait (TIME_WAIT) are its own, and the client's ports are free.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sys::{self, PortUse};
use crate::tally::Tally;

mod connections;
mod dialogue;
mod epoll;
mod http;
mod poll;
mod process;
mod thread;
mod tokio;
mod uring;

/// For fuzz targets.
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz {
    pub(crate) use super::dialogue::{Dialogue, Next};
}

pub use dialogue::Reply;
pub use http::BODY;
pub(crate) use process::{ANSWER, answer};

/// How a server is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "explained above")]
pub enum Architecture {
    Fork,
    ForkExec,
    Prefork,
    Thread,
    Pool,
    Poll,
    Epoll,
    EpollExclusive,
    Reuseport,
    IoUring,
    Tokio,
}

impl Architecture {
    /// All of them with the names that plans and records use.
    pub const ALL: [(Architecture, &'static str); 11] = [
        (Architecture::Fork, "fork"),
        (Architecture::ForkExec, "fork-exec"),
        (Architecture::Prefork, "prefork"),
        (Architecture::Thread, "thread"),
        (Architecture::Pool, "pool"),
        (Architecture::Poll, "poll"),
        (Architecture::Epoll, "epoll"),
        (Architecture::EpollExclusive, "epoll-exclusive"),
        (Architecture::Reuseport, "reuseport"),
        (Architecture::IoUring, "io-uring"),
        (Architecture::Tokio, "tokio"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Architecture::ALL.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }

    /// Has it one event loop or more, in place of a process or thread for each connection?
    pub fn is_event_loop(self) -> bool {
        use Architecture::{Epoll, EpollExclusive, IoUring, Poll, Reuseport, Tokio};
        matches!(self, Poll | Epoll | EpollExclusive | Reuseport | IoUring | Tokio)
    }

    /// Why it does not work here.
    pub fn obstacle(self) -> Option<String> {
        (self == Architecture::IoUring).then(uring::obstacle)?
    }
}

/// When a server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Closing {
    /// As soon as it has replied.
    AfterReply,
    /// When its client has: the client decides how long connections are held.
    AfterClient,
}

/// What a server is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// How it is built.
    pub architecture: Architecture,
    /// The reply to each request.
    pub reply: Reply,
    /// When it closes.
    pub closing: Closing,
    /// Where it listens; port 0: the kernel chooses.
    pub listen: SocketAddrV4,
    /// Connections that may wait to be accepted, for each socket that listens.
    pub backlog: u32,
    /// Processes of `prefork`, threads of `pool`.
    pub workers: u32,
    /// Threads of `epoll-exclusive`, `reuseport` and `tokio`.
    pub reactors: u32,
    /// A file that does not exist yet, for [`crate::Counts`].
    pub counts: Option<PathBuf>,
}

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// The port.
    pub port: u16,
    /// The backlog that the kernel has given it, for each socket.
    pub backlog: u32,
    /// Sockets that listen on the port.
    pub sockets: u32,
}

/// What every architecture needs.
#[derive(Clone, Copy)]
struct Shop<'a> {
    service: &'a Service,
    tally: Tally,
}

/// Serves until SIGTERM or SIGINT; `ready` is called when connections may come. The process must have one thread, and
/// must be one of its own: all of its process group is ended with it.
///
/// # Errors
/// It cannot listen, or not go on; the message says what to do.
pub fn serve(service: &Service, ready: impl FnOnce(Listening)) -> io::Result<()> {
    let descriptors = sys::raise_descriptor_limit();
    let shop = Shop { service, tally: Tally::new(service.counts.as_deref())? };
    let sockets = listeners(service)?;
    let first = &sockets[0];
    let listening = Listening {
        port: sys::local_port(first)?,
        backlog: sys::backlog(first)?,
        sockets: sockets.len() as u32,
    };
    let listens = || ready(listening);
    let result = match service.architecture {
        Architecture::Fork | Architecture::ForkExec => process::for_each(shop, first, listens),
        Architecture::Prefork => process::prefork(shop, first, listens),
        Architecture::Thread => thread::for_each(shop, first, listens),
        Architecture::Pool => thread::pool(shop, first, listens),
        Architecture::Poll => poll::serve(shop, first, listens),
        Architecture::Epoll | Architecture::EpollExclusive | Architecture::Reuseport => {
            epoll::serve(shop, &sockets, listens)
        }
        Architecture::IoUring => uring::serve(shop, first, listens),
        Architecture::Tokio => tokio::serve(shop, sockets, listens),
    };
    result.map_err(|error| explained(error, descriptors))
}

fn listeners(service: &Service) -> io::Result<Vec<OwnedFd>> {
    let (count, share) = match service.architecture {
        Architecture::Reuseport => (service.reactors.max(1), PortUse::Shared),
        _ => (1, PortUse::Alone),
    };
    let first = sys::listen(service.listen, service.backlog, share)?;
    let mut at = service.listen;
    at.set_port(sys::local_port(&first)?);
    let others = (1..count).map(|_| sys::listen(at, service.backlog, share));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// Errors whose cause is a limit, with the remedy.
fn explained(error: io::Error, descriptors: u64) -> io::Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EMFILE) => format!(
            "the process may have {descriptors} descriptors: raise the hard limit (ulimit -Hn), or use fewer connections"
        ),
        Some(libc::ENFILE) => "the system has no descriptors left: raise fs.file-max".into(),
        Some(libc::EAGAIN) => {
            "no more processes or threads: raise the limit (ulimit -u, pids.max), or use fewer connections"
                .into()
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {remedy}"))
}

/// Is the connection gone that was to be accepted, or is there none? Then the next one is tried.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}
