//! The eBPF programs of this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Numbers of all eBPF programs, by BPF_PROG_GET_NEXT_ID.
pub(crate) fn all_programs() -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    // start_id, next_id, open_flags of union bpf_attr
    let mut attr = [0_u32; 3];
    // SAFETY: the attributes live through the call, and their length is passed.
    while unsafe { libc::syscall(libc::SYS_bpf, 11, attr.as_mut_ptr(), size_of_val(&attr)) } == 0 {
        found.insert(attr[1].into());
        attr[0] = attr[1];
    }
    found
}

/// Numbers of those that a process holds, whose folder in /proc this is.
pub(crate) fn programs_of(process: &Path) -> BTreeSet<u64> {
    let fds = fs::read_dir(process.join("fdinfo")).into_iter().flatten().flatten();
    let texts = fds.filter_map(|fd| fs::read_to_string(fd.path()).ok());
    let number = |text: String| text.lines().find_map(|l| l.strip_prefix("prog_id:")?.trim().parse().ok());
    texts.filter_map(number).collect()
}

/// Numbers of those that no process holds.
pub(crate) fn programs_of_nobody() -> BTreeSet<u64> {
    let mut found = all_programs();
    for process in fs::read_dir("/proc").expect("proc").flatten() {
        let held = programs_of(&process.path());
        found.retain(|number| !held.contains(number));
    }
    found
}
