//! What a process may do that looks at frames: next to nothing, in each of its threads.

use std::collections::BTreeSet;
use std::fs;

/// Loads and reads maps of eBPF; a bit of capabilities(7).
pub const CAP_BPF: u64 = 1 << 39;

/// The status of each thread of a process.
pub fn statuses(pid: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status"));
    threads.flatten().filter_map(|thread| read(thread).ok()).collect()
}

/// All threads are a plain user's, have no capabilities but some of `kept`, can get no others, and not all system calls. Those
/// that handle frames have one filter of system calls more than the others; their names begin with `worker`.
pub fn check(statuses: &str, kept: u64, worker: Option<&str>) {
    let mut filters: [BTreeSet<u32>; 2] = Default::default();
    for status in statuses.split("Name:\t").skip(1) {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.unwrap_or_else(|| panic!("{name} in {status}")).trim()
        };
        for name in ["Uid", "Gid"] {
            let all: Vec<&str> = field(name).split_whitespace().collect();
            // The user of a test may have come by sudo.
            assert!(all.len() == 4 && all.iter().all(|id| *id == all[0] && *id != "0"), "{name}: {status}");
        }
        assert!(!field("Groups").split_whitespace().any(|group| group == "0"), "{status}");
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let bits = u64::from_str_radix(field(name), 16).unwrap();
            assert_eq!(bits & !kept, 0, "{name}: {status}");
        }
        assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1", "2"), "{status}");
        let of_worker = worker.is_some_and(|name| status.starts_with(name));
        // It came with Linux 5.9.
        filters[usize::from(of_worker)].insert(field("Seccomp_filters").parse().unwrap());
    }
    let [others, workers] = filters.map(|counts| counts.into_iter().collect::<Vec<_>>());
    assert_eq!(others.len(), 1, "one number of filters: {statuses}");
    let expected: Vec<u32> = worker.map(|_| others[0] + 1).into_iter().collect();
    assert_eq!(workers, expected, "filters of workers: {statuses}");
}
