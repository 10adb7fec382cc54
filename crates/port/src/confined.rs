//! The system calls of threads that handle frames (seccomp(2)): a list of what is allowed, for the calling thread alone.
//! Everything else fails with EPERM: an attacker that takes over such a thread by a frame opens no file and no socket, runs no
//! program and reaches no other process.
//!
//! The list was found by strace of nodes and captures of every method. Beyond that it has what a C library does rarely or
//! differently: memory, locks, signals, clocks, the end of a thread, the message of a panic.

use std::collections::BTreeMap;
use std::io;

use libbpf_sys::{
    BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY, BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM,
    BPF_OBJ_GET_INFO_BY_FD, BPF_PROG_TEST_RUN,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use weir_linux::interface::SIOCETHTOOL;

/// What a thread does with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// They pass by sockets, TAP devices and files that are open.
    Forward,
    /// They pass by AF_XDP or eBPF programs as well: entries of maps, and frames that leave by a program.
    ForwardByPrograms,
    /// They are captured. libpcap reads about an interface in /sys whenever it waits.
    Capture,
}

/// Allowed whatever the arguments are.
const ALLOWED: &[i64] = &[
    // Frames, and what wakes a thread: all by descriptors that are there.
    libc::SYS_close,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Memory, but for mmap and mprotect.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Locks, signals, the end of a thread and of the process.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // Clocks, and what changes nothing.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Older forms, which other machines do not have; musl calls them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// ioctl(2): the name of an interface, and how std sets a socket non-blocking.
const QUESTIONS: &[libc::Ioctl] = &[libc::SIOCGIFNAME, libc::FIONBIO];
/// What a driver says (all that changes something takes CAP_NET_ADMIN); the kernel answers behind its lock of all interfaces.
const QUESTIONS_OF_CAPTURES: &[libc::Ioctl] = &[SIOCETHTOOL];
/// bpf(2): entries of maps, frames that leave by a program that is loaded; neither programs nor maps are made.
const ENTRIES: &[u32] = &[
    BPF_MAP_DELETE_ELEM,
    BPF_MAP_GET_NEXT_KEY,
    BPF_MAP_LOOKUP_ELEM,
    BPF_MAP_UPDATE_ELEM,
    BPF_OBJ_GET_INFO_BY_FD,
    BPF_PROG_TEST_RUN,
];

/// Limits the calling thread for good to what its work takes; a call beyond that fails with EPERM. On machines that the
/// library does not know nothing is refused.
///
/// # Errors
/// The kernel has no such filters.
pub fn confine(work: Work) -> io::Result<()> {
    let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let rules = rules(work).map_err(io::Error::other)?;
    let filter =
        SeccompFilter::new(rules, refused, SeccompAction::Allow, machine).map_err(io::Error::other)?;
    let program = BpfProgram::try_from(filter).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

/// What is allowed: a list without rules allows a call in any case.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(work: Work) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(OLDER).map(|&call| (call, Vec::new())).collect();
    let no_code = without(2, libc::PROT_EXEC)?;
    rules.insert(libc::SYS_mmap, vec![no_code.clone()]);
    rules.insert(libc::SYS_mprotect, vec![no_code]);
    let more = if work == Work::Capture { QUESTIONS_OF_CAPTURES } else { &[] };
    let questions = QUESTIONS.iter().chain(more);
    rules.insert(libc::SYS_ioctl, one_of(1, questions.map(|&question| u64::from(question as u32)))?);
    // abort(3) is a signal to oneself.
    let own = [std::process::id(), crate::thread::number()].map(u64::from);
    rules.insert(libc::SYS_tgkill, one_of(0, own.into_iter().take(1))?);
    rules.insert(libc::SYS_tkill, one_of(0, own.into_iter().skip(1))?);
    if work != Work::Forward {
        rules.insert(libc::SYS_bpf, one_of(0, ENTRIES.iter().copied().map(u64::from))?);
    }
    match work {
        Work::Forward | Work::ForwardByPrograms => {}
        Work::Capture => {
            let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
            rules.insert(libc::SYS_openat, vec![without(2, writes)?]);
        }
    }
    Ok(rules)
}

/// The argument has none of these bits.
fn without(argument: u8, bits: i32) -> Result<SeccompRule, seccompiler::BackendError> {
    let bits = SeccompCmpOp::MaskedEq(u64::from(bits.unsigned_abs()));
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, bits, 0)?])
}

/// The argument is one of these.
fn one_of(
    argument: u8,
    values: impl Iterator<Item = u64>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |value| {
        let equal = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![equal])
    };
    values.map(rule).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    /// What a thread of this kind returns.
    fn within<T: Send>(work: Work, run: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                confine(work).expect("the kernel has filters of system calls");
                run()
            });
            thread.join().expect("it does not panic")
        })
    }

    const EVERY: [Work; 3] = [Work::Forward, Work::ForwardByPrograms, Work::Capture];

    /// Asks by number, with integers alone.
    fn call(number: i64, arguments: [i64; 4]) -> Option<i32> {
        let [a, b, c, d] = arguments;
        // SAFETY: each call of these tests is refused, or has no pointers but null.
        match unsafe { libc::syscall(number, a, b, c, d) } {
            -1 => io::Error::last_os_error().raw_os_error(),
            _ => None,
        }
    }

    #[test]
    fn a_worker_gets_nothing_new() {
        const EXECUTABLE: i64 = (libc::PROT_READ | libc::PROT_EXEC) as i64;
        const STREAM: i64 = libc::SOCK_STREAM as i64;
        const LOADS: i64 = libbpf_sys::BPF_PROG_LOAD as i64;
        let parent = i64::from(std::os::unix::process::parent_id());
        let refused: &[(&str, i64, [i64; 4])] = &[
            ("a program", libc::SYS_execve, [0; 4]),
            ("a program by descriptor", libc::SYS_execveat, [0; 4]),
            ("a process", libc::SYS_clone, [0; 4]),
            ("another form of it", libc::SYS_clone3, [0; 4]),
            ("a file to write", libc::SYS_openat, [0, 0, i64::from(libc::O_WRONLY), 0]),
            ("a file that is made", libc::SYS_openat, [0, 0, i64::from(libc::O_CREAT), 0]),
            ("the newer form", libc::SYS_openat2, [0; 4]),
            ("IPv4", libc::SYS_socket, [i64::from(libc::AF_INET), STREAM, 0, 0]),
            ("UNIX", libc::SYS_socket, [i64::from(libc::AF_UNIX), STREAM, 0, 0]),
            // Its answers wait for the lock of all interfaces.
            ("netlink", libc::SYS_socket, [i64::from(libc::AF_NETLINK), i64::from(libc::SOCK_RAW), 0, 0]),
            ("packets", libc::SYS_socket, [i64::from(libc::AF_PACKET), STREAM, 0, 0]),
            ("a connection", libc::SYS_connect, [0; 4]),
            ("a connection of another", libc::SYS_accept4, [-1, 0, 0, 0]),
            ("code", libc::SYS_mprotect, [0, 4096, EXECUTABLE, 0]),
            ("memory for code", libc::SYS_mmap, [0, 4096, EXECUTABLE, 0]),
            ("another process", libc::SYS_ptrace, [0; 4]),
            ("a signal", libc::SYS_kill, [parent, 0, 0, 0]),
            ("a signal to a thread of another", libc::SYS_tgkill, [parent, parent, 0, 0]),
            ("a mount", libc::SYS_mount, [0; 4]),
            ("a namespace", libc::SYS_unshare, [0; 4]),
            ("keys", libc::SYS_keyctl, [0; 4]),
            ("an eBPF program", libc::SYS_bpf, [LOADS, 0, 0, 0]),
            ("an eBPF map", libc::SYS_bpf, [i64::from(libbpf_sys::BPF_MAP_CREATE), 0, 0, 0]),
            ("a terminal's input", libc::SYS_ioctl, [0, libc::TIOCSTI as i64, 0, 0]),
            ("privileges", libc::SYS_setresuid, [0; 4]),
            ("io_uring", libc::SYS_io_uring_setup, [0; 4]),
        ];
        for work in EVERY {
            for &(what, number, arguments) in refused {
                let error = within(work, || call(number, arguments));
                assert_eq!(error, Some(libc::EPERM), "{what}, {work:?}");
            }
            let thread = within(work, || std::thread::Builder::new().spawn(|| ()).map(drop));
            assert_eq!(thread.unwrap_err().raw_os_error(), Some(libc::EPERM), "{work:?}");
            let program = within(work, || Command::new("true").status());
            assert!(program.is_err(), "{work:?}");
        }
    }

    #[test]
    fn each_kind_gets_what_it_takes() {
        let answers = |work| {
            within(work, || {
                let lookup = [i64::from(BPF_MAP_LOOKUP_ELEM), 0, 0, 0];
                let refused = |error: Option<i32>| error == Some(libc::EPERM);
                let file = std::fs::File::open("/sys/class/net").err().and_then(|e| e.raw_os_error());
                // A kernel that has no eBPF for users refuses it itself, as root is asked before the arguments are looked at.
                let entry = refused(call(libc::SYS_bpf, lookup));
                [refused(file), entry]
            })
        };
        let may = std::thread::scope(|scope| {
            let lookup = || call(libc::SYS_bpf, [i64::from(BPF_MAP_LOOKUP_ELEM), 0, 0, 0]);
            scope.spawn(lookup).join().expect("it does not panic") != Some(libc::EPERM)
        });
        assert_eq!(answers(Work::Forward), [true, true]);
        assert_eq!(answers(Work::ForwardByPrograms), [true, !may]);
        assert_eq!(answers(Work::Capture), [false, !may]);
    }

    /// Memory of all sizes, locks, clocks, descriptors, panics and their message.
    #[test]
    fn ordinary_work_is_not_refused() {
        for work in EVERY {
            let (one, other) = UnixDatagram::pair().expect("sockets");
            within(work, move || {
                let sizes = [16, 4 << 10, 1 << 20, 300 << 20];
                let mut all: Vec<Vec<u8>> = sizes.iter().map(|&bytes| vec![0; bytes]).collect();
                all[2].resize(80 << 20, 1);
                drop(all);
                let (to, from) = std::sync::mpsc::channel::<u8>();
                assert!(from.recv_timeout(Duration::from_millis(1)).is_err());
                drop(to);
                let begun = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                assert!(begun.elapsed() >= Duration::from_millis(1));
                other.set_nonblocking(true).expect("allowed");
                one.send(b"frame").expect("allowed");
                assert_eq!(other.recv(&mut [0; 16]).expect("allowed"), 5);
                assert!(std::panic::catch_unwind(|| panic!("a test of what a panic takes")).is_err());
                assert!(std::collections::HashMap::<u8, u8>::new().is_empty());
            });
        }
    }
}
