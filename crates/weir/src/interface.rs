//! An interface of the user's that test frames shall leave or enter: is it there, is it fit, may it be used?

use std::fs;

use anyhow::{Result, anyhow, bail};
use weir_lab::plan::did_you_mean;
use weir_load::TesterKind;
use weir_testbed::error::Error;
use weir_testbed::rtnl::{Link, Rtnl};

use crate::{cli, privilege};

/// Looks an interface of this network namespace up.
///
/// # Errors
/// There is none of this name; the message lists those that there are.
pub(crate) fn find(name: &str) -> Result<Link> {
    match Rtnl::open()?.link(name) {
        Ok(link) => Ok(link),
        Err(Error::Netlink { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {
            Err(anyhow!(unknown(name, &names())))
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses an interface that cannot send or receive now.
pub(crate) fn check_ready(link: &Link) -> Result<()> {
    let name = &link.name;
    if !link.up {
        bail!("interface {name} is down: set it up with `ip link set {name} up`");
    }
    if !link.carrier {
        bail!("interface {name} has no carrier: plug in the cable, or set the other end up");
    }
    Ok(())
}

/// Refuses frames (FCS included) that are longer than the interface takes.
pub(crate) fn check_mtu(link: &Link, frame_bytes: u16) -> Result<()> {
    let needed = u32::from(frame_bytes).saturating_sub(18);
    if needed > link.mtu {
        bail!(
            "frames of {frame_bytes} bytes need an MTU of {needed}, and that of {name} is {mtu}: use --frame {max} \
             or less, or `ip link set {name} mtu {needed}` on both ends",
            name = link.name,
            mtu = link.mtu,
            max = link.mtu + 18
        );
    }
    Ok(())
}

/// Refuses the interface that the default route goes through.
pub(crate) fn check_not_default_route(name: &str) -> Result<()> {
    let read = |file: &str| fs::read_to_string(format!("/proc/self/net/{file}")).unwrap_or_default();
    for (version, devices) in
        [(4, default_routes_v4(&read("route"))), (6, default_routes_v6(&read("ipv6_route")))]
    {
        if devices.iter().any(|device| device == name) {
            bail!(
                "the IPv{version} default route goes through {name}: test frames would flood the network behind it, and \
                 may cut you off; use another interface, or add --allow-default-route if that is what you want"
            );
        }
    }
    Ok(())
}

/// How frames will be sent or received: what is asked for, or what this process may do.
pub(crate) fn tester_kind(wanted: cli::TesterKind, notes: &mut Vec<String>) -> Result<TesterKind> {
    if !privilege::may_use_packet_sockets() {
        bail!(
            "no permission to send or receive raw frames: run weir as root, for example with sudo (CAP_NET_RAW)"
        );
    }
    if wanted == cli::TesterKind::Packet {
        return Ok(TesterKind::Packet);
    }
    match weir_load::xdp::probe() {
        Ok(()) => Ok(TesterKind::Xdp),
        Err(error) if wanted == cli::TesterKind::Xdp => Err(error.into()),
        Err(error) => {
            notes.push(format!("No XDP, packet sockets instead: {error}."));
            Ok(TesterKind::Packet)
        }
    }
}

/// Speed of the interface in bit/s, where the driver tells.
pub(crate) fn line_bits_per_s(link: &Link) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(format!("/sys/class/net/{}/{file}", link.name)).ok();
    // /sys shows the interfaces of the namespace in which it was mounted, which may be another one.
    let same = read("ifindex")?.trim().parse() == Ok(link.ifindex);
    let mbit: f64 = read("speed")?.trim().parse().ok()?;
    (same && mbit > 0.0).then_some(mbit * 1e6)
}

fn names() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_string())).collect()
}

fn unknown(name: &str, names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("there is no interface {name} in this network namespace: {}", did_you_mean(name, &names))
}

/// Devices of default routes in /proc/net/route: Iface Destination Gateway Flags RefCnt Use Metric Mask ...
fn default_routes_v4(text: &str) -> Vec<String> {
    let device = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_default = columns.get(1) == Some(&"00000000") && columns.get(7) == Some(&"00000000");
        is_default.then(|| columns[0].to_string())
    };
    text.lines().filter_map(device).collect()
}

/// Devices of default routes in /proc/net/ipv6_route: destination, its length, ..., flags, device.
fn default_routes_v6(text: &str) -> Vec<String> {
    const RTF_REJECT: u64 = 0x200;
    let device = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[_, length, _, _, _, _, _, _, flags, device] = columns.as_slice() else { return None };
        let rejects = u64::from_str_radix(flags, 16).ok()? & RTF_REJECT != 0;
        (length == "00" && !rejects).then(|| device.to_string())
    };
    text.lines().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_found() {
        let v4 = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                  eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n\
                  eth1 000212C6 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";
        assert_eq!(default_routes_v4(v4), ["eth0"]);
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000003 eth0\n\
             20010db8{rest} 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001 eth1\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n",
            rest = "0".repeat(24)
        );
        assert_eq!(default_routes_v6(&v6), ["eth0"]);
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_one() {
        let names = ["lo", "eth0", "wlan0"].map(String::from);
        let unknown = |name| unknown(name, &names);
        assert!(unknown("eth1").ends_with("namespace: did you mean `eth0`?"), "{}", unknown("eth1"));
        assert!(unknown("tap-of-mine").ends_with("namespace: use lo, eth0, wlan0"));
    }
}
