//! The files of a capture: their names, and the process that creates them after the capturing process has dropped its rights.
//!
//! With rotation `x.pcapng` becomes `x-00001.pcapng`, `x-00002.pcapng`, ... of which the last `keep` are left. No file that
//! is there is written to: numbers that are taken are left out, and without rotation that is an error.
//! Under root a child process makes and deletes them and hands their descriptors over: it sees no packet, takes no
//! names, and knows two orders, "next" and "stop waiting". It runs as the user who called sudo, if there is one, and ends with
//! this process.
//!
//! ```text
//!  capture, no privileges  --'n'-->  child  -- new file "x-00002.pcapng" of the directory
//!                         <--fd----
//! ```

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use weir_disk::{Directory, as_caller, caller, explained};

use crate::sys;

/// Endings of which the number goes before: the longest first.
const ENDINGS: [&str; 6] = [".pcapng.zst", ".pcap.zst", ".zst", ".pcapng", ".pcap", ".ntar"];

/// What was said over a network is its user's own.
const PRIVATE: u32 = 0o600;

/// How often to look for the reader of a pipe.
const READER_MS: i32 = 50;

/// What files a capture makes.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name of the file; with rotation, what the names are made of.
    pub path: PathBuf,
    /// Files are numbered.
    pub numbered: bool,
    /// How many of them are left; `None` is all.
    pub keep: Option<u64>,
    /// A file that is there is continued at its end.
    pub append: bool,
}

/// Makes files, one after the other.
pub struct Files {
    maker: Maker,
    /// Whether the reader of a pipe is not waited for any more.
    ends: Box<dyn Fn() -> bool + Send>,
}

enum Maker {
    /// Standard output, once.
    Given(Option<File>),
    Own(Folder),
    Child(UnixStream),
}

impl Files {
    fn by(maker: Maker) -> Files {
        Files { maker, ends: Box::new(|| false) }
    }

    /// The same; the reader of a pipe is waited for until `ends` says so.
    pub fn until(self, ends: impl Fn() -> bool + Send + 'static) -> Files {
        Files { ends: Box::new(ends), ..self }
    }

    /// A file that is open already: standard output.
    pub fn given(file: File) -> Files {
        Files::by(Maker::Given(Some(file)))
    }

    /// Files that this process creates with its own rights, or those of the user who called sudo.
    pub fn of(target: &Target) -> io::Result<Files> {
        Ok(Files::by(Maker::Own(Folder::open(target)?)))
    }

    /// Files that a child process makes with the rights that this process has now. Call it while there is a single
    /// thread, and before any socket is open that the child should not hold.
    pub fn by_child(target: &Target) -> io::Result<Files> {
        let mut folder = Folder::open(target)?;
        let (ours, theirs) = UnixStream::pair()?;
        let end = ours.as_raw_fd();
        sys::fork(|| {
            sys::ignore_signals();
            // With its own copy of the other end it would never see that end closed.
            sys::close(end);
            if become_maker().is_ok() {
                serve(&theirs, &mut folder);
            }
        })?;
        Ok(Files::by(Maker::Child(ours)))
    }

    /// Makes the next file, and deletes what is too old.
    ///
    /// # Errors
    /// `Interrupted`: asked to stop before the pipe had a reader; no more files can be created.
    pub fn make(&mut self) -> io::Result<File> {
        let goes_on = || !(self.ends)();
        match &mut self.maker {
            Maker::Given(file) => {
                file.take().ok_or_else(|| io::Error::other("standard output has one file only"))
            }
            Maker::Own(folder) => {
                let wait = || {
                    std::thread::sleep(Duration::from_millis(READER_MS as u64));
                    goes_on()
                };
                folder.next_read(wait).map(File::from)
            }
            Maker::Child(child) => {
                child.write_all(b"n")?;
                while !sys::hears(child, READER_MS) {
                    if !goes_on() {
                        // A disk that is slow to make a file is waited for, a reader is not.
                        child.write_all(b"s")?;
                        break;
                    }
                }
                sys::receive_file(child).map(File::from).map_err(explained)
            }
        }
    }
}

/// Changes to the user who called sudo, permanently. Without sudo it stays root, which may write in directories of other users.
fn become_maker() -> io::Result<()> {
    let Some(user) = caller() else {
        // An error without that capability is ignored: files are then created with the rights of the user.
        let _ = sys::bound_capabilities(sys::CAP_DAC_OVERRIDE)
            .and_then(|()| sys::keep_capabilities(sys::CAP_DAC_OVERRIDE));
        return Ok(());
    };
    sys::bound_capabilities(0)?;
    match sys::become_user(user.uid, user.gid) {
        // In a user namespace root is a plain user outside, and there may be no other.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => Err(error),
        _ => sys::keep_capabilities(0),
    }
}

/// The child: makes a file for each request until the other end is closed.
fn serve(mut requests: &UnixStream, folder: &mut Folder) {
    let mut request = [0];
    loop {
        match requests.read(&mut request) {
            Ok(1) if request == *b"n" => {
                // Meanwhile the parent says nothing, unless it goes.
                let file = folder.next_read(|| !sys::hears(requests, READER_MS));
                // The parent sees by itself that it has gone.
                let _ = sys::send_file(requests, file);
            }
            // It has heard that while it waited, or has not waited.
            Ok(1) if request == *b"s" => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// A directory, and what is made in it.
struct Folder {
    directory: Directory,
    stem: Vec<u8>,
    ending: &'static str,
    numbered: bool,
    keep: Option<u64>,
    append: bool,
    /// Number of the last file.
    number: u64,
    /// Numbers of the files that are left.
    made: VecDeque<u64>,
}

impl Folder {
    fn open(target: &Target) -> io::Result<Folder> {
        let (directory, name) = as_caller(|| Directory::of(&target.path))?;
        let name = name.as_bytes();
        let ending = ENDINGS.into_iter().find(|ending| target.numbered && name.ends_with(ending.as_bytes()));
        let ending = ending.unwrap_or_default();
        let stem = name[..name.len() - ending.len()].to_vec();
        let &Target { numbered, keep, append, .. } = target;
        Ok(Folder { directory, stem, ending, numbered, keep, append, number: 0, made: VecDeque::new() })
    }

    fn name(&self, number: u64) -> OsString {
        let number = if self.numbered { format!("-{number:05}") } else { String::new() };
        OsString::from_vec([&self.stem, number.as_bytes(), self.ending.as_bytes()].concat())
    }

    /// The next file. If it is a pipe, waits for its reader for as long as `wait` says.
    fn next_read(&mut self, mut wait: impl FnMut() -> bool) -> io::Result<OwnedFd> {
        loop {
            match self.next() {
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                    if !wait() {
                        return Err(io::Error::from_raw_os_error(libc::EINTR));
                    }
                }
                result => return result,
            }
        }
    }

    fn next(&mut self) -> io::Result<OwnedFd> {
        let file = loop {
            let number = self.number + 1;
            match self.create(&self.name(number)) {
                Err(error) if self.numbered && error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => break file,
            }
            // It is left out.
            self.number = number;
        };
        self.number += 1;
        self.made.push_back(self.number);
        if self.numbered && self.keep.is_some_and(|keep| self.made.len() as u64 > keep) {
            let old = self.made.pop_front().expect("there are more than none");
            // Another program may have removed it.
            let _ = self.directory.remove(&self.name(old));
        }
        // So that it is found after a crash.
        self.directory.sync()?;
        Ok(file.into())
    }

    fn create(&self, name: &OsStr) -> io::Result<File> {
        // A child is its user already.
        as_caller(|| {
            if self.append {
                self.directory.append(name, PRIVATE)
            } else {
                self.directory.create(name, PRIVATE)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_before_the_ending_and_old_files_go() {
        let folder = weir_testkit::Folder::new();
        for (name, second) in
            [("x.pcapng.zst", "x-00002.pcapng.zst"), ("y.pcapng", "y-00002.pcapng"), ("z", "z-00002")]
        {
            let target = Target { path: folder.join(name), numbered: true, keep: Some(1), append: false };
            let mut files = Files::of(&target).unwrap();
            files.make().unwrap();
            files.make().unwrap().write_all(b"second").unwrap();
            let there = || {
                std::fs::read_dir(&folder)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name())
                    .collect::<Vec<_>>()
            };
            assert_eq!(there(), [second], "{name}");
            assert_eq!(std::fs::read(folder.join(second)).unwrap(), b"second");
            std::fs::remove_file(folder.join(second)).unwrap();
        }
        let plain = Target { path: folder.join("a.pcapng"), numbered: false, keep: None, append: false };
        Files::of(&plain).unwrap().make().unwrap();
        assert!(folder.join("a.pcapng").exists());
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Files::of(&plain).err().unwrap().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_continued_is_made_again_after_it_was_renamed() {
        let folder = weir_testkit::Folder::new();
        let (path, old) = (folder.join("events"), folder.join("events.1"));
        let target = Target { path: path.clone(), numbered: false, keep: None, append: true };
        let mut files = Files::of(&target).unwrap();
        files.make().unwrap().write_all(b"a").unwrap();
        files.make().unwrap().write_all(b"b").unwrap();
        std::fs::rename(&path, &old).unwrap();
        files.make().unwrap().write_all(b"c").unwrap();
        assert_eq!([old, path].map(|path| std::fs::read(path).unwrap()), [b"ab".to_vec(), b"c".to_vec()]);
    }

    #[test]
    fn the_wait_for_a_reader_ends_when_all_does() {
        let folder = weir_testkit::Folder::new();
        let path = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let target = Target { path: path.clone(), numbered: false, keep: None, append: false };
        let result = Files::of(&target).unwrap().until(|| true).make();
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
