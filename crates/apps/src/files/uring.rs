//! Files whose calls are handed to the kernel as chains: open, write or read, fsync and close of a file go together.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{DestinationSlot, Fd, Fixed, OpenHow};
use io_uring::{IoUring, opcode};

use super::content::Buffer;
use super::{Durability, Failed, Part, Shared, Times, name};

/// Why the kernel does not allow it.
pub fn obstacle() -> Option<String> {
    crate::server::Architecture::IoUring.obstacle().or_else(|| {
        let ring = IoUring::new(4).and_then(|ring| ring.submitter().register_files_sparse(1));
        ring.err().map(|error| format!("its table of files does not work here (Linux 5.19): {error}"))
    })
}

/// A place for a file on its way.
struct Slot {
    buffer: Buffer,
    path: CString,
    how: OpenHow,
    file: u32,
    begin: Instant,
    /// Calls that have not ended, and the first that failed.
    left: usize,
    failed: Option<(&'static str, io::Error)>,
}

const CALLS: [&str; 5] = ["open", "write", "read", "fsync", "close"];

/// All files in this order, as many at a time as there are workers.
pub(super) fn work(shared: &Shared<'_>, part: Part, order: &[u32]) -> Result<Times, Failed> {
    let count = shared.task.workers.clamp(1, 256);
    let mut ring = IoUring::new(8 * count).map_err(Failed::call("io_uring_setup"))?;
    ring.submitter().register_files_sparse(count).map_err(Failed::call("io_uring_register"))?;
    let mut slots: Vec<Slot> = (0..count).map(|_| Slot::new(shared.task.bytes as usize)).collect();
    let mut free: Vec<usize> = (0..slots.len()).rev().collect();
    let (mut files, mut times) = (order.iter(), Vec::new());
    let mut failed = None;
    loop {
        while let Some(&slot) = free.last().filter(|_| failed.is_none() && shared.check().is_ok()) {
            let Some(&file) = files.next() else { break };
            free.pop();
            let entries = slots[slot].begin(shared, part, file, slot as u32);
            // SAFETY: path, buffer and flags are the slot's, which stays as it is until its calls have ended; all slots live
            // until none is on its way. The queue has room for the calls of all slots.
            unsafe { ring.submission().push_multiple(&entries) }.expect("room for all calls of all slots");
        }
        if free.len() == slots.len() {
            break;
        }
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => drop(result.map_err(Failed::call("io_uring_enter"))?),
        }
        for entry in ring.completion() {
            let (index, call) = ((entry.user_data() >> 8) as usize, CALLS[entry.user_data() as usize & 7]);
            let slot = &mut slots[index];
            if slot.ended(call, entry.result()) {
                times.push(slot.begin.elapsed().as_nanos() as u64);
                free.push(index);
                failed = failed.or(slot.result(shared, part).err());
            }
        }
    }
    shared.check()?;
    failed.map_or(Ok(Times::from([("file", times)])), Err)
}

impl Slot {
    fn new(bytes: usize) -> Slot {
        let (buffer, how) = (Buffer::new(bytes), OpenHow::new());
        Slot { buffer, path: CString::default(), how, file: 0, begin: Instant::now(), left: 0, failed: None }
    }

    /// The chain of calls for a file.
    fn begin(&mut self, shared: &Shared<'_>, part: Part, file: u32, number: u32) -> Vec<Entry> {
        let task = shared.task;
        self.file = file;
        self.path = CString::new(name(file)).unwrap_or_default();
        let flags = match part {
            Part::Make if task.durability == Durability::Direct => {
                libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_DIRECT
            }
            Part::Make => libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
            Part::Read => libc::O_RDONLY,
        };
        self.how = OpenHow::new().flags(flags as u64).mode(if let Part::Make = part { 0o644 } else { 0 });
        if let Part::Make = part {
            self.buffer.fill(task.seed, file);
        }
        let (directory, fd) = (Fd(shared.directory.as_raw_fd()), Fixed(number));
        let place = DestinationSlot::try_from_slot_target(number).ok();
        let open = opcode::OpenAt2::new(directory, self.path.as_ptr(), &raw const self.how)
            .file_index(place)
            .build();
        let mut calls = vec![(0, open)];
        let (bytes, size) = (self.buffer.get_mut(), task.bytes);
        calls.push(match part {
            Part::Make => (1, opcode::Write::new(fd, bytes.as_ptr(), size).build()),
            Part::Read => (2, opcode::Read::new(fd, bytes.as_mut_ptr(), size).build()),
        });
        if matches!(part, Part::Make) && task.durability.syncs_each() {
            calls.push((3, opcode::Fsync::new(fd).build()));
        }
        calls.push((4, opcode::Close::new(fd).build()));
        if matches!(part, Part::Make) && task.durability == Durability::FsyncDir {
            calls.push((3, opcode::Fsync::new(directory).build()));
        }
        self.left = calls.len();
        (self.failed, self.begin) = (None, Instant::now());
        let last = calls.len() - 1;
        let link = |i| if i < last { Flags::IO_LINK } else { Flags::empty() };
        let entry = |(i, (call, entry)): (usize, (u64, Entry))| {
            entry.flags(link(i)).user_data(u64::from(number) << 8 | call)
        };
        calls.into_iter().enumerate().map(entry).collect()
    }

    /// A call of it has ended; true if it was the last one.
    fn ended(&mut self, call: &'static str, result: i32) -> bool {
        self.left -= 1;
        let short = ["write", "read"].contains(&call) && result as usize != self.buffer.get().len();
        let error = match result {
            n if n < 0 => Some(io::Error::from_raw_os_error(-n)),
            _ if short => Some(io::Error::new(io::ErrorKind::UnexpectedEof, "only a part of it")),
            _ => None,
        };
        // Those behind it in the chain are cancelled: they are not the cause.
        if let Some(error) = error.filter(|error| error.raw_os_error() != Some(libc::ECANCELED)) {
            self.failed.get_or_insert((call, error));
        }
        self.left == 0
    }

    fn result(&mut self, shared: &Shared<'_>, part: Part) -> Result<(), Failed> {
        let file = name(self.file);
        match self.failed.take() {
            Some((call, error)) => Err(Failed::Call(format!("{call} {file}"), error)),
            None if matches!(part, Part::Read) && !self.buffer.is_of(shared.task.seed, self.file) => {
                let error = io::Error::new(io::ErrorKind::InvalidData, "other bytes than were written");
                Err(Failed::Call(format!("read {file}"), error))
            }
            None => Ok(()),
        }
    }
}
