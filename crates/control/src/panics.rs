//! Reports of panics of the node, which are bugs of weir: a line, and a file with the frames of the batch, so that the bug can
//! be found. The node continues.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::error;
use weir_capture::privilege;
use weir_disk::Directory;
use weir_disk::state_folder;
use weir_node::{Node, PanicReport, Snapshot};
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};

/// Most files of a running node: repeated panics must not fill the disk.
const MOST_FILES: usize = 16;

/// The reports so far.
pub(crate) struct PanicLog {
    folder: PathBuf,
    directory: io::Result<Directory>,
    /// Start of the node's time.
    began: SystemTime,
    panics: u64,
    files: usize,
}

impl PanicLog {
    /// Opens the folder for the files, and creates it if needed, without access for other users. Call it before privileges are
    /// dropped: the process can then create files there, although it cannot reach the folder by its path.
    pub(crate) fn open() -> PanicLog {
        PanicLog::within(state_folder().join("panics"))
    }

    fn within(folder: PathBuf) -> PanicLog {
        let directory = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        let directory = directory.and_then(|()| Directory::open(&folder)).and_then(|directory| {
            privilege::to_become().map_or(Ok(()), |user| directory.give_to(user))?;
            Ok(directory)
        });
        PanicLog { folder, directory, began: UNIX_EPOCH, panics: 0, files: 0 }
    }

    /// Sets the start of the node's time.
    pub(crate) fn begin(&mut self, began: SystemTime) {
        self.began = began;
    }

    /// Reports the panics since the last call.
    pub(crate) fn look(&mut self, node: &Node) {
        let panics = Snapshot::sum(&node.snapshots()).panics;
        if panics != self.panics
            // A node that has ended does not answer.
            && let Ok(reports) = node.panic_reports()
        {
            self.panics = panics;
            let names = node.port_names();
            for panic in &reports {
                // Also if the log takes no errors, the frames are kept.
                let report = self.report(panic, &names);
                error!(frames = panic.frames, "{report}");
            }
        }
    }

    /// The line about a panic, whose frames are written to a file.
    fn report(&mut self, panic: &PanicReport, names: &[String]) -> String {
        let stage = match panic.stage {
            Some((n, what)) => format!("; stage {} ({what}) was restarted", n + 1),
            None => String::new(),
        };
        let kept = match (panic.batch.is_empty(), self.files < MOST_FILES) {
            (true, _) => String::new(),
            (_, false) => format!("; its frames are not kept: there are {MOST_FILES} files already"),
            _ => match self.keep(panic, names) {
                Ok(path) => {
                    format!("; its frames are in {}: please report the bug with this file", path.display())
                }
                Err(error) => format!("; its frames cannot be kept in {}: {error}", self.folder.display()),
            },
        };
        format!("the node panicked and continues: {} frames are lost{stage}{kept}", panic.frames)
    }

    fn keep(&mut self, panic: &PanicReport, names: &[String]) -> io::Result<PathBuf> {
        let at_ns = (self.began + Duration::from_nanos(panic.at.ns())).duration_since(UNIX_EPOCH);
        let at_ns = at_ns.unwrap_or_default().as_nanos() as u64;
        let name = format!("panic-{}-{}.pcapng", std::process::id(), self.files);
        let directory =
            self.directory.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        directory.create_new(name.as_ref(), 0o600)?.write_all(&pcapng(panic, names, at_ns))?;
        self.files += 1;
        Ok(self.folder.join(name))
    }
}

/// The frames of a batch, each at its ingress port.
fn pcapng(panic: &PanicReport, names: &[String], at_ns: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write::section(&mut bytes, &write::Author::default());
    for name in names {
        let interface =
            Interface { name: name.clone(), link_type: ETHERNET, snap: 0, ..Interface::default() };
        write::interface(&mut bytes, &interface);
    }
    for (port, frame) in &panic.batch {
        let interface = u32::from(port.0).min(names.len() as u32 - 1);
        let wire_len = frame.len() as u32;
        write::packet(&mut bytes, &Packet { interface, at_ns, wire_len, bytes: frame, dropped: 0 });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    use weir_plane::{PortId, Time};
    use weir_port::pcapng::read::{Item, Reader};

    #[test]
    fn the_frames_of_a_panic_are_kept_in_so_many_files() {
        let folder = weir_testkit::Folder::new();
        let mut log = PanicLog::within(folder.join("new"));
        log.begin(UNIX_EPOCH + Duration::from_secs(7));
        let names = ["lan".to_string(), "wan".to_string()];
        let batch = vec![(PortId(0), vec![1; 60]), (PortId(1), vec![2; 99])];
        let panic = PanicReport { at: Time::from_ms(5), frames: 2, stage: Some((1, "nat")), batch };
        let line = log.report(&panic, &names);
        assert!(line.contains("2 frames are lost; stage 2 (nat) was restarted; its frames are in"), "{line}");
        let path = log.folder.join(format!("panic-{}-0.pcapng", std::process::id()));
        let mut reader = Reader::open(File::open(path).expect("the file")).expect("pcapng");
        let mut seen = Vec::new();
        while let Some(item) = reader.next_item().expect("pcapng") {
            if let Item::Packet(packet) = item {
                seen.push((packet.interface, packet.at_ns, packet.bytes.to_vec()));
            }
        }
        let at_ns = 7_005_000_000;
        assert_eq!(seen, [(0, at_ns, vec![1; 60]), (1, at_ns, vec![2; 99])]);
        (1..MOST_FILES + 3).for_each(|_| drop(log.report(&panic, &names)));
        assert_eq!(std::fs::read_dir(&log.folder).expect("the folder").count(), MOST_FILES);
    }

    #[test]
    fn what_cannot_be_kept_is_said() {
        let mut log = PanicLog::within("/dev/null/x".into());
        let panic = PanicReport {
            at: Time::default(),
            frames: 1,
            stage: None,
            batch: vec![(PortId(0), vec![1; 60])],
        };
        let line = log.report(&panic, &["lan".to_string()]);
        assert!(line.contains("its frames cannot be kept in /dev/null/x: Not a directory"), "{line}");
    }
}
