//! A folder for the files of a run, removed when dropped. The next run removes the folders of killed runs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_linux::process::{is_alive, this_process};

/// How their names begin; the process follows, and behind `+` a number.
const NAME: &str = "weir-run-";

/// The folder.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one in `within`.
    pub fn new(within: &Path) -> io::Result<Folder> {
        sweep(within);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{NAME}{}+{}", this_process(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = within.join(name);
        // The programs that others wrote may give their rights up, and read here.
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Removes what runs that were killed have left in the folders in which runs work unless a plan says otherwise.
pub fn sweep_folders() {
    sweep(&std::env::temp_dir());
    sweep(Path::new("/dev/shm"));
}

/// Removes what dead processes of this user have left behind. What cannot be removed is in a folder for such things.
fn sweep(within: &Path) {
    let own = fs::symlink_metadata("/proc/self").map_or(0, |found| found.uid());
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split_once('+'));
        let is_left = process.is_some_and(|(process, _)| !is_alive(process));
        // Of a link, the link.
        let is_own = || entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if is_left && is_own() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Files that stay behind are in the folder for temporary files; nothing else can be done here.
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

    #[test]
    fn what_a_dead_process_has_left_goes_with_the_next_folder() {
        let within = Folder::new(&std::env::temp_dir()).unwrap();
        let dead = this_process().replacen(|c: char| c.is_ascii_digit(), "99999999", 1);
        let [left, other] =
            [format!("{NAME}{dead}+0"), "weir-run-notes".to_string()].map(|name| within.path().join(name));
        let link = within.path().join(format!("{NAME}{dead}+1"));
        fs::create_dir(&other).unwrap();
        fs::create_dir(&left).unwrap();
        fs::write(left.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let alive = Folder::new(within.path()).unwrap();
        assert_eq!([&left, &other].map(|path| path.exists()), [false, true]);
        assert!(link.symlink_metadata().is_ok(), "it is no folder");
        let second = Folder::new(within.path()).unwrap();
        assert!(alive.path().exists() && second.path().exists());
    }
}
