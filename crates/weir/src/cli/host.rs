//! Hosts as users write them: a name or an address (IPv6 with its zone, RFC 4007, section 11.2), and an optional port.

use std::net::{SocketAddr, ToSocketAddrs};

/// A host and all its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// As the user wrote it.
    pub(crate) text: String,
    /// At least one, in the order in which they are tried, without a port.
    addresses: Vec<SocketAddr>,
    /// The port behind the host.
    pub(crate) port: Option<u16>,
}

impl Host {
    /// HOST, HOST:PORT, ADDRESS or [ADDRESS]:PORT.
    pub(crate) fn read(text: &str) -> Result<Host, String> {
        let wrong = || {
            format!(
                "`{text}` is no host: use a name or an address, optionally with :PORT ([ADDRESS]:PORT for IPv6)"
            )
        };
        let (host, port) = split(text).ok_or_else(wrong)?;
        let port = port.map(str::parse).transpose().map_err(|_| wrong())?;
        let addresses = (host, 0).to_socket_addrs().map_err(|error| match host.split_once('%') {
            Some((_, interface)) => format!("`{text}` has no address: is there an interface {interface}?"),
            None => format!("`{text}` has no address: {error}"),
        })?;
        let addresses: Vec<_> = addresses.collect();
        match addresses.first() {
            None => Err(format!("`{text}` has no address")),
            Some(first) if lacks_scope(first) => Err(format!(
                "`{text}` is a link-local address: append the interface, for example {}%eth0",
                first.ip()
            )),
            Some(_) => Ok(Host { text: text.to_string(), addresses, port }),
        }
    }

    /// Its addresses with the port that the user gave, or the usual one.
    pub(crate) fn addresses(&self, usual_port: u16) -> Vec<SocketAddr> {
        let mut addresses = self.addresses.clone();
        addresses.iter_mut().for_each(|address| address.set_port(self.port.unwrap_or(usual_port)));
        addresses
    }
}

/// An address and a port of this machine: ADDRESS:PORT or [ADDRESS]:PORT.
pub(super) fn end(text: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("`{text}` is no ADDRESS:PORT, such as 127.0.0.1:9100 or [fe80::1%eth0]:9100");
    let (address, port) = split(text).ok_or_else(wrong)?;
    let mut end = own(address).map_err(|_| wrong())?;
    end.set_port(port.and_then(|port| port.parse().ok()).ok_or_else(wrong)?);
    Ok(end)
}

/// An address of this machine, without a port.
pub(super) fn own(text: &str) -> Result<SocketAddr, String> {
    // A name can have several addresses, or be that of another machine.
    let is_address =
        text.split('%').next().is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok());
    let host = is_address.then(|| Host::read(text)).transpose()?;
    let address = host.filter(|host| host.port.is_none()).and_then(|host| host.addresses.first().copied());
    address.ok_or_else(|| format!("`{text}` is no address"))
}

/// The host, and the text after it that should be a port.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']')? {
            (host, "") => (host, None),
            (host, port) => (host, Some(port.strip_prefix(':')?)),
        },
        None => match text.split_once(':') {
            // A bare IPv6 address has colons, too.
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    (!host.is_empty()).then_some((host, port))
}

/// Whether an address needs an interface: it is link-local and has none.
fn lacks_scope(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read() {
        // The loopback has number 1 in each namespace.
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:7"),
            ("192.0.2.1:25", "192.0.2.1:25"),
            ("2001:db8::1", "[2001:db8::1]:7"),
            ("::1", "[::1]:7"),
            ("[::1]", "[::1]:7"),
            ("[2001:db8::1]:25", "[2001:db8::1]:25"),
            ("fe80::1%lo", "[fe80::1%1]:7"),
            ("fe80::1%1", "[fe80::1%1]:7"),
            ("[fe80::1%lo]", "[fe80::1%1]:7"),
            ("[fe80::1%lo]:25", "[fe80::1%1]:25"),
        ] {
            let host = Host::read(text).expect(text);
            assert_eq!((host.addresses(7), host.text.as_str()), (vec![expected.parse().unwrap()], text));
            let address = own(text).ok();
            assert_eq!(address.is_some(), host.port.is_none() && !text.contains('['), "{text}");
            assert_eq!(end(text).ok(), host.port.map(|_| expected.parse().unwrap()), "{text}");
        }
        let both = Host::read("localhost:25").expect("a name");
        assert!(both.addresses(7).iter().all(|address| address.ip().is_loopback() && address.port() == 25));
        assert!(own("localhost").is_err() && end("localhost:25").is_err());
        for (text, message) in [
            ("", "is no host"),
            (":25", "is no host"),
            ("[::1", "is no host"),
            ("[::1]25", "is no host"),
            ("192.0.2.1:smtp", "is no host"),
            ("192.0.2.1:65536", "is no host"),
            ("fe80::1", "append the interface, for example fe80::1%eth0"),
            ("[fe80::1]:25", "append the interface"),
            ("fe80::1%nothing", "is there an interface nothing?"),
            ("1:2:3", "has no address"),
        ] {
            let error = Host::read(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
