//! Many sockets in one wait (epoll(7)), for event loops of this crate and others.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::sys::checked;

/// Something can be read.
pub const READ: u32 = libc::EPOLLIN as u32;
/// There is room to write.
pub const WRITE: u32 = libc::EPOLLOUT as u32;
/// Of several that wait for the same, one is woken.
pub const ONE_OF_US: u32 = libc::EPOLLEXCLUSIVE as u32;
/// Only what is new is said.
pub const ONLY_NEWS: u32 = libc::EPOLLET as u32;
/// The other side sends no more; is said if it is asked for.
pub const ENDED: u32 = libc::EPOLLRDHUP as u32;
/// Both sides have ended, or the connection is broken; is said unasked.
pub const BROKEN: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// An epoll instance. A descriptor is watched until it is closed; its events carry a token.
pub struct Epoll(OwnedFd);

/// Room for what a wait finds.
pub struct Events(Vec<libc::epoll_event>);

impl Default for Events {
    fn default() -> Events {
        Events(vec![libc::epoll_event { events: 0, u64: 0 }; 512])
    }
}

impl Epoll {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers; the result is checked.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a descriptor that the kernel has just returned.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches a descriptor.
    ///
    /// # Errors
    /// It is watched already, or is none of a kind that can be.
    pub fn add(&self, of: &impl AsRawFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, of, events, token)
    }

    /// Watches it for something else.
    ///
    /// # Errors
    /// It is not watched.
    pub fn change(&self, of: &impl AsRawFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, of, events, token)
    }

    /// Watches it no more.
    ///
    /// # Errors
    /// It is not watched.
    pub fn remove(&self, of: &impl AsRawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, of, 0, 0)
    }

    fn control(&self, what: libc::c_int, of: &impl AsRawFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: a pointer to one event, which lives through the call.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, of.as_raw_fd(), &raw mut event) })
            .map(drop)
    }

    /// Waits for events, at most as long as `timeout`; each is a token and what happened. None after a signal.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait<'e>(
        &self,
        events: &'e mut Events,
        timeout: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = (u64, u32)> + use<'e>> {
        let n = match self.wait_for(&mut events.0, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            n => n? as usize,
        };
        Ok(events.0.iter().take(n).map(|event| (event.u64, event.events)))
    }

    fn wait_for(
        &self,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
    ) -> io::Result<libc::c_int> {
        let (fd, most) = (self.0.as_raw_fd(), events.len() as libc::c_int);
        let Some(timeout) = timeout else {
            // SAFETY: pointer and size describe `events`.
            return checked(unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), most, -1) });
        };
        let time = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        // SAFETY: `events` and `time` outlive the call; no signal mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                fd,
                events.as_mut_ptr(),
                most,
                &raw const time,
                0_usize,
                0_usize,
            )
        };
        match checked(n as libc::c_int) {
            // Before Linux 5.11: rather early than late.
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                let ms = timeout.as_millis().try_into().unwrap_or(i32::MAX);
                // SAFETY: as above.
                checked(unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), most, ms) })
            }
            n => n,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_happens_is_said_with_the_token() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::default());
        let mut wait = |timeout| epoll.wait(&mut events, timeout).unwrap().collect::<Vec<_>>();
        epoll.add(&other, READ | ENDED, 7).unwrap();
        assert_eq!(wait(Some(Duration::ZERO)), []);
        one.write_all(b"x").unwrap();
        assert_eq!(wait(None), [(7, READ)]);
        epoll.change(&other, WRITE, 9).unwrap();
        assert_eq!(wait(None), [(9, WRITE)]);
        epoll.change(&other, ENDED, 9).unwrap();
        drop(one);
        assert_eq!(wait(None), [(9, ENDED)]);
        epoll.remove(&other).unwrap();
        assert_eq!(wait(Some(Duration::ZERO)), []);
    }

    /// A time of less than a millisecond is no endless series of waits without one.
    #[test]
    fn a_wait_lasts_as_long_as_it_should() {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::default());
        let (timeout, begin) = (Duration::from_micros(300), Instant::now());
        assert_eq!(epoll.wait(&mut events, Some(timeout)).unwrap().count(), 0);
        assert!(begin.elapsed() >= timeout);
    }
}
