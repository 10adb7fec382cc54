//! The calling user: under sudo the user who called it. Files are written with the rights of this user, and belong to this user.

use std::io::{self, ErrorKind};

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A user and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of its group.
    pub gid: u32,
}

/// The user who called sudo.
pub fn caller() -> Option<User> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok().filter(|&number| number != 0);
    Some(User { uid: number("SUDO_UID")?, gid: number("SUDO_GID")? })
}

/// Is the calling thread root's?
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Opens something with the rights of the calling user: under sudo, those of the user who called it.
///
/// # Errors
/// What `open` returns. Where the caller may not, the error names the user.
pub fn as_caller<T: Send>(open: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    match caller().filter(|_| is_root()) {
        Some(user) => in_thread_of(user, open).map_err(explained),
        None => open(),
    }
}

/// A separate thread has these rights, and ends with them: nothing has to be given back.
pub(crate) fn in_thread_of<T: Send>(
    user: User,
    open: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let become_user = move || {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        set_thread_groups(&[gid])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| match become_user() {
            // In a user namespace root is a plain user outside, and there may be no other.
            Err(error) if !matches!(error, rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {
                Err(error.into())
            }
            _ => open(),
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// An error of making a file, with what to do about it.
pub fn explained(error: io::Error) -> io::Error {
    let why = match (error.kind(), caller()) {
        (ErrorKind::AlreadyExists, _) if error.raw_os_error().is_some() => {
            "it exists already: delete it, or use another file".to_string()
        }
        (ErrorKind::PermissionDenied, Some(User { uid, .. })) => format!(
            "{error}: user {uid}, who called sudo, has no permission; use a folder of that user, or run `sudo env -u SUDO_UID \
             weir ...` to write the file as root"
        ),
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}
