//! Event loops with epoll(7): one, several with one socket that listens (EPOLLEXCLUSIVE), or several with one each
//! (SO_REUSEPORT).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::thread;

use weir_flows::epoll::{Epoll, Events, ONE_OF_US, ONLY_NEWS, READ, WRITE};

use super::connections::{Connection, Connections};
use super::dialogue::{Dialogue, Next};
use super::{Architecture, Shop, is_passing};
use crate::sys::{self, Waits};
use crate::tally::Worker;

/// Connections that are accepted before others are served.
const AT_ONCE: usize = 64;

pub(super) fn serve(shop: Shop<'_>, sockets: &[OwnedFd], ready: impl FnOnce()) -> io::Result<()> {
    let loops = match shop.service.architecture {
        Architecture::Epoll => 1,
        _ => shop.service.reactors.max(1) as usize,
    };
    thread::scope(|scope| {
        let mut reactors = Vec::new();
        for number in 0..loops {
            let mut reactor = Reactor::new(shop, &sockets[number % sockets.len()], number)?;
            reactors.push(thread::Builder::new().spawn_scoped(scope, move || reactor.run())?);
        }
        ready();
        reactors.into_iter().try_for_each(|reactor| reactor.join().expect("it does not panic"))
    })
}

struct Reactor<'a> {
    shop: Shop<'a>,
    worker: &'static Worker,
    listener: &'a OwnedFd,
    epoll: Epoll,
    connections: Connections,
}

impl<'a> Reactor<'a> {
    fn new(shop: Shop<'a>, listener: &'a OwnedFd, number: usize) -> io::Result<Reactor<'a>> {
        let epoll = Epoll::new()?;
        let only_one = match shop.service.architecture {
            Architecture::EpollExclusive => ONE_OF_US,
            _ => 0,
        };
        epoll.add(listener, READ | only_one, listener.as_raw_fd() as u64)?;
        let worker = shop.tally.worker(number);
        Ok(Reactor { shop, worker, listener, epoll, connections: Connections::default() })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::default();
        loop {
            for (token, _) in self.epoll.wait(&mut events, None)? {
                let fd = token as RawFd;
                if fd == self.listener.as_raw_fd() {
                    self.accept()?;
                } else {
                    self.proceed(fd)?;
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            let socket = match sys::accept(self.listener.as_fd(), Waits::No) {
                Err(error) if is_passing(&error) => return Ok(()),
                socket => socket?,
            };
            self.worker.accepted();
            let mut connection = Connection::new(socket, Dialogue::new(self.shop.service));
            let interest = match connection.advance() {
                Next::End => {
                    drop(connection);
                    self.worker.ended();
                    continue;
                }
                next => interest(next),
            };
            self.epoll.add(&connection.fd(), interest, connection.fd() as u64)?;
            self.connections.insert(connection);
        }
        Ok(())
    }

    fn proceed(&mut self, fd: RawFd) -> io::Result<()> {
        let Some(connection) = self.connections.of(fd) else { return Ok(()) };
        match connection.advance() {
            Next::End => {
                self.connections.remove(fd);
                self.worker.ended();
                Ok(())
            }
            Next::Writable => self.epoll.change(&fd, interest(Next::Writable), fd as u64),
            // It was watched for nothing else, but for the rare reply that did not fit.
            Next::Readable => Ok(()),
        }
    }
}

/// Edge-triggered: a dialogue goes on until it would wait, so that it needs to hear only of what is new.
fn interest(next: Next) -> u32 {
    ONLY_NEWS
        | match next {
            Next::Writable => READ | WRITE,
            Next::Readable | Next::End => READ,
        }
}
