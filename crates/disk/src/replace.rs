//! Atomic replacement of a file: a reader sees the old or the new content, also after a crash.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::FileType;

use crate::directory::{Directory, MOST_LINKS, link};
use crate::open::special;
use crate::user::as_caller;

/// Replaces a file as the calling user. A pipe or device is written to; a link of root or of that user stays, and the file to
/// which it leads is written.
///
/// # Errors
/// An error of the disk: the old file stays. A link of another user.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    if let Some(mut file) = special(path)? {
        return file.write_all(bytes);
    }
    let path = as_caller(|| behind_links(path))?;
    if let Some(mut file) = special(&path)? {
        return file.write_all(bytes);
    }
    as_caller(|| {
        let (directory, name) = Directory::of(&path)?;
        replace_in(&directory, &name, bytes, mode)
    })
}

/// To what a path leads by links that may be followed.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let (directory, name) = Directory::of(&path)?;
        let Some(to) = directory.link(&name)? else { return Ok(path) };
        // A path from the root stands for itself.
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(link())
}

/// The same in a directory that is open.
///
/// # Errors
/// See [`replace`].
pub fn replace_in(directory: &Directory, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    match directory.look(name)? {
        None | Some(FileType::RegularFile) => {}
        Some(FileType::Directory) => return Err(ErrorKind::IsADirectory.into()),
        Some(FileType::Symlink) => return Err(link()),
        Some(_) => return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file")),
    }
    let draft = draft(name);
    let written = write_draft(directory, &draft, bytes, mode).and_then(|()| directory.rename(&draft, name));
    if written.is_err() {
        // An incomplete draft is of no use; if it cannot be removed either, the first error is still the one to report.
        let _ = directory.remove(&draft);
    }
    written?;
    directory.sync()
}

/// An unused name in the same directory.
fn draft(name: &OsStr) -> OsString {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut draft = OsString::from(".");
    draft.push(name);
    draft.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    draft
}

fn write_draft(directory: &Directory, draft: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = match directory.create_new(draft, mode) {
        // Of a process that had the same number, and was killed.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            directory.remove(draft)?;
            directory.create_new(draft, mode)?
        }
        made => made?,
    };
    file.write_all(bytes)?;
    file.sync_all()
}
