//! The file of a program: room for it before a trial, and the number of frames in it afterwards.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use weir_port::pcapng::read::{Item, Reader};

use super::program::Program;

/// Size of stenotype's blocks, which are those of a ring of the kernel, as they were.
const BLOCK_BYTES: usize = 1 << 20;
/// Where a block has the number of its frames (struct tpacket_block_desc: version, offset, status, number).
const BLOCK_FRAMES_AT: usize = 12;

/// Makes the folders that a program expects, and removes what a trial that was cut short has left.
pub(super) fn prepare(program: &Program, path: &Path) -> io::Result<()> {
    remove(path);
    let folders: &[&str] = if program.writes_blocks { &["PKT0", "IDX0"] } else { &[] };
    folders.iter().try_for_each(|folder| fs::create_dir_all(path.join(folder)))
}

fn remove(path: &Path) {
    // Where no file is, there is nothing to remove; other errors appear when the program writes.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Frames in the file of a program, which is deleted then.
pub(super) fn frames(program: &Program, path: &Path) -> Result<u64, String> {
    let count = if program.writes_blocks { in_blocks } else { in_capture };
    let frames = count(path).map_err(|why| format!("its file cannot be read: {why}"));
    remove(path);
    frames
}

fn in_capture(path: &Path) -> Result<u64, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = Reader::open(BufReader::with_capacity(1 << 20, file)).map_err(|e| e.to_string())?;
    let mut frames = 0;
    while let Some(item) = reader.next_item().map_err(|error| error.to_string())? {
        frames += u64::from(matches!(item, Item::Packet(_)));
    }
    Ok(frames)
}

fn in_blocks(folder: &Path) -> Result<u64, String> {
    let files = fs::read_dir(folder.join("PKT0")).map_err(|error| error.to_string())?;
    let files: Result<Vec<PathBuf>, _> = files.map(|entry| Ok(entry?.path())).collect();
    let mut block = vec![0; BLOCK_BYTES];
    let mut frames = 0;
    for path in files.map_err(|error: io::Error| error.to_string())? {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        loop {
            match file.read_exact(&mut block) {
                Ok(()) => {
                    let number = block[BLOCK_FRAMES_AT..][..4].try_into().expect("four bytes");
                    frames += u64::from(u32::from_le_bytes(number));
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::capture::program::{PEERS, STENOTYPE};

    #[test]
    fn frames_are_counted_in_all_blocks_of_all_files() {
        let within = weir_testkit::Folder::new();
        let folder = within.join("files");
        prepare(&STENOTYPE, &folder).unwrap();
        let block = |frames: u32| {
            let mut bytes = vec![0xff; BLOCK_BYTES];
            bytes[12..16].copy_from_slice(&frames.to_le_bytes());
            bytes
        };
        fs::write(folder.join("PKT0/1"), [block(7281), block(3)].concat()).unwrap();
        fs::write(folder.join("PKT0/.2"), block(70_000)).unwrap();
        assert_eq!(frames(&STENOTYPE, &folder), Ok(77_284));
        assert!(!folder.exists());
        // A program that does not take part any more leaves no folder in the way of the next one's file.
        prepare(&STENOTYPE, &folder).unwrap();
        prepare(PEERS[0], &folder).unwrap();
        assert!(!folder.exists());
        let why = frames(&STENOTYPE, &folder).unwrap_err();
        assert_eq!(why, "its file cannot be read: No such file or directory (os error 2)");
    }
}
