//! The walled garden: what subscribers in the state `walled` reach, and what becomes of the rest.
//!
//! ```text
//! from a walled subscriber: portal, permitted networks, name servers (port 53) > goes on
//!                           IPv4, TCP port 80 > the portal in place of the destination, remembered   client > S:80  becomes  client > portal:80
//!                           other TCP         > reset          all else > dropped
//! to it:                    from one of those > goes on
//!                           from portal:80    > S:80 again in place of the portal, for flows that are remembered
//!                           all else          > dropped
//! ```
//! The answer of the portal must seem to come from S, and nothing in it says which S that was, so flows are remembered: a subscriber
//! has a list of its own of at most [`MOST_FLOWS`], of which a new flow replaces the one that was used the longest time ago. So a subscriber
//! can only crowd out itself, no timer is needed, and the list is freed when the subscriber leaves the state. A flow begins with
//! a SYN; a segment of a connection from before is reset, so that the client begins another one at once.
//!
//! Invariant: no two flows of a list have the same end of the client, since the portal could not tell them apart.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use weir_packet::headers::{ACK, SYN, TCP, UDP};

use crate::frame::{Fragment, Frame, Kind};
use crate::icmp;
use crate::prefix::Prefix;
use crate::time::Time;

/// Most redirected flows of a subscriber.
const MOST_FLOWS: usize = 64;
/// A client may begin a flow to another server from the same port when the one before has been idle for so long, or has ended.
const REUSED_AFTER: Duration = Duration::from_secs(10);
/// Most addresses of each kind.
const MOST_ADDRESSES: usize = 16;
const HTTP: u16 = 80;
const DNS: u16 = 53;
const FIN_OR_RST: u8 = 0x05;

/// What walled subscribers reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Garden {
    /// Portals; the first one of IPv4 is that which flows are redirected to.
    pub(crate) portals: Vec<IpAddr>,
    pub(crate) dns: Vec<IpAddr>,
    pub(crate) permitted: Vec<Prefix>,
}

/// What becomes of a packet of a walled subscriber that does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Dropped,
    Reset,
}

/// A redirected flow.
#[derive(Debug, Clone, Copy)]
struct Flow {
    client: u32,
    port: u16,
    /// A FIN or RST was seen.
    is_ending: bool,
    server: u32,
    used: Time,
}

/// The walled garden, and the flows of those in it.
#[derive(Debug, Default)]
pub(super) struct Walled {
    pub(super) garden: Garden,
    /// By the index of the subscriber.
    flows: HashMap<u32, Vec<Flow>>,
}

impl Garden {
    /// Reads what stands behind `walled`: `portal 192.0.2.80 dns 192.0.2.53 permit 192.0.2.0/28`.
    ///
    /// # Errors
    /// What to write.
    pub(crate) fn read(mut words: &[&str]) -> Result<Garden, String> {
        const FORM: &str = "a walled garden is `walled portal 192.0.2.80 dns 192.0.2.53 permit 192.0.2.0/28`";
        let mut garden = Garden::default();
        let address =
            |text: &str| text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no address: {FORM}"));
        while let [what, value, rest @ ..] = words {
            match *what {
                "portal" => garden.portals.push(address(value)?),
                "dns" => garden.dns.push(address(value)?),
                "permit" => {
                    let prefix: Prefix = value.parse()?;
                    if prefix.network() != prefix {
                        return Err(format!(
                            "{prefix} has bits behind its length: write {}",
                            prefix.network()
                        ));
                    }
                    garden.permitted.push(prefix);
                }
                other => return Err(format!("`{other}` is nothing of a walled garden: {FORM}")),
            }
            words = rest;
        }
        if !words.is_empty() || garden.portals.is_empty() {
            return Err(format!("the walled garden has no portal, or a word without an address: {FORM}"));
        }
        if [garden.portals.len(), garden.dns.len(), garden.permitted.len()]
            .into_iter()
            .any(|n| n > MOST_ADDRESSES)
        {
            return Err(format!(
                "a walled garden has at most {MOST_ADDRESSES} addresses of a kind: use `permit` with a network"
            ));
        }
        Ok(garden)
    }

    fn permits(&self, address: IpAddr) -> bool {
        self.portals.contains(&address) || self.permitted.iter().any(|prefix| prefix.contains(address))
    }

    /// Whether a packet goes to a name server, or comes from one, which is at this end of it.
    fn is_dns(&self, server: (IpAddr, u16), frame: &Frame<'_>) -> bool {
        let (address, port) = server;
        let is_port = port == DNS || frame.fragment() == Fragment::Later;
        matches!(frame.proto(), UDP | TCP) && is_port && self.dns.contains(&address)
    }

    fn portal4(&self) -> Option<u32> {
        self.portals.iter().find_map(|portal| match portal {
            IpAddr::V4(portal) => Some(u32::from(*portal)),
            IpAddr::V6(_) => None,
        })
    }
}

/// Source and destination of a packet.
fn ends(frame: &Frame<'_>) -> (IpAddr, IpAddr) {
    match frame.kind() {
        Kind::V4 => {
            let (src, dst) = frame.addresses4();
            (Ipv4Addr::from(src).into(), Ipv4Addr::from(dst).into())
        }
        _ => {
            let (src, dst) = frame.addresses6();
            (IpAddr::from(src.to_be_bytes()), IpAddr::from(dst.to_be_bytes()))
        }
    }
}

/// Whether it is a segment whose ports are known.
fn is_segment4(frame: &Frame<'_>) -> bool {
    frame.kind() == Kind::V4 && frame.proto() == TCP && frame.fragment() == Fragment::Whole
}

impl Walled {
    /// A packet from a walled subscriber; it gets another destination if it is redirected.
    #[cold]
    pub(super) fn take_from(&mut self, now: Time, index: u32, frame: &mut Frame<'_>) -> Result<(), Refused> {
        let ((_, to), (_, port)) = (ends(frame), frame.ports());
        if let Some(portal) = self.garden.portal4().filter(|_| is_segment4(frame) && port == HTTP) {
            let (_, server) = frame.addresses4();
            // One to the portal itself shares its ports with those that are redirected.
            if server == portal || !self.garden.permits(to) {
                self.redirect(now, index, frame)?;
                if server != portal {
                    frame.set_dst4(portal);
                }
                return Ok(());
            }
        }
        match frame.proto() {
            _ if self.garden.permits(to) || self.garden.is_dns((to, port), frame) => Ok(()),
            TCP => Err(Refused::Reset),
            _ => Err(Refused::Dropped),
        }
    }

    /// Remembers the flow of a segment.
    fn redirect(&mut self, now: Time, index: u32, frame: &Frame<'_>) -> Result<(), Refused> {
        let ((client, server), (port, _), flags) = (frame.addresses4(), frame.ports(), frame.tcp_flags());
        let (is_first, is_ending) = (flags & (SYN | ACK) == SYN, flags & FIN_OR_RST != 0);
        let flows = self.flows.entry(index).or_default();
        let new = Flow { client, port, is_ending, server, used: now };
        match flows.iter_mut().find(|flow| (flow.client, flow.port) == (client, port)) {
            Some(flow) if flow.server == server => {
                *flow = Flow { is_ending: is_ending || flow.is_ending && !is_first, ..new };
                Ok(())
            }
            Some(flow) if is_first && (flow.is_ending || now - flow.used >= REUSED_AFTER) => {
                *flow = new;
                Ok(())
            }
            None if is_first => {
                if flows.len() < MOST_FLOWS {
                    flows.push(new);
                } else if let Some(oldest) = flows.iter_mut().min_by_key(|flow| flow.used) {
                    *oldest = new;
                }
                Ok(())
            }
            Some(_) | None => Err(Refused::Reset),
        }
    }

    /// A packet to a walled subscriber; it gets the source back that the client has asked.
    #[cold]
    pub(super) fn send_to(&mut self, now: Time, index: u32, frame: &mut Frame<'_>) -> Result<(), Refused> {
        let ((from, _), (port, _)) = (ends(frame), frame.ports());
        if self.garden.permits(from) {
            self.restore_source(now, index, frame);
            return Ok(());
        }
        let about = icmp::quoted4(frame).filter(|_| frame.kind() == Kind::V4);
        let is_about = about.is_some_and(|(_, to)| self.garden.permits(Ipv4Addr::from(to).into()));
        if is_about || self.garden.is_dns((from, port), frame) { Ok(()) } else { Err(Refused::Dropped) }
    }

    fn restore_source(&mut self, now: Time, index: u32, frame: &mut Frame<'_>) {
        if !is_segment4(frame) || self.garden.portal4() != Some(frame.addresses4().0) {
            return;
        }
        let ((_, client), (port, to_port), flags) = (frame.addresses4(), frame.ports(), frame.tcp_flags());
        let flows = self.flows.get_mut(&index).filter(|_| port == HTTP);
        let is_it = |flow: &&mut Flow| (flow.client, flow.port) == (client, to_port);
        let Some(flow) = flows.and_then(|flows| flows.iter_mut().find(is_it)) else { return };
        (flow.used, flow.is_ending) = (now, flow.is_ending || flags & FIN_OR_RST != 0);
        frame.set_src4(flow.server);
    }

    /// The subscriber of this index is walled no more.
    pub(super) fn forget(&mut self, index: u32) {
        self.flows.remove(&index);
    }

    /// Memory of the flows, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.flows.values().map(|flows| flows.capacity() * size_of::<Flow>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::scenario::packet;

    const SECOND: u64 = 1000;

    fn walled() -> Walled {
        let words = "portal 192.0.2.80 dns 192.0.2.53".split(' ').collect::<Vec<_>>();
        Walled { garden: Garden::read(&words).expect("a garden"), ..Walled::default() }
    }

    /// What becomes of a packet, and its ends afterwards.
    fn from(walled: &mut Walled, ms: u64, line: &str) -> Result<u32, Refused> {
        let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &packet(line).expect("a packet")].concat();
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        walled.take_from(Time::from_ms(ms), 1, &mut frame).map(|()| frame.addresses4().1)
    }

    #[test]
    fn a_flow_begins_with_a_syn_and_has_its_port_alone() {
        let mut walled = walled();
        let portal = Ok(0xc000_0250);
        let (one, other) = ("tcp 100.64.0.2:7 > 198.51.100.1:80", "tcp 100.64.0.2:7 > 198.51.100.2:80");
        for (ms, line, flags, expected) in [
            (0, one, "A", Err(Refused::Reset)),
            (1, one, "S", portal),
            (2, one, "A", portal),
            (3, other, "S", Err(Refused::Reset)),
            (4, one, "FA", portal),
            (5, one, "A", portal),
            (6, other, "S", portal),
            (7, one, "A", Err(Refused::Reset)),
            (8 + 9 * SECOND, one, "S", Err(Refused::Reset)),
            (7 + 10 * SECOND, one, "S", portal),
        ] {
            assert_eq!(
                from(&mut walled, ms, &format!("{line} {flags}")),
                expected,
                "{ms} ms: {line} {flags}"
            );
        }
    }

    #[test]
    fn a_subscriber_crowds_out_itself_alone() {
        let mut walled = walled();
        for port in 0..MOST_FLOWS as u64 + 1 {
            let line = format!("tcp 100.64.0.2:{port} > 198.51.100.1:80");
            assert!(from(&mut walled, port, &format!("{line} S")).is_ok());
            assert!(from(&mut walled, port, &format!("{line} A")).is_ok());
        }
        assert_eq!(walled.flows.get(&1).map(Vec::len), Some(MOST_FLOWS));
        assert!(from(&mut walled, SECOND, "tcp 100.64.0.2:0 > 198.51.100.1:80 A").is_err(), "the oldest");
        assert!(from(&mut walled, SECOND, "tcp 100.64.0.2:1 > 198.51.100.1:80 A").is_ok());
        walled.forget(1);
        assert_eq!(walled.bytes(), 0);
    }
}
