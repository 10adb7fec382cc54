//! Connections that a test waits for, but not for ever.

use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::PATIENCE;

/// The next connection, and its client. Accept, reads and writes have a timeout.
pub fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let wait = Timespec::try_from(PATIENCE).expect("a time");
    let came = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&wait)).expect("a socket");
    assert_eq!(came, 1, "no connection to {listener:?}");
    let (stream, from) = listener.accept().unwrap();
    be_patient(&stream);
    (stream, from)
}

/// Reads and writes of this connection take so long, but no longer.
pub fn be_patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}
