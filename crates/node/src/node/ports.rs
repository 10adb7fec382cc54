//! Ports that come, change and go while a node runs: what differs between two texts, and opening what comes.
//!
//! ```text
//! text > arrange: numbers, Ethernet addresses > check > open (calling thread) > parts of each thread, taken between two batches
//! ```
//! Invariant: nothing has changed until all ports that come are open. Sockets are opened and closed by the calling thread.

use weir_packet::frame::Mac;
use weir_plane::{Port as TextPort, PortId, TagSet};
use weir_port::descriptors::make_room;
use weir_port::duplex::{Choice, PacketOptions, Port, ReceiveMode, Tags};

use super::{NodeError, thread_error};
use crate::backend::{Backend, OpenError, Wanted};
use crate::config::{Config, Host};
use crate::offload;
use crate::running_config::RunningConfig;
use crate::worker::{PortParts, Recipient};

/// Ethernet header with two tags, and a header of PPPoE with the protocol of PPP.
pub(crate) const ETHERNET: usize = 30;

/// The tags of a port's frames, for the filter of its socket.
fn tags_of(port: &TextPort) -> Tags {
    let vids = |vids: weir_plane::Vids| (vids.first..=vids.last).into();
    let TagSet { outer, inner, untagged } = port.vlan;
    Tags { outer: outer.map(vids), inner: inner.map(vids), untagged }
}

/// The frames that a port takes from its interface: a bump in the wire takes what is for others, and an interface that has other
/// ports as well tells them apart by tags.
pub(crate) fn choice(config: &weir_plane::Config, backends: &[Option<Backend>], n: usize) -> Choice {
    let (port, backend) = (&config.ports[n], &backends[n]);
    let takes_all =
        port.addresses.is_empty() && matches!(backend, Some(Backend::Xdp(_) | Backend::Packet(_)));
    let shares_interface = backends.iter().filter(|other| *other == backend).count() > 1;
    Choice {
        mode: if takes_all { ReceiveMode::Promiscuous } else { ReceiveMode::Own },
        tags: shares_interface.then(|| tags_of(port)),
    }
}

/// Ports that have rings in memory.
pub(crate) fn rings(backends: &[Option<Backend>]) -> usize {
    backends.iter().filter(|backend| matches!(backend, Some(Backend::Packet(_)))).count()
}

/// A text with the numbers of the node that runs, and what differs.
pub(crate) struct Arranged {
    pub(crate) plane: weir_plane::Config,
    pub(crate) backends: Vec<Option<Backend>>,
    pub(crate) own_macs: Vec<Option<Mac>>,
    /// Ports that come.
    pub(crate) new: Vec<usize>,
    /// Ports that go.
    pub(crate) gone: Vec<usize>,
    /// Ports that stay and take other frames from their interfaces.
    pub(crate) choices: Vec<PortChoice>,
}

/// A port that takes other frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortChoice {
    pub(crate) number: usize,
    pub(crate) before: Choice,
    pub(crate) now: Choice,
}

impl Arranged {
    /// The text with the numbers of the node that runs.
    ///
    /// # Errors
    /// What of it takes a restart.
    pub(crate) fn new(running: &RunningConfig, config: &Config) -> Result<Arranged, String> {
        let threads = running.settings.threads.len() as u8;
        let mut plane = config.plane.clone().instead_of(&running.config, threads)?;
        plane.may_share(threads)?;
        let places = config.plane.ports.iter().zip(&config.backends);
        let backend = |port: &TextPort| {
            let of_port = places.clone().find(|(other, _)| port.is_present() && other.name == port.name);
            of_port.map(|(_, backend)| backend.clone())
        };
        let backends: Vec<Option<Backend>> = plane.ports.iter().map(backend).collect();
        let is_there = |n: usize| running.config.ports.get(n).is_some_and(TextPort::is_present);
        let (mut new, mut gone, mut own_macs) = (Vec::new(), Vec::new(), vec![None; plane.ports.len()]);
        for (n, port) in plane.ports.iter_mut().enumerate() {
            match (&backends[n], is_there(n)) {
                (None, true) => gone.push(n),
                (None, false) => {}
                (Some(_), false) => new.push(n),
                (Some(backend), true) => {
                    let before = running.backends[n].as_ref();
                    if before != Some(backend) {
                        let before = before.map(Backend::to_string).unwrap_or_default();
                        return Err(restart(&format!(
                            "port `{}` on {backend}, which is on {before}",
                            port.name
                        )));
                    }
                }
            }
            if let (Some(backend), None) = (&backends[n], port.mac) {
                let known = running.own_macs.get(n).copied().flatten().filter(|_| is_there(n));
                let mac = known.map_or_else(|| backend.mac(n), Ok);
                let mac = mac.map_err(|source| format!("port {}: {source}", port.name))?;
                (own_macs[n], port.mac) = (Some(mac), Some(mac));
            }
        }
        let mut arranged = Arranged { plane, backends, own_macs, new, gone, choices: Vec::new() };
        arranged.check(running)?;
        arranged.choices = arranged.choices(running);
        Ok(arranged)
    }

    /// Whether any port differs but for neighbours.
    fn has_other_ports(&self, running: &RunningConfig) -> bool {
        !self.new.is_empty() || !self.gone.is_empty() || self.plane.order != running.config.order
    }

    /// What of it takes a restart.
    fn check(&self, running: &RunningConfig) -> Result<(), String> {
        if running.is_fast && self.has_other_ports(running) {
            return Err(restart("other ports of a node with a fast path"));
        }
        for (n, port) in self.plane.ports.iter().enumerate().filter(|(_, port)| port.is_present()) {
            let before = running.config.ports.get(n).filter(|before| before.is_present());
            self.check_port(running, before, port)?;
            Arranged::check_tags(before, port, &self.backends[n])?;
        }
        for port in self.gone.iter().map(|&n| &running.config.ports[n]) {
            if let Some(tap) = &port.tap {
                return Err(restart(&format!(
                    "a node without `{}`, which has the TAP device {tap}",
                    port.name
                )));
            }
        }
        self.check_host(running)
    }

    fn check_port(
        &self,
        running: &RunningConfig,
        before: Option<&TextPort>,
        port: &TextPort,
    ) -> Result<(), String> {
        let name = &port.name;
        if ETHERNET + usize::from(port.mtu) > running.longest {
            let most = running.longest - ETHERNET;
            return Err(restart(&format!(
                "mtu {} of `{name}`, since frames have memory for {most} bytes",
                port.mtu
            )));
        }
        let tap = before.and_then(|before| before.tap.as_ref());
        if port.tap.as_ref() != tap {
            return Err(restart(&format!("another `host tap` of `{name}`")));
        }
        let has_tap = port.tap.is_some() || matches!(running.settings.host, Host::Tap(_));
        let is_other = |before: &TextPort| (before.mac, before.mtu) != (port.mac, port.mtu);
        if has_tap && before.is_some_and(is_other) {
            return Err(restart(&format!("another mac or mtu of `{name}`, whose TAP device has them")));
        }
        if running.is_fast && before.is_some_and(|before| before.mac != port.mac || before.vlan != port.vlan)
        {
            return Err(restart(&format!("another mac or vlan of `{name}` in a node with a fast path")));
        }
        Ok(())
    }

    /// An AF_XDP port gets its first tags: its interface must show them. Where tags were there from the start, the node has seen to that.
    fn check_tags(
        before: Option<&TextPort>,
        port: &TextPort,
        backend: &Option<Backend>,
    ) -> Result<(), String> {
        let begins = before.is_none_or(|before| before.vlan.is_plain()) && !port.vlan.is_plain();
        match backend {
            Some(Backend::Xdp(interface)) if begins => match offload::obstacle_at(interface) {
                Some(obstacle) => Err(format!("port `{}`: {obstacle}", port.name)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The TAP device of all ports without one has the address of one of them.
    fn check_host(&self, running: &RunningConfig) -> Result<(), String> {
        let owner = |config: &weir_plane::Config| {
            config.ports.iter().position(|port| port.is_present() && port.tap.is_none())
        };
        let (Host::Tap(tap), Some(before)) = (&running.settings.host, owner(&running.config)) else {
            return Ok(());
        };
        if self.gone.contains(&before) {
            let name = &running.config.ports[before].name;
            return Err(restart(&format!("a node without `{name}`, whose address the TAP device {tap} has")));
        }
        Ok(())
    }

    /// Ports that stay and take other frames from their interfaces.
    fn choices(&self, running: &RunningConfig) -> Vec<PortChoice> {
        let stays = (0..running.config.ports.len())
            .filter(|&n| running.backends[n].is_some() && self.backends[n].is_some());
        let choices = stays.map(|number| PortChoice {
            number,
            before: choice(&running.config, &running.backends, number),
            now: choice(&self.plane, &self.backends, number),
        });
        choices.filter(|choice| choice.before != choice.now).collect()
    }

    /// Opens the ports that come, in the calling thread's network namespace: for each thread its part.
    ///
    /// # Errors
    /// A port that cannot be opened; the others are closed again.
    pub(crate) fn open(&self, running: &RunningConfig) -> Result<Vec<Vec<Box<dyn Port>>>, NodeError> {
        let threads = running.settings.threads.len();
        let descriptors: u64 = self.backends.iter().flatten().map(Backend::descriptors).sum();
        make_room(descriptors * threads as u64).map_err(thread_error("opening so many ports"))?;
        let open = |&n: &usize| {
            let Choice { mode, tags } = choice(&self.plane, &self.backends, n);
            let rings = rings(&self.backends) * threads;
            let packet = PacketOptions { longest: running.longest, mode, tags, rings };
            let wanted = Wanted { packet, spread: self.plane.spread(n), fast: None };
            let backend = self.backends[n].as_ref().expect("it is one of the text");
            backend.open_again(&running.umems, wanted).map_err(|source| self.refused(n, source))
        };
        self.new.iter().map(open).collect()
    }

    fn refused(&self, n: usize, source: OpenError) -> NodeError {
        NodeError::Open { port: self.plane.ports[n].name.clone(), source }
    }

    /// What each thread gets; `opened` are the parts of the ports that come.
    pub(crate) fn parts(&self, running: &RunningConfig, opened: Vec<Vec<Box<dyn Port>>>) -> Vec<PortParts> {
        let longest = |port: &TextPort| if port.is_present() { 14 + usize::from(port.mtu) } else { 0 };
        let part = |_| PortParts {
            new: Vec::new(),
            gone: self.gone.clone(),
            machine: self.machine(running),
            longest: self.plane.ports.iter().map(longest).collect(),
        };
        let mut parts: Vec<PortParts> = (0..running.settings.threads.len()).map(part).collect();
        for (&n, of_threads) in self.new.iter().zip(opened) {
            parts.iter_mut().zip(of_threads).for_each(|(part, port)| part.new.push((n, port)));
        }
        parts
    }

    /// Who gets the frames for the node itself of each port. The TAP devices are those of the start, in their order.
    fn machine(&self, running: &RunningConfig) -> Vec<(Recipient, Vec<[u8; 4]>)> {
        let own = |n: usize| self.plane.ports[..n].iter().filter(|port| port.tap.is_some()).count();
        let recipient = |(n, port): (usize, &TextPort)| {
            let recipient = match (&port.tap, &running.settings.host) {
                (Some(_), _) => Recipient::Tap(own(n)),
                (None, Host::Tap(_)) => Recipient::Tap(own(self.plane.ports.len())),
                (None, Host::Kernel) => Recipient::Kernel,
                (None, Host::None) => Recipient::None,
            };
            (recipient, port.tags())
        };
        self.plane.ports.iter().enumerate().map(recipient).collect()
    }
}

/// What a node that runs does not become.
fn restart(what: &str) -> String {
    format!("{what}: this takes a restart of the node")
}

/// The number of a port, as its place.
pub(crate) fn numbers(places: &[usize]) -> impl Iterator<Item = PortId> {
    places.iter().map(|&n| PortId(n as u16))
}
