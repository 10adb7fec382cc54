//! Checks before flows are created: descriptors, ports, backlog, memory of sockets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::FlowsError;
use crate::ports::{Ports, Taken};
use crate::sys::{raise_descriptors, setting};

/// Descriptors beside those of flows.
const OTHERS: u64 = 64;

/// Limits of a machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limits {
    /// Descriptors of this process.
    pub(crate) descriptors: u64,
    /// Ports that the kernel chooses from for outgoing connections.
    pub(crate) ports: Ports,
    /// Connections that wait to be accepted at one socket.
    pub(crate) backlog: u32,
    /// Bytes that a socket may keep to send, as the kernel grows it.
    send_buffer: u64,
    /// Bytes that a socket may keep to be read, as the kernel grows it.
    pub(crate) receive_buffer: u64,
}

impl Limits {
    /// Those of this machine, and of the network namespace of the calling thread.
    pub(crate) fn here() -> Limits {
        let number = |name: &str, at: usize| setting(name).split_whitespace().nth(at)?.parse::<u64>().ok();
        let third = |name: &str| number(name, 2).unwrap_or(u64::MAX);
        Limits {
            descriptors: raise_descriptors(),
            ports: Ports::here(),
            backlog: number("core/somaxconn", 0).map_or(128, |most| most.min(65_535) as u32),
            send_buffer: third("ipv4/tcp_wmem"),
            receive_buffer: third("ipv4/tcp_rmem"),
        }
    }

    /// Whether there can be so many connections from each address, of which these have taken ports already.
    ///
    /// # Errors
    /// A limit that makes it impossible; the text says what to do.
    pub(crate) fn allow(&self, connections: &BTreeMap<IpAddr, u64>, taken: &Taken) -> Result<(), FlowsError> {
        let limit = |text: String| Err(FlowsError::Limit(text));
        // All but the one that controls the test.
        let flows = connections.values().sum::<u64>().saturating_sub(1);
        let all = flows + OTHERS;
        if all > self.descriptors {
            return limit(format!(
                "{flows} flows need {all} descriptors, but this process may have {}: `ulimit -Hn {}` as root, then try again",
                self.descriptors,
                all.next_power_of_two()
            ));
        }
        let free = |source: &IpAddr| self.ports.count().saturating_sub(taken.of(source).all());
        if let Some((source, needed)) = connections.iter().find(|(source, needed)| **needed > free(source)) {
            let taken = taken.of(source);
            let waiting = match taken.waiting {
                0 => String::new(),
                waiting => format!(
                    ", and {waiting} wait for old segments of former connections (TIME_WAIT), for a minute: wait for them, end flows by \
                     --reset"
                ),
            };
            let remedy = if taken.waiting > 0 { ", " } else { ": " };
            return limit(format!(
                "{needed} connections from {source} need as many ports, and net.ipv4.ip_local_port_range has {}, of which {} are in \
                 use{waiting}{remedy}use several addresses (--group from=ADDRESS), or `sysctl \
                 net.ipv4.ip_local_port_range='1024 65535'`",
                self.ports.count(),
                taken.used,
            ));
        }
        Ok(())
    }

    /// What is too small for a flow that is to fill this bandwidth-delay product, in bytes.
    pub(crate) fn notes(&self, bdp: u64) -> Vec<String> {
        let buffers = [("tcp_wmem", self.send_buffer), ("tcp_rmem", self.receive_buffer)];
        let too_small = buffers.into_iter().filter(|(_, bytes)| bdp > bytes / 2);
        let note = |(name, bytes)| {
            format!(
                "a socket may have {bytes} bytes (net.ipv4.{name}), half of it for data: less than the bandwidth-delay product \
                 of {bdp} bytes, which limits a single flow"
            )
        };
        too_small.map(note).collect()
    }
}

/// Connections to `to` by the addresses that they come from, with the one that controls the test.
pub(crate) fn connections(to: SocketAddr, groups: &[(Option<IpAddr>, u64)]) -> BTreeMap<IpAddr, u64> {
    // Nothing is sent: the kernel only says which address it would take.
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let own = || {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    // Where no route leads, connecting says so.
    let own = own().unwrap_or(any);
    let mut all = BTreeMap::from([(own, 1)]);
    for (from, flows) in groups {
        *all.entry(from.unwrap_or(own)).or_default() += flows;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            descriptors: 1024,
            ports: Ports::read("1000 1499", ""),
            backlog: 128,
            send_buffer: 4 << 20,
            receive_buffer: 6 << 20,
        }
    }

    #[test]
    fn limits_are_named_with_a_remedy() {
        let from = |address: &str, flows| (Some(address.parse().unwrap()), flows);
        let to = "127.0.0.1:5301".parse().unwrap();
        let mut taken = Taken::default();
        taken.add("127.0.0.1".parse().unwrap(), 10, 0);
        taken.add("192.0.2.3".parse().unwrap(), 10, 80);
        for (groups, wrong) in [
            (vec![(None, 100)], None),
            (vec![(None, 489)], None),
            (vec![(None, 961)], Some("961 flows need 1025 descriptors")),
            (
                vec![(None, 490)],
                Some(
                    "491 connections from 127.0.0.1 need as many ports, and net.ipv4.ip_local_port_range has 500, of which 10 are in use: \
                     use several",
                ),
            ),
            (vec![(None, 245), (None, 245)], Some("491 connections from 127.0.0.1")),
            (vec![from("127.0.0.1", 245), (None, 245)], Some("491 connections from 127.0.0.1")),
            (vec![from("192.0.2.1", 400), from("192.0.2.2", 400)], None),
            (vec![from("192.0.2.3", 410)], None),
            (
                vec![from("192.0.2.3", 411)],
                Some(
                    "of which 10 are in use, and 80 wait for old segments of former connections (TIME_WAIT), for a minute: wait",
                ),
            ),
        ] {
            let found = limits().allow(&connections(to, &groups), &taken).map_err(|error| error.to_string());
            match wrong {
                None => assert_eq!(found, Ok(()), "{groups:?}"),
                Some(wrong) => assert!(found.as_ref().is_err_and(|error| error.contains(wrong)), "{found:?}"),
            }
        }
        let here = Limits::here();
        assert!(here.descriptors > 0 && here.ports.count() > 1 && here.backlog > 0, "{here:?}");
    }

    #[test]
    fn memory_of_sockets_is_compared_with_the_product() {
        assert_eq!([2 << 20, 3 << 20, 4 << 20].map(|bdp| limits().notes(bdp).len()), [0, 1, 2]);
    }
}
