//! Names of namespaces under /run/netns, for ip(8) and other programs, until the journal undoes them.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::mount_bind;
use weir_linux::namespace::Namespace;

use crate::error::{Error, Result};
use crate::journal::{Change, EntryId, Journal, published};

/// Makes a namespace visible as /run/netns/`name`, until `journal` undoes it. The mount is made in the calling thread's mount
/// namespace.
///
/// # Errors
/// [`Error::NameTaken`]; [`Error::Input`] for a name with a slash; no permission.
pub(crate) fn publish(namespace: &Namespace, name: &str, journal: &mut Journal) -> Result<EntryId> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(Error::Input(format!("`{name}` is no name for a namespace: use letters and digits")));
    }
    let path = published(name);
    if path.exists() {
        return Err(Error::NameTaken(name.into()));
    }
    let inode = namespace.inode()?;
    let entry = journal.write_down(Change::PublishedNamespace { name: name.into(), inode })?;
    bind(namespace, &path).inspect_err(|_| drop(journal.undo(entry)))?;
    Ok(entry)
}

fn bind(namespace: &Namespace, path: &Path) -> Result<()> {
    let what = format!("publish {}", path.display());
    fs::create_dir_all(path.parent().expect("has a directory")).map_err(Error::os(&what))?;
    fs::File::create_new(path).map_err(Error::os(&what))?;
    let source = format!("/proc/self/fd/{}", namespace.fd().as_raw_fd());
    mount_bind(source, path).map_err(|error| Error::os(&what)(error.into()))
}

#[cfg(test)]
mod tests {
    use rustix::mount::{MountFlags, mount};
    use weir_testkit::need_root;

    use super::*;

    #[test]
    fn names_that_are_no_file_names_are_refused() {
        need_root!();
        let (ns, dir) = (Namespace::new().unwrap(), weir_testkit::Folder::new());
        let mut journal = Journal::in_dir(&dir);
        for name in ["", "a/b", "..", "."] {
            assert!(matches!(publish(&ns, name, &mut journal), Err(Error::Input(_))), "{name}");
        }
    }

    #[test]
    fn a_published_name_is_undone_and_never_taken_from_others() {
        need_root!();
        let (ns, dir) = (Namespace::new().unwrap(), weir_testkit::Folder::new());
        // /run of a separate namespace: the host's stays as it is.
        ns.run(|| {
            mount("none", "/run", "tmpfs", MountFlags::empty(), c"").unwrap();
            let mut journal = Journal::in_dir(&dir);
            publish(&ns, "weir-test", &mut journal).unwrap();
            assert!(matches!(publish(&ns, "weir-test", &mut journal), Err(Error::NameTaken(_))));
            assert!(published("weir-test").exists());
            journal.undo_all().unwrap();
            assert!(!published("weir-test").exists());
        });
    }
}
