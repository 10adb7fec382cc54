//! The lock that lets two runs on this machine alternate.
//!
//! It is where only its users can hold it: runs of root have one, those of another user have theirs.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::error::{Error, Result};

/// Where root's is.
const OF_ROOT: &str = "/run/weir";

/// Held while a trial is measured.
#[derive(Debug)]
pub struct MeasuringLock(#[allow(dead_code, reason = "closing the file is the unlock")] File);

/// Waits until no other run on this machine measures, so that two runs alternate trial by trial; `None` if
/// `give_up` becomes true before that. The kernel gives the lock back when the process dies.
pub fn measuring_lock(give_up: impl Fn() -> bool) -> Result<Option<MeasuringLock>> {
    lock_file(&folder().join("measuring.lock"), give_up)
}

fn lock_file(path: &Path, give_up: impl Fn() -> bool) -> Result<Option<MeasuringLock>> {
    let name = path.display().to_string();
    let file = open_lock(path).map_err(Error::os(&name))?;
    match file.try_lock() {
        Ok(()) => return Ok(Some(MeasuringLock(file))),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(Error::os(&name)(error)),
    }
    // flock(2) queues the waiting processes, where polling could starve, but it has no timeout: a thread waits.
    let (locked, is_locked) = mpsc::channel();
    std::thread::spawn(move || {
        // If the waiter has given up, the file is closed, which releases the lock.
        let _ = locked.send(file.lock().map(|()| MeasuringLock(file)));
    });
    loop {
        match is_locked.recv_timeout(Duration::from_millis(50)) {
            Ok(lock) => return lock.map(Some).map_err(Error::os(&name)),
            Err(_) if give_up() => return Ok(None),
            Err(_) => {}
        }
    }
}

/// A folder in which no other user creates files: that of root, where nodes have their sockets, else that of the user.
fn folder() -> PathBuf {
    let is_mine = || fs::symlink_metadata(OF_ROOT).is_ok_and(|found| is_own(&found));
    // In a user namespace root is a plain user, to whom the folder of the real one does not belong.
    if weir_disk::is_root() && (make(Path::new(OF_ROOT), 0o755).is_ok() || is_mine()) && is_mine() {
        return OF_ROOT.into();
    }
    weir_disk::state_folder()
}

fn is_own(found: &fs::Metadata) -> bool {
    found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0
}

fn make(folder: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(folder)
}

fn open_lock(path: &Path) -> io::Result<File> {
    make(path.parent().expect("it is in a folder"), 0o700)?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::Folder;

    #[test]
    fn two_measurements_take_turns() {
        let dir = Folder::new();
        let path = dir.join("lock");
        let first = lock_file(&path, || false).unwrap();
        assert!(first.is_some() && lock_file(&path, || true).unwrap().is_none(), "held by the first");
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let path = &path;
            scope.spawn(move || {
                let second = lock_file(path, || false).unwrap();
                sender.send(second.map(|_| "second")).unwrap();
            });
            assert!(receiver.try_recv().is_err(), "held by the first");
            drop(first);
            assert_eq!(receiver.recv().unwrap(), Some("second"));
        });
    }

    #[test]
    fn nobody_else_can_open_the_lock() {
        let folder = folder();
        assert!(!folder.starts_with("/tmp"), "{}", folder.display());
        let dir = Folder::new();
        let path = dir.join("weir/lock");
        open_lock(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.join("elsewhere"), &path).unwrap();
        assert_eq!(open_lock(&path).unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }
}
