//! The items `aaa`, `dhcp-radius`, `brown-out` and `nas` of a configuration.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::Words;
use crate::config::aaa::{BrownOut, Chap, DhcpRadius, KnownDevices, RADIUS_MOST, Renewals, Source};
use crate::radius::access::{Nas, Template, Unsupported};

/// How long the servers are not asked again for a DHCP client that they have rejected.
const REJECT: Duration = Duration::from_secs(30);

/// Reads what is behind the word `aaa`.
pub(super) fn order(words: &mut Words<'_>) -> Result<Vec<Source>, String> {
    let mut order: Vec<Source> = Vec::new();
    while let Some(word) = words.next() {
        let source = match word {
            "local" => Source::Local,
            "radius" => {
                let has_time =
                    words.peek().is_some_and(|next| next.starts_with(|first: char| first.is_ascii_digit()));
                Source::Radius { most: if has_time { super::time(words, 1)? } else { RADIUS_MOST } }
            }
            other => return Err(format!("`{other}` knows no logins: use local or radius")),
        };
        let is_same = |known: &Source| (*known == Source::Local) == (source == Source::Local);
        if order.iter().any(is_same) {
            return Err(format!("`{word}` is in the order already: leave one of them out"));
        }
        order.push(source);
    }
    match order.is_empty() {
        true => Err("the order is missing at the end: write `aaa local radius 5s`".into()),
        false => Ok(order),
    }
}

/// Reads what is behind the word `brown-out`.
pub(super) fn brown_out(words: &mut Words<'_>) -> Result<BrownOut, String> {
    words.expect("age")?;
    let age = super::time(words, 60)?;
    let chap = if words.takes("chap") { Chap::SameDevice } else { Chap::Refused };
    let dhcp = if words.takes("dhcp") { KnownDevices::Accepted } else { KnownDevices::Refused };
    Ok(BrownOut { age, chap, dhcp })
}

/// Reads what is behind the word `dhcp-radius`.
pub(super) fn dhcp(words: &mut Words<'_>) -> Result<DhcpRadius, String> {
    let mut dhcp = DhcpRadius {
        user_name: "{mac}".parse()?,
        password: None,
        reject: REJECT,
        renewals: Renewals::default(),
    };
    while let Some(word) = words.next() {
        match word {
            "user-name" => dhcp.user_name = template(words, "User-Name")?,
            "password" => dhcp.password = Some(template(words, "User-Password")?),
            "reject" => dhcp.reject = super::time(words, 0)?,
            "renewals" => dhcp.renewals = Renewals::Asked,
            other => {
                return Err(format!(
                    "`{other}` is no option of dhcp-radius: use user-name, password, reject or renewals"
                ));
            }
        }
    }
    Ok(dhcp)
}

/// A template for devices that give no name.
fn template(words: &mut Words<'_>, what: &str) -> Result<Template, String> {
    let template: Template = words.value(&format!("a template of {what}"))?;
    match template.has("name") {
        true => Err(format!(
            "a DHCP client gives no name, which `{template}` has: use {{mac}}, {{line}}, {{circuit}} or {{remote}}"
        )),
        false => Ok(template),
    }
}

/// Reads what is behind the word `nas`.
pub(super) fn nas(words: &mut Words<'_>, nas: &mut Nas, unsupported: &mut Unsupported) -> Result<(), String> {
    while let Some(word) = words.next() {
        match word {
            "identifier" => nas.identifier = words.word("NAS-Identifier")?.into(),
            "address" => nas.address = Some(words.number("IPv4 address")?),
            "user-name" => nas.user_name = words.value("a template of User-Name")?,
            "calling-station-id" => {
                nas.calling_station_id = words.value("a template of Calling-Station-Id")?
            }
            "port-id" => nas.port_id = words.value("a template of NAS-Port-Id")?,
            "unsupported" => {
                *unsupported = match words.word("`ignore` or `refuse`")? {
                    "ignore" => Unsupported::Ignore,
                    "refuse" => Unsupported::Refuse,
                    other => {
                        return Err(format!("`{other}` is no rule for attributes: use ignore or refuse"));
                    }
                }
            }
            other => {
                return Err(format!(
                    "`{other}` is no option of nas: use identifier, address, user-name, calling-station-id, port-id or unsupported"
                ));
            }
        }
    }
    Ok(())
}
