//! Datagrams of CoA and Disconnect: one UDP socket.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use anyhow::{Context, Result};
use weir_bng::Dynauth;
use weir_bng::radius::client::Secret;
use weir_bng::radius::dynauth::Options;
use weir_bng::radius::packet::MOST_BYTES;

use crate::secrets::Secrets;

/// Datagrams in a turn.
const MOST: usize = 64;

/// The socket, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    open: Option<(SocketAddr, UdpSocket)>,
}

impl Listener {
    /// Listens as the file says; who may ask, and what is wrong with the others.
    pub(crate) fn configure(
        &mut self,
        dynauth: Option<&Dynauth>,
        secrets: &Secrets,
    ) -> (Options, Vec<String>) {
        let Some(dynauth) = dynauth else {
            self.open = None;
            return (Options::default(), Vec::new());
        };
        let (mut sources, mut wrong) = (BTreeMap::new(), Vec::new());
        for (address, file) in &dynauth.clients {
            match secret(file, secrets) {
                Ok(secret) => _ = sources.insert(*address, secret),
                Err(error) => wrong.push(format!("{error:#}; requests of {address} are not answered")),
            }
        }
        if let Err(error) = self.listen(dynauth.address) {
            wrong.push(format!("{error:#}; CoA and Disconnect are not answered"));
        }
        (dynauth.options(sources), wrong)
    }

    fn listen(&mut self, address: SocketAddr) -> Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| *open == address) {
            return Ok(());
        }
        self.open = None;
        let socket = UdpSocket::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let shown =
            || format!("cannot listen at {address}: choose another address behind dynamic-authorization");
        self.open = Some((address, socket.with_context(shown)?));
        Ok(())
    }

    /// Sends an answer. One that is lost is sent again when the request comes again.
    pub(crate) fn send(&self, to: SocketAddr, bytes: &[u8]) {
        if let Some((_, socket)) = &self.open {
            let _ = socket.send_to(bytes, to);
        }
    }

    /// The datagrams that are there.
    pub(crate) fn receive(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        let Some((_, socket)) = &self.open else { return Vec::new() };
        let (mut all, mut buffer) = (Vec::new(), [0; MOST_BYTES]);
        while all.len() < MOST {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
            all.push((from, buffer.get(..len).unwrap_or_default().to_vec()));
        }
        all
    }

    /// Can be read when datagrams are there.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.open.as_ref().map(|(_, socket)| socket.as_fd())
    }
}

fn secret(file: &Path, secrets: &Secrets) -> Result<Secret> {
    let secret = secrets.read_file(file);
    let secret =
        secret.with_context(|| format!("the secret of CoA cannot be read from {}", file.display()))?;
    Ok(Secret::new(&secret))
}
