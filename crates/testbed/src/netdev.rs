//! The generic netlink family `netdev`: what a driver's XDP can do.
//!
//! Source: Documentation/netlink/specs/netdev.yaml, Documentation/networking/xdp-rx-metadata.rst.

use crate::error::{Error, Result};
use crate::netlink::{Message, Socket, u16_at, u64_at};

// linux/genetlink.h and linux/netdev.h; the latter is younger than the libc crate's list.
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 4;
pub(crate) const GENL_HEADER_BYTES: usize = 4;

/// Number of the family.
pub(crate) fn family(socket: &mut Socket) -> Result<u16> {
    let request = Message::new(libc::GENL_ID_CTRL as u16, 0, &[CTRL_CMD_GETFAMILY, 2, 0, 0])
        .attr_text(CTRL_ATTR_FAMILY_NAME, "netdev");
    let replies = socket.get("find the netdev family", request)?;
    let id = replies
        .first()
        .and_then(|reply| u16_at(reply.attrs(GENL_HEADER_BYTES).find(CTRL_ATTR_FAMILY_ID)?, 0));
    id.ok_or_else(|| Error::Input("the kernel has no netdev family".into()))
}

/// Does the interface send frames that an XDP program redirects to it, now? The kernel drops them in silence
/// where not. A veth does while its peer has GRO or a native XDP program.
///
/// # Errors
/// A kernel older than 6.3, which does not tell.
pub fn takes_redirected_frames(ifindex: u32) -> Result<bool> {
    let mut socket = Socket::open(libc::NETLINK_GENERIC)?;
    let id = family(&mut socket)?;
    let request = Message::new(id, 0, &[NETDEV_CMD_DEV_GET, 1, 0, 0]).attr_u32(NETDEV_A_DEV_IFINDEX, ifindex);
    let replies = socket.get("ask what XDP can do", request)?;
    let features = replies
        .first()
        .and_then(|reply| u64_at(reply.attrs(GENL_HEADER_BYTES).find(NETDEV_A_DEV_XDP_FEATURES)?, 0));
    let features = features.ok_or_else(|| Error::Input("the kernel does not tell XDP features".into()))?;
    Ok(features & NETDEV_XDP_ACT_NDO_XMIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::{Offload, set_offload};
    use crate::namespace::Namespace;
    use crate::rtnl::{Rtnl, VethConfig, VethEnd};
    use crate::testing::need_root;

    #[test]
    fn a_veth_takes_frames_while_its_peer_has_gro() {
        need_root!();
        let ns = Namespace::new().unwrap();
        ns.run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let [a, b] = ["a", "b"].map(|name| VethEnd {
                name,
                mac: [2, 0, 0, 0, 0, name.as_bytes()[0]],
                namespace: ns.fd(),
            });
            rtnl.add_veth([a, b], VethConfig { mtu: 1500, queues: 1 }).unwrap();
            let ifindex = rtnl.link("a").unwrap().ifindex;
            let Ok(before) = takes_redirected_frames(ifindex) else {
                println!("skipped: this kernel does not tell XDP features");
                return;
            };
            set_offload("b", Offload::Gro, true).unwrap();
            for name in ["a", "b"] {
                let ifindex = rtnl.link(name).unwrap().ifindex;
                rtnl.set_up(ifindex, true).unwrap();
            }
            assert_eq!((before, takes_redirected_frames(ifindex).unwrap()), (false, true));
        });
    }
}
