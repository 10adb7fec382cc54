//! How senders and receivers by others are called.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use super::case::{PAIR_BYTES, PAIR_CONNECTIONS, PORT};
use super::plan::MailPeer;
use crate::run::programs;

/// smtp-source: so many messages, one recipient each, and as many on a connection as there are.
pub(super) fn sender(messages: u32) -> Command {
    let mut command = program("smtp-source");
    command.args(["-d", "-c", "-f", "sender@weir.test", "-t", "rcpt@weir.test", "-M", "weir.test"]);
    command.args(["-s", &PAIR_CONNECTIONS.to_string(), "-m", &messages.to_string()]);
    command.args(["-l", &PAIR_BYTES.to_string(), &format!("inet:127.0.0.1:{PORT}")]);
    command.stdout(std::process::Stdio::null());
    command
}

/// A receiver that works in this folder, which is emptied before.
pub(super) fn receiver(peer: MailPeer, folder: &Path) -> io::Result<Command> {
    match peer {
        MailPeer::Postfix => postfix(folder),
        MailPeer::SmtpSink | MailPeer::SmtpSource => {
            let mut command = program("smtp-sink");
            // Without -m it takes 256 connections at a time and leaves the others to the kernel.
            command.args(["-m", "20000", &format!("inet:127.0.0.1:{PORT}"), "4096"]);
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
fn postfix(folder: &Path) -> io::Result<Command> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for name in ["config", "queue", "data"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let (user, group) = owner()?;
    chown(folder.join("data"), Some(user), Some(group))?;
    fs::write(folder.join("config/main.cf"), main_cf(folder))?;
    fs::write(folder.join("config/master.cf"), MASTER_CF)?;
    let mut command = program("postfix");
    command.arg("-c").arg(folder.join("config")).arg("start-fg");
    Ok(command)
}

/// User and group of `postfix`, which its package has made.
fn owner() -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find_map(|line| line.strip_prefix("postfix:"));
    let number = |at: usize| line?.split(':').nth(at)?.parse().ok();
    number(1)
        .zip(number(2))
        .ok_or_else(|| io::Error::other("there is no user postfix: install the package anew"))
}

fn main_cf(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
mail_owner = postfix
setgid_group = postdrop
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
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
