//! Folders for files of a test.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the victim holds.
const VICTIM: &str = "precious";

/// A new, empty folder, gone after the test. It serves as its path.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// One that the user of the test writes to.
    #[expect(clippy::new_without_default, reason = "it is made on disk")]
    pub fn new() -> Folder {
        let within = std::env::temp_dir();
        Folder::within(&within).unwrap_or_else(|error| panic!("{}: {error}", within.display()))
    }

    /// The same in another folder than that for temporary files.
    ///
    /// # Errors
    /// It cannot be made there.
    pub fn within(parent: &Path) -> io::Result<Folder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        // A process of the same number may have been killed in its test.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// A folder that all users may write to: for programs that drop their rights, and for files of other users.
    pub fn for_all() -> Folder {
        let folder = Folder::new();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("it is ours");
        folder
    }

    /// The same with a file `victim`, which a program that follows links and second names would overwrite.
    pub fn with_victim() -> Folder {
        let folder = Folder::for_all();
        let victim = folder.file("victim", VICTIM);
        fs::set_permissions(victim, fs::Permissions::from_mode(0o640)).expect("it is ours");
        folder
    }

    /// The victim is as it was: content, owner and rights.
    pub fn check_victim(&self, done: &str) {
        let (text, found) =
            (fs::read_to_string(self.join("victim")).unwrap(), self.join("victim").metadata().unwrap());
        assert_eq!(
            (text.as_str(), found.uid(), found.mode() & 0o777),
            (VICTIM, self.metadata().unwrap().uid(), 0o640),
            "{done}"
        );
    }

    /// Writes a file in it; its path.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, contents).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// For arguments and variables of programs.
impl AsRef<OsStr> for Folder {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays in /tmp is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_apart_and_go() {
        let (one, two) = (Folder::new(), Folder::for_all());
        let path = one.file("x", "y");
        assert_ne!(*one, *two);
        assert!(two.metadata().unwrap().permissions().mode() & 0o777 == 0o777 && path.exists());
        drop(one);
        assert!(!path.exists() && two.exists());
    }
}
