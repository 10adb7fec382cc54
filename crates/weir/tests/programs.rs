//! The eBPF programs of this machine.

use std::collections::BTreeSet;

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
