//! The subscriber of a port, or the ports of a subscriber, of a deterministic NAT (RFC 7422). Needs only the node file.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use weir_node::Config;
use weir_plane::Owner;

/// The ports of the host `asked`, or the subscriber of the public address and port `asked`.
pub(super) fn look_up(file: &Path, config: &Config, asked: &str) -> Result<String> {
    let file = file.display();
    let mut nats = config.plane.deterministic().peekable();
    nats.peek().with_context(|| {
        format!("no NAT of {file} has `deterministic` ports: see the events of the node (--events)")
    })?;
    if let Ok(host) = asked.parse::<Ipv4Addr>() {
        let found = nats.find_map(|nat| nat.outside(host.into()));
        let (address, ports) =
            found.with_context(|| format!("{host} has no deterministic ports in {file}"))?;
        return Ok(format!("{host} has {} ports {}-{}", Ipv4Addr::from(address), ports.start(), ports.end()));
    }
    let end: SocketAddrV4 = asked.parse().map_err(|_| {
        anyhow!("`{asked}` is no address: use a host, or a public address with a port such as 192.0.2.1:2001")
    })?;
    match nats
        .map(|nat| nat.owner(u32::from(*end.ip()), end.port()))
        .find(|owner| *owner != Owner::Unassigned)
    {
        Some(Owner::Subscriber(host)) => Ok(format!("{end} is assigned to {}", Ipv4Addr::from(host))),
        Some(_) => {
            Ok(format!("{end} is assigned dynamically: the events of the node (--events) show its hosts"))
        }
        None => bail!("{end} is not assigned to any subscriber in {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc7422_is_reported_both_ways() {
        let text = "lan nat(public 192.0.2.1, deterministic 198.51.100.0/28 dynamic 2) wan";
        let read = |text| Config::read("n", text, &|_| Err("no file".to_string())).expect("a node");
        let reported = |text, asked| {
            look_up(Path::new("n"), &read(text), asked).unwrap_or_else(|wrong| wrong.to_string())
        };
        for (asked, said) in [
            ("198.51.100.1", "198.51.100.1 has 192.0.2.1 ports 1024-5055"),
            ("192.0.2.1:2001", "192.0.2.1:2001 is assigned to 198.51.100.1"),
            (
                "192.0.2.1:58204",
                "192.0.2.1:58204 is assigned dynamically: the events of the node (--events) show its hosts",
            ),
            ("198.51.100.15", "198.51.100.15 has no deterministic ports in n"),
            ("192.0.2.1:80", "192.0.2.1:80 is not assigned to any subscriber in n"),
            ("x", "`x` is no address: use a host, or a public address with a port such as 192.0.2.1:2001"),
        ] {
            assert_eq!(reported(text, asked), said);
        }
        let none = reported("lan nat(public 192.0.2.1) wan", "192.0.2.1:80");
        assert_eq!(none, "no NAT of n has `deterministic` ports: see the events of the node (--events)");
    }
}
