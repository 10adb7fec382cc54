//! The readiness message of a service to systemd.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, Result};

/// Notifies the service manager, if there is one, that the service is ready: sd_notify(3).
///
/// # Errors
/// Its socket cannot be reached.
pub fn notify_ready() -> Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(OsStr::from_bytes(path)),
    };
    let socket = UnixDatagram::unbound().context("cannot create a socket to systemd")?;
    let reported = address.and_then(|address| socket.send_to_addr(b"READY=1", &address));
    reported.map(|_| ()).with_context(|| format!("cannot notify {} that the node is ready", name.display()))
}
