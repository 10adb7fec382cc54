//! Connections of RADIUS by TLS over TCP (RFC 6614): one task for each, in a thread of their own, so that the main loop waits for none.
//!
//! ```text
//! main loop --- Send, Reconnect ----> task: connect > TLS > packets ... the connection ends > pause > connect
//!           <-- Up, Down, Packet ---
//! ```
//! A packet is sent by the connection that it was made for, or not at all: the main loop sends its request by the next one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tracing::{info, warn};
use weir_bng::Tls;
use weir_bng::radius::client::LinkChange;
use weir_bng::radius::packet::MOST_BYTES;

use crate::wake::Waker;

/// Longest time of an attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(5);
/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Packets that wait for a connection to take them: more than identifiers.
const MOST_WAITING: usize = 1024;

/// Where a connection goes, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    server: String,
    port: u16,
    address: SocketAddr,
    tls: Tls,
}

/// What a connection has to say.
#[derive(Debug)]
pub(super) enum Report {
    /// It is there, and has this number; or it is not there any more.
    Link { server: String, port: u16, number: u64, change: LinkChange },
    /// A packet has come.
    Packet { server: String, port: u16, bytes: Vec<u8> },
}

/// What a task is to do.
#[derive(Debug)]
enum Order {
    Send { number: u64, bytes: Vec<u8> },
    Reconnect,
}

/// A connection, also while there is none. Its task ends when this is dropped.
#[derive(Debug)]
struct Connection {
    target: Target,
    /// Number of the connection that the main loop knows.
    number: u64,
    orders: mpsc::Sender<Order>,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    open: Vec<Connection>,
    runtime: Option<tokio::runtime::Handle>,
    reports: (Sender<Report>, Receiver<Report>),
    waker: Waker,
}

impl Connections {
    pub(super) fn new(waker: Waker) -> Connections {
        Connections { open: Vec::new(), runtime: None, reports: channel(), waker }
    }

    /// Begins the connections of a server, unless they are the same as before.
    ///
    /// # Errors
    /// A file of certificates cannot be read, or there is no thread.
    pub(super) fn open(&mut self, server: &str, address: SocketAddr, tls: &Tls, ports: u16) -> Result<()> {
        client_config(tls).with_context(|| format!("TLS of RADIUS server {server} cannot be set up"))?;
        let target = |port| Target { server: server.into(), port, address, tls: tls.clone() };
        let targets: Vec<Target> = (0..ports).map(target).collect();
        let own = |connection: &&Connection| connection.target.server == server;
        if self.open.iter().filter(own).map(|connection| &connection.target).eq(&targets) {
            return Ok(());
        }
        // Its requests are sent by the new connections.
        for old in self.open.extract_if(.., |connection| connection.target.server == server) {
            let (server, port, number) = (old.target.server, old.target.port, old.number);
            let _ = self.reports.0.send(Report::Link { server, port, number, change: LinkChange::Down });
        }
        let runtime = self.runtime()?;
        for target in targets {
            let (orders, ordered) = mpsc::channel(MOST_WAITING);
            let (reports, waker) = (self.reports.0.clone(), self.waker.clone());
            runtime.spawn(Task { target: target.clone(), ordered, reports, waker, number: 0 }.run());
            self.open.push(Connection { target, number: 0, orders });
        }
        Ok(())
    }

    /// Ends the connections of servers.
    pub(super) fn close(&mut self, is_one: impl Fn(&str) -> bool) {
        self.open.retain(|connection| !is_one(&connection.target.server));
    }

    /// The thread of all tasks.
    fn runtime(&mut self) -> Result<tokio::runtime::Handle> {
        if let Some(runtime) = &self.runtime {
            return Ok(runtime.clone());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let work = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("radsec".into()).spawn(work).context("cannot start a thread")?;
        self.runtime = Some(handle.clone());
        Ok(handle)
    }

    fn order(&self, server: &str, port: u16, order: impl FnOnce(&Connection) -> Order) {
        let of =
            |connection: &&Connection| (&*connection.target.server, connection.target.port) == (server, port);
        if let Some(connection) = self.open.iter().find(of) {
            // One that takes no more has not sent for long: its requests are repeated when it ends.
            let _ = connection.orders.try_send(order(connection));
        }
    }

    /// Sends a packet; false: the server has no TLS.
    pub(super) fn send(&self, server: &str, port: u16, bytes: &[u8]) -> bool {
        self.order(server, port, |of| Order::Send { number: of.number, bytes: bytes.to_vec() });
        self.open.iter().any(|connection| connection.target.server == server)
    }

    /// Ends a connection and begins another one.
    pub(super) fn reconnect(&self, server: &str, port: u16) {
        self.order(server, port, |_| Order::Reconnect);
    }

    /// What there is to say, but of connections that are not wanted any more.
    pub(super) fn reports(&mut self) -> Vec<Report> {
        let mut all = Vec::new();
        while let Ok(report) = self.reports.1.try_recv() {
            let (Report::Link { server, port, .. } | Report::Packet { server, port, .. }) = &report;
            let of = |own: &&mut Connection| (&own.target.server, own.target.port) == (server, *port);
            let Some(connection) = self.open.iter_mut().find(of) else { continue };
            if let Report::Link { number, .. } = &report {
                connection.number = *number;
            }
            all.push(report);
        }
        all
    }
}

/// A connection's task.
struct Task {
    target: Target,
    ordered: mpsc::Receiver<Order>,
    reports: Sender<Report>,
    waker: Waker,
    number: u64,
}

impl Task {
    /// Until nobody wants the connection any more.
    async fn run(mut self) {
        let (mut pause, mut is_known) = (Duration::ZERO, false);
        loop {
            if !self.wait(pause).await {
                return;
            }
            let attempt = timeout(ATTEMPT, connect(&self.target)).await;
            let attempt = attempt.unwrap_or_else(|_| Err(anyhow!("no answer within {ATTEMPT:?}")));
            let name = &self.target.server;
            match attempt {
                Ok(stream) => {
                    info!(server = name, "RADIUS server {name} is connected by TLS");
                    (is_known, self.number) = (false, self.number + 1);
                    self.tell(LinkChange::Up);
                    let began = tokio::time::Instant::now();
                    let Some(end) = self.carry(stream).await else { return };
                    let name = &self.target.server;
                    info!(server = name, "the connection to RADIUS server {name} has ended: {end:#}");
                    // One that ends soon is followed by a pause.
                    pause = if began.elapsed() > PAUSES.1 { Duration::ZERO } else { PAUSES.0.max(pause) };
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_known, true) {
                        warn!(
                            server = name,
                            "note: RADIUS server {name} cannot be reached by TLS: {error:#}; connecting again"
                        );
                    }
                    pause = (pause * 2).clamp(PAUSES.0, PAUSES.1);
                }
            }
            self.tell(LinkChange::Down);
        }
    }

    fn tell(&self, change: LinkChange) {
        let (server, port, number) = (self.target.server.clone(), self.target.port, self.number);
        let _ = self.reports.send(Report::Link { server, port, number, change });
        self.waker.wake();
    }

    /// Waits; false: the connection is not wanted any more.
    async fn wait(&mut self, pause: Duration) -> bool {
        let is_wanted = async { while self.ordered.recv().await.is_some() {} };
        timeout(pause, is_wanted).await.is_err()
    }

    /// Carries packets until the connection ends; why, `None`: it is not wanted any more.
    async fn carry(&mut self, stream: impl AsyncRead + AsyncWrite) -> Option<anyhow::Error> {
        let (input, mut output) = tokio::io::split(stream);
        let (target, reports, waker) = (&self.target, &self.reports, &self.waker);
        let hear = async {
            let mut input = tokio::io::BufReader::new(input);
            loop {
                let bytes = match packet(&mut input).await {
                    Ok(bytes) => bytes,
                    Err(error) => return Some(error),
                };
                let (server, port) = (target.server.clone(), target.port);
                let _ = reports.send(Report::Packet { server, port, bytes });
                waker.wake();
            }
        };
        let (ordered, number) = (&mut self.ordered, self.number);
        let say = async {
            loop {
                match ordered.recv().await {
                    None => return None,
                    Some(Order::Reconnect) => return Some(anyhow!("its server does not answer")),
                    Some(Order::Send { number: of, .. }) if of != number => {}
                    Some(Order::Send { bytes, .. }) => {
                        if let Err(error) = write(&mut output, &bytes).await {
                            return Some(error);
                        }
                    }
                }
            }
        };
        tokio::select! {
            end = hear => end,
            end = say => end,
        }
    }
}

async fn write(output: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<()> {
    output.write_all(bytes).await?;
    Ok(output.flush().await?)
}

/// The next packet: code, identifier, length and the rest.
async fn packet(input: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    input.read_exact(&mut bytes).await.context("the server has closed it")?;
    let len = bytes.get(2..4).and_then(|len| len.try_into().ok()).map_or(0, u16::from_be_bytes);
    if !(20..=MOST_BYTES).contains(&len.into()) {
        bail!("a packet has a length of {len} bytes: the server speaks no RADIUS");
    }
    bytes.resize(len.into(), 0);
    if let Some(rest) = bytes.get_mut(4..) {
        input.read_exact(rest).await.context("the server has closed it within a packet")?;
    }
    Ok(bytes)
}

async fn connect(target: &Target) -> Result<impl AsyncRead + AsyncWrite + use<>> {
    // Read anew for each connection, so that renewed certificates are used.
    let config = client_config(&target.tls)?;
    let stream = TcpStream::connect(target.address).await.with_context(|| target.address.to_string())?;
    stream.set_nodelay(true)?;
    let name = server_name(target)?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.with_context(|| format!("TLS with {}", target.address))
}

fn server_name(target: &Target) -> Result<ServerName<'static>> {
    match &target.tls.server_name {
        None => Ok(target.address.ip().into()),
        Some(name) => ServerName::try_from(name.clone())
            .with_context(|| format!("`{name}` is no name of a server: use one as in its certificate")),
    }
}

fn client_config(tls: &Tls) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca)? {
        roots.add(certificate).with_context(|| format!("a certificate in {}", tls.ca.display()))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let Some(identity) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let shown = identity.key.display();
    let key =
        PrivateKeyDer::from_pem_file(&identity.key).with_context(|| format!("no private key in {shown}"))?;
    let own = certificates(&identity.certificate)?;
    builder.with_client_auth_cert(own, key).with_context(|| {
        format!("the key {shown} does not fit the certificate {}", identity.certificate.display())
    })
}

fn certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = || -> Result<Vec<_>, tokio_rustls::rustls::pki_types::pem::Error> {
        CertificateDer::pem_file_iter(path)?.collect()
    };
    let all = read().with_context(|| format!("no certificates in {}", path.display()))?;
    match all.is_empty() {
        true => bail!("no certificate in {}: it should have one in PEM", path.display()),
        false => Ok(all),
    }
}
