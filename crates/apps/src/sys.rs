//! System calls without a safe wrapper in std: one small function each, so that few other files need unsafe.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Result of a system call that returns -1 and sets errno.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(fd)?;
    // SAFETY: the kernel just created this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(of: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: of.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(of.ip().octets()) },
        sin_zero: [0; 8],
    }
}

const ADDRESS_SIZE: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

fn tcp(flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags, 0) })
}

fn set_option(fd: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<()> {
    let (value, size) = (1_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: pointer and size describe `value`, which outlives the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) }).map(drop)
}

fn bind(fd: &OwnedFd, to: SocketAddrV4) -> io::Result<()> {
    let to = address(to);
    // SAFETY: pointer and size describe `to`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const to).cast(), ADDRESS_SIZE) }).map(drop)
}

/// Which of several sockets of one port a connection comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortUse {
    /// This one has the port to itself.
    Alone,
    /// The kernel chooses one of them by a hash of the addresses (SO_REUSEPORT, socket(7)).
    Shared,
}

/// A socket that listens, without blocking, with a backlog of `backlog` connections.
pub(crate) fn listen(at: SocketAddrV4, backlog: u32, share: PortUse) -> io::Result<OwnedFd> {
    let fd = tcp(libc::SOCK_NONBLOCK)?;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    if share == PortUse::Shared {
        set_option(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT)?;
    }
    bind(&fd, at)?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog.try_into().unwrap_or(i32::MAX)) })?;
    Ok(fd)
}

/// The longest queue that the kernel gives a listening socket: what was asked for, at most net.core.somaxconn.
pub(crate) fn backlog(listener: &OwnedFd) -> io::Result<u32> {
    // SAFETY: a plain structure of numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    let fd = listener.as_raw_fd();
    // SAFETY: pointer and size describe `info`.
    check(unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut size)
    })?;
    // Of a socket that listens, this field has its limit (net/ipv4/tcp.c, tcp_get_info).
    Ok(info.tcpi_sacked)
}

/// The port of a socket.
pub(crate) fn local_port(fd: &OwnedFd) -> io::Result<u16> {
    let (mut at, mut size) = (address(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)), ADDRESS_SIZE);
    // SAFETY: pointer and size describe `at`.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut at).cast(), &raw mut size) })?;
    Ok(u16::from_be(at.sin_port))
}

/// Does reading, writing or accepting wait?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    No,
}

/// The next connection.
pub(crate) fn accept(listener: BorrowedFd<'_>, waits: Waits) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | if waits == Waits::No { libc::SOCK_NONBLOCK } else { 0 };
    let none = std::ptr::null_mut();
    // SAFETY: no address is wanted.
    owned(unsafe { libc::accept4(listener.as_raw_fd(), none, none.cast(), flags) })
}

/// Makes a descriptor wait, or not.
pub(crate) fn set_waits(fd: BorrowedFd<'_>, waits: Waits) -> io::Result<()> {
    let flags = if waits == Waits::No { libc::O_NONBLOCK } else { 0 };
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

/// Begins a connection from an address whose port the kernel chooses late, so that each target has all ports.
///
/// # Errors
/// What the kernel says at once; EINPROGRESS is none.
pub(crate) fn connect(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<OwnedFd> {
    let fd = tcp(libc::SOCK_NONBLOCK)?;
    set_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)?;
    bind(&fd, SocketAddrV4::new(from, 0))?;
    let to = address(to);
    // SAFETY: pointer and size describe `to`.
    match check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const to).cast(), ADDRESS_SIZE) }) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(fd),
    }
}

/// recv(2).
pub(crate) fn receive(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and size describe `into`.
    let n = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// send(2), without SIGPIPE if the reader has gone.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and size describe `bytes`.
    let n = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// poll(2) until something happens.
pub(crate) fn poll(fds: &mut [libc::pollfd]) -> io::Result<()> {
    // SAFETY: pointer and size describe `fds`.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        other => other.map(drop),
    }
}

/// Signals of the calling thread as a descriptor (signalfd(2)); they are blocked for it and its children.
pub(crate) struct Signals(File);

impl Signals {
    pub(crate) fn of(signals: &[libc::c_int]) -> io::Result<Signals> {
        // SAFETY: a set of signals is a plain bit array, which sigemptyset(3) fills; both calls get a valid one.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
            owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC)).map(|fd| Signals(fd.into()))
        }
    }

    /// Waits for the next one; its number.
    pub(crate) fn next(&mut self) -> io::Result<libc::c_int> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        io::Read::read_exact(&mut self.0, &mut info)?;
        // Its first field is the number.
        Ok(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Lets blocked signals through again: for a child that another program takes over.
pub(crate) fn unblock_signals() {
    // SAFETY: as in `Signals::of`; an empty set blocks nothing.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// A child of [`fork`], or oneself.
pub(crate) enum Forked {
    Child,
    Parent,
}

/// fork(2); the child dies with the thread that calls this.
///
/// # Safety
/// The process has one thread.
pub(crate) unsafe fn fork() -> io::Result<Forked> {
    // SAFETY: with one thread no lock is held by another thread at the fork.
    match check(unsafe { libc::fork() })? {
        0 => {
            // SAFETY: no pointers. It cannot fail for a signal that exists.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
            Ok(Forked::Child)
        }
        _ => Ok(Forked::Parent),
    }
}

/// Ends the process without anything that its parent would do, too.
pub(crate) fn exit_at_once(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// Takes in a child that has ended; false if there is none at the moment.
pub(crate) fn reap() -> bool {
    // SAFETY: no status is wanted.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 }
}

/// Waits for all children.
pub(crate) fn reap_all() {
    // SAFETY: no status is wanted.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {}
}

/// Puts this process and all that it starts into a group, which [`signal_group`] reaches.
pub(crate) fn lead_group() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setpgid(0, 0) }).map(drop)
}

/// Sends a signal to the own process group; processes that block it are not affected.
pub(crate) fn signal_group(signal: libc::c_int) {
    // SAFETY: no pointers; 0 is the own group.
    unsafe { libc::kill(0, signal) };
}

/// Raises the limit of descriptors of this process as far as it may; returns it.
pub fn raise_descriptor_limit() -> u64 {
    const WANTED: libc::rlim_t = 1 << 20;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives each call.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let all = libc::rlimit { rlim_cur: WANTED, rlim_max: WANTED.max(limit.rlim_max) };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const all) != 0 {
            let own = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const own);
        }
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
    }
    limit.rlim_cur
}

/// Lets waits of the calling thread end when they should, not up to 50 us later.
pub(crate) fn exact_timers() {
    // SAFETY: no pointers; what it changes belongs to the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// What a process and the children that it has waited for have used (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode and in the kernel, ns.
    pub cpu_ns: u64,
    /// Of that in the kernel, ns.
    pub system_ns: u64,
    /// Context switches, voluntary and others.
    pub switches: u64,
}

impl Usage {
    fn of(usage: &libc::rusage) -> Usage {
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Usage {
            cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            system_ns: ns(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
        }
    }

    /// Of this process without its children.
    pub fn own() -> Usage {
        // SAFETY: a plain structure of numbers, which outlives the call.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        Usage::of(&usage)
    }

    /// Without what had been used before.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

/// Waits until a child has ended, at most as long as `patience`; how, and what it and the children that it waited for have
/// used. `None` if it still runs.
///
/// # Errors
/// It has been waited for already.
pub fn wait_for(child: &Child, patience: Duration) -> io::Result<Option<(ExitStatus, Usage)>> {
    use std::os::unix::process::ExitStatusExt;
    let (mut status, deadline) = (0, Instant::now() + patience);
    // SAFETY: a plain structure of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        let pid = child.id() as i32;
        // SAFETY: both outlive the call.
        match check(unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) })? {
            0 if Instant::now() >= deadline => return Ok(None),
            0 => std::thread::sleep(Duration::from_millis(1)),
            _ => return Ok(Some((ExitStatus::from_raw(status), Usage::of(&usage)))),
        }
    }
}

/// Lets a program that is about to be started run on these CPUs alone, and listen to Ctrl-C, even if it is started by a
/// script in the background.
pub fn place(command: &mut Command, cpus: &[usize]) {
    // SAFETY: cpu_set_t is a plain bit array; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is inside the set, see the filter.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: both calls are allowed between fork and exec; pointer and size describe `set`.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)).map(drop)
        });
    }
}

/// How many CPUs this thread may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Sends a signal to a child that has not been waited for.
pub fn signal(child: &Child, signal: i32) {
    // SAFETY: no pointers. The number is still its own. An error says that it has ended.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// CPU time of all threads of a process so far, ended ones included, ns; `None` if it is gone.
pub fn process_time_ns(pid: u32) -> Option<u64> {
    // The clock of a process by its number (CPUCLOCK_SCHED of include/linux/posix-timers.h).
    let clock = ((!(pid as libc::clockid_t)) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) }).ok()?;
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Maps a file, or memory of its own, that children share; it stays until the process ends.
pub(crate) fn map_shared(file: Option<&File>, size: usize) -> io::Result<*mut u8> {
    let (flags, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping at an address that the kernel chooses; it is never unmapped.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

/// Writes everything of a file system to its disk (syncfs(2)).
pub(crate) fn sync_file_system(of: &File) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::syncfs(of.as_raw_fd()) }).map(drop)
}

/// Lets the kernel forget the pages of a file that are on the disk.
pub(crate) fn drop_pages(of: &File) -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::posix_fadvise(of.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Has the kernel the first page of a file? By mincore(2), which asks for no page: a read that does not wait (RWF_NOWAIT) has
/// the page fetched.
///
/// # Errors
/// The file cannot be mapped; it is empty.
pub(crate) fn is_cached(file: &File) -> io::Result<bool> {
    const ONE: usize = 1;
    let mut is_there = 0_u8;
    // SAFETY: a new mapping at an address that the kernel chooses, which is never read; it has one page, for which mincore
    // writes one byte; it is unmapped at once.
    unsafe {
        let at =
            libc::mmap(std::ptr::null_mut(), ONE, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let result = check(libc::mincore(at, ONE, &raw mut is_there));
        libc::munmap(at, ONE);
        result?;
    }
    Ok(is_there & 1 != 0)
}
