//! The item `dynamic-authorization` of a configuration.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use weir_config::unit;

use super::Words;
use crate::config::Dynauth;
use crate::radius::dynauth::Options;
use crate::radius::packet::Require;

/// Reads what is behind the word `dynamic-authorization`.
pub(super) fn read(words: &mut Words<'_>) -> Result<Dynauth, String> {
    let address = words.word("the address to listen at")?;
    let wrong = || format!("`{address}` is no address to listen at: use 192.0.2.1:3799");
    let address = address.parse().map_err(|_| wrong())?;
    let Options { require, window, .. } = Options::default();
    let mut dynauth = Dynauth { address, clients: Vec::new(), require, window };
    while let Some(word) = words.next() {
        match word {
            "client" => {
                let address = words.number("address")?;
                words.expect("secret-file")?;
                let file = words.word("the file of the secret")?.into();
                if dynauth.clients.iter().any(|(other, _)| *other == address) {
                    return Err(format!("there are two clients with the address {address}: remove one"));
                }
                dynauth.clients.push((address, file));
            }
            "require" => dynauth.require = Require::MessageAuthenticator,
            "window" => {
                let (least, most) = (Duration::from_secs(10), Duration::from_secs(3600));
                dynauth.window = unit::time(words.word("a time")?, least, most)?;
            }
            other => {
                return Err(format!(
                    "`{other}` is no option of dynamic-authorization: use client, require or window"
                ));
            }
        }
    }
    if dynauth.clients.is_empty() {
        return Err("nobody may ask: write `client ADDRESS secret-file FILE` behind it".into());
    }
    Ok(dynauth)
}
