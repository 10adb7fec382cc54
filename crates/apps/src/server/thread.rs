//! Threads: one for each connection, or some that all wait for connections.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use super::dialogue::Dialogue;
use super::{Shop, is_passing};
use crate::sys::{self, Waits};

/// A thread's stack: address space, of which the kernel gives memory to what is used.
const STACK: usize = 128 * 1024;

pub(super) fn for_each(shop: Shop<'_>, listener: &OwnedFd, ready: impl FnOnce()) -> io::Result<()> {
    sys::set_waits(listener.as_fd(), Waits::Yes)?;
    let (worker, reply, closing) = (shop.tally.worker(0), shop.service.reply, shop.service.closing);
    ready();
    loop {
        let socket = match sys::accept(listener.as_fd(), Waits::Yes) {
            Err(error) if is_passing(&error) => continue,
            socket => socket?,
        };
        worker.accepted();
        thread::Builder::new().stack_size(STACK).spawn(move || {
            Dialogue::of(reply, closing).advance(socket.as_fd());
            drop(socket);
            worker.ended();
        })?;
    }
}

pub(super) fn pool(shop: Shop<'_>, listener: &OwnedFd, ready: impl FnOnce()) -> io::Result<()> {
    sys::set_waits(listener.as_fd(), Waits::Yes)?;
    thread::scope(|scope| {
        let start = |number| {
            let work = move || accept_for_ever(shop, listener, number as usize);
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)
        };
        let threads = (0..shop.service.workers.max(1)).map(start).collect::<io::Result<Vec<_>>>()?;
        ready();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

/// One of several, threads or processes, that wait in accept(2) for the same socket; the kernel wakes one, first come,
/// first served.
pub(super) fn accept_for_ever(shop: Shop<'_>, listener: &OwnedFd, number: usize) -> io::Result<()> {
    let worker = shop.tally.worker(number);
    loop {
        let socket = match sys::accept(listener.as_fd(), Waits::Yes) {
            Err(error) if is_passing(&error) => continue,
            socket => socket?,
        };
        worker.accepted();
        Dialogue::new(shop.service).advance(socket.as_fd());
        drop(socket);
        worker.ended();
    }
}
