//! Parsers of /proc, for fuzz targets: names of processes are untrusted.

use std::collections::BTreeSet;

use crate::{sockets, tasks};

/// Lines of /proc/net/tcp, of /proc/PID/stat, and what else is read of a process.
pub fn proc(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let all: Vec<_> = text.lines().filter_map(sockets::line).collect();
    let ports: BTreeSet<u16> = all.iter().map(|socket| socket.port).collect();
    for port in ports {
        let inodes = sockets::listening(&all, port);
        assert!(inodes.is_empty() || sockets::ports(&all, &inodes).contains(&port));
    }
    for line in text.lines() {
        if let Some(fields) = tasks::fields(line) {
            assert!(fields.iter().all(|field| !field.contains([' ', ')'])), "{fields:?}");
        }
        tasks::wait(line);
        tasks::socket_inode(line);
    }
}
