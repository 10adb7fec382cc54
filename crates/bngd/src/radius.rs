//! Datagrams of RADIUS: a UDP socket for each source port of each server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result};
use weir_bng::RadiusServer;
use weir_bng::radius::client::{Secret, Server};
use weir_bng::radius::packet::MOST_BYTES;

/// Datagrams of a socket in a turn.
const MOST: usize = 64;

/// The sockets of a server.
#[derive(Debug)]
struct Sockets {
    server: String,
    address: SocketAddr,
    ports: Vec<UdpSocket>,
}

/// The sockets of all servers.
#[derive(Debug, Default)]
pub(crate) struct Radius {
    sockets: Vec<Sockets>,
}

impl Radius {
    /// Opens sockets for these servers and reads their secrets; the servers with a secret, and what is wrong with the others.
    pub(crate) fn configure(&mut self, servers: &[RadiusServer]) -> (Vec<Server>, Vec<String>) {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        for server in servers {
            match self.open(server) {
                Ok(server) => found.push(server),
                Err(error) => wrong.push(format!("{error:#}")),
            }
        }
        self.sockets.retain(|sockets| servers.iter().any(|server| server.name.as_str() == sockets.server));
        (found, wrong)
    }

    fn open(&mut self, server: &RadiusServer) -> Result<Server> {
        let path = &server.secret_file;
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("the secret of RADIUS server {} cannot be read from {}", server.name, path.display())
        })?;
        let secret = Secret::new(text.trim_end().as_bytes());
        let name = server.name.as_str();
        let is_open = |open: &Sockets| {
            (&*open.server, open.address, open.ports.len()) == (name, server.address, server.ports.into())
        };
        if !self.sockets.iter().any(is_open) {
            let local: SocketAddr = match server.address {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = || -> io::Result<UdpSocket> {
                let socket = UdpSocket::bind(local)?;
                // Only datagrams of this address come in.
                socket.connect(server.address)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            };
            let ports: io::Result<Vec<UdpSocket>> = (0..server.ports).map(|_| socket()).collect();
            let ports = ports.with_context(|| format!("no sockets for RADIUS server {name}"))?;
            self.sockets.retain(|sockets| sockets.server != name);
            self.sockets.push(Sockets { server: name.into(), address: server.address, ports });
        }
        Ok(server.with_secret(secret))
    }

    /// Sends a datagram. One that cannot be sent is sent again later, as one that is lost.
    pub(crate) fn send(&self, server: &str, port: u16, bytes: &[u8]) {
        let sockets = self.sockets.iter().find(|sockets| sockets.server == server);
        if let Some(socket) = sockets.and_then(|sockets| sockets.ports.get(usize::from(port))) {
            let _ = socket.send(bytes);
        }
    }

    /// The datagrams that are there: server, source port, bytes.
    pub(crate) fn receive(&self) -> Vec<(String, u16, Vec<u8>)> {
        let mut all = Vec::new();
        let mut buffer = [0; MOST_BYTES];
        for Sockets { server, ports, .. } in &self.sockets {
            for (port, socket) in (0..).zip(ports) {
                for _ in 0..MOST {
                    // An error is that of an earlier datagram: the server is not there, and its request is sent again.
                    let Ok(len) = socket.recv(&mut buffer) else { break };
                    all.push((server.clone(), port, buffer.get(..len).unwrap_or_default().to_vec()));
                }
            }
        }
        all
    }

    /// Can be read when datagrams are there.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().flat_map(|sockets| sockets.ports.iter().map(AsFd::as_fd))
    }
}
