//! The privileges of this process, and the methods that work without them.
//!
//! Root with full capabilities uses XDP. For other users weir creates a user namespace, in which it can create network
//! namespaces and packet sockets, but cannot load eBPF or place kernel threads.

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

/// The method of the tester, and its limitations.
pub(crate) struct Means {
    pub(crate) tester: TesterKind,
    pub(crate) limits: Vec<String>,
}

impl Means {
    /// For a run that sends no frames.
    pub(crate) fn none() -> Means {
        Means { tester: TesterKind::Packet, limits: Vec::new() }
    }
}

/// Selects the method, and enters a user namespace if needed. Call it before the first thread starts.
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
            "Not root: frames go through AF_PACKET sockets in an unprivileged user namespace. The highest rate is \
             several times lower, departure times are less exact, and the kernel's receive threads are not bound \
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

/// Checks that frames of the XDP tester pass a wire. If packets of sockets do not pass either, the wire is the cause.
fn xdp_on_a_wire() -> Result<()> {
    let wire = PointSpec::plain(DutKind::WIRE, 64, 1);
    match preflight::device(&wire, TesterKind::Xdp) {
        Err(error) if preflight::device(&wire, TesterKind::Packet).is_ok() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The reason, the effect and the remedy of a tester without XDP.
pub(crate) fn without_xdp(error: &anyhow::Error) -> String {
    format!(
        "Using AF_PACKET sockets instead of XDP: {}. They send several times fewer frames, with less exact departure times. XDP \
         needs root and Linux 5.18 or newer.",
        crate::outcome::with_causes(error)
    )
}

/// Whether this process may create network namespaces and change interfaces.
pub(crate) fn has_capabilities() -> bool {
    [CAP_NET_ADMIN, CAP_SYS_ADMIN].into_iter().all(has)
}

/// Whether this process may open packet sockets.
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
