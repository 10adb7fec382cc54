//! Methods and speed of an interface of the user for test frames; see also [`weir_lab::interface`].

use std::fs;

use anyhow::{Result, bail};
use weir_linux::rtnl::Link;
use weir_load::TesterKind;

use crate::{cli, privilege};

/// The method to send or receive frames: the requested one, or the best that this process may use.
pub(crate) fn tester_kind(wanted: cli::TesterKind, notes: &mut Vec<String>) -> Result<TesterKind> {
    if !privilege::may_use_packet_sockets() {
        bail!("no permission to send or receive raw frames: run weir as root, or give it CAP_NET_RAW");
    }
    if wanted == cli::TesterKind::Packet {
        return Ok(TesterKind::Packet);
    }
    match weir_load::xdp::probe() {
        Ok(()) => Ok(TesterKind::Xdp),
        Err(error) if wanted == cli::TesterKind::Xdp => Err(error.into()),
        Err(error) => {
            notes.push(privilege::without_xdp(&error.into()));
            Ok(TesterKind::Packet)
        }
    }
}

/// Speed of the interface in bit/s, if the driver reports it.
pub(crate) fn line_bits_per_s(link: &Link) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(format!("/sys/class/net/{}/{file}", link.name)).ok();
    // /sys shows the interfaces of the namespace in which it was mounted, which may be another one.
    let same = read("ifindex")?.trim().parse() == Ok(link.ifindex);
    let mbit: f64 = read("speed")?.trim().parse().ok()?;
    (same && mbit > 0.0).then_some(mbit * 1e6)
}
