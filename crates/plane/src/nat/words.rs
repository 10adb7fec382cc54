//! The words of `nat(...)` and how they are read: addresses, ports, numbers, choices.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_config::did_you_mean;
use weir_packet::headers::{TCP, UDP};

use super::redirect::Redirect;
use crate::prefix::{Prefix, mask4};

/// What depends on the remote end (RFC 4787, sections 4.1 and 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dependence {
    Independent,
    Address,
    AddressAndPort,
}

/// The level of detail of the event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    Nothing,
    Blocks,
    Sessions,
}

/// Whether a refused frame is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Answer,
    Silent,
}

/// `192.0.2.1`, `192.0.2.0/28`, `192.0.2.1-192.0.2.9`.
pub(super) fn range4(text: &str) -> Result<(u32, u32), String> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (address4(first)?, address4(last)?);
        return if first <= last {
            Ok((first, last))
        } else {
            Err(format!("`{text}` ends before it begins"))
        };
    }
    let prefix: Prefix = text.parse()?;
    let address = address4(&prefix.network().address.to_string())?;
    Ok((address, address | !mask4(prefix.len)))
}

pub(super) fn network4(text: &str) -> Result<Prefix, String> {
    match text.parse::<Prefix>()? {
        prefix if prefix.address.is_ipv4() => Ok(prefix.network()),
        _ => Err(format!("`{text}` is no network of IPv4: write one, as in 192.0.2.0/24")),
    }
}

pub(super) fn address4(text: &str) -> Result<u32, String> {
    let address: Result<Ipv4Addr, _> = text.parse();
    address.map(u32::from).map_err(|_| format!("`{text}` is no IPv4 address: write one, as in 192.0.2.1"))
}

pub(super) fn end4(text: &str) -> Result<(u32, u16), String> {
    let wrong = || format!("`{text}` is no address with a port: write 192.0.2.1:80");
    let (address, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    Ok((address4(address)?, port.parse().ok().filter(|&port| port > 0).ok_or_else(wrong)?))
}

pub(super) fn redirect(proto: &str, asked: &str, from: &str, server: &str) -> Result<Redirect, String> {
    let wrong = || format!("`{asked}` is no network with a port: write any:53 or 192.0.2.0/24:53");
    let (network, port) = asked.rsplit_once(':').ok_or_else(wrong)?;
    let network = if network == "any" { "0.0.0.0/0" } else { network };
    let port = port.parse().ok().filter(|&port| port > 0).ok_or_else(wrong)?;
    let (from, asked) = (network4(from)?, (network4(network)?, port));
    Ok(Redirect { proto: transport(proto)?, from, asked, server: end4(server)? })
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("`{text}` are no ports: write the first and the last, as in 1024-65535");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0).ok_or_else(wrong);
    let range = port(first)?..=port(last)?;
    if range.is_empty() { Err(format!("the ports `{text}` end before they begin")) } else { Ok(range) }
}

/// Several ranges of ports, in order.
pub(super) fn port_ranges(ranges: &[&str]) -> Result<Vec<RangeInclusive<u16>>, String> {
    let mut list = ranges.iter().map(|text| port_range(text)).collect::<Result<Vec<_>, _>>()?;
    list.sort_by_key(|range| *range.start());
    match list.windows(2).find(|two| two[0].end() >= two[1].start()) {
        Some(two) => {
            let [a, b] = [&two[0], &two[1]].map(|range| format!("{}-{}", range.start(), range.end()));
            Err(format!("the ports {a} and {b} overlap: write each port once"))
        }
        None => Ok(list),
    }
}

pub(super) fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from {} to {}", range.start(), range.end()))
}

/// `300s`, `300`, at least so many.
pub(super) fn seconds(text: &str, least: u64) -> Result<Duration, String> {
    let s = text.strip_suffix('s').unwrap_or(text).parse().ok().filter(|s| (least..=1_000_000).contains(s));
    s.map(Duration::from_secs).ok_or_else(|| format!("`{text}` is not a time from {least}s to 1000000s"))
}

pub(super) fn transport(text: &str) -> Result<u8, String> {
    match text {
        "tcp" => Ok(TCP),
        "udp" => Ok(UDP),
        _ => Err(format!("`{text}` has no ports to lead elsewhere: use tcp or udp")),
    }
}

pub(super) fn dependence(text: &str) -> Result<Dependence, String> {
    choice(
        text,
        &[
            ("endpoint-independent", Dependence::Independent),
            ("address-dependent", Dependence::Address),
            ("address-and-port-dependent", Dependence::AddressAndPort),
        ],
    )
}

pub(super) fn manner(text: &str) -> Result<Manner, String> {
    choice(text, &[("answer", Manner::Answer), ("silent", Manner::Silent)])
}

pub(super) fn detail(text: &str) -> Result<Detail, String> {
    choice(text, &[("nothing", Detail::Nothing), ("blocks", Detail::Blocks), ("sessions", Detail::Sessions)])
}

fn choice<T: Copy>(text: &str, names: &[(&str, T)]) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| format!("`{text}` is none of them: {}", did_you_mean(text, &names)))
}
