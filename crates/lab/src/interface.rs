//! An interface of the user for test frames: whether it exists, is suitable, and may be used. All checks are made in the
//! calling thread's network namespace.

use weir_linux::rtnl::{Link, Rtnl};
use weir_linux::{Error, Result};

use weir_config::did_you_mean;

/// Looks an interface up.
///
/// # Errors
/// There is none of this name; the message lists those that there are.
pub fn find(name: &str) -> Result<Link> {
    match Rtnl::open()?.link(name) {
        Err(Error::Netlink { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {
            Err(Error::Input(unknown(name, &names())))
        }
        found => found,
    }
}

/// Refuses an interface that cannot send or receive now.
pub fn check_ready(link: &Link) -> Result<()> {
    let name = &link.name;
    if !link.up {
        return Err(Error::Input(format!(
            "interface {name} is down: set it up with `ip link set {name} up`"
        )));
    }
    if !link.carrier {
        return Err(Error::Input(format!(
            "interface {name} has no carrier: plug in the cable, or set the other end up"
        )));
    }
    Ok(())
}

/// Waits for an interface that was able to send and receive until an XDP program was attached.
///
/// # Errors
/// It still cannot after 10 s.
pub fn wait_until_ready(name: &str) -> Result<()> {
    check_ready(&Rtnl::open()?.link_after_reset(name)?)
}

/// Refuses an interface of which the frames have no header of Ethernet, such as a tunnel.
pub fn check_ethernet(link: &Link) -> Result<()> {
    if !link.ethernet {
        let name = &link.name;
        return Err(Error::Input(format!(
            "frames of {name} have no Ethernet header: use the interface below it, or count them with `weir pps {name}`"
        )));
    }
    Ok(())
}

/// Refuses frames (FCS included) that are longer than the interface takes; `option` is where their size is set.
pub fn check_mtu(link: &Link, frame_bytes: u16, option: &str) -> Result<()> {
    let needed = u32::from(frame_bytes).saturating_sub(18);
    if needed > link.mtu {
        return Err(Error::Input(format!(
            "frames of {frame_bytes} bytes need an MTU of {needed}, and that of {name} is {mtu}: use {option} {max} \
             or less, or `ip link set {name} mtu {needed}` on both ends",
            name = link.name,
            mtu = link.mtu,
            max = link.mtu + 18
        )));
    }
    Ok(())
}

/// Refuses the interface that the default route goes through; `permission` is how one says that it may be used.
pub fn check_not_default_route(name: &str, permission: &str) -> Result<()> {
    let read =
        |file: &str| weir_disk::kernel_text(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    for (version, devices) in
        [(4, default_routes_v4(&read("route"))), (6, default_routes_v6(&read("ipv6_route")))]
    {
        if devices.iter().any(|device| device == name) {
            return Err(Error::Input(format!(
                "the IPv{version} default route goes through {name}: test frames would flood the network behind it, and \
                 may cut you off; use another interface, or add {permission} to allow it"
            )));
        }
    }
    Ok(())
}

/// All interfaces of this network namespace.
///
/// # Errors
/// The kernel does not say.
pub fn all() -> Result<Vec<Link>> {
    let mut rtnl = Rtnl::open()?;
    // One that vanishes in between is none.
    Ok(names().iter().filter_map(|name| rtnl.link(name).ok()).collect())
}

fn names() -> Vec<String> {
    let text = weir_disk::kernel_text("/proc/thread-self/net/dev").unwrap_or_default();
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
