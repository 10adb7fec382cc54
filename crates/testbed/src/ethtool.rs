//! Offload switches and named counters of an interface, through the ETHTOOL ioctls.
//! All functions act in the calling thread's network namespace. Source: linux/ethtool.h, ethtool(8).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::error::{Error, Result};
use crate::netlink::u32_at;
use crate::sys;

const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Offloads that a test bed switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Merging of received frames; on a veth also what gives it NAPI.
    Gro,
    /// Segmentation of large TCP frames by the device.
    Tso,
    /// Segmentation of large frames by the stack.
    Gso,
    /// Transmit checksums: off, so that frames carry complete ones.
    TxChecksum,
}

impl Offload {
    /// ETHTOOL_GGRO and ETHTOOL_SGRO, ...
    fn commands(self) -> (u32, u32) {
        match self {
            Offload::Gro => (0x2b, 0x2c),
            Offload::Tso => (0x1e, 0x1f),
            Offload::Gso => (0x23, 0x24),
            Offload::TxChecksum => (0x16, 0x17),
        }
    }
}

/// Whether an offload is on.
pub fn offload(device: &str, offload: Offload) -> Result<bool> {
    let mut value = words(&[offload.commands().0, 0]);
    ioctl(device, &mut value).map_err(Error::os(format!("read {offload:?} of {device}")))?;
    Ok(u32_at(&value, 4) == Some(1))
}

/// Switches an offload.
pub fn set_offload(device: &str, offload: Offload, on: bool) -> Result<()> {
    let mut value = words(&[offload.commands().1, u32::from(on)]);
    let state = if on { "on" } else { "off" };
    ioctl(device, &mut value).map_err(Error::os(format!("switch {offload:?} of {device} {state}")))
}

/// The driver's counters in its order, as `ethtool -S` shows them.
pub fn stats(device: &str) -> Result<Vec<(String, u64)>> {
    weir_port::ethtool::counters(device).map_err(Error::os(format!("read the counters of {device}")))
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Runs an ETHTOOL command whose structure is `data`.
fn ioctl(device: &str, data: &mut [u8]) -> io::Result<()> {
    if device.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let socket: OwnedFd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: ifreq is plain data; all zero is an empty name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: `request` and `data` outlive the call. The kernel copies bytes (no alignment needed) and
    // writes no more than the structure that the command names.
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::rtnl::{Rtnl, VethConfig, VethEnd};
    use weir_testkit::need_root;

    #[test]
    fn switches_stay_as_set_and_counters_have_names() {
        need_root!();
        let ns = Namespace::new().unwrap();
        ns.run(|| {
            let end = |name, last| VethEnd { name, mac: [2, 0, 0, 0, 0, last], namespace: ns.fd() };
            Rtnl::open()
                .unwrap()
                .add_veth([end("a", 1), end("b", 2)], VethConfig { mtu: 1500, queues: 2 })
                .unwrap();
            for kind in [Offload::Gro, Offload::Gso, Offload::Tso, Offload::TxChecksum] {
                for on in [true, false] {
                    set_offload("a", kind, on).unwrap();
                    assert_eq!(offload("a", kind).unwrap(), on, "{kind:?}");
                }
            }
            let stats = stats("a").unwrap();
            for name in ["tx_queue_1_xdp_xmit_errors", "rx_queue_0_drops"] {
                assert!(stats.iter().any(|(found, _)| found == name), "{name} in {stats:?}");
            }
            assert!(super::stats("none").is_err());
            assert!(set_offload("a-name-far-too-long", Offload::Gro, true).is_err());
        });
    }
}
