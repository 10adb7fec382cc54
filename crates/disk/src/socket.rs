//! A control socket of a program.

use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, chmod, chownat};

use crate::directory::Directory;

/// Who may use a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketAccess {
    /// The bits of its mode; writing is connecting.
    pub mode: u32,
    /// The number of its group; `None`: that of this process.
    pub group: Option<u32>,
}

impl SocketAccess {
    /// Only its user.
    pub const OWNER: SocketAccess = SocketAccess { mode: 0o600, group: None };
}

/// Creates a socket that only these may use; replaces one without a listener. Call it before any thread creates files: the
/// umask would restrict their modes.
///
/// # Errors
/// Another file has this name, or a link of another user leads there; the user of this process may not give it to the group.
pub fn listen(path: &Path, access: SocketAccess) -> io::Result<UnixListener> {
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
    let bound = bound?;
    if access != SocketAccess::OWNER {
        open_to(&directory, &name, access).inspect_err(|_| drop(directory.remove(&name)))?;
    }
    Ok(bound)
}

/// Gives a socket its group and then its mode: no other group may use it in between.
fn open_to(directory: &Directory, name: &std::ffi::OsStr, access: SocketAccess) -> io::Result<()> {
    let (socket, found) = directory.existing(name, OFlags::PATH)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "another program has replaced it"));
    }
    if let Some(group) = access.group {
        chownat(&socket, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH).map_err(|error| {
            io::Error::new(
                ErrorKind::PermissionDenied,
                format!(
                    "group {group} cannot be given: {error}; run it as root with CAP_CHOWN, or as a member of this group"
                ),
            )
        })?;
    }
    // An open path has no mode of its own to change.
    chmod(format!("/proc/self/fd/{}", socket.as_raw_fd()), Mode::from_raw_mode(access.mode))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::user::{User, in_thread_of};

    #[test]
    fn a_socket_has_its_mode_and_group() {
        let folder = weir_testkit::Folder::new();
        let path = folder.join("socket");
        let own = std::fs::metadata(&folder).expect("it is there").gid();
        let group = if crate::is_root() { 4711 } else { own };
        for (access, mode, gid) in [
            (SocketAccess::OWNER, 0o600, own),
            (SocketAccess { mode: 0o660, group: None }, 0o660, own),
            (SocketAccess { mode: 0o660, group: Some(group) }, 0o660, group),
            (SocketAccess { mode: 0o700, group: Some(group) }, 0o700, group),
        ] {
            // It replaces the one before, which has no listener.
            drop(listen(&path, access).expect("room"));
            let found = std::fs::metadata(&path).expect("it is there");
            assert_eq!((found.mode() & 0o7777, found.gid()), (mode, gid), "{access:?}");
        }
    }

    #[test]
    fn members_of_the_group_connect_and_no_other_user() {
        weir_testkit::need_root!();
        let folder = weir_testkit::Folder::new();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let path = folder.join("socket");
        let connects = |uid, gid| in_thread_of(User { uid, gid }, || UnixStream::connect(&path).map(drop));
        for (access, of_group) in [
            (SocketAccess { mode: 0o660, group: Some(4711) }, None),
            (SocketAccess { mode: 0o640, group: Some(4711) }, Some(ErrorKind::PermissionDenied)),
            (SocketAccess::OWNER, Some(ErrorKind::PermissionDenied)),
        ] {
            let _listener = listen(&path, access).expect("room");
            let kind = |connected: io::Result<()>| connected.err().map(|error| error.kind());
            assert_eq!(kind(connects(4711, 4711)), of_group, "{access:?}");
            assert_eq!(kind(connects(4712, 4712)), Some(ErrorKind::PermissionDenied), "{access:?}");
        }
    }
}
