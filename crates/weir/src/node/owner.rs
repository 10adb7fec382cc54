//! Who has which ports for good, by a node's file alone (RFC 7422): asked from either side, no node need run.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use weir_node::Config;
use weir_plane::Owner;

/// What `asked` is: a host, or a public address with a port.
pub(super) fn tell(file: &Path, config: &Config, asked: &str) -> Result<String> {
    let file = file.display();
    let mut nats = config.plane.deterministic().peekable();
    nats.peek().with_context(|| {
        format!("no NAT of {file} has `deterministic` ports: the events of the node tell")
    })?;
    if let Ok(host) = asked.parse::<Ipv4Addr>() {
        let found = nats.find_map(|nat| nat.outside(host.into()));
        let (address, ports) =
            found.with_context(|| format!("{host} has no deterministic ports in {file}"))?;
        return Ok(format!("{host} has {} ports {}-{}", Ipv4Addr::from(address), ports.start(), ports.end()));
    }
    let end: SocketAddrV4 = asked.parse().map_err(|_| {
        anyhow!("`{asked}` is nobody: write a host, or a public address with a port, as 192.0.2.1:2001")
    })?;
    match nats
        .map(|nat| nat.owner(u32::from(*end.ip()), end.port()))
        .find(|owner| *owner != Owner::Unassigned)
    {
        Some(Owner::Subscriber(host)) => Ok(format!("{end} is of {}", Ipv4Addr::from(host))),
        Some(_) => Ok(format!("{end} is given as it is needed: the events of the node tell who had it when")),
        None => bail!("{end} is of nobody in {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc7422_is_reported_both_ways() {
        let text = "lan nat(public 192.0.2.1, deterministic 198.51.100.0/28 dynamic 2) wan";
        let read = |text| Config::read("n", text, &|_| Err("no file".to_string())).expect("a node");
        let reported =
            |text, asked| tell(Path::new("n"), &read(text), asked).unwrap_or_else(|wrong| wrong.to_string());
        for (asked, said) in [
            ("198.51.100.1", "198.51.100.1 has 192.0.2.1 ports 1024-5055"),
            ("192.0.2.1:2001", "192.0.2.1:2001 is of 198.51.100.1"),
            (
                "192.0.2.1:58204",
                "192.0.2.1:58204 is given as it is needed: the events of the node tell who had it when",
            ),
            ("198.51.100.15", "198.51.100.15 has no deterministic ports in n"),
            ("192.0.2.1:80", "192.0.2.1:80 is of nobody in n"),
            ("x", "`x` is nobody: write a host, or a public address with a port, as 192.0.2.1:2001"),
        ] {
            assert_eq!(reported(text, asked), said);
        }
        let none = reported("lan nat(public 192.0.2.1) wan", "192.0.2.1:80");
        assert_eq!(none, "no NAT of n has `deterministic` ports: the events of the node tell");
    }
}
