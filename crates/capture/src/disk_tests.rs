use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::channel;

use weir_disk::faults::{self, Fault, Writer};
use weir_port::pcapng::read::{Item, Reader};
use weir_port::pcapng::{Interface, Packet, write};

use super::*;
use crate::files::Target;

/// Packets, of which two are handed over together and four fill a file.
const PACKETS: u64 = 20;

fn head() -> Vec<u8> {
    let mut head = Vec::new();
    write::section(&mut head, &write::Author::default());
    write::interface(&mut head, &Interface { link_type: 1, ..Interface::default() });
    head
}

/// Two packets, of which the first has this number.
fn fill(buffer: &mut Buffer, first: u64) {
    for at_ns in first..first + 2 {
        let packet = Packet { interface: 0, at_ns, wire_len: 60, bytes: &[at_ns as u8; 60], dropped: 0 };
        write::packet(&mut buffer.bytes, &packet);
        buffer.frames += 1;
    }
}

/// Writes all packets below the folder that is to fail, and says how many are in files.
fn write_all(compress: bool) {
    let Some(folder) = faults::folder() else { return };
    let path = folder.join(if compress { "x.pcapng.zst" } else { "x.pcapng" });
    let Ok(files) = Files::of(&Target { path, numbered: true, keep: None, append: false }) else { return };
    let pool = Arc::new(Pool::new(PACKETS as usize / 2, 1000));
    let (to, messages) = channel();
    for first in (0..PACKETS).step_by(2) {
        let mut buffer = pool.take().unwrap();
        fill(&mut buffer, first);
        to.send(Message::Filled(buffer)).unwrap();
    }
    to.send(Message::End).unwrap();
    let rotation = Rotation::Bytes(head().len() as u64 + if compress { 200 } else { 400 });
    let writing = Writing { files, rotation, compress, before: None, head: head(), queues: 1 };
    if let Ok(disk) = Disk::open(writing, pool, Arc::default()) {
        let written = disk.run(&messages);
        assert_eq!(written.frames + written.unwritten, PACKETS, "{written:?}");
        assert_eq!(written.error.is_some(), written.unwritten > 0, "{written:?}");
        println!("\nin files {}", written.frames);
    }
}

#[test]
fn writer_that_fails() {
    write_all(false);
}

#[test]
fn compressing_writer_that_fails() {
    write_all(true);
}

/// Numbers of the packets of a file, as far as it can be read, and whether that is to its end.
fn packets(path: &Path) -> (Vec<u64>, bool) {
    let mut bytes = Vec::new();
    let file = File::open(path).unwrap();
    let is_read = if path.extension().is_some_and(|ending| ending == "zst") {
        zstd::Decoder::new(file).unwrap().read_to_end(&mut bytes).is_ok()
    } else {
        (&file).read_to_end(&mut bytes).is_ok()
    };
    let mut numbers = Vec::new();
    let Ok(mut reader) = Reader::open(bytes.as_slice()) else { return (numbers, false) };
    loop {
        match reader.next_item() {
            Ok(Some(Item::Packet(packet))) => numbers.push(packet.at_ns),
            Ok(Some(_)) => {}
            Ok(None) => return (numbers, is_read),
            Err(_) => return (numbers, false),
        }
    }
}

#[test]
fn a_clock_that_is_set_discards_nothing_of_what_waits_for_the_trigger() {
    let folder = weir_testkit::Folder::new();
    let path = folder.join("x.pcapng");
    let files =
        Files::of(&Target { path: path.clone(), numbered: false, keep: None, append: false }).unwrap();
    let pool = Arc::new(Pool::new(10, 1000));
    let (to, messages) = channel();
    // Dated in 1970: the clock was set forward by decades meanwhile.
    for first in [0, 2, 4] {
        let mut buffer = pool.take().unwrap();
        fill(&mut buffer, first);
        to.send(Message::Filled(buffer)).unwrap();
    }
    to.send(Message::Trigger).unwrap();
    to.send(Message::End).unwrap();
    let before = Some(Duration::from_secs(3600));
    let writing =
        Writing { files, rotation: Rotation::None, compress: false, before, head: head(), queues: 1 };
    let written = Disk::open(writing, pool, Arc::default()).unwrap().run(&messages);
    assert_eq!((written.frames, written.discarded), (6, 0), "{written:?}");
    assert_eq!(packets(&path), ((0..6).collect(), true));
}

#[test]
fn what_is_said_to_be_in_a_file_is_there_wherever_the_end_came() {
    for test in ["disk::tests::writer_that_fails", "disk::tests::compressing_writer_that_fails"] {
        for fault in Fault::ALL {
            let writer = Writer { test, lasts: 2 };
            let changes = faults::at_each_change(
                writer,
                fault,
                |_| {},
                |at, folder, said| {
                    let reported = format!("{test} {fault:?} at {at}");
                    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
                    let files: BTreeMap<_, _> = entries.map(|path| (path.clone(), packets(&path))).collect();
                    let found: Vec<u64> = files.values().flat_map(|(numbers, _)| numbers.clone()).collect();
                    let in_files =
                        said.iter().find_map(|line| line.strip_prefix("in files ")?.parse::<u64>().ok());
                    assert!(
                        found.len() as u64 >= in_files.unwrap_or(0),
                        "{reported}: {in_files:?}, {files:?}"
                    );
                    // The last one was being written, the one before was being put on disk.
                    let whole: Vec<_> = files.values().take(files.len().saturating_sub(2)).collect();
                    let numbers: Vec<u64> = whole.iter().flat_map(|(numbers, _)| numbers.clone()).collect();
                    assert!(whole.iter().all(|(_, is_whole)| *is_whole), "{reported}: {files:?}");
                    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{reported}");
                    assert_eq!(whole.is_empty(), numbers.is_empty(), "{reported}: {files:?}");
                    if fault == Fault::Full && test == "disk::tests::writer_that_fails" {
                        let cut: Vec<_> = files.values().filter(|(_, is_whole)| !is_whole).collect();
                        // Of a file without room for its head nothing is left.
                        assert!(cut.iter().all(|(numbers, _)| numbers.is_empty()), "{reported}: {files:?}");
                    }
                },
            );
            assert!(changes > 12, "{test} {fault:?}: {changes}");
        }
    }
}
