//! Connection tracking of a namespace: empty the table, read its counters.
//! Source: linux/netfilter/nfnetlink_conntrack.h, Documentation/networking/nf_conntrack-sysctl.rst.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use crate::error::{Error, Result};
use crate::netlink::{Message, Socket};

/// NFNL_SUBSYS_CTNETLINK and IPCTNL_MSG_CT_DELETE.
const DELETE: u16 = (1 << 8) | 2;

/// Counters of /proc/net/stat/nf_conntrack, summed over CPUs. The columns come from the file's own header,
/// which differs between kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConntrackStats {
    /// Entries in the table (nf_conntrack_count).
    pub entries: u64,
    /// Largest table (nf_conntrack_max).
    pub max: u64,
    /// Frames dropped: the table was full, or two CPUs entered clashing entries.
    pub drop: u64,
    /// Entries that could not be added; their frames are in `drop` or `chain_too_long`.
    pub insert_failed: u64,
    /// Old entries thrown out to make room; no frame of the test is lost by that alone.
    pub early_drop: u64,
    /// Frames dropped since their hash chain was too long (column `chainlength`).
    pub chain_too_long: u64,
    /// Malformed frames that were not tracked (column `invalid`).
    pub invalid: u64,
}

/// Deletes all entries of the calling thread's network namespace.
///
/// # Errors
/// The kernel refuses it.
pub fn flush() -> Result<()> {
    // struct nfgenmsg: AF_UNSPEC, version 0, resource 0: all entries of all families.
    let message = Message::new(DELETE, 0, &[0; 4]);
    Socket::open(libc::NETLINK_NETFILTER)?.request("empty the connection table", message)
}

/// Reads the counters of the calling thread's network namespace; zero where conntrack is absent.
pub fn stats() -> Result<ConntrackStats> {
    let text = weir_disk::kernel_text("/proc/thread-self/net/stat/nf_conntrack").unwrap_or_default();
    let mut stats = parse(&text).ok_or_else(|| {
        Error::Input("/proc/net/stat/nf_conntrack is not a table of hexadecimal numbers".into())
    })?;
    stats.entries = sysctl("nf_conntrack_count");
    stats.max = sysctl("nf_conntrack_max");
    Ok(stats)
}

/// TCP connections of the calling thread's network namespace by state, in the order of a connection's life; empty where
/// the kernel lists none (CONFIG_NF_CONNTRACK_PROCFS).
///
/// # Errors
/// The list cannot be read.
pub fn tcp_states() -> Result<Vec<(String, u64)>> {
    match File::open("/proc/thread-self/net/nf_conntrack") {
        Ok(list) => count_states(BufReader::with_capacity(1 << 16, list)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::os(LIST)(error)),
    }
}

/// Entries of the calling thread's network namespace that have not ended, where the kernel lists them: `nf_conntrack_count` also
/// counts those whose time is over and that are not collected yet.
///
/// # Errors
/// The list cannot be read.
pub fn live_entries() -> Result<Option<u64>> {
    match File::open("/proc/thread-self/net/nf_conntrack") {
        Ok(list) => lines(BufReader::with_capacity(1 << 16, list)).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::os(LIST)(error)),
    }
}

fn lines(list: impl BufRead) -> Result<u64> {
    list.split(b'\n').try_fold(0, |n, line| line.map(|_| n + 1)).map_err(Error::os(LIST))
}

const LIST: &str = "read /proc/net/nf_conntrack";
/// net/netfilter/nf_conntrack_proto_tcp.c
const STATES: [&str; 9] = [
    "SYN_SENT",
    "SYN_SENT2",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE_WAIT",
    "LAST_ACK",
    "TIME_WAIT",
    "CLOSE",
];

fn count_states(mut list: impl BufRead) -> Result<Vec<(String, u64)>> {
    let mut counts = [0; STATES.len()];
    let mut line = String::new();
    while list.read_line(&mut line).map_err(Error::os(LIST))? > 0 {
        // ipv4 2 tcp 6 431999 ESTABLISHED src=.. dst=..
        let mut words = line.split_ascii_whitespace().skip(2);
        let state = words.next().filter(|name| *name == "tcp").and_then(|_| words.nth(2));
        if let Some(at) = state.and_then(|state| STATES.iter().position(|known| *known == state)) {
            counts[at] += 1;
        }
        line.clear();
    }
    let found = STATES.into_iter().zip(counts).filter(|(_, n)| *n > 0);
    Ok(found.map(|(state, n)| (state.to_string(), n)).collect())
}

fn sysctl(name: &str) -> u64 {
    let text = weir_disk::kernel_text(format!("/proc/sys/net/netfilter/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn parse(text: &str) -> Option<ConntrackStats> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let mut stats = ConntrackStats::default();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_ascii_whitespace()) {
            let field = match *name {
                "drop" => &mut stats.drop,
                "insert_failed" => &mut stats.insert_failed,
                "early_drop" => &mut stats.early_drop,
                "chainlength" => &mut stats.chain_too_long,
                "invalid" => &mut stats.invalid,
                _ => continue,
            };
            *field += u64::from_str_radix(value, 16).ok()?;
        }
    }
    Some(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_state() {
        let list = "ipv4     2 tcp      6 299 ESTABLISHED src=198.18.128.1 dst=198.19.128.1 sport=1 dport=2 [ASSURED]\n\
                    ipv4     2 udp      17 29 src=198.18.128.1 dst=198.19.128.1 sport=1 dport=2\n\
                    ipv4     2 tcp      6 10 CLOSE src=198.18.128.1 dst=198.19.128.1 sport=3 dport=2\n\
                    ipv4     2 tcp      6 298 ESTABLISHED src=198.18.128.1 dst=198.19.128.1 sport=4 dport=2\n";
        let counts = count_states(list.as_bytes()).unwrap();
        assert_eq!(counts, [("ESTABLISHED".to_string(), 2), ("CLOSE".to_string(), 1)]);
        assert_eq!(count_states(&b""[..]).unwrap(), []);
    }

    #[test]
    fn columns_are_found_by_name_and_summed_over_cpus() {
        let text = "entries  clashres found new invalid insert_failed drop early_drop chainlength\n\
                    00000009 0 0 0 00000001 00000002 0000000a 00000004 00000005\n\
                    00000009 0 0 0 00000001 00000002 0000000a 00000004 00000005\n";
        let stats = parse(text).unwrap();
        assert_eq!((stats.invalid, stats.insert_failed, stats.drop), (2, 4, 20));
        assert_eq!((stats.early_drop, stats.chain_too_long), (8, 10));
        assert_eq!(parse(""), Some(ConntrackStats::default()));
        assert_eq!(parse("drop\nxyz\n"), None);
    }
}
