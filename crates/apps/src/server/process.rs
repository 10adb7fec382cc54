//! Processes: one for each connection, with or without its own program (inetd), or some that all wait for connections.
//!
//! Their parent waits for each that ends: a process whose parent does not, leaves no account of its CPU time.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::dialogue::Dialogue;
use super::thread::accept_for_ever;
use super::{Architecture, Closing, Reply, Shop, is_passing};
use crate::sys::{self, Forked, Signals, Waits};

const END: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGINT];

/// Name of a program for one connection, which is its standard input.
pub(crate) const ANSWER: &str = "app-answer";

/// What a program that is started for one connection is to do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Answer {
    reply: Reply,
    closing: Closing,
}

/// The dialogue on standard input, which is the connection.
pub(crate) fn answer(order: Answer) {
    Dialogue::of(order.reply, order.closing).advance(io::stdin().as_fd());
}

pub(super) fn for_each(shop: Shop<'_>, listener: &OwnedFd, ready: impl FnOnce()) -> io::Result<()> {
    let worker = shop.tally.worker(0);
    let program = match shop.service.architecture {
        Architecture::ForkExec => Some(Program::new(shop)?),
        _ => None,
    };
    sys::lead_group()?;
    let mut signals = Signals::of(&[END[0], END[1], libc::SIGCHLD])?;
    let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut watched = [watch(listener.as_raw_fd()), watch(signals.fd())];
    ready();
    loop {
        sys::poll(&mut watched)?;
        if watched[1].revents != 0 {
            if END.contains(&signals.next()?) {
                end_children();
                return Ok(());
            }
            while sys::reap() {
                worker.ended();
            }
        }
        if watched[0].revents == 0 {
            continue;
        }
        let socket = match sys::accept(listener.as_fd(), Waits::Yes) {
            Err(error) if is_passing(&error) => continue,
            socket => socket?,
        };
        worker.accepted();
        // SAFETY: no architecture with processes starts a thread, see `serve`.
        if let Forked::Child = unsafe { sys::fork() }? {
            sys::unblock_signals();
            match &program {
                Some(program) => program.take_over(socket.as_fd()),
                None => drop(Dialogue::new(shop.service).advance(socket.as_fd())),
            }
            sys::exit_at_once(0);
        }
    }
}

pub(super) fn prefork(shop: Shop<'_>, listener: &OwnedFd, ready: impl FnOnce()) -> io::Result<()> {
    sys::set_waits(listener.as_fd(), Waits::Yes)?;
    sys::lead_group()?;
    let mut signals = Signals::of(&END)?;
    for number in 0..shop.service.workers.max(1) as usize {
        // SAFETY: as above.
        if let Forked::Child = unsafe { sys::fork() }? {
            sys::unblock_signals();
            let result = accept_for_ever(shop, listener, number);
            eprintln!("{}", result.err().map_or_else(String::new, |error| error.to_string()));
            sys::exit_at_once(1);
        }
    }
    ready();
    signals.next()?;
    end_children();
    Ok(())
}

/// Ends all that is left of them, and takes their accounts in.
fn end_children() {
    // The parent has blocked it.
    sys::signal_group(libc::SIGTERM);
    sys::reap_all();
}

/// This program again, for one connection.
struct Program {
    path: CString,
    arguments: Vec<CString>,
}

impl Program {
    fn new(shop: Shop<'_>) -> io::Result<Program> {
        let order = Answer { reply: shop.service.reply, closing: shop.service.closing };
        let arguments = ["weir", ANSWER, &serde_json::to_string(&order)?];
        let arguments = arguments.map(|text| CString::new(text).map_err(io::Error::from));
        Ok(Program {
            path: c"/proc/self/exe".into(),
            arguments: arguments.into_iter().collect::<Result<_, _>>()?,
        })
    }

    /// Replaces this process; returns only if that fails.
    fn take_over(&self, socket: BorrowedFd<'_>) {
        let mut arguments: Vec<_> = self.arguments.iter().map(|text| text.as_ptr()).collect();
        arguments.push(std::ptr::null());
        // SAFETY: strings and the list of them, which ends with null, outlive the calls.
        unsafe {
            libc::dup2(socket.as_raw_fd(), 0);
            libc::execv(self.path.as_ptr(), arguments.as_ptr());
        }
    }
}
