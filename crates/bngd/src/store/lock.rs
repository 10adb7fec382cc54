//! The lock of a store: one process at a time uses its folder.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::error::StoreError;
use super::log::Folder;

/// Held while a process uses the folder. The kernel releases it when the process dies.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closing the file is the unlock")] File);

impl Lock {
    /// Locks a folder.
    pub(super) fn take(folder: &Folder) -> Result<Lock, StoreError> {
        let path = folder.join("lock");
        let mut file = open_file(&path).map_err(StoreError::io(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Without its number the message says less.
                let _ = file.read_to_string(&mut pid);
                let pid = Some(pid.trim()).filter(|pid| !pid.is_empty()).unwrap_or("(unknown)").to_string();
                return Err(StoreError::InUse { path: folder.path().to_path_buf(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io(&path)(error)),
        }
        // A lock is as good without the number: on a full disk, too.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock(file))
    }
}

/// As the process itself, not as the user who called sudo: the folder is that of the service.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o640))?.into())
}
