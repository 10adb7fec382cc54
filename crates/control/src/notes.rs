//! The files that a node writes while it runs: the events of its NATs, and the assignment of port blocks. They have a thread of
//! their own, so that a slow disk does not delay the clients of the node, nor a client the files, and no disk error ends the
//! node. This thread is the only reader of the node's events: clients that subscribe get them from here.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use tracing::{info, warn};
use weir_capture::files::{Files, Target};
use weir_capture::privilege;
use weir_node::{Ended, Node, NodeError};
use weir_plane::{Event, NewBlocks};

use super::blocks::Blocks;
use super::hub::Hub;
use super::reported::{self, Unwritten};
use crate::BlocksFailure;

/// Interval between reads of the events of the node.
const LOOK: Duration = Duration::from_millis(100);
/// Interval between retries after a disk error.
const AGAIN: Duration = Duration::from_secs(1);

/// The files.
pub(crate) struct Notes<'a> {
    pub(crate) events: Option<Events>,
    pub(crate) blocks: Option<KeptBlocks>,
    pub(crate) unwritten: &'a Unwritten,
    /// The clients that subscribe to events.
    pub(crate) hub: &'a Hub,
    /// The file of events may have been renamed.
    pub(crate) reopens: &'a AtomicBool,
}

impl Notes<'_> {
    /// Writes events until the other end of `is_over` is closed, or the node has ended.
    pub(crate) fn run(&mut self, node: &Node, is_over: &Receiver<()>) {
        while matches!(is_over.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            // The last events of a node that ends here are written by `end`.
            if self.look(node).is_err() {
                return;
            }
        }
    }

    fn look(&mut self, node: &Node) -> Result<(), NodeError> {
        for session in node.end_sessions_without_link(Instant::now())? {
            self.hub.publish(&reported::session_ended(session));
        }
        // Without a reader they stay in the node, which has room for the last ones.
        if self.events.is_some() || self.hub.has_subscribers() {
            self.write_events(node)?;
        }
        if let Some(events) = &mut self.events
            && self.reopens.swap(false, Ordering::Relaxed)
        {
            events.reopen();
        }
        if let Some(blocks) = &mut self.blocks {
            match node.block_events()? {
                Some(events) => blocks.blocks.note(&events),
                None => blocks.blocks.set(&node.blocks()?),
            }
            blocks.sync();
            blocks.withhold(node)?;
        }
        self.publish();
        Ok(())
    }

    /// Clients first: they do not wait for the disk.
    fn write_events(&mut self, node: &Node) -> Result<(), NodeError> {
        let (events, dropped) = node.events()?;
        let began = node.began();
        let of_subscribers = if self.hub.has_subscribers() { node.subscriber_events()? } else { Vec::new() };
        of_subscribers.iter().for_each(|event| self.hub.publish(&reported::subscriber_event(event)));
        events.iter().for_each(|event| self.hub.publish(&reported::event(event, began, dropped)));
        if let Some(file) = &mut self.events {
            file.write((events, dropped));
        }
        Ok(())
    }

    /// Writes the last events of a node that has ended.
    pub(crate) fn end(&mut self, ended: &mut Ended) {
        if let Some(events) = &mut self.events {
            events.write(std::mem::take(&mut ended.events));
            events.end();
        }
        if let Some(blocks) = &mut self.blocks {
            blocks.blocks.set(&ended.blocks);
            blocks.tried = None;
            blocks.sync();
        }
        self.publish();
    }

    fn publish(&self) {
        if let Some(events) = &self.events {
            self.unwritten.events.store(events.lost(), Ordering::Relaxed);
        }
        if let Some(blocks) = &self.blocks {
            self.unwritten.blocks.store(blocks.blocks.waiting() as u64, Ordering::Relaxed);
        }
    }
}

/// The file of blocks, which is tried again after an error.
pub(crate) struct KeptBlocks {
    pub(crate) blocks: Blocks,
    path: PathBuf,
    /// When it was last tried without success.
    tried: Option<Instant>,
    has_failed: bool,
    failure: BlocksFailure,
    /// The last command to the node was to assign no blocks.
    was_withheld: bool,
}

impl KeptBlocks {
    /// Opens it; reports unreadable lines.
    pub(crate) fn open(path: &Path, failure: BlocksFailure) -> Result<KeptBlocks> {
        let blocks = Blocks::open(path)?;
        if blocks.unreadable() > 0 {
            let (lines, shown) = (blocks.unreadable(), path.display());
            warn!(path = %shown, lines, "note: {lines} lines of {shown} are incomplete and were ignored");
        }
        let path = path.into();
        Ok(KeptBlocks { blocks, path, tried: None, has_failed: false, failure, was_withheld: true })
    }

    /// Stops the assignment of blocks that cannot be recorded. Repeated, because a NAT may have been restarted.
    fn withhold(&mut self, node: &Node) -> Result<(), NodeError> {
        let withheld = self.is_withheld();
        if withheld || self.was_withheld {
            node.set_new_blocks(self.new_blocks())?;
            self.was_withheld = withheld;
        }
        Ok(())
    }

    /// Whether hosts are given further blocks now.
    pub(crate) fn new_blocks(&self) -> NewBlocks {
        if self.is_withheld() { NewBlocks::Withheld } else { NewBlocks::Allowed }
    }

    fn is_withheld(&self) -> bool {
        self.has_failed && self.failure == BlocksFailure::Refuse
    }

    /// Writes the waiting changes to disk, unless that has just failed.
    pub(crate) fn sync(&mut self) {
        if self.tried.is_some_and(|tried| tried.elapsed() < AGAIN) {
            return;
        }
        let shown = self.path.display();
        match self.blocks.sync() {
            Ok(()) => {
                self.tried = None;
                if std::mem::take(&mut self.has_failed) {
                    info!(path = %shown, "note: {shown} is written again");
                }
            }
            Err(error) => {
                self.tried = Some(Instant::now());
                if !std::mem::replace(&mut self.has_failed, true) {
                    let without = match self.failure {
                        BlocksFailure::Refuse => "no new port blocks are assigned until then",
                        BlocksFailure::Give => "after a crash before then hosts may get other ports",
                    };
                    warn!(
                        path = %shown,
                        %error,
                        "note: cannot write {shown}: {error}; forwarding continues, retrying every second; {without}"
                    );
                }
            }
        }
    }
}

/// The file of events, open.
pub(crate) struct EventsFile {
    file: File,
    /// Reopens it; `None`: it was given as a descriptor.
    maker: Option<Files>,
}

impl EventsFile {
    /// Opens it, or creates it. As root, a child process can reopen it after this process has dropped its privileges: call this
    /// before there are threads and sockets.
    pub(crate) fn open(path: &Path) -> Result<EventsFile> {
        let failed = || format!("cannot write {}", path.display());
        if let Some(file) = weir_disk::inherited(path).with_context(failed)? {
            return Ok(EventsFile { file, maker: None });
        }
        let file = weir_disk::append(path, 0o600).with_context(failed)?;
        let target = Target { path: path.into(), numbered: false, keep: None, append: true };
        let maker = if privilege::is_root() { Files::by_child(&target) } else { Files::of(&target) };
        // Do not wait for the reader of a pipe.
        Ok(EventsFile { file, maker: Some(maker.with_context(failed)?.until(|| true)) })
    }
}

/// Events in a file: a line each.
pub(crate) struct Events {
    file: File,
    maker: Option<Files>,
    path: PathBuf,
    /// Start of the node's time.
    began: SystemTime,
    /// Events that the NATs dropped because their buffer was full.
    dropped: u64,
    /// Events that could not be written.
    unwritten: u64,
    /// Events that could not be written since the last success.
    missing: u64,
    /// The file ends within a line.
    is_torn: bool,
}

impl Events {
    pub(crate) fn new(EventsFile { file, maker }: EventsFile, path: &Path, began: SystemTime) -> Events {
        let (path, is_torn) = (path.into(), false);
        Events { file, maker, path, began, dropped: 0, unwritten: 0, missing: 0, is_torn }
    }

    /// Opens the file that now has this name, and closes the old one.
    fn reopen(&mut self) {
        let Some(maker) = &mut self.maker else { return };
        match maker.make() {
            Ok(file) => {
                // As at the end: see below.
                let _ = std::mem::replace(&mut self.file, file).sync_data();
                self.is_torn = false;
            }
            Err(error) => {
                let shown = self.path.display();
                warn!(path = %shown, %error, "note: cannot reopen {shown}: {error}; events still go to the old file");
            }
        }
    }

    /// Events that are not in the file.
    fn lost(&self) -> u64 {
        self.dropped + self.unwritten
    }

    /// Appends events; `dropped` counts all events for which the NATs had no room.
    fn write(&mut self, (events, dropped): (Vec<Event>, u64)) {
        self.dropped = dropped;
        if events.is_empty() {
            return;
        }
        let lost = self.lost();
        let lines = events.iter().map(|event| format!("{}\n", reported::event(event, self.began, lost)));
        let text: String =
            std::iter::once(if self.is_torn { "\n" } else { "" }.to_string()).chain(lines).collect();
        match self.append(text.as_bytes()) {
            Ok(()) => self.again(),
            Err(error) => self.failed(events.len() as u64, &error),
        }
    }

    /// Appends all of it; after an error nothing of it, if the file can be cut.
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let before = self.file.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
        let mut left = text;
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => left = &left[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let is_cut = before.is_some_and(|length| self.file.set_len(length).is_ok());
                    self.is_torn = !is_cut && (self.is_torn || left.len() < text.len());
                    return Err(error);
                }
            }
        }
        self.is_torn = false;
        Ok(())
    }

    fn failed(&mut self, events: u64, error: &io::Error) {
        if self.missing == 0 {
            let shown = self.path.display();
            warn!(
                path = %shown,
                %error,
                "note: cannot write {shown}: {error}; forwarding continues, lost events are counted"
            );
        }
        self.missing += events;
        self.unwritten += events;
    }

    fn again(&mut self) {
        match std::mem::take(&mut self.missing) {
            0 => {}
            missing => {
                let shown = self.path.display();
                warn!(path = %shown, missing, "note: {shown} is written again; {missing} events are lost");
            }
        }
    }

    fn end(&self) {
        // The file survives a crash from here on; a pipe or device cannot be synced.
        let _ = self.file.sync_data();
        if self.lost() > 0 {
            let (lost, shown) = (self.lost(), self.path.display());
            warn!(path = %shown, lost, "note: {lost} events are not in {shown}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use weir_disk::faults::{self, Fault, Writer};
    use weir_plane::{EventKind, Time};

    use super::*;

    const BATCHES: u64 = 8;

    fn event(n: u64) -> Event {
        Event {
            at: Time::from_ms(n),
            kind: EventKind::BlockAllocated,
            inside: [0, 0, 0xffff, n as u32],
            outside: 1,
            ports: (1, 2),
            proto: 0,
        }
    }

    /// The other half of the next test, in a separate process: two events at a time.
    #[test]
    fn writer_that_fails() {
        let Some(folder) = faults::folder() else { return };
        let path = folder.join("events");
        let mut events = Events::new(
            EventsFile { file: weir_disk::append(&path, 0o600).unwrap(), maker: None },
            &path,
            SystemTime::now(),
        );
        for n in 0..BATCHES {
            events.write((vec![event(2 * n), event(2 * n + 1)], 0));
        }
        println!("\nlost {}", events.lost());
    }

    #[test]
    fn each_event_is_a_whole_line_or_is_counted_as_lost() {
        let writer = Writer { test: "notes::tests::writer_that_fails", lasts: 3 };
        for fault in Fault::ALL {
            let changes = faults::at_each_change(
                writer,
                fault,
                |_| {},
                |at, folder, said| {
                    let reported = format!("{fault:?} at {at}");
                    let text = std::fs::read_to_string(folder.join("events")).unwrap();
                    let lines: Vec<Option<Value>> =
                        text.lines().map(|line| serde_json::from_str(line).ok()).collect();
                    let lost = said.iter().find_map(|line| line.strip_prefix("lost ")?.parse::<u64>().ok());
                    let whole = lines.iter().flatten().count() as u64;
                    match lost {
                        Some(lost) => {
                            assert_eq!(whole + lost, 2 * BATCHES, "{reported}: {text}");
                            // A disk that fails may not be cut either.
                            let torn = lines.len() as u64 - whole;
                            assert!(torn == 0 || fault == Fault::Io && torn == 1, "{reported}: {text}");
                            // The next line that could be written says how many are missing before it.
                            let inside = |line: &Value| line["inside"] == "0.0.0.15";
                            let last = lines.iter().flatten().find(|line| inside(line));
                            assert!(last.is_none_or(|line| line["lost"] == lost), "{reported}: {text}");
                        }
                        None => assert!(lines.len() as u64 - whole <= 1, "{reported}: {text}"),
                    }
                },
            );
            assert!(changes >= BATCHES as u32, "{fault:?}: {changes}");
        }
    }

    #[test]
    fn a_pipe_whose_reader_is_slow_gets_whole_lines() {
        use std::io::{BufRead, BufReader};
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        // SAFETY: an open descriptor of ours; it is not waited for, as one that `Events::open` returns.
        assert_eq!(
            unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_SETFL, libc::O_NONBLOCK) },
            0
        );
        let mut events = Events::new(EventsFile { file, maker: None }, Path::new("pipe"), SystemTime::now());
        let mut written = 0;
        while events.lost() == 0 {
            events.write(((0..300).map(event).collect(), 0));
            written += 300;
        }
        let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
        let mut read = Vec::new();
        // Now there is room for one more.
        while read.len() < 200 {
            read.push(lines.next().unwrap());
        }
        events.write((vec![event(1)], 0));
        let lost = events.lost();
        drop(events);
        read.extend(lines);
        let whole = read.iter().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count() as u64;
        let torn: Vec<_> = read.iter().filter(|line| serde_json::from_str::<Value>(line).is_err()).collect();
        assert!(torn.len() <= 2, "{torn:?}");
        // Of those that were lost together, some are there.
        assert!(whole + lost > written && lost <= 301, "{whole} {lost} {written}");
    }
}
