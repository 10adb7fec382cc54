//! Command lines of other senders and receivers.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};

use super::case::{PAIR_BYTES, PAIR_CONNECTIONS, PORT};
use super::plan::MailPeer;
use weir_lab::run::programs;

/// Where Debian has the internal programs of Postfix.
const DAEMONS: &str = "/usr/lib/postfix/sbin";
/// Where Postfix has its folder: names of its sockets must be short, and its processes, those of another user, must reach it.
const AT: &str = "/mnt";
const CONFIGURATION: &str = "/mnt/config";

/// smtp-source: so many messages, one recipient each, and as many on a connection as there are.
pub(super) fn sender(messages: u32) -> Command {
    let mut command = program("smtp-source");
    command.args(["-d", "-f", "sender@weir.test", "-t", "rcpt@weir.test", "-M", "weir.test"]);
    command.args(["-s", &PAIR_CONNECTIONS.to_string(), "-m", &messages.to_string()]);
    command.args(["-l", &PAIR_BYTES.to_string(), &format!("inet:127.0.0.1:{PORT}")]);
    command.stdout(Stdio::null());
    command
}

/// A receiver that works in this folder, which is emptied before.
pub(super) fn receiver(peer: MailPeer, folder: &Path) -> io::Result<Command> {
    match peer {
        MailPeer::Postfix => postfix(folder),
        MailPeer::SmtpSink | MailPeer::SmtpSource => {
            let mut command = program("smtp-sink");
            // Root must name a user. Without -m it takes 256 connections at a time and leaves the others to the kernel.
            command.args(["-u", "postfix", "-m", "20000", &format!("inet:127.0.0.1:{PORT}"), "4096"]);
            Ok(command)
        }
    }
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", programs::path());
    command
}

/// Postfix with configuration, queue and data below the folder, which takes mail for weir.test and discards it from its queue.
/// In the namespace of the calling thread the folder is at [`AT`].
fn postfix(folder: &Path) -> io::Result<Command> {
    // That of the trial before; if there was none, this fails.
    let _ = called(program("umount").args(["-l", AT]));
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for name in ["config", "queue", "data"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let (user, group) = owner()?;
    chown(folder.join("data"), Some(user), Some(group))?;
    fs::write(folder.join("config/main.cf"), main_cf())?;
    fs::write(folder.join("config/master.cf"), MASTER_CF)?;
    called(program("mount").arg("--bind").arg(folder).arg(AT))?;
    called(program("postfix").args(["-c", CONFIGURATION, "check"]))?;
    // Not by `postfix start-fg`: what that starts goes on when it is ended.
    let mut command = Command::new(format!("{DAEMONS}/master"));
    command.args(["-s", "-c", CONFIGURATION]);
    Ok(command)
}

/// Calls a program to its end.
fn called(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    let error = || io::Error::other(format!("{command:?} has failed: {said}"));
    output.status.success().then_some(()).ok_or_else(error)
}

/// User and group of `postfix`, which its package has made.
fn owner() -> io::Result<(u32, u32)> {
    let users = weir_disk::kernel_text("/etc/passwd")?;
    let line = users.lines().find_map(|line| line.strip_prefix("postfix:"));
    let number = |at: usize| line?.split(':').nth(at)?.parse().ok();
    number(1)
        .zip(number(2))
        .ok_or_else(|| io::Error::other("there is no user postfix: install the package anew"))
}

fn main_cf() -> String {
    format!(
        "compatibility_level = 3.6
queue_directory = {AT}/queue
data_directory = {AT}/data
maillog_file = {AT}/log
maillog_file_prefixes = {AT}
mail_owner = postfix
setgid_group = postdrop
command_directory = /usr/sbin
daemon_directory = {DAEMONS}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mx.weir.test
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
virtual_mailbox_domains = weir.test
virtual_mailbox_maps = static:all
virtual_transport = discard:
smtpd_client_connection_count_limit = 0
smtpd_client_connection_rate_limit = 0
smtpd_peername_lookup = no
"
    )
}

/// The services that take mail, queue it and discard it.
const MASTER_CF: &str = "\
smtp inet n - n - 100 smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
";
