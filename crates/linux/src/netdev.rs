//! The generic netlink family `netdev`. Source: Documentation/netlink/specs/netdev.yaml.

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::netlink::{Message, Socket, u16_at};

// linux/genetlink.h and linux/netdev.h; the latter is younger than the libc crate's list.
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
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

/// Whether the kernel has the family (Linux 6.3 and later). It is asked once for each process: a kernel without it runs modprobe for each
/// question, and the caller waits for that.
pub fn is_known() -> bool {
    static IS_KNOWN: OnceLock<bool> = OnceLock::new();
    *IS_KNOWN.get_or_init(|| {
        Socket::open(libc::NETLINK_GENERIC).and_then(|mut socket| family(&mut socket)).is_ok()
    })
}
