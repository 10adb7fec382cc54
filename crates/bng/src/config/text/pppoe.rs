//! The item `pppoe` of a configuration.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use weir_config::unit;

use super::{Limit, Words, limit};
use crate::config::Pppoe;
use crate::ppp::auth::Method;
use crate::pppoe::concentrator::{Options, ServiceNames};

/// Names of methods, as they are written.
const METHODS: [(&str, Method); 3] =
    [("chap-md5", Method::ChapMd5), ("ms-chapv2", Method::MsChapV2), ("pap", Method::Pap)];

/// Reads what is behind the word `pppoe`.
pub(super) fn read(words: &mut Words<'_>) -> Result<Pppoe, String> {
    let mut pppoe = Pppoe::default();
    let discovery = &mut pppoe.discovery;
    while let Some(word) = words.next() {
        match word {
            "name" => discovery.name = name(words, "the name of the concentrator")?,
            "auth" => pppoe.methods = methods(words)?,
            "service" => discovery.services.push(name(words, "the name of a service")?),
            "strict" => discovery.service_names = ServiceNames::Strict,
            "delay" => {
                let (least, most) = (Duration::ZERO, Duration::from_secs(2));
                discovery.pado_delay = unit::time(words.word("a time")?, least, most)?;
            }
            "mtu" => {
                let mtu: u16 = words.number("MTU")?;
                if !(1500..=9000).contains(&mtu) {
                    return Err(format!(
                        "{mtu} is no MTU of a port: use 1500 to 9000, 1508 for an MRU of 1500"
                    ));
                }
                discovery.max_payload = mtu.saturating_sub(8);
            }
            "sessions" => sessions(words, discovery)?,
            "padi" => padi(words, &mut discovery.mac_limit, &mut discovery.line_limit)?,
            other => {
                return Err(format!(
                    "`{other}` is no option of pppoe: use name, auth, service, strict, delay, mtu, sessions or padi"
                ));
            }
        }
    }
    Ok(pppoe)
}

/// 1 to 64 bytes.
fn name(words: &mut Words<'_>, what: &str) -> Result<String, String> {
    let name = words.word(what)?;
    if name.len() <= 64 { Ok(name.into()) } else { Err(format!("`{name}` is too long: use up to 64 bytes")) }
}

fn methods(words: &mut Words<'_>) -> Result<Vec<Method>, String> {
    let mut methods = Vec::new();
    let of = |word: &str| METHODS.iter().find(|(name, _)| *name == word).map(|(_, method)| *method);
    while let Some(method) = words.peek().and_then(of) {
        words.next();
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    if methods.is_empty() {
        let found = words.peek().unwrap_or("nothing");
        return Err(format!("`{found}` is no method of authentication: use chap-md5, ms-chapv2 or pap"));
    }
    Ok(methods)
}

fn sessions(words: &mut Words<'_>, discovery: &mut Options) -> Result<(), String> {
    let limits = [
        ("mac", 65_534, &mut discovery.most_of_mac),
        ("line", 65_534, &mut discovery.most_of_line),
        ("half-open", 1_000_000, &mut discovery.most_half_open),
    ];
    let mut has_one = false;
    for (kind, most, limit) in limits {
        if words.takes(kind) {
            let word = words.word("a number of sessions")?;
            let number = word.parse().ok().filter(|number| (1..=most).contains(number));
            *limit = number.ok_or_else(|| format!("`{word}` is no number of sessions: use 1 to {most}"))?;
            has_one = true;
        }
    }
    let missing = "a limit of sessions is of a MAC, of a line or of those that are being set up: use `sessions mac 4 line 100 half-open 32768`";
    if has_one { Ok(()) } else { Err(missing.into()) }
}

fn padi(words: &mut Words<'_>, of_mac: &mut Limit, of_line: &mut Limit) -> Result<(), String> {
    match words.word("`mac` or `line`")? {
        "mac" => *of_mac = limit(words)?,
        "line" => *of_line = limit(words)?,
        other => return Err(format!("`{other}` has no limit of PADI: use mac or line")),
    }
    Ok(())
}
