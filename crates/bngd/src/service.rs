//! The service: file, store, sockets and threads, from the start to a signal.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tracing::info;
use weir_control::socket::Access;
use weir_service::signals::Hangup;
use weir_service::systemd;

use crate::asks::Asker;
use crate::engine::{Engine, Parts};
use crate::file::File;
use crate::metrics::Metrics;
use crate::rest;
use crate::wake::Waker;

/// How the program is run.
#[derive(Debug)]
pub struct Settings {
    /// The file of the node.
    pub file: PathBuf,
    /// The folder of the records; `None`: the one that the file says, or the usual one.
    pub store: Option<PathBuf>,
    /// The socket of the REST server; `None`: the one that the file says, or the usual one.
    pub socket: Option<PathBuf>,
    /// Who may be a client.
    pub access: Access,
    /// The socket of the node.
    pub node: PathBuf,
    /// Where Prometheus is answered.
    pub prometheus: Option<SocketAddr>,
    /// The usual socket.
    pub usual_socket: PathBuf,
}

/// Runs the control plane until a signal ends it.
///
/// # Errors
/// The file has mistakes, or the store or a socket cannot be opened; or some records could not be written at the end.
pub fn run(settings: Settings) -> Result<()> {
    let file = File::read(&settings.file)?;
    let hangup = Hangup::of_service()?;
    let store = settings.store.or(file.store).unwrap_or_else(|| weir_disk::state_folder().join("bng"));
    let socket = settings.socket.or(file.socket).unwrap_or(settings.usual_socket);
    let metrics = Metrics::new(settings.prometheus)?;
    let waker = Waker::new().context("cannot create an eventfd")?;
    let (asker, asks) = Asker::new(waker.clone());
    // The store is locked first, so that a second program does not take the socket of the first.
    let parts =
        Parts { config: file.config, store, key: file.key, node: settings.node, asks, waker, metrics };
    let engine = Engine::new(parts)?;
    let socket = Socket::listen(&socket, &settings.access)?;
    if let Some(at) = file.captive_at {
        rest::start_captive(at, asker.clone())?;
        info!(%at, "the captive-portal API answers at {at}");
    }
    rest::start(socket.listener.try_clone()?, asker)?;
    systemd::notify_ready()?;
    info!("answering at {}", socket.path.display());
    let path = settings.file;
    engine.run(&hangup, &move || Ok(File::read(&path)?.config))
}

/// The socket of the REST server, which goes with this.
struct Socket {
    listener: std::os::unix::net::UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Creates the socket; replaces that of a killed program.
    fn listen(path: &Path, access: &Access) -> Result<Socket> {
        let shown = path.display();
        let access = access.of_socket().context("cannot give the socket to the group of --socket-group")?;
        if UnixStream::connect(path).is_ok() {
            bail!("another program uses the socket {shown}: stop it, or choose another socket with --socket");
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let listener = weir_disk::listen(path, access)
            .with_context(|| format!("cannot create the socket {shown}: choose another one with --socket"))?;
        Ok(Socket { listener, path: path.into() })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Where it cannot be removed, the next program replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}
