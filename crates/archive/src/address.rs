//! Which server an archive is on: a URL of PostgreSQL, its password from elsewhere, and how its certificate is checked.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A server that does not answer is given up after this time.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection on which nothing arrives for this time is checked, and ends when the check fails.
const SILENT: Duration = Duration::from_secs(30);

/// The address of an archive: `postgres://user@host:5432/database?sslmode=require`, or `postgres://user@%2Frun%2Fpostgresql/database`
/// for a Unix socket. Shown without its password.
#[derive(Clone)]
pub struct Address {
    config: Config,
    shown: String,
}

impl Address {
    /// Parses a URL. A password that it lacks is that of `PGPASSWORD`. A server on another host must have a certificate that is
    /// trusted, unless the URL has an `sslmode` of its own.
    ///
    /// # Errors
    /// The text is no address of PostgreSQL.
    pub fn parse(text: &str) -> Result<Address> {
        let mut config: Config = text.parse().with_context(|| {
            // Whatever may be a password is left out.
            let shown = text.split('@').next_back().filter(|shown| !shown.contains("password"));
            format!(
                "`{}` is no address of an archive: use postgres://USER@HOST/DATABASE",
                shown.unwrap_or("...")
            )
        })?;
        if config.get_password().is_none()
            && let Some(password) = std::env::var_os("PGPASSWORD")
        {
            config.password(password.into_encoded_bytes());
        }
        if !text.contains("sslmode=") && config.get_hosts().iter().any(is_remote) {
            config.ssl_mode(SslMode::Require);
        }
        config.application_name("weir").connect_timeout(CONNECT);
        config.keepalives_idle(SILENT).keepalives_interval(SILENT / 3).keepalives_retries(3);
        config.tcp_user_timeout(SILENT * 2);
        Ok(Address { shown: shown(&config), config })
    }

    /// The same, but the server refuses all that changes the archive.
    #[must_use]
    pub fn read_only(mut self) -> Address {
        let before = self.config.get_options().map_or_else(String::new, |options| format!("{options} "));
        self.config.options(format!("{before}-c default_transaction_read_only=on"));
        self
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// What checks the certificate of the server: against the file of `PGSSLROOTCERT`, or else the certificates that browsers trust.
    pub(crate) fn tls(&self) -> Result<MakeRustlsConnect> {
        let mut roots = RootCertStore::empty();
        match std::env::var_os("PGSSLROOTCERT") {
            Some(path) => add_certificates(Path::new(&path), &mut roots)?,
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.context("TLS cannot be set up")?;
        Ok(MakeRustlsConnect::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }
}

fn add_certificates(path: &Path, roots: &mut RootCertStore) -> Result<()> {
    let wrong = || format!("PGSSLROOTCERT: no certificate can be read from {}", path.display());
    for certificate in CertificateDer::pem_file_iter(path).with_context(wrong)? {
        roots.add(certificate.with_context(wrong)?).with_context(wrong)?;
    }
    Ok(())
}

fn is_remote(host: &Host) -> bool {
    match host {
        Host::Unix(_) => false,
        Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name != "localhost" && !address.is_ok_and(|address| address.is_loopback())
        }
    }
}

fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let port = config.get_ports().first().filter(|port| **port != 5432);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    let user = config.get_user().map_or_else(String::new, |user| format!("{user}@"));
    format!("postgres://{user}{host}{port}/{}", config.get_dbname().unwrap_or_default())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let address = Address::parse("postgres://lab:secret@db.example.org:6000/weir").unwrap();
        assert_eq!(address.to_string(), "postgres://lab@db.example.org:6000/weir");
        let Err(error) = Address::parse("postgres://lab:secret@host/weir?sslmode=maybe") else {
            panic!("it is wrong")
        };
        assert!(!format!("{error:#}").contains("secret"), "{error:#}");
        let Err(error) = Address::parse("host=db password=secret sslmode=maybe") else {
            panic!("it is wrong")
        };
        assert!(!format!("{error:#}").contains("secret"), "{error:#}");
    }

    #[test]
    fn another_host_needs_a_certificate() {
        let mode = |text: &str| Address::parse(text).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://lab@192.0.2.1/weir"), SslMode::Require);
        assert_eq!(mode("postgres://lab@192.0.2.1/weir?sslmode=disable"), SslMode::Disable);
        for local in
            ["postgres://lab@127.0.0.1/weir", "postgres://lab@localhost/weir", "postgres://lab@%2Frun/weir"]
        {
            assert_eq!(mode(local), SslMode::Prefer, "{local}");
        }
    }
}
