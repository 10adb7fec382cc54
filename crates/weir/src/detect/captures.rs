//! A capture of each attack, from before its start: the last frames are kept in memory, and those of the host go to a
//! file when an attack on it is told, with those that follow.

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result};
use weir_detect::{CaptureSpec, Event, Kind};
use weir_disk::{Directory, as_caller};
use weir_packet::headers::{self, Headers};
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};

use super::SNAP;
use crate::say;

/// What was said over a network is its user's own.
const PRIVATE: u32 = 0o600;
/// Bytes that wait for the disk, of one attack. More are left out, and counted in the file.
const WAITING_BYTES: usize = 8 << 20;

/// The last frames, and the files of the attacks that go on.
pub(super) struct Captures {
    spec: CaptureSpec,
    /// A ring: the next place to be overwritten is `next`.
    recent: Vec<Kept>,
    next: usize,
    files: Vec<Open>,
}

/// What is kept of a frame.
#[derive(Clone, Copy)]
struct Kept {
    at_ns: u64,
    wire_len: u32,
    length: u32,
    bytes: [u8; SNAP as usize],
}

/// The file of an attack.
struct Open {
    attack: u64,
    /// `None`: all frames.
    host: Option<IpAddr>,
    output: Arc<Output>,
    waiting: Vec<u8>,
    /// Frames that it may still get.
    left: u32,
    left_out: u64,
    ended: bool,
}

/// Where it goes. Only who writes changes it.
struct Output {
    file: File,
    path: PathBuf,
    /// Bytes of whole packets.
    written: AtomicU64,
    /// It could take no more.
    failed: AtomicBool,
}

/// Something for the disk.
pub(super) struct Job {
    output: Arc<Output>,
    bytes: Vec<u8>,
}

impl Captures {
    /// Files will be written as `spec` says.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(super) fn new(spec: CaptureSpec) -> Result<Captures> {
        let folder = &spec.folder;
        as_caller(|| {
            std::fs::create_dir_all(folder)?;
            let (folder, probe) = (Directory::open(folder)?, format!(".weir-{}", std::process::id()));
            folder.create_new(probe.as_ref(), PRIVATE)?;
            folder.remove(probe.as_ref())
        })
        .with_context(|| format!("cannot write captures to {}", folder.display()))?;
        Ok(Captures { spec, recent: Vec::new(), next: 0, files: Vec::new() })
    }

    /// A frame came in.
    pub(super) fn see(&mut self, bytes: &[u8], headers: &Headers, (wire_len, at_ns): (u32, u64)) {
        for open in self.files.iter_mut().filter(|open| open.wants(headers)) {
            open.add(bytes, wire_len, at_ns);
        }
        let length = bytes.len().min(SNAP as usize);
        let mut kept = Kept { at_ns, wire_len, length: length as u32, bytes: [0; SNAP as usize] };
        kept.bytes[..length].copy_from_slice(&bytes[..length]);
        if self.recent.len() * size_of::<Kept>() < self.spec.memory_bytes {
            self.recent.push(kept);
        } else {
            self.recent[self.next] = kept;
            self.next = (self.next + 1) % self.recent.len();
        }
    }

    /// Begins or ends the file of an attack; returns its path at the start.
    pub(super) fn of(&mut self, event: &Event) -> Option<PathBuf> {
        match event.event {
            Kind::Start => match self.begin(event) {
                Ok(path) => return Some(path),
                Err(error) => say::say(&format!("note: no capture of attack {}: {error:#}", event.attack)),
            },
            Kind::Update => {}
            Kind::End => {
                let of_attack = self.files.iter_mut().filter(|open| open.attack == event.attack);
                of_attack.for_each(|open| open.ended = true);
            }
        }
        None
    }

    /// What waits for the disk.
    pub(super) fn jobs(&mut self) -> Vec<Job> {
        let jobs = self
            .files
            .iter_mut()
            .filter(|open| !open.waiting.is_empty())
            .map(|open| Job { output: open.output.clone(), bytes: std::mem::take(&mut open.waiting) });
        let jobs = jobs.collect();
        self.files.retain(|open| !open.ended);
        jobs
    }

    fn begin(&mut self, event: &Event) -> Result<PathBuf> {
        let who = event.host.map(|host| host.to_string()).or(event.group.clone());
        // A colon is no good part of a file's name everywhere, nor what a group may be called.
        let who =
            who.unwrap_or_else(|| "all".to_string()).replace(|c: char| !c.is_alphanumeric() && c != '.', "-");
        let name = format!("attack-{}-{who}-{}.pcapng", event.time_ns / 1_000_000, event.attack);
        let path = self.spec.folder.join(name);
        let file = weir_disk::create(&path, PRIVATE);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut waiting = Vec::new();
        write::section(&mut waiting, &write::Author::default());
        let interface = Interface { link_type: ETHERNET, snap: SNAP, ..Interface::default() };
        write::interface(&mut waiting, &interface);
        let mut open = Open {
            attack: event.attack,
            host: event.host,
            output: Arc::new(Output::new(file, path.clone())),
            waiting,
            left: self.spec.frames,
            left_out: 0,
            ended: false,
        };
        let (newer, older) = self.recent.split_at(self.next.min(self.recent.len()));
        for kept in older.iter().chain(newer) {
            let bytes = &kept.bytes[..kept.length as usize];
            if headers::read(bytes).is_some_and(|headers| open.wants(&headers)) {
                open.put(bytes, kept.wire_len, kept.at_ns);
            }
        }
        self.files.push(open);
        Ok(path)
    }
}

impl Job {
    /// Writes it, unless that has failed before.
    pub(super) fn write(&self) {
        let Output { file, path, written, failed } = &*self.output;
        if failed.load(Ordering::Relaxed) {
            return;
        }
        match (&*file).write_all(&self.bytes) {
            Ok(()) => {
                written.fetch_add(self.bytes.len() as u64, Ordering::Relaxed);
            }
            Err(error) => {
                failed.store(true, Ordering::Relaxed);
                // Half a packet would make readers complain of the whole file. A device cannot be cut.
                let _ = file.set_len(written.load(Ordering::Relaxed));
                say::say(&format!("note: the capture {} ends early: {error}", path.display()));
            }
        }
    }
}

impl Output {
    fn new(file: File, path: PathBuf) -> Output {
        Output { file, path, written: AtomicU64::new(0), failed: AtomicBool::new(false) }
    }
}

impl Open {
    fn wants(&self, headers: &Headers) -> bool {
        self.left > 0
            && !self.output.failed.load(Ordering::Relaxed)
            && self.host.is_none_or(|host| headers.src == host || headers.dst == host)
    }

    /// A frame that came after the start.
    fn add(&mut self, bytes: &[u8], wire_len: u32, at_ns: u64) {
        if self.waiting.len() > WAITING_BYTES {
            self.left_out += 1;
            return;
        }
        self.put(bytes, wire_len, at_ns);
    }

    fn put(&mut self, bytes: &[u8], wire_len: u32, at_ns: u64) {
        let dropped = std::mem::take(&mut self.left_out);
        write::packet(&mut self.waiting, &Packet { interface: 0, at_ns, wire_len, bytes, dropped });
        self.left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_takes_no_more_is_left_alone() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let output = Arc::new(Output::new(file, "/dev/full".into()));
        let headers = headers::read(&[&[2; 12][..], &[8, 0, 0x45], &[0; 40]].concat()).unwrap();
        let open = Open {
            attack: 1,
            host: None,
            output: output.clone(),
            waiting: Vec::new(),
            left: 5,
            left_out: 0,
            ended: false,
        };
        assert!(open.wants(&headers));
        Job { output, bytes: vec![1; 100] }.write();
        assert!(!open.wants(&headers));
    }
}
