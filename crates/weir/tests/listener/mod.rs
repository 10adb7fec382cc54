//! Connections that a test waits for.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Longer than anything takes that a test waits for, on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The next connection, and who made it. Neither it nor its reads and writes are waited for without end.
pub(crate) fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd that lives through the call.
    let came = unsafe { libc::poll(&raw mut poll, 1, PATIENCE.as_millis() as i32) };
    assert_eq!(came, 1, "nobody connects to {listener:?}");
    let (stream, from) = listener.accept().unwrap();
    be_patient(&stream);
    (stream, from)
}

/// Reads and writes of this connection take so long, but no longer.
pub(crate) fn be_patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}
