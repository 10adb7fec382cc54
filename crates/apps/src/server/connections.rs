//! Connections of an event loop by their descriptor.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use super::dialogue::{Dialogue, Next};

/// A connection and where its dialogue is.
pub(super) struct Connection {
    socket: OwnedFd,
    dialogue: Dialogue,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, dialogue: Dialogue) -> Connection {
        Connection { socket, dialogue }
    }

    pub(super) fn advance(&mut self) -> Next {
        self.dialogue.advance(self.socket.as_fd())
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Those that wait for something. The kernel gives the lowest descriptor that is free: the table stays dense.
#[derive(Default)]
pub(super) struct Connections(Vec<Option<Connection>>);

impl Connections {
    pub(super) fn insert(&mut self, connection: Connection) {
        let index = connection.fd() as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(connection);
    }

    pub(super) fn of(&mut self, fd: RawFd) -> Option<&mut Connection> {
        self.0.get_mut(usize::try_from(fd).ok()?)?.as_mut()
    }

    /// Closes it.
    pub(super) fn remove(&mut self, fd: RawFd) {
        if let Some(place) = usize::try_from(fd).ok().and_then(|index| self.0.get_mut(index)) {
            *place = None;
        }
    }
}
