//! System calls that the standard library does not have: options of TCP sockets, connecting without waiting; settings of the kernel.

use std::fs::read_to_string;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::info::{BYTES, Info};

/// A setting of the network namespace of the calling thread; empty if there is none.
pub(crate) fn setting(name: &str) -> String {
    read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default()
}

pub(crate) fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn set<T>(socket: &impl AsRawFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (at, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: pointer and length describe `value`, which lives through the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, bytes) }).map(drop)
}

/// Closing the socket sends RST and discards what was not sent yet: nothing stays behind in the kernel, whatever ends the
/// program.
pub(crate) fn close_by_reset(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 1, l_linger: 0 })
}

/// Closing the socket leaves the rest to the kernel: its FIN is sent again until it is acknowledged.
pub(crate) fn close_by_fin(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 0, l_linger: 0 })
}

/// Takes no more into the socket than so many bytes that were not sent yet.
pub(crate) fn keep_little_unsent(socket: &impl AsRawFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// Chooses the congestion control.
pub(crate) fn set_congestion_control(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    let (at, bytes) = (name.as_ptr().cast(), name.len() as u32);
    // SAFETY: pointer and length describe the name, which lives through the call.
    checked(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, at, bytes)
    })
    .map(drop)
}

/// The congestion control that a socket has.
pub(crate) fn congestion_control(socket: &impl AsRawFd) -> String {
    let (mut name, mut bytes) = ([0_u8; 16], 16);
    // SAFETY: pointer and length describe `name`, which lives through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    if result < 0 { String::new() } else { String::from_utf8_lossy(&name[..end]).into_owned() }
}

/// Bytes of a full segment of a connection.
pub(crate) fn segment(socket: &impl AsRawFd) -> io::Result<usize> {
    let (mut segment, mut bytes) = (0_i32, size_of::<i32>() as u32);
    // SAFETY: pointer and length describe `segment`, which lives through the call.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            std::ptr::from_mut(&mut segment).cast(),
            &mut bytes,
        )
    })?;
    Ok(usize::try_from(segment).unwrap_or(0))
}

/// What the kernel says of a connection.
pub(crate) fn info(socket: &impl AsRawFd) -> io::Result<Info> {
    let (mut bytes, mut length) = ([0_u8; BYTES], BYTES as u32);
    // SAFETY: pointer and length describe `bytes`, which lives through the call.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut length,
        )
    })?;
    Ok(Info::read(&bytes))
}

/// CPU time of the calling thread.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// While it lives, no thread of the usual kind takes the CPU from the calling one, whatever its nice value; where that is
/// allowed.
pub(crate) struct Unpreempted(());

impl Unpreempted {
    pub(crate) fn begin() -> Unpreempted {
        schedule(libc::SCHED_FIFO, 1);
        Unpreempted(())
    }
}

impl Drop for Unpreempted {
    fn drop(&mut self) {
        schedule(libc::SCHED_OTHER, 0);
    }
}

/// How the kernel schedules the calling thread from now on, if it may.
fn schedule(policy: i32, sched_priority: i32) {
    // SAFETY: the parameters live through the call.
    unsafe { libc::sched_setscheduler(0, policy, &libc::sched_param { sched_priority }) };
}

/// Raises the backlog of a listening socket to the limit of the machine.
pub(crate) fn widen_backlog(listener: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::listen(listener.as_raw_fd(), i32::from(u16::MAX)) }).map(drop)
}

/// An address as the kernel wants it, and its length.
fn raw(address: SocketAddr) -> (libc::sockaddr_storage, u32) {
    // SAFETY: all-zero is a valid address.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let bytes = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is larger than, and aligned for, each kind of address.
            unsafe { std::ptr::from_mut(&mut storage).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { std::ptr::from_mut(&mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, bytes as u32)
}

/// Begins a connection, without waiting for it; its congestion control and its source are set before.
pub(crate) fn connect(to: SocketAddr, from: Option<SocketAddr>, cc: Option<&str>) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers; the result is checked.
    let fd = checked(unsafe {
        libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
    })?;
    // SAFETY: a descriptor that the kernel has just returned.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    close_by_reset(&fd)?;
    if let Some(cc) = cc {
        set_congestion_control(&fd, cc)?;
    }
    if let Some(from) = from {
        // The port is chosen when the connection is: many connections to several servers may share one.
        set(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1i32)?;
        let (address, bytes) = raw(from);
        // SAFETY: pointer and length describe `address`.
        checked(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) })?;
    }
    let (address, bytes) = raw(to);
    // SAFETY: pointer and length describe `address`.
    let result =
        checked(unsafe { libc::connect(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) });
    match result {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(fd.into()),
    }
}

/// Allows this process as many descriptors as it may have; how many these are.
pub(crate) fn raise_descriptors() -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// It grows while the thread works, by no more than the time that passes, and each thread has its own.
    #[test]
    fn cpu_time_is_that_of_the_calling_thread() {
        let (began, before) = (Instant::now(), cpu_time());
        while cpu_time() < before + Duration::from_millis(2) {}
        let used = cpu_time() - before;
        assert!(began.elapsed() >= used);
        let of_another = std::thread::spawn(cpu_time).join().unwrap();
        assert!(of_another < cpu_time(), "{of_another:?} of a thread that has only begun");
    }

    #[test]
    fn a_thread_is_scheduled_as_before_in_the_end() {
        // SAFETY: no pointers.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        let unpreempted = Unpreempted::begin();
        assert!([before, libc::SCHED_FIFO].contains(&policy()), "where it is not allowed, nothing changes");
        drop(unpreempted);
        assert_eq!(policy(), before);
    }
}
