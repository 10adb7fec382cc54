//! TCP sockets of a network namespace: listeners of a port, and connections that are not accepted yet.

use std::collections::BTreeSet;

const ESTABLISHED: u8 = 0x01;
const CLOSE_WAIT: u8 = 0x08;
const LISTEN: u8 = 0x0a;

/// A line of /proc/net/tcp or tcp6 (proc_net(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) port: u16,
    pub(crate) remote_port: u16,
    state: u8,
    /// 0: no process has it, as of a connection that waits to be accepted.
    pub(crate) inode: u64,
}

/// All TCP sockets in the namespace of a process, of both versions of IP.
pub(crate) fn of(pid: u32) -> Vec<Socket> {
    let texts = ["tcp", "tcp6"]
        .map(|name| weir_disk::kernel_text(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    texts.iter().flat_map(|text| text.lines().skip(1).filter_map(line)).collect()
}

pub(crate) fn line(text: &str) -> Option<Socket> {
    let words: Vec<_> = text.split_ascii_whitespace().collect();
    let port = |at: usize| u16::from_str_radix(words.get(at)?.rsplit_once(':')?.1, 16).ok();
    Some(Socket {
        port: port(1)?,
        remote_port: port(2)?,
        state: u8::from_str_radix(words.get(3)?, 16).ok()?,
        inode: words.get(9)?.parse().ok()?,
    })
}

/// Inodes of the sockets that listen on a port.
pub(crate) fn listening(sockets: &[Socket], port: u16) -> BTreeSet<u64> {
    let is = |one: &&Socket| one.state == LISTEN && one.port == port;
    sockets.iter().filter(is).map(|one| one.inode).collect()
}

/// Inodes of connections to a port that a process has accepted.
pub(crate) fn connections(sockets: &[Socket], port: u16) -> BTreeSet<u64> {
    let is = |one: &&Socket| one.port == port && one.state != LISTEN && one.inode != 0;
    sockets.iter().filter(is).map(|one| one.inode).collect()
}

/// Ports on which one of these sockets listens.
pub(crate) fn ports(sockets: &[Socket], inodes: &BTreeSet<u64>) -> BTreeSet<u16> {
    sockets
        .iter()
        .filter(|one| one.state == LISTEN && inodes.contains(&one.inode))
        .map(|one| one.port)
        .collect()
}

/// Of connections from these ports to this one, those that a process has accepted.
pub(crate) fn accepted(sockets: &[Socket], port: u16, from: &BTreeSet<u16>) -> usize {
    let is = |one: &&Socket| {
        one.port == port
            && from.contains(&one.remote_port)
            && one.inode != 0
            && [ESTABLISHED, CLOSE_WAIT].contains(&one.state)
    };
    sockets.iter().filter(is).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1
   2: 0100007F:1F90 0100007F:C002 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
   3: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4714 1 0 20 4 30 10 -1
garbage";

    #[test]
    fn who_listens_and_what_is_accepted() {
        let all: Vec<_> = TABLE.lines().skip(1).filter_map(line).collect();
        assert_eq!(all.len(), 4);
        let inodes = listening(&all, 8080);
        assert_eq!((inodes.clone(), ports(&all, &inodes)), (BTreeSet::from([4711]), BTreeSet::from([8080])));
        assert_eq!(connections(&all, 8080), BTreeSet::from([4712]));
        assert_eq!(accepted(&all, 8080, &BTreeSet::from([0xc001, 0xc002])), 1, "one waits to be accepted");
        assert_eq!(accepted(&all, 8080, &BTreeSet::from([0xc003])), 0, "others' connections");
    }
}
