//! The capacity of a receiver: prepared transactions, many in each write, with nothing done about the replies but counting
//! them. Its rate is higher than that of any real client.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use crate::connection::duration;

/// The transactions to send, and the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Flood {
    /// The receiver.
    pub to: SocketAddr,
    /// Connections.
    pub connections: u32,
    /// Transactions in a write.
    pub group: u32,
    /// How long.
    pub seconds: f64,
}

/// What was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Transactions with one recipient each that ended with RSET.
    pub transactions: u64,
    /// In this time.
    pub seconds: f64,
}

/// Sends until the time is over.
///
/// # Errors
/// The receiver cannot be reached, or hangs up.
pub fn flood(flood: &Flood) -> io::Result<Taken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (begin, group) = (Instant::now(), flood.group.max(1));
    let one = "MAIL FROM:<a@weir.test>\r\nRCPT TO:<b@weir.test>\r\nRSET\r\n";
    let text: Rc<str> = one.repeat(group as usize).into();
    let end = begin + duration(flood.seconds);
    let mut transactions = 0;
    runtime.block_on(LocalSet::new().run_until(async {
        let mut all = JoinSet::new();
        for _ in 0..flood.connections {
            all.spawn_local(connection(flood.to, text.clone(), group, end));
        }
        while let Some(done) = all.join_next().await {
            transactions += done.map_err(io::Error::other)??;
        }
        io::Result::Ok(())
    }))?;
    Ok(Taken { transactions, seconds: begin.elapsed().as_secs_f64() })
}

async fn connection(to: SocketAddr, text: Rc<str>, group: u32, end: Instant) -> io::Result<u64> {
    let mut stream = TcpStream::connect(to).await?;
    let mut bytes = vec![0; 64 * 1024];
    lines(&mut stream, &mut bytes, 1).await?;
    stream.write_all(b"HELO weir.test\r\n").await?;
    lines(&mut stream, &mut bytes, 1).await?;
    let mut transactions = 0;
    loop {
        stream.write_all(text.as_bytes()).await?;
        lines(&mut stream, &mut bytes, 3 * group as usize).await?;
        transactions += u64::from(group);
        if Instant::now() >= end {
            return Ok(transactions);
        }
    }
}

async fn lines(stream: &mut TcpStream, bytes: &mut [u8], mut wanted: usize) -> io::Result<()> {
    while wanted > 0 {
        let length = tokio::time::timeout(Duration::from_secs(30), stream.read(bytes)).await??;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        wanted = wanted.saturating_sub(bytes[..length].iter().filter(|byte| **byte == b'\n').count());
    }
    Ok(())
}
