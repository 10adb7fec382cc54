//! What a process may do that looks at frames: next to nothing, in each of its threads.

use std::fs;

/// Loads and reads maps of eBPF; a bit of capabilities(7).
#[allow(dead_code, reason = "not every test has a node")]
pub(crate) const CAP_BPF: u64 = 1 << 39;

/// The status of each thread of a process.
#[allow(dead_code, reason = "a process may be in a namespace of its own")]
pub(crate) fn statuses(pid: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status"));
    threads.flatten().filter_map(|thread| read(thread).ok()).collect()
}

/// All threads are a plain user's, have no capabilities but some of `kept`, can get no others, and not all system calls.
pub(crate) fn check(statuses: &str, kept: u64) {
    let mut threads = 0;
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
        threads += 1;
    }
    assert!(threads > 0, "no thread: {statuses}");
}
