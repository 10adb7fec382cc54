//! Counters and queue lengths of the kernel in a namespace.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

/// Of `/proc/net/netstat` and `/proc/net/snmp`: what says that a server or its backlog is the limit, or that numbers are not
/// what they seem.
const NAMES: [&str; 8] = [
    "ListenOverflows",
    "ListenDrops",
    "TCPReqQFullDrop",
    "SyncookiesSent",
    "TCPSynRetrans",
    "TWRecycled",
    "RetransSegs",
    "AttemptFails",
];

/// Connections that wait for stray packets of theirs (TIME_WAIT), at the moment.
pub(super) const TIME_WAIT: &str = "TIME_WAIT";

/// The counters of the namespace of a process since it was made.
pub(super) fn read(pid: u32) -> BTreeMap<String, u64> {
    let file = |name| weir_disk::kernel_text(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let mut counters = of(&(file("netstat") + &file("snmp")));
    counters.extend(time_wait(&file("sockstat")).map(|n| (TIME_WAIT.to_string(), n)));
    counters
}

/// Lines in pairs: names, then numbers.
fn of(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| pair[0].split(' ').zip(pair[1].split(' ')));
    let wanted = pairs.filter(|(name, _)| NAMES.contains(name));
    wanted.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
}

fn time_wait(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find(|line| line.starts_with("TCP:"))?;
    let mut words = line.split(' ').skip_while(|word| *word != "tw");
    words.nth(1)?.parse().ok()
}

/// Connections that wait to be accepted, over all sockets that listen in the namespace of a process.
pub(super) fn waiting(pid: u32) -> u64 {
    // Sockets that listen come first; of others there may be many.
    let mut text = [0; 2048];
    let read = File::open(format!("/proc/{pid}/net/tcp")).and_then(|mut file| file.read(&mut text));
    queues(&String::from_utf8_lossy(&text[..read.unwrap_or(0)]))
}

fn queues(tcp: &str) -> u64 {
    let queue = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (state, queues) = (words.get(3)?, words.get(4)?);
        let waiting = queues.split_once(':')?.1;
        (*state == "0A").then(|| u64::from_str_radix(waiting, 16).ok())?
    };
    tcp.lines().filter_map(queue).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_names() {
        let text = "TcpExt: SyncookiesSent ListenOverflows Other\nTcpExt: 3 17 9\n\
                    Tcp: RtoAlgorithm RetransSegs\nTcp: 1 4\n";
        let found: Vec<_> = of(text).into_iter().collect();
        let expected = [("ListenOverflows", 17), ("RetransSegs", 4), ("SyncookiesSent", 3)];
        assert_eq!(found, expected.map(|(name, n)| (name.to_string(), n)));
        let sockstat = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 288 alloc 9 mem 1\nUDP: inuse 0 mem 0\n";
        assert_eq!((time_wait(sockstat), time_wait("")), (Some(288), None));
    }

    #[test]
    fn queues_of_sockets_that_listen_are_added() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:0000001F 00:00000000 00000000 0 0 1\n\
            1: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00000000 00000000 0 0 2\n\
            2: 0100007F:1F90 0101007F:9C40 01 00000000:00000009 00:00000000 00000000 0 0 3\n";
        assert_eq!(queues(text), 32);
    }
}
