//! The socket of a node, and who may use it.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use weir_disk::SocketAccess;
use weir_linux::group;

use super::clients::{self, Limits, Served};
use super::request;

/// Limits of a line, which may hold a node file with all files that it names, and of the time for it.
pub(crate) const LIMITS: Limits =
    Limits { places: 64, line_bytes: request::LONGEST, patience: Duration::from_secs(30), subscriptions: 16 };

/// Who may use the socket of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The bits of its mode; `None`: the owner, and the group if there is one.
    pub mode: Option<u32>,
    /// The name of its group; `None`: that of the process.
    pub group: Option<String>,
}

impl Access {
    /// The same for the system.
    ///
    /// # Errors
    /// There is no group of this name.
    pub fn of_socket(&self) -> Result<SocketAccess> {
        let usual = if self.group.is_some() { 0o660 } else { 0o600 };
        let group = self.group.as_deref().map(group_named).transpose()?;
        Ok(SocketAccess { mode: self.mode.unwrap_or(usual), group })
    }
}

/// The number of a group that a user has named.
fn group_named(name: &str) -> Result<u32> {
    let found = group::number_of(name).with_context(|| format!("cannot look up the group {name}"))?;
    found.ok_or_else(|| {
        anyhow!("no group has the name `{name}`: create it (`groupadd {name}`), or use one that `getent group` lists")
    })
}

/// Parses the mode of a socket. Who may connect may also change the node, so that others never may.
///
/// # Errors
/// It is no mode, or one that keeps the owner out or lets others in: the message has the remedy.
pub fn mode(text: &str) -> Result<u32, String> {
    let example = "write 0600 (only the owner) or 0660 (the owner and the group of --socket-group)";
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(text, 8) {
        Ok(mode @ ..=0o777) if is_octal => match mode {
            _ if mode & 0o002 != 0 => Err(format!(
                "mode {text} lets every user of this machine change the node: use 0660 with --socket-group NAME, and make these \
                 users members of that group"
            )),
            _ if mode & 0o600 != 0o600 => Err(format!("mode {text} keeps the owner out: {example}")),
            _ => Ok(mode),
        },
        _ => Err(format!("`{text}` is no mode of a socket: {example}")),
    }
}

/// The socket of a node.
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Creates the socket; replaces that of a killed node.
    pub(crate) fn listen(path: &Path, access: &Access) -> Result<Control> {
        let shown = path.display();
        // The groups are read first: an unknown one leaves no socket behind.
        let access = access.of_socket().context("cannot give the socket to the group of --socket-group")?;
        if UnixStream::connect(path).is_ok() {
            bail!("another node uses the socket {shown}: stop it, or choose another socket with --socket");
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let listener = weir_disk::listen(path, access).with_context(|| match access.group {
            Some(_) => format!("cannot create the socket {shown} with its group"),
            None => format!("cannot create the socket {shown}: choose another one with --socket"),
        })?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, path: path.to_path_buf() })
    }

    /// Answers clients until the other end of `over` is closed.
    pub(crate) fn serve(&self, over: &UnixStream, served: &Served<'_>) {
        clients::serve(&self.listener, over, served);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Without privileges it may stay; the next node replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_mode_lets_the_owner_in_and_others_never() {
        for (text, expected) in
            [("0600", 0o600), ("660", 0o660), ("0770", 0o770), ("0640", 0o640), ("0664", 0o664)]
        {
            assert_eq!(mode(text), Ok(expected), "{text}");
        }
        for (text, has) in [
            ("0666", "lets every user of this machine change the node: use 0660 with --socket-group"),
            ("602", "lets every user"),
            ("0060", "keeps the owner out: write 0600"),
            ("0400", "keeps the owner out"),
            ("", "is no mode of a socket: write 0600 (only the owner) or 0660"),
            ("u+rw", "is no mode"),
            ("0o660", "is no mode"),
            ("+660", "is no mode"),
            ("1660", "is no mode"),
            ("0688", "is no mode"),
            ("00660", "is no mode"),
        ] {
            let error = mode(text).expect_err(text);
            assert!(error.contains(has), "{text}: {error}");
        }
    }

    #[test]
    fn a_socket_belongs_to_its_group_and_an_unknown_one_leaves_none_behind() {
        let folder = weir_testkit::Folder::new();
        let path = folder.join("socket");
        let unknown = Access { group: Some("no-such-group".into()), ..Access::default() };
        let error = Control::listen(&path, &unknown).err().expect("there is none");
        assert!(
            format!("{error:#}").contains("no group has the name `no-such-group`: create it"),
            "{error:#}"
        );
        assert!(!path.exists());
        let own = rustix::process::getegid().as_raw();
        let groups = std::fs::read_to_string("/etc/group").expect("each machine has it");
        let name = groups.lines().find_map(|line| {
            let mut words = line.split(':');
            let name = words.next()?;
            (words.nth(1)? == own.to_string()).then(|| name.to_string())
        });
        for (access, expected) in [
            (Access::default(), 0o600),
            (Access { group: name.clone(), mode: None }, if name.is_some() { 0o660 } else { 0o600 }),
            (Access { group: name, mode: Some(0o700) }, 0o700),
        ] {
            let control = Control::listen(&path, &access).expect("room");
            let found = std::fs::metadata(&path).expect("it is there");
            assert_eq!((found.mode() & 0o7777, found.gid()), (expected, own), "{access:?}");
            drop(control);
        }
    }
}
