//! Files as SQLite opens them: by an absolute path, so that no name is a URI or a database in memory (`file:x`, `:memory:`).

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use crate::store::StoreError;

/// SQLite's name of a database that is kept nowhere.
const NOWHERE: &str = ":memory:";
/// Pages of a copy into memory between two looks whether the file has changed.
const COPIED_PAGES: i32 = 4096;

/// The absolute path of a file of records.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    if path == Path::new(NOWHERE) {
        return Err(StoreError::Nowhere);
    }
    std::path::absolute(path).map_err(|source| StoreError::Unsafe { path: path.to_path_buf(), source })
}

/// Refuses what is there and no plain file.
pub(super) fn check_plain(path: &Path) -> Result<(), StoreError> {
    weir_disk::check_plain(path).map_err(|source| StoreError::Unsafe { path: path.to_path_buf(), source })
}

/// Opens a file, or makes it.
pub(super) fn open_to_write(file: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
}

/// Opens a file so that its records cannot be changed. Where the file may be written, SQLite removes its own files beside it when
/// the last process closes it; otherwise it is opened for reading only.
pub(super) fn open_to_read(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    db.pragma_update(None, "query_only", true)?;
    Ok(db)
}

/// Opens a file that no process writes to, because its file system or its folder is read-only: without locks and shared memory.
/// SQLite does not read a write-ahead log then: see [`has_log`].
pub(super) fn open_unchanging(file: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in file.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri += &format!("%{byte:02x}"),
        }
    }
    uri += "?immutable=1";
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}

/// Whether the write-ahead log has records that are not in the file itself.
pub(super) fn has_log(file: &Path) -> bool {
    let mut log = OsString::from(file);
    log.push("-wal");
    match std::fs::metadata(log) {
        Ok(about) => about.len() > 0,
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// A copy in memory.
pub(super) fn in_memory(db: &Connection) -> rusqlite::Result<Connection> {
    let mut copy = Connection::open_in_memory()?;
    Backup::new(db, &mut copy)?.run_to_completion(COPIED_PAGES, std::time::Duration::ZERO, None)?;
    Ok(copy)
}
