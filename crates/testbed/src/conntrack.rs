//! Connection tracking of a namespace: empty the table, read its counters.
//! Source: linux/netfilter/nfnetlink_conntrack.h, Documentation/networking/nf_conntrack-sysctl.rst.

use std::fs;

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
pub(crate) fn flush() -> Result<()> {
    // struct nfgenmsg: AF_UNSPEC, version 0, resource 0: all entries of all families.
    let message = Message::new(DELETE, 0, &[0; 4]);
    Socket::open(libc::NETLINK_NETFILTER)?.request("empty the connection table", message)
}

/// Reads the counters of the calling thread's network namespace; zero where conntrack is absent.
pub(crate) fn stats() -> Result<ConntrackStats> {
    let text = fs::read_to_string("/proc/thread-self/net/stat/nf_conntrack").unwrap_or_default();
    let mut stats = parse(&text).ok_or_else(|| {
        Error::Input("/proc/net/stat/nf_conntrack is not a table of hexadecimal numbers".into())
    })?;
    stats.entries = sysctl("nf_conntrack_count");
    stats.max = sysctl("nf_conntrack_max");
    Ok(stats)
}

fn sysctl(name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/sys/net/netfilter/{name}")).unwrap_or_default();
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
