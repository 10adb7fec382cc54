//! TLS of a RADIUS server (RFC 6614): the files of certificates.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

/// How a server with TLS is recognised, and how it recognises this program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Certificates of authorities that sign those of servers.
    pub ca: PathBuf,
    /// This program's certificate and its key, if the server asks for them.
    pub identity: Option<Identity>,
    /// The name that the server's certificate has; `None`: its address.
    pub server_name: Option<String>,
}

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, and those that it was signed by.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Tls {
    /// Changes all paths.
    pub fn map_paths(&mut self, change: impl Fn(PathBuf) -> PathBuf) {
        let change = |path: &mut PathBuf| *path = change(std::mem::take(path));
        change(&mut self.ca);
        if let Some(Identity { certificate, key }) = &mut self.identity {
            change(certificate);
            change(key);
        }
    }
}
