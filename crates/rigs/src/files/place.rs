//! The place for the files: a folder in the given directory, in memory, or on a file system of its own in a file there.
//!
//! ```text
//! directory / folder of the run / image > mkfs > loop device > mounted in a separate namespace
//! ```
//! The mount is seen by no other process. With the last thread of its namespace it is gone, whatever ended the process, and the
//! loop device with it; the folder goes with the next run.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_linux::namespace::Namespace;

use super::plan::{FileSystem, Files};
use weir_lab::run::folder::Folder;
use weir_lab::run::programs;

/// The smallest that every file system can be made on.
const SMALLEST: u64 = 600 << 20;

/// A place for files.
pub(super) struct Place {
    /// Here a trial makes a directory.
    pub(super) directory: PathBuf,
    /// Type, options, and how full it is.
    pub(super) description: String,
    // Dropped in this order: what is mounted, then what it is in.
    mounted: Option<Mounted>,
    _folder: Folder,
}

/// A file system that is mounted in a namespace.
struct Mounted {
    namespace: Namespace,
    at: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // If it fails, it is gone with the namespace.
        let _ = self.namespace.run(|| called(Command::new("umount").arg(&self.at)));
    }
}

/// May files be made in the directory of the plan, and is there room for them?
pub(super) fn check(plan: &Files) -> Result<(), String> {
    let directory = &plan.directory;
    let found =
        fs::symlink_metadata(directory).map_err(|error| format!("{error}; create it, or use another one"))?;
    if found.is_symlink() {
        let to = fs::read_link(directory).unwrap_or_default();
        return Err(format!("it is a link: use its target, {}", to.display()));
    }
    if !found.is_dir() {
        return Err("it is no directory: use a directory".into());
    }
    weir_disk::check_writable(directory).map_err(|error| format!("{error}; use a directory that you own"))?;
    if plan.file_systems == [FileSystem::Tmpfs] {
        return Ok(());
    }
    let room = Room::of(directory).map_err(|error| error.to_string())?;
    let (bytes, files) = (plan.bytes() + plan.bytes() / 4, u64::from(plan.files) + 1000);
    match room {
        Room { bytes: free, .. } if free < bytes => Err(format!(
            "{} MiB are free, and {} MiB are needed: use fewer or smaller files, or another directory",
            free >> 20,
            bytes >> 20
        )),
        // Some file systems do not count them.
        Room { files: free @ 1.., .. } if free < files => {
            Err(format!("it has room for {free} more files: use fewer files, or another directory"))
        }
        _ => Ok(()),
    }
}

struct Room {
    bytes: u64,
    files: u64,
    used: f64,
}

impl Room {
    fn of(directory: &Path) -> io::Result<Room> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: a plain structure of numbers, for which zero is a value.
        let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: path and structure outlive the call.
        if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let used = 1.0 - found.f_bavail as f64 / (found.f_blocks as f64).max(1.0);
        Ok(Room { bytes: found.f_bavail * found.f_frsize, files: found.f_favail, used })
    }
}

impl Place {
    /// Makes it; why not, if that is not possible here.
    pub(super) fn make(file_system: FileSystem, plan: &Files) -> Result<Place, String> {
        match file_system {
            FileSystem::Given => Place::within(&plan.directory),
            FileSystem::Tmpfs => Place::within(Path::new("/dev/shm")).and_then(Place::in_memory),
            FileSystem::Ext4 => Place::on_loop("ext4", &["-q", "-F"], plan),
            FileSystem::Xfs => Place::on_loop("xfs", &["-q", "-f"], plan),
            FileSystem::Btrfs => Place::on_loop("btrfs", &["-q", "-f"], plan),
            FileSystem::F2fs => Place::on_loop("f2fs", &["-q", "-f"], plan),
        }
    }

    fn within(directory: &Path) -> Result<Place, String> {
        let made = Folder::new(directory);
        let folder =
            made.map_err(|error| format!("no folder can be made in {}: {error}", directory.display()))?;
        let path = folder.path().to_path_buf();
        // Absolute: a mount is found by its place.
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        let description = describe(&path, "/proc/self/mountinfo");
        Ok(Place { directory: path, description, mounted: None, _folder: folder })
    }

    fn in_memory(self) -> Result<Place, String> {
        if self.description.starts_with("tmpfs") { Ok(self) } else { Err("/dev/shm is no tmpfs here".into()) }
    }

    fn on_loop(kind: &str, options: &[&str], plan: &Files) -> Result<Place, String> {
        let make = format!("mkfs.{kind}");
        let supported = weir_disk::kernel_text("/proc/filesystems").unwrap_or_default();
        if !supported.lines().any(|line| line.trim_end().ends_with(&format!("\t{kind}"))) && !has_module(kind)
        {
            return Err(format!("this kernel has no {kind}"));
        }
        if let Some(why) = programs::missing(&make, super::PROGRAMS) {
            return Err(format!("{make}: {why}"));
        }
        let place = Place::within(&plan.directory)?;
        let (image, at) = (place.directory.join("image"), place.directory.join("mounted"));
        let bytes = (2 * plan.bytes()).max(SMALLEST);
        let made =
            File::create_new(&image).and_then(|file| file.set_len(bytes)).and_then(|()| fs::create_dir(&at));
        made.map_err(|error| format!("no image can be made: {error}"))?;
        called(Command::new(&make).args(options).arg(&image)).map_err(|why| format!("{make}: {why}"))?;
        let namespace = Namespace::new().map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", "loop"]).arg(&image).arg(&at);
        namespace.run(|| called(&mut mount)).map_err(|why| format!("mount: {why}"))?;
        // A thread has its own mounts.
        let description = namespace.run(|| describe(&at, "/proc/thread-self/mountinfo"));
        let mounted = Some(Mounted { namespace, at: at.clone() });
        Ok(Place { directory: at, description, mounted, ..place })
    }

    /// Runs a closure where the place is seen.
    pub(super) fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        match &self.mounted {
            Some(mounted) => mounted.namespace.run(f),
            None => f(),
        }
    }
}

fn has_module(kind: &str) -> bool {
    let release = weir_disk::kernel_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    Path::new("/lib/modules").join(release.trim()).join("kernel/fs").join(kind).exists()
}

/// Calls a program to its end; its last words if it fails.
fn called(command: &mut Command) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output =
        command.env("PATH", path).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it failed").to_string();
    output.status.success().then_some(()).ok_or(last)
}

/// `ext4 (rw,relatime), 65 % full`: of the mount that a path is on.
fn describe(path: &Path, mounts: &str) -> String {
    let text = weir_disk::kernel_text(mounts).unwrap_or_default();
    let mount = mount_of(&text, path).unwrap_or_else(|| "unknown".into());
    let used =
        Room::of(path).map_or_else(|_| String::new(), |room| format!(", {:.0} % full", room.used * 100.0));
    mount + &used
}

/// proc_pid_mountinfo(5): the longest mount point that the path begins with, the last of those.
fn mount_of(mountinfo: &str, path: &Path) -> Option<String> {
    let of = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let (before, after): (Vec<&str>, Vec<&str>) =
            (before.split(' ').collect(), after.split(' ').collect());
        let (point, options) = (before.get(4)?, before.get(5)?);
        path.starts_with(point)
            .then(|| (point.len(), format!("{} ({options},{})", after[0], after.last().unwrap_or(&""))))
    };
    mountinfo.lines().filter_map(of).max_by_key(|(length, _)| *length).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sets: &[&str]) -> Files {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = crate::PLANS.load("files", &sets).unwrap();
        plan.experiment.of::<Files>().expect("of this rig").clone()
    }

    #[test]
    fn a_directory_that_will_not_do_is_refused_with_the_reason() {
        let folder = Folder::new(&std::env::temp_dir()).unwrap();
        let [link, file] = ["link", "file"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        fs::write(&file, "x").unwrap();
        let small = plan(&["files.files=10", "files.size=4k"]);
        let huge = plan(&["files.files=1000000", "files.size=16m"]);
        for (base, directory, text) in [
            (&small, link, "it is a link: use its target"),
            (&small, file, "it is no directory"),
            (&small, folder.path().join("none"), "create it, or use another one"),
            (&huge, folder.path().to_path_buf(), "use fewer or smaller files"),
        ] {
            let error = check(&Files { directory, ..base.clone() }).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        let own = Files { directory: folder.path().to_path_buf(), ..small };
        assert_eq!(check(&own), Ok(()));
    }

    #[test]
    fn the_mount_of_a_path_is_the_nearest_one() {
        let text = "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
                    30 20 0:5 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=9k\n";
        let of = |path| mount_of(text, Path::new(path)).unwrap();
        assert_eq!(of("/home/x"), "ext4 (rw,relatime,rw,discard)");
        assert_eq!(of("/dev/shm/x"), "tmpfs (rw,nosuid,rw,size=9k)");
        assert_eq!(of("/dev/shmem"), "ext4 (rw,relatime,rw,discard)");
    }
}
