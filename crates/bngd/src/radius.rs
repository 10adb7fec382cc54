//! Datagrams of RADIUS: a UDP socket for each source port of each server; accounting has its own.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result};
use weir_bng::RadiusServer;
use weir_bng::radius::Service;
use weir_bng::radius::client::{Secret, Server};
use weir_bng::radius::packet::MOST_BYTES;

/// Datagrams of a socket in a turn.
const MOST: usize = 64;

/// The sockets of a server.
#[derive(Debug)]
struct Sockets {
    service: Service,
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
    /// Opens sockets for these servers and reads their secrets; the servers with a secret, those of accounting, and what is wrong with
    /// the others.
    pub(crate) fn configure(&mut self, servers: &[RadiusServer]) -> (Vec<Server>, Vec<Server>, Vec<String>) {
        let (mut found, mut accounting, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let of_accounting = |server: &&RadiusServer| server.accounting.is_some();
        let all = servers.iter().map(|server| (Service::Access, server));
        let all = all.chain(servers.iter().filter(of_accounting).map(|server| (Service::Accounting, server)));
        for (service, server) in all {
            match (self.open(service, server), service) {
                (Ok(server), Service::Access) => found.push(server),
                (Ok(server), Service::Accounting) => accounting.push(server),
                (Err(error), Service::Access) => wrong.push(format!("{error:#}")),
                // The secret is the same, which was said.
                (Err(_), Service::Accounting) => {}
            }
        }
        self.sockets.retain(|sockets| {
            let is_same = |server: &RadiusServer| {
                let has_service = sockets.service == Service::Access || server.accounting.is_some();
                server.name.as_str() == sockets.server && has_service
            };
            servers.iter().any(is_same)
        });
        (found, accounting, wrong)
    }

    fn open(&mut self, service: Service, server: &RadiusServer) -> Result<Server> {
        let address = match service {
            Service::Access => server.address,
            Service::Accounting => server.accounting_address().unwrap_or(server.address),
        };
        let path = &server.secret_file;
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("the secret of RADIUS server {} cannot be read from {}", server.name, path.display())
        })?;
        let secret = Secret::new(text.trim_end().as_bytes());
        let name = server.name.as_str();
        let is_open = |open: &Sockets| {
            let Sockets { server: of, ports, .. } = open;
            (open.service, &**of, open.address, ports.len()) == (service, name, address, server.ports.into())
        };
        if !self.sockets.iter().any(is_open) {
            let local: SocketAddr = match address {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = || -> io::Result<UdpSocket> {
                let socket = UdpSocket::bind(local)?;
                // Only datagrams of this address come in.
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            };
            let ports: io::Result<Vec<UdpSocket>> = (0..server.ports).map(|_| socket()).collect();
            let ports = ports.with_context(|| format!("no sockets for RADIUS server {name}"))?;
            self.sockets.retain(|sockets| (sockets.service, &*sockets.server) != (service, name));
            self.sockets.push(Sockets { service, server: name.into(), address, ports });
        }
        Ok(server.with_secret(secret))
    }

    /// Sends a datagram. One that cannot be sent is sent again later, as one that is lost.
    pub(crate) fn send(&self, service: Service, server: &str, port: u16, bytes: &[u8]) {
        let sockets =
            self.sockets.iter().find(|sockets| (sockets.service, &*sockets.server) == (service, server));
        if let Some(socket) = sockets.and_then(|sockets| sockets.ports.get(usize::from(port))) {
            let _ = socket.send(bytes);
        }
    }

    /// The datagrams that are there: service, server, source port, bytes.
    pub(crate) fn receive(&self) -> Vec<(Service, String, u16, Vec<u8>)> {
        let mut all = Vec::new();
        let mut buffer = [0; MOST_BYTES];
        for Sockets { service, server, ports, .. } in &self.sockets {
            for (port, socket) in (0..).zip(ports) {
                for _ in 0..MOST {
                    // An error is that of an earlier datagram: the server is not there, and its request is sent again.
                    let Ok(len) = socket.recv(&mut buffer) else { break };
                    all.push((
                        *service,
                        server.clone(),
                        port,
                        buffer.get(..len).unwrap_or_default().to_vec(),
                    ));
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
