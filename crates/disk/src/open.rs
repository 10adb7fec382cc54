//! Opens a file for writing whose path comes from a user.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, OFlags, Stat};

use crate::directory::{Directory, is_trusted, kind, link};
use crate::user::as_caller;

/// Creates a new file as the calling user; an existing pipe or device is opened, and without a reader that is `ENXIO`.
///
/// # Errors
/// The file exists already; it is a link, or a pipe of another user.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    if let Some(file) = inherited(path)? {
        return Ok(file);
    }
    as_caller(|| {
        let (directory, name) = Directory::of(path)?;
        directory.create(&name, mode)
    })
}

/// Opens a file to which lines are appended, or makes it. A pipe or device is never waited for: it takes what it has room
/// for, and no more.
///
/// # Errors
/// It is a link, a file with a second name, or a pipe of another user or without a reader.
pub fn append(path: &Path, mode: u32) -> io::Result<File> {
    if let Some(file) = inherited(path)? {
        return Ok(file);
    }
    as_caller(|| {
        let (directory, name) = Directory::of(path)?;
        directory.append(&name, mode)
    })
}

/// Opens a file that belongs to the program itself, to read it and to write it anew, or makes it.
///
/// # Errors
/// It is a link, no file, a file with a second name, or of another user.
pub fn keep(path: &Path, mode: u32) -> io::Result<File> {
    as_caller(|| {
        let (directory, name) = Directory::of(path)?;
        match directory.create_new(&name, mode) {
            Ok(file) => {
                file.sync_all()?;
                directory.sync()?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let (file, found) = directory.existing(&name, OFlags::RDWR | OFlags::NONBLOCK)?;
        check_single(&found)?;
        match kind(&found) {
            FileType::RegularFile if is_trusted(&found) => Ok(file),
            FileType::RegularFile => Err(of_other(&found)),
            _ => Err(no_file()),
        }
    })
}

/// Looks whether a library that opens files by their names may have this one: it is a plain file, or nothing.
///
/// # Errors
/// It is a link, or a link of another user leads to it; it has a second name, or is no file.
pub fn check_plain(path: &Path) -> io::Result<()> {
    let (directory, name) = Directory::of(path)?;
    match directory.existing(&name, OFlags::PATH) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok((_, found)) if kind(&found) == FileType::Symlink => Err(link()),
        Ok((_, found)) if kind(&found) != FileType::RegularFile => Err(no_file()),
        Ok((_, found)) => check_single(&found),
    }
}

/// Opens what is there and no file: a pipe, a device, standard output by its name; `None`: it is a file, or nothing.
///
/// # Errors
/// It is a pipe of another user, or one without a reader.
pub fn special(path: &Path) -> io::Result<Option<File>> {
    if let Some(file) = inherited(path)? {
        return Ok(Some(file));
    }
    as_caller(|| {
        let (directory, name) = Directory::of(path)?;
        match directory.look(&name)? {
            Some(FileType::Fifo | FileType::CharacterDevice) => directory.special(&name).map(Some),
            _ => Ok(None),
        }
    })
}

/// A file that is open already, by its name in the file system: standard output, standard error, and descriptors inherited from
/// the parent process; `None`: another name.
///
/// # Errors
/// There is no such descriptor.
pub fn inherited(path: &Path) -> io::Result<Option<File>> {
    let again = |file: &dyn Fn() -> io::Result<std::os::fd::OwnedFd>| file().map(|file| Some(file.into()));
    match path.to_str() {
        Some("/dev/stdout") => again(&|| io::stdout().as_fd().try_clone_to_owned()),
        Some("/dev/stderr") => again(&|| io::stderr().as_fd().try_clone_to_owned()),
        // The parent process has opened it.
        Some(name) if name.starts_with("/dev/fd/") => File::options().write(true).open(path).map(Some),
        _ => Ok(None),
    }
}

impl Directory {
    /// Reads a file that only the current user can have written.
    ///
    /// # Errors
    /// It belongs to another user, other users may write to it, or it is a link.
    pub fn read_own(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        let (mut file, found) = self.existing(name, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let denied = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
        if kind(&found) != FileType::RegularFile {
            return denied("it is no file".to_string());
        }
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return denied(format!("it belongs to user {}", found.st_uid));
        }
        if found.st_mode & 0o022 != 0 {
            return denied("others may write to it".to_string());
        }
        if found.st_nlink != 1 {
            return denied("it has a second name".to_string());
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens a file to which lines are appended, or makes it; see [`append`].
    ///
    /// # Errors
    /// See [`append`].
    pub fn append(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        match self.create_new(name, mode) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let (file, found) = self.existing(name, OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK)?;
        check_single(&found)?;
        Ok(file)
    }

    /// Creates a new file, or opens an existing pipe or device. A pipe without a reader gives `ENXIO`; it does not
    /// wait for one. Writes to a pipe with a slow reader block.
    ///
    /// # Errors
    /// See [`create`].
    pub fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        match self.create_new(name, mode) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
        match self.look(name)? {
            Some(FileType::Fifo | FileType::CharacterDevice) => self.special(name),
            Some(FileType::Symlink) => Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "it is a symbolic link: use its target, or another file",
            )),
            _ => Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "it exists already: delete it, or use another file",
            )),
        }
    }

    fn special(&self, name: &OsStr) -> io::Result<File> {
        let (file, found) = self.existing(name, OFlags::WRONLY | OFlags::NONBLOCK)?;
        check_single(&found)?;
        match kind(&found) {
            FileType::Fifo | FileType::CharacterDevice => {
                // From here on its reader is waited for.
                rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
                Ok(file)
            }
            _ => Err(ErrorKind::AlreadyExists.into()),
        }
    }
}

/// Ensures that written data does not reach a file under another name.
fn check_single(found: &Stat) -> io::Result<()> {
    match kind(found) {
        FileType::RegularFile if found.st_nlink > 1 => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "the file has a second name (a hard link): use another file",
        )),
        FileType::Fifo if !is_trusted(found) => Err(of_other(found)),
        FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice => Ok(()),
        FileType::Directory => Err(ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is neither a file nor a pipe nor a character device",
        )),
    }
}

fn no_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is no file")
}

fn of_other(found: &Stat) -> io::Error {
    io::Error::new(
        ErrorKind::PermissionDenied,
        format!("it belongs to user {}: use another one", found.st_uid),
    )
}
