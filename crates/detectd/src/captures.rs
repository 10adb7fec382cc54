//! A capture of each attack, from before its start: the last frames are kept in memory. When an attack is reported, the frames
//! of its host go to a file, with those that follow. A separate thread creates and writes the files: the actions of an attack
//! never wait for a disk.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use tracing::warn;
use weir_detect::{CaptureSpec, Event, Kind};
use weir_disk::{Directory, User, as_caller};
use weir_packet::headers::{self, Headers};
use weir_port::capture::Frame;
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};

use super::SNAP;
use super::writer::{Full, Output, PRIVATE, Writer, Written};

/// Bytes of one attack that may wait for the disk. Further frames are left out, and counted in the file.
const WAITING_BYTES: usize = 8 << 20;
/// Bytes of all attacks that may wait for the disk.
const ALL_WAITING_BYTES: usize = 64 << 20;
/// Attacks that are captured at the same time: each needs a descriptor, and a comparison per frame.
const MOST_AT_A_TIME: usize = 64;

/// The last frames, and the files of the current attacks.
pub(crate) struct Captures {
    spec: CaptureSpec,
    /// A ring: the next place to be overwritten is `next`.
    recent: Vec<Kept>,
    next: usize,
    files: Vec<Open>,
    /// Bytes that wait in `files`.
    waiting: usize,
    writer: Writer,
    /// The note that there is no room for a capture was printed.
    has_said: bool,
}

/// The stored part of a frame.
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
    /// Frames that may still be added.
    left: u32,
    left_out: u64,
    ended: bool,
}

impl Captures {
    /// Prepares captures according to `spec`. Frames of a file (`is_read`) wait for the disk, those of an interface do not.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn new(spec: CaptureSpec, is_read: bool) -> Result<(Captures, Written)> {
        let folder = &spec.folder;
        as_caller(|| {
            std::fs::create_dir_all(folder)?;
            let (folder, probe) = (Directory::open(folder)?, format!(".weir-{}", std::process::id()));
            folder.create_new(probe.as_ref(), PRIVATE)?;
            folder.remove(probe.as_ref())
        })
        .with_context(|| format!("cannot write captures to {}", folder.display()))?;
        let (writer, written) = Writer::start(&spec, is_read)?;
        let captures = Captures {
            spec,
            recent: Vec::new(),
            next: 0,
            files: Vec::new(),
            waiting: 0,
            writer,
            has_said: false,
        };
        Ok((captures, written))
    }

    /// Creates the folder before privileges are dropped, and gives it to the user that root changes to; an existing folder does
    /// not change.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn prepare(spec: &CaptureSpec, user: Option<User>) -> Result<()> {
        let folder = &spec.folder;
        if folder.symlink_metadata().is_ok() {
            return Ok(());
        }
        as_caller(|| std::fs::create_dir_all(folder))
            .and_then(|()| match user {
                // Otherwise it belongs to the caller already.
                Some(user) if weir_disk::caller().is_none() => Directory::open(folder)?.give_to(user),
                _ => Ok(()),
            })
            .with_context(|| format!("cannot create the folder {} for captures", folder.display()))
    }

    /// Adds a received frame.
    pub(crate) fn see(&mut self, frame: &Frame<'_>, headers: &Headers) {
        for open in self.files.iter_mut().filter(|open| open.wants(headers)) {
            self.waiting += open.add(frame, self.waiting);
        }
        let length = frame.bytes.len().min(SNAP as usize);
        let (at_ns, wire_len) = (frame.at, frame.wire_len);
        let mut kept = Kept { at_ns, wire_len, length: length as u32, bytes: [0; SNAP as usize] };
        kept.bytes[..length].copy_from_slice(&frame.bytes[..length]);
        if self.recent.len() * size_of::<Kept>() < self.spec.memory_bytes {
            self.recent.push(kept);
        } else {
            self.recent[self.next] = kept;
            self.next = (self.next + 1) % self.recent.len();
        }
    }

    /// Begins or ends the file of an attack; returns its path at the start.
    pub(crate) fn of(&mut self, event: &Event) -> Option<PathBuf> {
        match event.event {
            Kind::Start => match self.room() {
                Ok(()) => return Some(self.begin(event)),
                // Once, until there is room again.
                Err(why) if !std::mem::replace(&mut self.has_said, true) => {
                    let attack = event.attack;
                    warn!(attack, "note: attack {attack} and later ones are not captured: {why}");
                }
                Err(_) => {}
            },
            Kind::Update => {}
            Kind::End => {
                let of_attack = self.files.iter_mut().filter(|open| open.attack == event.attack);
                of_attack.for_each(|open| open.ended = true);
            }
        }
        None
    }

    /// Passes the waiting bytes to the writer.
    pub(crate) fn hand_over(&mut self) {
        for open in self.files.iter_mut().filter(|open| !open.waiting.is_empty()) {
            let bytes = std::mem::take(&mut open.waiting);
            self.waiting = self.waiting.saturating_sub(bytes.len());
            open.waiting = self.writer.write(&open.output, bytes);
            self.waiting += open.waiting.len();
        }
        // Bytes that the writer did not accept are offered again.
        self.files.retain(|open| !open.ended || !open.waiting.is_empty());
    }

    /// Passes all remaining bytes to the writer, however long the disk takes.
    pub(crate) fn finish(mut self) {
        self.writer.be_patient();
        self.hand_over();
    }

    /// Whether there is room for a file.
    fn room(&self) -> Result<(), Full> {
        let busy = self.files.len() >= MOST_AT_A_TIME;
        if busy { Err(Full::Busy(MOST_AT_A_TIME)) } else { self.writer.reserve() }
    }

    /// Begins a capture; returns its path.
    fn begin(&mut self, event: &Event) -> PathBuf {
        self.has_said = false;
        let who = event.host.map(|host| host.to_string()).or(event.group.clone());
        // Addresses and group names may hold characters that are not portable in file names.
        let who =
            who.unwrap_or_else(|| "all".to_string()).replace(|c: char| !c.is_alphanumeric() && c != '.', "-");
        let name = format!("attack-{}-{who}-{}.pcapng", event.time_ns / 1_000_000, event.attack);
        let path = self.spec.folder.join(name);
        let mut waiting = Vec::new();
        write::section(&mut waiting, &write::Author::default());
        let interface = Interface { link_type: ETHERNET, snap: SNAP, ..Interface::default() };
        write::interface(&mut waiting, &interface);
        let mut open = Open {
            attack: event.attack,
            host: event.host,
            output: Arc::new(Output::new(path.clone())),
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
        self.waiting += open.waiting.len();
        self.files.push(open);
        path
    }
}

impl Open {
    fn wants(&self, headers: &Headers) -> bool {
        self.left > 0
            && !self.ended
            && !self.output.has_failed()
            && self.host.is_none_or(|host| headers.src == host || headers.dst == host)
    }

    /// Adds a frame after the start; `waiting` bytes wait already; returns how many more wait now.
    fn add(&mut self, frame: &Frame<'_>, waiting: usize) -> usize {
        let before = self.waiting.len();
        if before > WAITING_BYTES || waiting > ALL_WAITING_BYTES {
            self.left_out += 1;
            return 0;
        }
        self.put(frame.bytes, frame.wire_len, frame.at);
        self.waiting.len() - before
    }

    fn put(&mut self, bytes: &[u8], wire_len: u32, at_ns: u64) {
        let dropped = std::mem::take(&mut self.left_out);
        write::packet(&mut self.waiting, &Packet { interface: 0, at_ns, wire_len, bytes, dropped });
        self.left -= 1;
    }
}
