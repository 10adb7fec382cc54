//! The item `radius` of a configuration.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::num::NonZero;

use super::Words;
use crate::config::RadiusServer;
use crate::radius::packet::Require;

/// Reads what is behind the word `radius`.
pub(super) fn read(words: &mut Words<'_>) -> Result<RadiusServer, String> {
    let name = words.value("the name of the server")?;
    let address = words.word("the address of the server")?;
    let wrong = || format!("`{address}` is no address of a server: use 192.0.2.9:1812");
    let address: SocketAddr = address.parse().map_err(|_| wrong())?;
    words.expect("secret-file")?;
    let secret_file = words.word("the file of the secret")?.into();
    let (realms, ports, plan, accounting) = (Vec::new(), 16, None, None);
    let (require, has_status) = (Require::Nothing, false);
    let mut server =
        RadiusServer { name, address, secret_file, realms, ports, require, has_status, plan, accounting };
    while let Some(word) = words.next() {
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
            "plan" => server.plan = Some(words.value("the name of a plan")?),
            other => {
                return Err(format!(
                    "`{other}` is no option of radius: use realm, ports, require, status, accounting or plan"
                ));
            }
        }
    }
    Ok(server)
}
