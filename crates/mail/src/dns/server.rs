//! A name server that has one zone, by UDP and TCP.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;

use super::{Transport, Zone};

/// Where, and what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NameServer {
    /// Address; port 0 is one that the kernel chooses.
    pub listen: SocketAddrV4,
    /// Its zone.
    pub zone: Zone,
}

/// Where it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// UDP and TCP.
    pub at: SocketAddr,
}

/// A TCP connection without queries for this time is closed (RFC 7766, section 6.2.3, recommends seconds).
const IDLE: Duration = Duration::from_secs(10);

/// Answers until the task ends; says once where.
///
/// # Errors
/// The address cannot be had.
pub async fn serve(server: NameServer, ready: impl FnOnce(Listening)) -> io::Result<()> {
    let tcp = TcpListener::bind(server.listen).await?;
    let at = tcp.local_addr()?;
    let udp = UdpSocket::bind(at).await?;
    let zone = Rc::new(server.zone);
    ready(Listening { at });
    let local = LocalSet::new();
    let by_tcp = zone.clone();
    local.spawn_local(async move {
        while let Ok((stream, _)) = tcp.accept().await {
            let zone = by_tcp.clone();
            spawn_local(async move { answer(stream, &zone).await });
        }
    });
    let by_udp = async {
        let mut query = [0; 1500];
        loop {
            // An error is the ICMP message of a client that has gone.
            let Ok((length, from)) = udp.recv_from(&mut query).await else { continue };
            if let Some(reply) = zone.answer(&query[..length], Transport::Udp) {
                let _ = udp.send_to(&reply, from).await;
            }
        }
    };
    local.run_until(by_udp).await
}

/// Queries of one connection; it ends with the first that is none.
async fn answer(mut stream: TcpStream, zone: &Zone) -> Option<()> {
    loop {
        let length = timeout(IDLE, stream.read_u16()).await.ok()?.ok()?;
        let mut query = vec![0; length.into()];
        timeout(IDLE, stream.read_exact(&mut query)).await.ok()?.ok()?;
        let reply = zone.answer(&query, Transport::Tcp)?;
        let mut message = u16::try_from(reply.len()).ok()?.to_be_bytes().to_vec();
        message.extend_from_slice(&reply);
        timeout(IDLE, stream.write_all(&message)).await.ok()?.ok()?;
    }
}
