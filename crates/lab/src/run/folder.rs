//! A folder for the files of a run, gone when dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The folder.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new one in `within`.
    pub(super) fn new(within: &Path) -> io::Result<Folder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir-run-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = within.join(name);
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind are files in a folder for such; nothing else can be done about it here.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_vanish() {
        let folder = Folder::new(&std::env::temp_dir()).unwrap();
        let path = folder.path().to_path_buf();
        fs::write(path.join("file"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
        assert_eq!(Folder::new(&path).err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
