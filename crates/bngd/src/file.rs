//! The file of the node, as far as it is for this program: the item `bng(...)`, held against the ports of the node.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weir_bng::{Config, Item, NodeFacts};
use weir_control::texts;

/// What the file says.
#[derive(Debug)]
pub struct File {
    /// What is configured; ports have no MAC address unless the file says one.
    pub config: Config,
    /// The folder of the records, if the file says it.
    pub store: Option<PathBuf>,
    /// The file of the key of secrets, if the file says it.
    pub key: Option<PathBuf>,
    /// The socket of the REST server, if the file says it.
    pub socket: Option<PathBuf>,
    /// Where the captive-portal API answers, if the file says it.
    pub captive_at: Option<SocketAddr>,
}

impl File {
    /// Reads the file of a node.
    ///
    /// # Errors
    /// All mistakes of the file, or that it cannot be read or has no `bng(...)`.
    pub fn read(path: &Path) -> Result<File> {
        let (node, texts) = texts::read(path)?;
        let within = node.bng.clone().with_context(|| {
            format!("{}: there is no `bng(...)` in it: add one, as in `bng(pool main 100.64.0.2-100.64.0.99 router 100.64.0.1/24)`", texts.file)
        })?;
        let Item { config, store, key, socket, captive_at, .. } =
            Item::read(&texts.file, &texts.text, within, &facts(&node)?)?;
        // Relative to the folder of the file, as other files that it names.
        let beside = |other: PathBuf| path.parent().unwrap_or(Path::new("")).join(other);
        let mut config = config;
        for server in &mut config.radius {
            server.secret_file = server.secret_file.take().map(beside);
            server.tls.iter_mut().for_each(|tls| tls.map_paths(beside));
        }
        for (_, file) in config.dynauth.iter_mut().flat_map(|dynauth| &mut dynauth.clients) {
            *file = beside(std::mem::take(file));
        }
        Ok(File {
            config,
            store: store.map(beside),
            key: key.map(beside),
            socket: socket.map(beside),
            captive_at,
        })
    }
}

/// What the item may name of the node.
fn facts(node: &weir_node::Config) -> Result<NodeFacts> {
    let ports = node.plane.ports.iter().map(|port| port.name.parse());
    let ports = ports.collect::<Result<_, String>>().map_err(anyhow::Error::msg)?;
    // Access ports have the addresses of the gateways.
    let addresses = node.plane.ports.iter().filter(|port| port.is_access).flat_map(|port| &port.addresses);
    Ok(NodeFacts { ports, gateways: addresses.map(|prefix| prefix.host()).collect() })
}
