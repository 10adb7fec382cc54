//! System calls that a program which parses frames does not need: they are refused permanently (seccomp(2)), for all callers.
//!
//! What is refused is what reaches far into the kernel, or into other processes, and what a process without privileges may
//! call all the same. It is a list of what is refused, not of what is allowed: a program that is run, such as the script of
//! an attack, finds all that it is used to.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};

/// Namespaces and mounts, other processes, keys, the kernel itself, and interfaces with many mistakes in their past.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// What runs a program.
const PROGRAMS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// Refuses the calls that are not needed in all threads of this process, in those that they start, and in programs run from
/// here on; such a call fails with EPERM. On machines that the library does not know nothing is refused.
///
/// # Errors
/// The kernel has no such filters.
pub(crate) fn refuse() -> io::Result<()> {
    refuse_all(REFUSED)
}

/// The same for programs: none can be run from here on.
///
/// # Errors
/// The kernel has no such filters.
pub(crate) fn refuse_programs() -> io::Result<()> {
    refuse_all(PROGRAMS)
}

fn refuse_all(calls: &[i64]) -> io::Result<()> {
    let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let rules: BTreeMap<_, _> = calls.iter().map(|&call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refused, machine).map_err(io::Error::other)?;
    let program = BpfProgram::try_from(filter).map_err(io::Error::other)?;
    apply_filter_all_threads(&program).map_err(io::Error::other)
}
