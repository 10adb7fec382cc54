//! Processes and threads of a server in /proc: the listening process, and the system call of each thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Serialize;

/// What a thread waits in, by the system call that it is in (proc_pid_syscall(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// A connection: accept(2).
    Accept,
    /// Events: epoll_wait(2).
    Epoll,
    /// Events: poll(2), select(2).
    Poll,
    /// Completions: io_uring_enter(2).
    Ring,
    /// Data: read(2), recvmsg(2).
    Read,
    /// Another thread or process: futex(2), flock(2), semop(2).
    Lock,
    /// A child: wait4(2).
    Child,
    /// It runs, or waits in something else.
    Other,
    /// The kernel does not say: it wants the privilege to trace the process.
    Unknown,
}

/// A process of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) parent: u32,
    /// Waits of its threads, without those that the kernel has put in for io_uring.
    pub(crate) waits: Vec<Wait>,
    /// Of its threads that wait in epoll, those whose instance watches a socket of the server.
    pub(crate) loops: usize,
    /// Does it hold the listening socket?
    pub(crate) listens: bool,
    /// Descriptors of epoll and of io_uring.
    pub(crate) epolls: usize,
    pub(crate) rings: usize,
}

/// A server without connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Idle {
    /// Processes, those that listen and all that descend from them.
    pub processes: usize,
    /// Processes that hold the listening socket.
    pub listening_processes: usize,
    /// Threads of all processes.
    pub threads: usize,
    /// Sockets that listen on the port (more than one: SO_REUSEPORT).
    pub sockets: usize,
    /// Threads of the processes that listen, by what they wait in.
    pub waits: BTreeMap<Wait, usize>,
    /// Of the threads that wait in epoll, those that wait for a socket of the server; others wait for timers and for each other.
    pub loops: usize,
    /// Descriptors of epoll in the processes that listen.
    pub epolls: usize,
    /// Descriptors of io_uring in the processes that listen.
    pub rings: usize,
}

/// The processes of a server now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tasks(pub(crate) BTreeMap<u32, Process>);

impl Tasks {
    /// Those that hold one of these listening sockets, and all that descend from them; `connections` are their other sockets.
    pub(crate) fn of(sockets: &BTreeSet<u64>, connections: &BTreeSet<u64>) -> Tasks {
        let mut all = BTreeMap::new();
        for pid in pids() {
            // A process that ends meanwhile is none of its tasks.
            if let Some(process) = process(pid, sockets) {
                all.insert(pid, process);
            }
        }
        let mut members: BTreeSet<u32> =
            all.iter().filter(|(_, one)| one.listens).map(|(pid, _)| *pid).collect();
        loop {
            let is_child = |one: &Process| members.contains(&one.parent);
            let more: Vec<u32> = all
                .iter()
                .filter(|(pid, one)| is_child(one) && !members.contains(pid))
                .map(|(pid, _)| *pid)
                .collect();
            if more.is_empty() {
                break;
            }
            members.extend(more);
        }
        all.retain(|pid, _| members.contains(pid));
        for (pid, process) in &mut all {
            (process.waits, process.loops) = waits(*pid, &(sockets | connections));
        }
        Tasks(all)
    }

    /// Of all threads of all processes.
    pub(crate) fn thread_ids(&self) -> Vec<u32> {
        let of = |pid: &u32| numbers(&format!("/proc/{pid}/task"));
        self.0.keys().flat_map(of).collect()
    }

    pub(crate) fn threads(&self) -> usize {
        self.0.values().map(|process| process.waits.len()).sum()
    }

    pub(crate) fn waiting_in(&self, wait: Wait) -> usize {
        self.0.values().flat_map(|process| &process.waits).filter(|one| **one == wait).count()
    }

    /// Threads that wait in epoll for a socket of the server.
    pub(crate) fn loops(&self) -> usize {
        self.0.values().map(|process| process.loops).sum()
    }

    /// What is known of it without connections.
    pub(crate) fn idle(&self, sockets: usize) -> Idle {
        let listening = || self.0.values().filter(|process| process.listens);
        let mut waits = BTreeMap::new();
        listening().flat_map(|process| &process.waits).for_each(|wait| *waits.entry(*wait).or_default() += 1);
        Idle {
            processes: self.0.len(),
            listening_processes: listening().count(),
            threads: self.threads(),
            sockets,
            waits,
            loops: self.loops(),
            epolls: listening().map(|process| process.epolls).sum(),
            rings: listening().map(|process| process.rings).sum(),
        }
    }

    /// Page faults of children that these processes have waited for (proc_pid_stat(5): cminflt).
    pub(crate) fn child_faults(&self) -> u64 {
        self.0.keys().filter_map(|pid| stat(*pid)?.get(8)?.parse::<u64>().ok()).sum()
    }
}

/// Processes of this pid namespace.
pub(crate) fn pids() -> Vec<u32> {
    numbers("/proc")
}

/// Entries of a folder that are numbers.
fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What the descriptors of a process lead to: `socket:[4711]`, `anon_inode:[eventpoll]`.
fn descriptors(pid: u32) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok()?.to_str().map(String::from))
}

/// The inode of a socket among them.
pub(crate) fn socket_inode(descriptor: &str) -> Option<u64> {
    descriptor.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Inodes of the sockets of a process.
pub(crate) fn socket_inodes(pid: u32) -> BTreeSet<u64> {
    descriptors(pid).filter_map(|descriptor| socket_inode(&descriptor)).collect()
}

/// The fields of /proc/PID/stat behind the name, which may hold any character: the first is the state, the second the parent.
fn stat(pid: u32) -> Option<Vec<String>> {
    fields(&weir_disk::kernel_text(format!("/proc/{pid}/stat")).ok()?)
}

pub(crate) fn fields(stat: &str) -> Option<Vec<String>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(String::from).collect())
}

fn process(pid: u32, sockets: &BTreeSet<u64>) -> Option<Process> {
    let fields = stat(pid)?;
    if fields.first()? == "Z" {
        return None;
    }
    let parent = fields.get(1)?.parse().ok()?;
    let mut process = Process { parent, waits: Vec::new(), loops: 0, listens: false, epolls: 0, rings: 0 };
    for descriptor in descriptors(pid) {
        match descriptor.as_str() {
            "anon_inode:[eventpoll]" => process.epolls += 1,
            "anon_inode:[io_uring]" => process.rings += 1,
            other => process.listens |= socket_inode(other).is_some_and(|inode| sockets.contains(&inode)),
        }
    }
    Some(process)
}

/// What its threads wait in, and how many wait in epoll for one of these sockets.
fn waits(pid: u32, sockets: &BTreeSet<u64>) -> (Vec<Wait>, usize) {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let (mut waits, mut loops) = (Vec::new(), 0);
    for entry in entries {
        // Threads of the kernel that serve a ring: `iou-wrk-PID`, `iou-sqp-PID`.
        match weir_disk::kernel_text(entry.path().join("comm")) {
            Ok(name) if !name.starts_with("iou-") => {}
            _ => continue,
        }
        let text = weir_disk::kernel_text(entry.path().join("syscall")).unwrap_or_default();
        waits.push(wait(&text));
        if waits.last() == Some(&Wait::Epoll)
            && let Some(descriptor) = first_argument(&text)
        {
            let watched =
                weir_disk::kernel_text(format!("/proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
            loops += usize::from(watches(&watched, sockets));
        }
    }
    (waits, loops)
}

/// The first argument of the system call: the descriptor of epoll.
fn first_argument(text: &str) -> Option<u64> {
    let word = text.split_ascii_whitespace().nth(1)?;
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Does an instance of epoll watch one of these sockets? By its /proc/PID/fdinfo/FD (proc_pid_fdinfo(5)): `tfd: ... ino:1a2b
/// sdev:8`.
fn watches(fdinfo: &str, sockets: &BTreeSet<u64>) -> bool {
    let inode = |line: &str| {
        let (_, rest) = line.strip_prefix("tfd:")?.split_once("ino:")?;
        u64::from_str_radix(rest.split_ascii_whitespace().next()?, 16).ok()
    };
    fdinfo.lines().filter_map(inode).any(|inode| sockets.contains(&inode))
}

/// What the text of /proc/PID/task/TID/syscall says.
pub(crate) fn wait(text: &str) -> Wait {
    let word = text.split_ascii_whitespace().next();
    let number = match word {
        None => return Wait::Unknown,
        Some(word) => word.parse::<libc::c_long>().unwrap_or(-1),
    };
    match number {
        libc::SYS_accept | libc::SYS_accept4 => Wait::Accept,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Wait::Epoll,
        libc::SYS_ppoll | libc::SYS_pselect6 => Wait::Poll,
        libc::SYS_io_uring_enter => Wait::Ring,
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => Wait::Read,
        libc::SYS_futex | libc::SYS_flock | libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_fcntl => {
            Wait::Lock
        }
        libc::SYS_wait4 | libc::SYS_waitid => Wait::Child,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => Wait::Epoll,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll | libc::SYS_select => Wait::Poll,
        _ => Wait::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_read() {
        let line = |number: libc::c_long| format!("{number} 0x4 0x7f 0x400 0xffffffff 0x0 0x8 0x7ffd 0x7f\n");
        assert_eq!(wait(&line(libc::SYS_epoll_pwait)), Wait::Epoll);
        assert_eq!(wait(&line(libc::SYS_accept4)), Wait::Accept);
        assert_eq!(wait(&line(libc::SYS_nanosleep)), Wait::Other);
        assert_eq!(wait("running\n"), Wait::Other);
        assert_eq!(wait(""), Wait::Unknown, "it may not be read");
        assert_eq!(
            (first_argument(&line(libc::SYS_epoll_pwait)), first_argument("running\n")),
            (Some(4), None)
        );
    }

    #[test]
    fn an_epoll_that_watches_no_socket_of_the_server_is_no_loop_of_it() {
        let of = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n\
                  tfd:        9 events:       19 data:                9  pos:0 ino:1267 sdev:8\n\
                  tfd:       12 events: 80002019 data:                c  pos:0 ino:421 sdev:f\n";
        assert!(watches(of, &BTreeSet::from([1, 0x1267])) && watches(of, &BTreeSet::from([0x421])));
        assert!(!watches(of, &BTreeSet::from([0x1057])) && !watches("", &BTreeSet::from([0])));
    }
}
