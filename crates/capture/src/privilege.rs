//! Privileges are needed to open sockets, rings and files; the code that parses or writes frames has none.

use std::io;

pub use weir_disk::{User, caller};

use crate::{sys, syscalls};

/// User nobody and group nogroup of most systems, also the kernel's overflow user.
const NOBODY: User = User { uid: 65_534, gid: 65_534 };

/// Whether this process is root, which changes to another user in [`drop_all`].
pub fn is_root() -> bool {
    sys::user() == 0
}

/// The user that root changes to in [`drop_all`]; `None` for other users, which do not change.
pub fn to_become() -> Option<User> {
    is_root().then(|| caller().unwrap_or(NOBODY))
}

/// Drops all privileges permanently: root changes to the user who called sudo, or nobody; capabilities are cleared, programs
/// cannot regain them, and system calls that are not needed are refused. Call it before the first thread starts: some of this
/// applies to one thread only.
/// Returns the user that root changed to.
///
/// # Errors
/// The kernel refuses, and the privileges are still there.
pub fn drop_all() -> io::Result<Option<User>> {
    drop_all_but(0)
}

/// The same, where the calling thread and those that it starts keep these capabilities, as bits of capabilities(7).
///
/// # Errors
/// See [`drop_all`].
pub fn drop_all_but(kept: u64) -> io::Result<Option<User>> {
    let user = to_become();
    sys::bound_capabilities(kept)?;
    if kept != 0 {
        sys::keep_through_change_of_user()?;
    }
    let became = match user.map(|user| (user, sys::become_user(user.uid, user.gid))) {
        // In a user namespace root is a plain user outside, and there may be no other.
        Some((_, Err(error))) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => {
            return Err(error);
        }
        Some((user, Ok(()))) => Some(user),
        _ => None,
    };
    sys::keep_capabilities(kept)?;
    // A kernel without such filters is no reason to go on with privileges, nor to stop.
    let _ = syscalls::refuse();
    Ok(became)
}

/// This process runs no program from here on: for those that never do.
pub fn run_no_program() {
    // A kernel without such filters is no reason to stop.
    let _ = syscalls::refuse_programs();
}
