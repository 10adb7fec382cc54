//! The item `radius` of a configuration.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;

use super::Words;
use crate::config::RadiusServer;
use crate::config::tls::{Identity, Tls};
use crate::radius::packet::Require;

/// Files that `tls://` needs.
#[derive(Default)]
struct Files {
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}

/// Reads what is behind the word `radius`.
pub(super) fn read(words: &mut Words<'_>) -> Result<RadiusServer, String> {
    let name = words.value("the name of the server")?;
    let address = words.word("the address of the server")?;
    let wrong =
        || format!("`{address}` is no address of a server: use 192.0.2.9:1812 or tls://192.0.2.9:2083");
    let (is_tls, socket) = address.strip_prefix("tls://").map_or((false, address), |rest| (true, rest));
    let address: SocketAddr = socket.parse().map_err(|_| wrong())?;
    let mut secret_file = None;
    if !is_tls {
        words.expect("secret-file")?;
        secret_file = Some(words.word("the file of the secret")?.into());
    }
    let (realms, plan, tls, accounting) = (Vec::new(), None, None, None);
    let ports = if is_tls { 1 } else { 16 };
    let (require, has_status, dead_time) = (Require::Nothing, is_tls, None);
    let mut server = RadiusServer {
        name,
        address,
        secret_file,
        tls,
        realms,
        ports,
        require,
        has_status,
        dead_time,
        plan,
        accounting,
    };
    let mut files = Files::default();
    while let Some(word) = words.next() {
        if !(is_tls && files.read(word, words)?) {
            option(word, words, &mut server)?;
        }
    }
    server.tls = if is_tls { Some(files.tls()?) } else { None };
    Ok(server)
}

fn option(word: &str, words: &mut Words<'_>, server: &mut RadiusServer) -> Result<(), String> {
    match word {
        "realm" => server.realms.push(words.word("a realm")?.into()),
        "ports" => {
            server.ports = words.number("number of ports")?;
            if !(1..=256).contains(&server.ports) {
                return Err(format!("`{}` is no number of source ports: use 1 to 256", server.ports));
            }
        }
        "require" => server.require = Require::MessageAuthenticator,
        "status" => server.has_status = true,
        "accounting" => server.accounting = Some(words.number::<NonZero<u16>>("port")?.get()),
        "dead" => server.dead_time = Some(super::time(words, 1)?),
        "plan" => server.plan = Some(words.value("the name of a plan")?),
        "secret-file" if server.secret_file.is_none() => {
            server.secret_file = Some(words.word("the file of the secret")?.into());
        }
        "ca" | "cert" | "key" | "server-name" => {
            return Err(format!("`{word}` is an option of servers with TLS: write tls://{}", server.address));
        }
        other => {
            return Err(format!(
                "`{other}` is no option of radius: use realm, ports, require, status, dead, accounting, plan, and with tls:// ca, \
                 cert, key, server-name or secret-file"
            ));
        }
    }
    Ok(())
}

impl Files {
    /// Reads an option of TLS; false: it is none.
    fn read(&mut self, word: &str, words: &mut Words<'_>) -> Result<bool, String> {
        match word {
            "ca" => self.ca = Some(words.word("the file of certificates")?.into()),
            "cert" => self.certificate = Some(words.word("the file of the certificate")?.into()),
            "key" => self.key = Some(words.word("the file of the key")?.into()),
            "server-name" => self.server_name = Some(words.word("the name of the server")?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn tls(self) -> Result<Tls, String> {
        let Files { ca, certificate, key, server_name } = self;
        let ca = ca
            .ok_or("`ca FILE` is missing: the certificates of the authority that signs that of the server")?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            _ => return Err("`cert FILE` and `key FILE` belong together: write both, or none".into()),
        };
        Ok(Tls { ca, identity, server_name })
    }
}
