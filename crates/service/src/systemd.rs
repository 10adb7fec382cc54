//! What a service tells systemd.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, Result};

/// Tells systemd, where it has started the program and waits, that the service is ready: sd_notify(3).
///
/// # Errors
/// Its socket cannot be reached.
pub fn tell_ready() -> Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(OsStr::from_bytes(path)),
    };
    let socket = UnixDatagram::unbound().context("a socket towards systemd")?;
    let reported = address.and_then(|address| socket.send_to_addr(b"READY=1", &address));
    reported.map(|_| ()).with_context(|| format!("cannot tell {} that the node is ready", name.display()))
}
