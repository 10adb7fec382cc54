//! A control socket of a program.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{FileType, Mode};

use crate::directory::Directory;

/// Creates a socket that only its user may use; replaces one without a listener. Call it before any thread creates files: the
/// umask would restrict their modes.
///
/// # Errors
/// Another file has this name, or a link of another user leads there.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let (directory, name) = Directory::of(path)?;
    match directory.look(&name)? {
        None => {}
        Some(FileType::Socket) => directory.remove(&name)?,
        Some(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "it exists and is no socket")),
    }
    // Others can never have opened it: it is born with this mode, where it was looked for.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(directory.path_of(&name));
    rustix::process::umask(before);
    bound
}
