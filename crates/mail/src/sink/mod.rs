//! Receivers of mail: one process that is the mail server of all domains, with delays and faults, and counts what it takes.

mod dialogue;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

pub use dialogue::Faults;
pub(crate) use dialogue::{Dialogue, Next};

use crate::limits::{Descriptors, descriptors};
use crate::tls;

/// A connection that says nothing for so long is closed (RFC 5321, section 4.5.3.2.7).
const IDLE: Duration = Duration::from_secs(300);
/// Bytes that are read at a time.
const READ: usize = 16 * 1024;

/// How mail is received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Address; port 0 is one that the kernel chooses.
    pub listen: SocketAddrV4,
    /// Connections that wait to be accepted; the kernel's limit may be lower.
    pub backlog: u32,
    /// Connections that it must have descriptors for.
    pub connections: u32,
    /// Threads, at least 1, each with its own socket on the same port.
    pub threads: u32,
    /// Seconds before each group of replies, as the way to a distant server takes.
    pub delay_s: f64,
    /// Is PIPELINING offered?
    pub pipelining: bool,
    /// Is STARTTLS offered?
    pub tls: bool,
    /// Faults that the sink injects.
    pub faults: Faults,
}

/// Where it accepts connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Address and port.
    pub at: SocketAddr,
    /// Descriptors for its connections.
    pub descriptors: Descriptors,
}

/// What was received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Connections.
    pub connections: u64,
    /// Most connections of a thread at a time, all threads together.
    pub open_max: u64,
    /// Transactions that were completed with at least one recipient: by RSET, or by a message.
    pub transactions: u64,
    /// Recipients of these.
    pub recipients: u64,
    /// Bytes of messages.
    pub bytes: u64,
}

impl Received {
    fn add(&mut self, other: Received) {
        self.connections += other.connections;
        self.open_max += other.open_max;
        self.transactions += other.transactions;
        self.recipients += other.recipients;
        self.bytes += other.bytes;
    }
}

/// One thread of it.
struct Worker {
    service: Service,
    tls: Option<TlsAcceptor>,
    received: RefCell<Received>,
    open: Cell<u64>,
}

/// Receives until `stop` is dropped; says once where.
///
/// # Errors
/// The address cannot be had, or there is no certificate.
pub fn serve(
    service: &Service,
    stop: watch::Receiver<()>,
    ready: impl FnOnce(Listening),
) -> io::Result<Received> {
    let descriptors = descriptors(service.connections);
    let tls = service.tls.then(|| tls::acceptor("mx.weir.test")).transpose()?;
    let mut service = service.clone();
    let first = listener(&service)?;
    let at = first.local_addr()?;
    service.listen.set_port(at.port());
    let mut listeners = vec![first];
    for _ in 1..service.threads {
        listeners.push(listener(&service)?);
    }
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for listener in listeners {
            let (service, tls, stop, done) = (service.clone(), tls.clone(), stop.clone(), done.clone());
            scope.spawn(move || {
                done.send(work(
                    listener,
                    Worker { service, tls, received: RefCell::default(), open: Cell::default() },
                    stop,
                ))
            });
        }
        drop(done);
        ready(Listening { at, descriptors });
        let mut all = Received::default();
        for result in results {
            all.add(result?);
        }
        Ok(all)
    })
}

fn listener(service: &Service) -> io::Result<std::net::TcpListener> {
    // tokio wants its sockets made within a runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(service.threads > 1)?;
        socket.bind(SocketAddr::V4(service.listen))?;
        socket.listen(service.backlog)?.into_std()
    })
}

fn work(
    listener: std::net::TcpListener,
    worker: Worker,
    mut stop: watch::Receiver<()>,
) -> io::Result<Received> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worker = Rc::new(worker);
    let local = LocalSet::new();
    let of_task = worker.clone();
    runtime.block_on(local.run_until(async move {
        let listener = TcpListener::from_std(listener)?;
        spawn_local(accept(listener, of_task));
        // An error means that the receiver has gone.
        while stop.changed().await.is_ok() {}
        io::Result::Ok(())
    }))?;
    let received = *worker.received.borrow();
    Ok(received)
}

async fn accept(listener: TcpListener, worker: Rc<Worker>) {
    let mut seed = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                seed += 1;
                spawn_local(connection(stream, worker.clone(), seed));
            }
            // Without descriptors: those that are open end, and give theirs back.
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn connection(stream: TcpStream, worker: Rc<Worker>, seed: u64) {
    let open = worker.open.get() + 1;
    worker.open.set(open);
    {
        let mut received = worker.received.borrow_mut();
        received.connections += 1;
        received.open_max = received.open_max.max(open);
    }
    let _ = stream.set_nodelay(true);
    // A client that has gone has lost its connection: the error needs no report.
    let _ = dialogue(stream, &worker, seed).await;
    worker.open.set(worker.open.get() - 1);
}

async fn dialogue(mut stream: TcpStream, worker: &Worker, seed: u64) -> io::Result<()> {
    let service = &worker.service;
    let mut dialogue = Dialogue::new(service, seed);
    if exchange(&mut stream, &mut dialogue, worker).await? == Next::Tls
        && let Some(acceptor) = &worker.tls
    {
        let mut stream = acceptor.accept(stream).await?;
        dialogue.secured();
        exchange(&mut stream, &mut dialogue, worker).await?;
        stream.shutdown().await?;
    }
    Ok(())
}

async fn exchange<S>(stream: &mut S, dialogue: &mut Dialogue, worker: &Worker) -> io::Result<Next>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let delay = Duration::try_from_secs_f64(worker.service.delay_s).unwrap_or_default();
    let mut bytes = Vec::with_capacity(512);
    loop {
        if !dialogue.out.is_empty() {
            if delay > Duration::ZERO {
                sleep(delay).await;
            }
            timeout(IDLE, stream.write_all(&dialogue.out)).await??;
            dialogue.out.clear();
        }
        let next = dialogue.next();
        if next != Next::Read {
            return Ok(next);
        }
        if timeout(IDLE, read(stream, &mut bytes)).await?? == 0 {
            return Ok(Next::Close);
        }
        let taken = dialogue.input(&bytes);
        bytes.drain(..taken);
        let counted = dialogue.take_counts();
        worker.received.borrow_mut().add(counted);
    }
}

/// Reads what is there. A connection that says little has a small buffer.
async fn read<S: AsyncRead + Unpin>(stream: &mut S, bytes: &mut Vec<u8>) -> io::Result<usize> {
    if bytes.capacity() == bytes.len() {
        bytes.reserve(READ);
    }
    stream.read_buf(bytes).await
}

/// Everything on the loopback, at a port that the kernel chooses, without delays and faults.
impl Default for Service {
    fn default() -> Self {
        Service {
            listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            backlog: 4096,
            connections: 1000,
            threads: 1,
            delay_s: 0.0,
            pipelining: true,
            tls: false,
            faults: Faults::default(),
        }
    }
}
