//! Packets of RADIUS: a UDP socket for each source port of each server, or connections with TLS.

mod tls;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result};
use weir_bng::RadiusServer;
use weir_bng::radius::client::{LinkChange, Secret, Server};
use weir_bng::radius::packet::MOST_BYTES;

use crate::secrets::Secrets;
use crate::wake::Waker;
use tls::Connections;

/// Datagrams of a socket in a turn.
const MOST: usize = 64;

/// The sockets of a server.
#[derive(Debug)]
struct Sockets {
    server: String,
    address: SocketAddr,
    ports: Vec<UdpSocket>,
}

/// The sockets and connections of all servers.
#[derive(Debug)]
pub(crate) struct Radius {
    sockets: Vec<Sockets>,
    connections: Connections,
}

/// What has come.
#[derive(Debug)]
pub(crate) enum Received {
    /// A packet of a server, to this source port or by this connection.
    Packet { server: String, port: u16, bytes: Vec<u8> },
    /// A connection is there, or has ended.
    Link { server: String, port: u16, change: LinkChange },
}

impl Radius {
    /// Without servers; `waker` wakes the main loop.
    pub(crate) fn new(waker: Waker) -> Radius {
        Radius { sockets: Vec::new(), connections: Connections::new(waker) }
    }

    /// Opens sockets for these servers and reads their secrets; the servers with a secret, and what is wrong with the others.
    pub(crate) fn configure(
        &mut self,
        servers: &[RadiusServer],
        secrets: &Secrets,
    ) -> (Vec<Server>, Vec<String>) {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        for server in servers {
            match self.open(server, secrets) {
                Ok(server) => found.push(server),
                Err(error) => {
                    self.connections.close(|name| name == server.name.as_str());
                    wrong.push(format!("{error:#}"));
                }
            }
        }
        let is_gone = |name: &str, has_tls: bool| {
            let of = |server: &&RadiusServer| server.name.as_str() == name && server.tls.is_some() == has_tls;
            !servers.iter().any(|server| of(&server))
        };
        self.sockets.retain(|sockets| !is_gone(&sockets.server, false));
        self.connections.close(|name| is_gone(name, true));
        (found, wrong)
    }

    fn open(&mut self, server: &RadiusServer, secrets: &Secrets) -> Result<Server> {
        let secret = secret(server, secrets)?;
        let name = server.name.as_str();
        match &server.tls {
            Some(tls) => self.connections.open(name, server.address, tls, server.ports)?,
            None => self.bind(server)?,
        }
        Ok(server.with_secret(secret))
    }

    fn bind(&mut self, server: &RadiusServer) -> Result<()> {
        let name = server.name.as_str();
        let is_open = |open: &Sockets| {
            (&*open.server, open.address, open.ports.len()) == (name, server.address, server.ports.into())
        };
        if self.sockets.iter().any(is_open) {
            return Ok(());
        }
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
        Ok(())
    }

    /// Sends a datagram. One that cannot be sent is sent again later, as one that is lost.
    pub(crate) fn send(&self, server: &str, port: u16, bytes: &[u8]) {
        if self.connections.send(server, port, bytes) {
            return;
        }
        let sockets = self.sockets.iter().find(|sockets| sockets.server == server);
        if let Some(socket) = sockets.and_then(|sockets| sockets.ports.get(usize::from(port))) {
            let _ = socket.send(bytes);
        }
    }

    /// Ends a connection, and begins another one.
    pub(crate) fn reconnect(&self, server: &str, port: u16) {
        self.connections.reconnect(server, port);
    }

    /// What is there.
    pub(crate) fn receive(&mut self) -> Vec<Received> {
        let reported = self.connections.reports().into_iter();
        let mut all: Vec<Received> = reported.map(Received::from).collect();
        let mut buffer = [0; MOST_BYTES];
        for Sockets { server, ports, .. } in &self.sockets {
            for (port, socket) in (0..).zip(ports) {
                for _ in 0..MOST {
                    // An error is that of an earlier datagram: the server is not there, and its request is sent again.
                    let Ok(len) = socket.recv(&mut buffer) else { break };
                    let (server, bytes) = (server.clone(), buffer.get(..len).unwrap_or_default().to_vec());
                    all.push(Received::Packet { server, port, bytes });
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

impl From<tls::Report> for Received {
    fn from(report: tls::Report) -> Received {
        match report {
            tls::Report::Link { server, port, change, .. } => Received::Link { server, port, change },
            tls::Report::Packet { server, port, bytes } => Received::Packet { server, port, bytes },
        }
    }
}

/// The secret of a server; that of RFC 6614, section 2.3, for TLS without a file.
fn secret(server: &RadiusServer, secrets: &Secrets) -> Result<Secret> {
    let Some(path) = &server.secret_file else { return Ok(Secret::new(b"radsec")) };
    let secret = secrets.read_file(path).with_context(|| {
        format!("the secret of RADIUS server {} cannot be read from {}", server.name, path.display())
    })?;
    Ok(Secret::new(&secret))
}
