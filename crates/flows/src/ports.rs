//! Ports of this machine for outgoing connections, and their users.
//!
//! A connection needs a port that no other one has with the same addresses and the same port of the server, and that no socket
//! has bound or listens at. One that has ended keeps its port for a minute (TIME_WAIT, RFC 9293, section 3.6.1), unless the
//! kernel may use it again (`net.ipv4.tcp_tw_reuse`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::sys::setting;

/// States in `/proc/net/tcp`.
const TIME_WAIT: &str = "06";
const LISTEN: &str = "0A";

/// Ports that the kernel chooses from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ports {
    first: u16,
    last: u16,
    /// Of these, ports that are kept for others.
    reserved: BTreeSet<u16>,
}

impl Ports {
    /// Those of the network namespace of the calling thread.
    pub(crate) fn here() -> Ports {
        Ports::read(&setting("ipv4/ip_local_port_range"), &setting("ipv4/ip_local_reserved_ports"))
    }

    /// From the texts of the kernel: `32768 60999`, and `8080,9000-9002`.
    pub(crate) fn read(range: &str, reserved: &str) -> Ports {
        let ends: Vec<u16> = range.split_whitespace().filter_map(|port| port.parse().ok()).collect();
        let (first, last) = if let [first, last] = ends[..] { (first, last) } else { (32_768, 60_999) };
        let range = |text: &str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            Some(from.trim().parse::<u16>().ok()?..=to.trim().parse::<u16>().ok()?)
        };
        let reserved = reserved.split(',').filter_map(range).flatten();
        Ports { first, last, reserved: reserved.filter(|port| (first..=last).contains(port)).collect() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        let all = u64::from(self.last.saturating_sub(self.first)) + 1;
        all.saturating_sub(self.reserved.len() as u64)
    }

    fn has(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port) && !self.reserved.contains(&port)
    }
}

/// Ports that an address cannot use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Use {
    /// Ports in use by connections or listening sockets.
    pub(crate) used: u64,
    /// Connections that have ended do.
    pub(crate) waiting: u64,
}

impl Use {
    pub(crate) fn all(self) -> u64 {
        self.used + self.waiting
    }
}

/// Ports that cannot be used for connections to a server, by the address that these come from.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Taken {
    sources: BTreeMap<IpAddr, Use>,
    /// Number of ports with a listening socket, which no address can use.
    listening: u64,
}

impl Taken {
    /// What connections to `to` would find, in the network namespace of the calling thread.
    pub(crate) fn here(ports: &Ports, to: SocketAddr) -> Taken {
        let table = |name: &str| read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        let may_reuse = match setting("ipv4/tcp_tw_reuse").trim() {
            _ if setting("ipv4/tcp_timestamps").trim() == "0" => false,
            "1" => true,
            // Over loopback alone.
            "2" => to.ip().is_loopback(),
            _ => false,
        };
        Taken::read(&[table("tcp"), table("tcp6")], ports, to, may_reuse)
    }

    fn read(tables: &[String], ports: &Ports, to: SocketAddr, may_reuse: bool) -> Taken {
        let mut taken = Taken::default();
        let mut listening = BTreeSet::new();
        for line in tables.iter().flat_map(|table| table.lines()) {
            let Some((own, other, state)) = connection(line).filter(|(own, ..)| ports.has(own.port())) else {
                continue;
            };
            match state {
                LISTEN => _ = listening.insert(own.port()),
                // The kernel's list has no scopes.
                _ if (other.ip(), other.port()) != (to.ip(), to.port()) => {}
                TIME_WAIT if may_reuse => {}
                TIME_WAIT => taken.add(own.ip(), 0, 1),
                _ => taken.add(own.ip(), 1, 0),
            }
        }
        taken.listening = listening.len() as u64;
        taken
    }

    pub(crate) fn add(&mut self, source: IpAddr, used: u64, waiting: u64) {
        let of = self.sources.entry(source).or_default();
        *of = Use { used: of.used + used, waiting: of.waiting + waiting };
    }

    /// Ports that this address cannot use.
    pub(crate) fn of(&self, source: &IpAddr) -> Use {
        let Use { used, waiting } = self.sources.get(source).copied().unwrap_or_default();
        Use { used: used + self.listening, waiting }
    }
}

/// Both ends of a line of `/proc/net/tcp` or `tcp6`, and its state.
fn connection(line: &str) -> Option<(SocketAddr, SocketAddr, &str)> {
    let mut words = line.split_whitespace().skip(1);
    Some((end(words.next()?)?, end(words.next()?)?, words.next()?))
}

/// An end such as `0100007F:14B5`: words of the address in the order of this machine's memory.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let address: IpAddr = match address.len() {
        8 => word(0)?.into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn ports_that_cannot_be_used_are_counted() {
        let tcp =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:14B5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:9C40 0100007F:14B5 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 0 10 -1
   2: 0100007F:9C41 0100007F:14B5 06 00000000:00000000 03:000016F4 00000000     0        0 0 3 0
   3: 0100007F:9C42 0100007F:14B6 06 00000000:00000000 03:000016F4 00000000     0        0 0 3 0
   4: 0200007F:9C41 0100007F:14B5 06 00000000:00000000 03:000016F4 00000000     0        0 0 3 0
   5: 0100007F:14B5 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 0 10 -1
   6: 00000000:9C45 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   7: 0100007F:0050 0100007F:14B5 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 0 10 -1
   8: broken
";
        let tcp6 = "
   0: 00000000000000000000000000000000:9C45 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 1
   1: 00000000000000000000000000000000:9C46 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 1
   2: 0000000000000000FFFF00000100007F:9C47 0000000000000000FFFF00000100007F:14B5 01 0:0 0:0 0 0 0 1
   3: B80D0120000000000000000001000000:9C48 B80D0120000000000000000002000000:14B5 06 0:0 0:0 0 0 0 1
";
        let ports = Ports::read("40000\t40063\n", "80,40010-40013,40020\n");
        assert_eq!((ports.count(), Ports::read("", "").count()), (59, 28_232));
        let read = |to: &str, may_reuse| {
            Taken::read(&[tcp.into(), tcp6.into()], &ports, to.parse().unwrap(), may_reuse)
        };
        for (to, source, may_reuse, used, waiting) in [
            ("127.0.0.1:5301", "127.0.0.1", false, 4, 1),
            ("127.0.0.1:5301", "127.0.0.1", true, 4, 0),
            ("127.0.0.1:5301", "127.0.0.2", false, 2, 1),
            ("127.0.0.1:5301", "127.0.0.3", false, 2, 0),
            ("127.0.0.1:5302", "127.0.0.1", false, 2, 1),
            ("[2001:db8::2]:5301", "2001:db8::1", false, 2, 1),
            ("[2001:db8::2%7]:5301", "2001:db8::1", false, 2, 1),
        ] {
            let found = read(to, may_reuse).of(&source.parse().unwrap());
            assert_eq!(found, Use { used, waiting }, "{source} > {to}, {may_reuse}");
        }
    }
}
