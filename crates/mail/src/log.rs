//! The outcome log: one line for each recipient that has its final outcome, appended, never changed. A recipient with a line
//! gets the message never again, whatever ended the process before.
//!
//! ```text
//! weir-mail-outcomes 1 JOB RECIPIENTS
//! 17 delivered 250 1 CRC                      recipient, outcome, code of the reply (0: none), attempts, checksum
//! ```
//! An incomplete last line was never reported; it is cut off. A server may have accepted a message of which the
//! line was lost: SMTP delivers at least once (RFC 5321, section 4.5.5 and RFC 1047), the log counts exactly once.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, fdatasync, flock};
use serde::{Deserialize, Serialize};

use crate::job::Job;

/// Records that are tried together where there is little room.
const GROUP: usize = 16;

/// The outcome of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The server took the message.
    Delivered,
    /// The server never will.
    Failed,
    /// All attempts were deferred.
    Expired,
}

impl Verdict {
    const ALL: [Verdict; 3] = [Verdict::Delivered, Verdict::Failed, Verdict::Expired];

    /// As in the log.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Delivered => "delivered",
            Verdict::Failed => "failed",
            Verdict::Expired => "expired",
        }
    }
}

/// The final outcome of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Number in the job.
    pub recipient: u64,
    /// Outcome.
    pub verdict: Verdict,
    /// Code of the last reply; 0 if there was none.
    pub code: u16,
    /// Attempts, at least 1.
    pub attempts: u8,
}

impl Record {
    pub(crate) fn line(&self, out: &mut Vec<u8>) {
        let Record { recipient, verdict, code, attempts } = self;
        let begin = out.len();
        // Writing to memory does not fail.
        let _ = write!(out, "{recipient} {} {code} {attempts} ", verdict.name());
        let crc = crc32fast::hash(&out[begin..]);
        let _ = writeln!(out, "{crc:08x}");
    }

    /// The record of a line, if it is whole.
    fn parse(line: &[u8]) -> Option<Record> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let (text, crc) = line.split_at_checked(line.len().checked_sub(8)?)?;
        if u32::from_str_radix(crc, 16) != Ok(crc32fast::hash(text.as_bytes())) {
            return None;
        }
        let mut words = text.split_ascii_whitespace();
        let recipient = words.next()?.parse().ok()?;
        let name = words.next()?;
        let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.name() == name)?;
        Some(Record {
            recipient,
            verdict,
            code: words.next()?.parse().ok()?,
            attempts: words.next()?.parse().ok()?,
        })
    }
}

/// Recipients with an outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    bits: Vec<u64>,
    count: u64,
}

impl Done {
    /// Has this recipient one?
    pub fn has(&self, id: u64) -> bool {
        self.bits.get((id / 64) as usize).is_some_and(|bits| bits >> (id % 64) & 1 == 1)
    }

    /// How many have one.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Notes one; false if it was noted before.
    pub(crate) fn add(&mut self, id: u64) -> bool {
        let place = (id / 64) as usize;
        if self.bits.len() <= place {
            self.bits.resize(place + 1, 0);
        }
        let is_new = !self.has(id);
        self.bits[place] |= 1 << (id % 64);
        self.count += u64::from(is_new);
        is_new
    }
}

/// When lines are safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// With the process killed: the kernel has them.
    Process,
    /// With the power lost: fdatasync after each group of lines.
    Power,
}

/// Why there is no log, or no further line.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened, read or locked.
    #[error("cannot open the outcome log {path}: {source}")]
    Open {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process writes it.
    #[error("{0} is the outcome log of a running delivery: wait for its end, or use another file")]
    Busy(PathBuf),
    /// Of other recipients.
    #[error("{0} is the outcome log of another job: use another file, or remove it")]
    OtherJob(PathBuf),
    /// Lines that cannot be, followed by good ones.
    #[error(
        "{path} is damaged in line {line}, and good lines follow: restore it from a copy, or remove the line"
    )]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// From 1.
        line: u64,
    },
    /// A line cannot be written.
    #[error(
        "cannot write the outcome log {path}: {source}; {recorded} recipients have their outcome in it{}: make room and start the \
         same delivery again, it goes on with the others",
        but_not(*.unrecorded)
    )]
    Write {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
        /// Lines of recipients.
        recorded: u64,
        /// Recipients that have an outcome and no line.
        unrecorded: u64,
    },
}

/// They are delivered to once more.
fn but_not(unrecorded: u64) -> String {
    match unrecorded {
        0 => String::new(),
        _ => format!(", {unrecorded} more have one that is not in it and get the message again"),
    }
}

/// An open outcome log, which no other process has.
#[derive(Debug)]
pub struct OutcomeLog {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines.
    length: u64,
    /// There may be half a line behind them.
    is_torn: bool,
    durability: Durability,
    recorded: u64,
    text: Vec<u8>,
}

impl OutcomeLog {
    /// Opens or makes the log of a job, to be delivered to this server, unless domains decide; returns the recipients with an
    /// outcome.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(
        path: &Path,
        job: &Job,
        to: &str,
        durability: Durability,
    ) -> Result<(OutcomeLog, Done), LogError> {
        let failed = |source| LogError::Open { path: path.into(), source };
        let mut file = weir_disk::keep(path, 0o644).map_err(failed)?;
        if !lock(&file).map_err(failed)? {
            return Err(LogError::Busy(path.into()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let header = format!("weir-mail-outcomes 1 {:08x} {}\n", job.fingerprint(to), job.recipients);
        let (done, length) = match bytes.strip_prefix(header.as_bytes()) {
            Some(lines) => {
                let (done, length) = read(lines, job.recipients, path)?;
                (done, header.len() + length)
            }
            // Its first line was cut off by a crash.
            None if header.as_bytes().starts_with(&bytes) => (Done::default(), 0),
            None => return Err(LogError::OtherJob(path.into())),
        };
        file.set_len(length as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let recorded = done.count();
        let text = if length == 0 { header.into_bytes() } else { Vec::new() };
        let mut log = OutcomeLog {
            path: path.into(),
            file,
            length: length as u64,
            is_torn: false,
            durability,
            recorded,
            text,
        };
        log.append(&[])?;
        Ok((log, done))
    }

    /// Appends records; when it returns they are as safe as was asked for.
    ///
    /// # Errors
    /// [`LogError::Write`]: none of them counts. It may be tried again.
    pub fn append(&mut self, records: &[Record]) -> Result<(), LogError> {
        records.iter().for_each(|record| record.line(&mut self.text));
        let written = self.write_text();
        let length = self.text.len() as u64;
        self.text.clear();
        if let Err(source) = written {
            // If it cannot be cut off now, then before the next line or at the next start.
            self.is_torn = true;
            let _ = self.cut();
            let (path, recorded) = (self.path.clone(), self.recorded);
            return Err(LogError::Write { path, source, recorded, unrecorded: records.len() as u64 });
        }
        self.length += length;
        self.recorded += records.len() as u64;
        Ok(())
    }

    fn write_text(&mut self) -> io::Result<()> {
        self.cut()?;
        self.file.write_all(&self.text)?;
        match self.durability {
            Durability::Power => Ok(fdatasync(&self.file)?),
            Durability::Process => Ok(()),
        }
    }

    /// Cuts off half a line: a whole one behind it would make the log a damaged one.
    fn cut(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::End(0))?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Appends as many of these as there is room for; how many that were.
    pub(crate) fn append_some(&mut self, records: &[Record]) -> usize {
        let groups = records.chunks(GROUP);
        groups.take_while(|group| self.append(group).is_ok()).map(<[Record]>::len).sum()
    }

    /// Recipients that have a line.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded
    }
}

/// Locks it; false if another process has it. One that was killed may take a moment to end.
fn lock(file: &File) -> io::Result<bool> {
    for _ in 0..50 {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(20)),
            locked => return locked.map(|()| true).map_err(io::Error::from),
        }
    }
    Ok(false)
}

/// The recipients in these lines, and the length of the complete lines.
pub(crate) fn read(bytes: &[u8], recipients: u64, path: &Path) -> Result<(Done, usize), LogError> {
    let (mut done, mut length, mut bad) = (Done::default(), 0, None);
    for (number, line) in (2..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        let record = Record::parse(line).filter(|record| record.recipient < recipients);
        match (record, bad) {
            (Some(record), None) if done.add(record.recipient) => length += line.len(),
            // A recipient twice, or a line that is whole after one that is not: no crash does that.
            (Some(_), _) => return Err(LogError::Damaged { path: path.into(), line: bad.unwrap_or(number) }),
            (None, _) => bad = bad.or(Some(number)),
        }
    }
    Ok((done, length))
}

#[cfg(test)]
mod tests;
