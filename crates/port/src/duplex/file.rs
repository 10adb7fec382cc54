//! Capture files as a port: frames come out of one, and those that leave go into another (pcapng).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Account, BATCH, Chunk, Lost, Pool, Port, copied};
use crate::pcapng::read::{Item, ReadError, Reader};
use crate::pcapng::{ETHERNET, Interface, Packet, write};

/// Why a file is no port.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or made.
    #[error("{0}: {1}")]
    Open(PathBuf, io::Error),
    /// It is no capture.
    #[error("{0}: {1}")]
    Read(PathBuf, ReadError),
}

/// Frames of files.
pub struct File {
    from: Option<Reader<BufReader<std::fs::File>>>,
    /// The file that frames come out of, and why no more can be read of it.
    from_path: PathBuf,
    broken: Option<ReadError>,
    to: Option<BufWriter<std::fs::File>>,
    /// A block on its way to the file.
    block: Vec<u8>,
    received: u64,
    sent: u64,
    lost: Lost,
}

impl File {
    /// Frames come out of `from` and go into `to`; without one, none do.
    ///
    /// # Errors
    /// A file that cannot be opened, or is no capture; `to` is there already.
    pub fn open(from: Option<&Path>, to: Option<&Path>) -> Result<File, FileError> {
        let from_path = from.map(Path::to_path_buf).unwrap_or_default();
        let from = from.map(|path| {
            let file = std::fs::File::open(path).map_err(|error| FileError::Open(path.into(), error))?;
            Reader::open(BufReader::new(file)).map_err(|error| FileError::Read(path.into(), error))
        });
        let to = to.map(|path| begin(path).map_err(|error| FileError::Open(path.into(), error)));
        let (from, to) = (from.transpose()?, to.transpose()?);
        let (block, lost) = (Vec::new(), Lost::default());
        Ok(File { from, from_path, broken: None, to, block, received: 0, sent: 0, lost })
    }
}

fn begin(path: &Path) -> io::Result<BufWriter<std::fs::File>> {
    // A new file: one that is there is kept, and a link that another user has placed is not followed.
    let mut file = BufWriter::new(weir_disk::create(path, 0o600)?);
    let mut head = Vec::new();
    write::section(&mut head, &write::Author { application: "weir node", ..write::Author::default() });
    write::interface(&mut head, &Interface { link_type: ETHERNET, ..Interface::default() });
    file.write_all(&head)?;
    Ok(file)
}

impl Port for File {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some(from) = &mut self.from else { break };
            let item = match from.next_item() {
                Ok(item) => item,
                // What could be read is forwarded first.
                Err(error) => {
                    (self.from, self.broken) = (None, Some(error));
                    break;
                }
            };
            match item {
                Some(Item::Packet(packet) | Item::Untimed(packet)) => {
                    let before = into.len();
                    into.extend(copied(pool, packet.bytes, &mut self.lost));
                    self.received += (into.len() - before) as u64;
                }
                Some(Item::Section | Item::Interface(_) | Item::Statistics(_)) => {}
                None => self.from = None,
            }
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        let at_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        for chunk in frames.drain(..) {
            let bytes = pool.bytes(&chunk);
            let packet = Packet { interface: 0, at_ns, wire_len: bytes.len() as u32, bytes, dropped: 0 };
            match &mut self.to {
                Some(to) => {
                    self.block.clear();
                    write::packet(&mut self.block, &packet);
                    to.write_all(&self.block)?;
                    self.sent += 1;
                }
                None => self.lost.no_room += 1,
            }
            pool.give_back(chunk);
        }
        // A reader of the file finds what was sent.
        self.to.as_mut().map_or(Ok(()), BufWriter::flush)
    }

    fn stop(&mut self) -> io::Result<()> {
        self.from = None;
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_over(&self) -> bool {
        self.from.is_none()
    }

    fn ended_early(&self) -> Option<String> {
        self.broken.as_ref().map(|error| format!("{}: {error}", self.from_path.display()))
    }

    fn account(&mut self) -> io::Result<Account> {
        Ok(Account { received: self.received, sent: self.sent, drops: self.lost.drops() })
    }

    fn method(&self) -> String {
        "capture files".into()
    }
}
