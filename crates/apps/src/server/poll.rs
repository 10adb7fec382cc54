//! One event loop with poll(2), whose kernel looks at every connection in each call.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use super::connections::{Connection, Connections};
use super::dialogue::{Dialogue, Next};
use super::{Shop, is_passing};
use crate::sys::{self, Waits};

/// Connections that are accepted before others are served.
const AT_ONCE: usize = 64;

pub(super) fn serve(shop: Shop<'_>, listener: &OwnedFd, ready: impl FnOnce()) -> io::Result<()> {
    let worker = shop.tally.worker(0);
    let mut connections = Connections::default();
    let mut watched = vec![watch(listener.as_raw_fd(), Next::Readable)];
    ready();
    loop {
        sys::poll(&mut watched)?;
        // From the end: a removed entry is replaced by one that has been checked.
        for index in (1..watched.len()).rev() {
            let fd = watched[index].fd;
            if watched[index].revents == 0 {
                continue;
            }
            match connections.of(fd).map_or(Next::End, Connection::advance) {
                Next::End => {
                    connections.remove(fd);
                    watched.swap_remove(index);
                    worker.ended();
                }
                next => watched[index] = watch(fd, next),
            }
        }
        for _ in 0..if watched[0].revents == 0 { 0 } else { AT_ONCE } {
            let socket = match sys::accept(listener.as_fd(), Waits::No) {
                Err(error) if is_passing(&error) => break,
                socket => socket?,
            };
            worker.accepted();
            let mut connection = Connection::new(socket, Dialogue::new(shop.service));
            match connection.advance() {
                Next::End => {
                    drop(connection);
                    worker.ended();
                }
                next => {
                    watched.push(watch(connection.fd(), next));
                    connections.insert(connection);
                }
            }
        }
    }
}

fn watch(fd: RawFd, next: Next) -> libc::pollfd {
    let events = if next == Next::Writable { libc::POLLOUT } else { libc::POLLIN };
    libc::pollfd { fd, events, revents: 0 }
}
