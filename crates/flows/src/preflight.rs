//! What is looked at before flows are made: descriptors, ports, backlog, memory of sockets.

use std::fs::read_to_string;
use std::net::IpAddr;

use crate::FlowsError;
use crate::sys::raise_descriptors;

/// Descriptors beside those of flows.
const OTHERS: u64 = 64;

/// Limits of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Descriptors of this process.
    pub descriptors: u64,
    /// Ports that the kernel chooses from for outgoing connections.
    pub ports: u64,
    /// Connections that wait to be accepted at one socket.
    pub backlog: u32,
    /// Bytes that a socket may keep to send, as the kernel grows it.
    pub send_buffer: u64,
    /// Bytes that a socket may keep to be read, as the kernel grows it.
    pub receive_buffer: u64,
}

impl Limits {
    /// Those of this machine, and of the network namespace of the calling thread.
    pub fn here() -> Limits {
        let numbers = |name: &str| -> Vec<u64> {
            let text = read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default();
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let ports = match numbers("ipv4/ip_local_port_range")[..] {
            [first, last] => last.saturating_sub(first) + 1,
            _ => 28_232,
        };
        let third = |name: &str| numbers(name).get(2).copied().unwrap_or(u64::MAX);
        Limits {
            descriptors: raise_descriptors(),
            ports,
            backlog: numbers("core/somaxconn").first().map_or(128, |&most| most.min(65_535) as u32),
            send_buffer: third("ipv4/tcp_wmem"),
            receive_buffer: third("ipv4/tcp_rmem"),
        }
    }
}

/// Whether so many flows from each of these addresses are possible. `bdp` is the bandwidth-delay product that a flow is to fill, in
/// bytes, if it is known: notes say what is too small for it.
///
/// # Errors
/// A limit that makes it impossible; the text says what to do.
pub fn check(
    limits: &Limits,
    sources: &[(Option<IpAddr>, u64)],
    bdp: Option<u64>,
) -> Result<Vec<String>, FlowsError> {
    let flows: u64 = sources.iter().map(|(_, flows)| flows).sum();
    let limit = |text: String| Err(FlowsError::Limit(text));
    if flows + OTHERS > limits.descriptors {
        return limit(format!(
            "{flows} flows need {} descriptors, and this process may have {}: `ulimit -Hn {}` as root, then again",
            flows + OTHERS,
            limits.descriptors,
            (flows + OTHERS).next_power_of_two()
        ));
    }
    if let Some((source, flows)) = sources.iter().find(|(_, flows)| *flows > limits.ports) {
        let source = source.map_or("one address".into(), |source| source.to_string());
        return limit(format!(
            "{flows} flows from {source} need as many ports, and net.ipv4.ip_local_port_range has {}: use several addresses \
             (--group from=ADDRESS), or `sysctl net.ipv4.ip_local_port_range='1024 65535'`",
            limits.ports
        ));
    }
    let mut notes = Vec::new();
    for (name, bytes) in [("tcp_wmem", limits.send_buffer), ("tcp_rmem", limits.receive_buffer)] {
        if let Some(bdp) = bdp.filter(|bdp| *bdp > bytes / 2) {
            notes.push(format!(
                "a socket may have {bytes} bytes (net.ipv4.{name}), of which the kernel uses half for content: less than the \
                 bandwidth-delay product of {bdp} bytes, so that this is the limit of a single flow"
            ));
        }
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_with_a_remedy() {
        let limits = Limits {
            descriptors: 1024,
            ports: 500,
            backlog: 128,
            send_buffer: 4 << 20,
            receive_buffer: 6 << 20,
        };
        let from = |address: &str, flows| (Some(address.parse().unwrap()), flows);
        for (sources, bdp, expected) in [
            (vec![(None, 100)], None, Ok(0)),
            (vec![(None, 100)], Some(3 << 20), Ok(1)),
            (vec![(None, 100)], Some(4 << 20), Ok(2)),
            (vec![(None, 961)], None, Err("need 1025 descriptors")),
            (vec![(None, 501)], None, Err("501 flows from one address need as many ports")),
            (vec![from("192.0.2.1", 400), from("192.0.2.2", 400)], None, Ok(0)),
        ] {
            let found = check(&limits, &sources, bdp);
            match expected {
                Ok(notes) => assert_eq!(found.unwrap().len(), notes, "{sources:?} {bdp:?}"),
                Err(text) => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains(text), "{error}");
                }
            }
        }
        let here = Limits::here();
        assert!(here.descriptors > 0 && here.ports > 1 && here.backlog > 0, "{here:?}");
    }
}
