//! A directory in which files are made: its path is walked link by link, and nothing in it is reached through a link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchown, fstat, openat,
    readlinkat, renameat, statat, unlinkat,
};

use crate::user::{User, as_caller};

/// Links on the way to a directory, at most; as many as the kernel allows.
pub(crate) const MOST_LINKS: u32 = 40;

/// A directory that is open.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// A step of a path.
enum Part {
    Root,
    Name(OsString),
}

impl Directory {
    /// Opens the directory of a file, whose name is returned with it.
    ///
    /// # Errors
    /// See [`Directory::open`]; a path without a file's name.
    pub fn of(path: &Path) -> io::Result<(Directory, OsString)> {
        let name = path.file_name().ok_or(ErrorKind::IsADirectory)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok((Directory::open(parent.unwrap_or(Path::new(".")))?, name.to_os_string()))
    }

    /// Opens a directory.
    ///
    /// # Errors
    /// It does not exist, or a link of another user leads to it.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let mut at = enter(CWD, OsStr::new("."))?;
        let mut left = parts(path);
        let mut links = 0;
        while let Some(part) = left.pop() {
            let name = match part {
                Part::Root => {
                    at = enter(CWD, OsStr::new("/"))?;
                    continue;
                }
                Part::Name(name) => name,
            };
            let next = openat(&at, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            let found = fstat(&next)?;
            match kind(&found) {
                FileType::Symlink if !is_trusted(&found) => return Err(link_of_other(&name, &found)),
                FileType::Symlink if links == MOST_LINKS => return Err(rustix::io::Errno::LOOP.into()),
                FileType::Symlink => {
                    links += 1;
                    let to = readlinkat(&next, "", Vec::new())?;
                    left.append(&mut parts(Path::new(&OsString::from_vec(to.into_bytes()))));
                }
                FileType::Directory => at = next,
                _ => return Err(ErrorKind::NotADirectory.into()),
            }
        }
        // So that it can be synced; a directory that may be written and not read cannot.
        match openat(&at, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(readable) => Ok(Directory(readable)),
            Err(_) => Ok(Directory(at)),
        }
    }

    /// Makes a file that was not there, which its user may read and write, and others as `mode` says.
    ///
    /// # Errors
    /// Something has this name, be it a link to nothing.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Opens what is there.
    pub(crate) fn existing(&self, name: &OsStr, flags: OFlags) -> io::Result<(File, Stat)> {
        let file =
            openat(&self.0, name, flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty());
        let file = file.map_err(|error| match error {
            rustix::io::Errno::LOOP => link(),
            error => error.into(),
        })?;
        let found = fstat(&file)?;
        Ok((file.into(), found))
    }

    /// Where the link of this name leads; `None`: it is no link.
    ///
    /// # Errors
    /// It is a link of another user.
    pub(crate) fn link(&self, name: &OsStr) -> io::Result<Option<PathBuf>> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if kind(&found) != FileType::Symlink => Ok(None),
            Ok(found) if !is_trusted(&found) => Err(link_of_other(name, &found)),
            Ok(_) => {
                let to = readlinkat(&self.0, name, Vec::new())?;
                Ok(Some(OsString::from_vec(to.into_bytes()).into()))
            }
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What has this name; of a link, the link.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(kind(&found))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A path of a name in this very directory, whatever its own path leads to by now.
    pub(crate) fn path_of(&self, name: &OsStr) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(name)
    }

    /// Deletes a file; of a link, the link.
    ///
    /// # Errors
    /// It is not there, or may not be deleted.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Gives the directory itself to another user. A process of that user may then create files in it through this handle.
    ///
    /// # Errors
    /// The caller may not.
    pub fn give_to(&self, user: User) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        Ok(fchown(&self.0, Some(uid), Some(gid))?)
    }

    /// Which names it has outlives a crash from here on.
    ///
    /// # Errors
    /// What the disk says. A file system that cannot do it is no error.
    pub fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.0) {
            // It may not be read, or its file system has no such thing.
            Err(rustix::io::Errno::BADF | rustix::io::Errno::INVAL) => Ok(()),
            done => Ok(done?),
        }
    }
}

/// Whether the calling user may create files in a directory.
///
/// # Errors
/// They may not, or it is not there.
pub fn check_writable(path: &Path) -> io::Result<()> {
    as_caller(|| {
        let directory = Directory::open(path)?;
        Ok(accessat(&directory.0, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
    })
}

fn enter(at: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(at, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The steps of a path, the first one last.
fn parts(path: &Path) -> Vec<Part> {
    let part = |component| match component {
        Component::RootDir => Some(Part::Root),
        Component::CurDir | Component::Prefix(_) => None,
        Component::ParentDir => Some(Part::Name(OsString::from(".."))),
        Component::Normal(name) => Some(Part::Name(name.to_os_string())),
    };
    let mut parts: Vec<Part> = path.components().filter_map(part).collect();
    parts.reverse();
    parts
}

pub(crate) fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

/// Root and the calling user are trusted.
pub(crate) fn is_trusted(found: &Stat) -> bool {
    found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw()
}

/// The error of a link that is not followed.
pub(crate) fn link() -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, "it is a symbolic link: use its target")
}

fn link_of_other(name: &OsStr, found: &Stat) -> io::Error {
    let (name, uid) = (name.display(), found.st_uid);
    let why = format!("{name} is a symbolic link of user {uid}: use its target");
    io::Error::new(ErrorKind::PermissionDenied, why)
}
