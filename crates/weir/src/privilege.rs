//! What this process may do, and how to get by with less.
//!
//! Root with full capabilities uses XDP. Anybody else gets a user namespace of their own, in which they may
//! make network namespaces and packet sockets, but load no eBPF and place no kernel thread.

use std::fs;
use std::io;

use anyhow::{Context, Result, bail};
use weir_lab::frames::PointSpec;
use weir_lab::frames::preflight;
use weir_load::TesterKind;
use weir_load::xdp;
use weir_testbed::dut::DutKind;

use crate::cli;

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;

/// How the tester will work, and what is weaker than it could be.
pub(crate) struct Means {
    pub(crate) tester: TesterKind,
    pub(crate) limits: Vec<String>,
}

impl Means {
    /// Of a run that sends nothing.
    pub(crate) fn none() -> Means {
        Means { tester: TesterKind::Packet, limits: Vec::new() }
    }
}

/// Finds out, and enters a user namespace where that is needed. Call it before any thread is started.
pub(crate) fn obtain(wanted: cli::TesterKind) -> Result<Means> {
    let mut limits = Vec::new();
    if !has_capabilities() {
        if wanted == cli::TesterKind::Xdp {
            bail!(
                "the XDP tester needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run weir as root, or choose --tester packet"
            );
        }
        enter_user_namespace().context(
            "without root, weir needs an unprivileged user namespace: run it as root, or allow them \
             (kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)",
        )?;
        limits.push(
            "Not root: frames go through AF_PACKET sockets in an unprivileged user namespace. The ceiling is \
             several times lower, departures are less exact, and the kernel's receive threads are not bound \
             to CPUs, so that tester and DUT disturb each other."
                .to_string(),
        );
        return Ok(Means { tester: TesterKind::Packet, limits });
    }
    if wanted == cli::TesterKind::Packet {
        return Ok(Means { tester: TesterKind::Packet, limits });
    }
    match xdp::probe().map_err(anyhow::Error::from).and_then(|()| xdp_on_a_wire()) {
        Ok(()) => Ok(Means { tester: TesterKind::Xdp, limits }),
        Err(error) if wanted == cli::TesterKind::Xdp => Err(error),
        Err(error) => {
            limits.push(without_xdp(&error));
            Ok(Means { tester: TesterKind::Packet, limits })
        }
    }
}

/// Frames of the XDP tester must pass a wire. Where packets of sockets do not either, it is the wire that cannot be had.
fn xdp_on_a_wire() -> Result<()> {
    let wire = PointSpec::plain(DutKind::WIRE, 64, 1);
    match preflight::device(&wire, TesterKind::Xdp) {
        Err(error) if preflight::device(&wire, TesterKind::Packet).is_ok() => Err(error.into()),
        _ => Ok(()),
    }
}

/// What is missing, what it costs, what to do.
pub(crate) fn without_xdp(error: &anyhow::Error) -> String {
    format!(
        "AF_PACKET sockets in place of XDP: {}. They send several times fewer frames, which depart less exactly; Linux 5.18 or \
         newer, as root, has XDP with live frames.",
        crate::outcome::with_causes(error)
    )
}

/// May this process make network namespaces and change interfaces?
pub(crate) fn has_capabilities() -> bool {
    [CAP_NET_ADMIN, CAP_SYS_ADMIN].into_iter().all(has)
}

/// May this process open packet sockets?
pub(crate) fn may_use_packet_sockets() -> bool {
    has(CAP_NET_RAW)
}

fn has(capability: u32) -> bool {
    let status = weir_disk::kernel_text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    bits & (1 << capability) != 0
}

fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: no arguments, cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: no pointers; the kernel refuses it in a process with several threads.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(io::Error::last_os_error());
    }
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}
