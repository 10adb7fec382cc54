//! A device under test that is a machine of its own, between interfaces of this one.
//!
//! ```text
//!  this machine: eth1 198.18.1.2 --- 198.18.1.1 [ the box ] 198.19.1.1 --- 198.19.1.2 eth2
//!                     \______________ ssh: set-up, reset, counters, memory ______________/
//! ```
//! The interfaces keep their addresses, or none: what the tester needs to be on the link, answers about its gateway
//! addresses, is given by [`neighbours`] while the bed stands. Nothing on them is changed for good: sockets and
//! programs vanish with the process, whatever ends it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use weir_packet::flow::IpVersion;
use weir_packet::neighbour::Host;

use crate::bed::Port;
use crate::counters::{Device, read_device};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::rtnl::{Mac, Rtnl};
use crate::topology::Side;

pub mod hooks;
mod neighbours;

use hooks::Ssh;
use neighbours::Responder;

/// Where the box is and how it is talked to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExternalSpec {
    /// Interfaces of this machine towards side a and side b of the box; one if frames come back where they went in.
    pub ports: Vec<String>,
    /// Addresses of the box on both sides; `None`: see [`Side::dut`].
    pub box_ip: Option<[IpAddr; 2]>,
    /// Addresses of the tester on both sides, the gateways of the box; `None`: see [`Side::tester`].
    pub tester_ip: Option<[IpAddr; 2]>,
    /// Ethernet addresses of the box on both sides; `None`: it is asked.
    pub mac: Option<[Mac; 2]>,
    /// How its shell is reached.
    pub ssh: Option<Ssh>,
    /// Makes it what it is to be; run before each point.
    pub setup: Option<String>,
    /// Standard input of that command.
    pub setup_input: Option<PathBuf>,
    /// Forgets flows; run before each search.
    pub reset: Option<String>,
    /// Prints counters as lines `NAME NUMBER`.
    pub counters: Option<String>,
    /// Prints memory in use as lines `NAME BYTES`.
    pub memory: Option<String>,
    /// Which of the counters count frames that the box has dropped.
    pub drops: Vec<String>,
    /// Whether an interface may be used that the default route goes through.
    pub allow_default_route: bool,
}

impl ExternalSpec {
    /// Does the box send frames back where they came in?
    pub fn is_hairpin(&self) -> bool {
        self.ports.len() == 1
    }

    /// Address of the box on a side.
    fn box_ip(&self, side: Side, ip: IpVersion) -> IpAddr {
        self.box_ip.map_or_else(|| side.dut(ip), |both| both[side as usize])
    }

    fn tester_ip(&self, side: Side, ip: IpVersion) -> IpAddr {
        self.tester_ip.map_or_else(|| side.tester(ip), |both| both[side as usize])
    }
}

/// A box that is ready for trials.
pub struct External {
    spec: ExternalSpec,
    ports: [Port; 2],
    idle: Namespace,
    _responder: Responder,
}

/// What the interfaces, and the box where it is asked, have counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// Each interface once, in the order of the sides.
    pub nics: Vec<(String, Device)>,
    /// Counters of the box by name.
    pub counters: BTreeMap<String, i64>,
    /// Memory of the box by name, bytes.
    pub memory: BTreeMap<String, i64>,
}

impl External {
    /// Sets the box up, answers for the tester's addresses, and finds out how to reach the box. `here` is the
    /// namespace of the interfaces.
    pub(crate) fn open(spec: &ExternalSpec, ip: IpVersion, here: &Namespace) -> Result<External> {
        let mut ports = here.run(|| ports(spec, here))?;
        // In mind of a box that asks as soon as it is up.
        let answers = [Side::A, Side::B].map(|side| {
            let port = &ports[if spec.is_hairpin() { 0 } else { side as usize }];
            (port.ifindex, Host { mac: port.mac, ip: spec.tester_ip(side, ip) })
        });
        let responder = Responder::start(here, &answers)?;
        if let Some(command) = &spec.setup {
            let input = spec.setup_input.as_ref().map(|path| {
                std::fs::read_to_string(path).map_err(Error::os(format!("read {}", path.display())))
            });
            spec.ask("setup", command, input.transpose()?.as_deref())?;
        }
        for side in [Side::A, Side::B] {
            let known = spec.mac.map(|mac| mac[side as usize]);
            let (ifindex, from) = answers[side as usize];
            let mac = match known {
                Some(mac) => mac,
                None => here.run(|| neighbours::resolve(ifindex, from, spec.box_ip(side, ip)))?,
            };
            ports[side as usize].next_hop_mac = mac;
        }
        let external = External { spec: spec.clone(), ports, idle: Namespace::new()?, _responder: responder };
        external.reset()?;
        Ok(external)
    }

    /// The tester's ports. With one interface the second one has the index 0, which is none.
    pub fn ports(&self) -> [Port; 2] {
        self.ports.clone()
    }

    /// What was asked for.
    pub fn spec(&self) -> &ExternalSpec {
        &self.spec
    }

    /// A namespace without traffic, for what needs an idle loopback interface.
    pub fn idle(&self) -> &Namespace {
        &self.idle
    }

    /// Lets the box forget its flows.
    pub(crate) fn reset(&self) -> Result<()> {
        let Some(command) = &self.spec.reset else { return Ok(()) };
        self.spec.ask("reset", command, None).map(drop)
    }

    /// Reads all counters.
    pub(crate) fn sample(&self, here: &Namespace) -> Result<Sample> {
        let nics = here.run(|| {
            let read = |name: &String| Ok((name.clone(), read_device(name)?));
            self.spec.ports.iter().map(read).collect::<Result<_>>()
        })?;
        let numbers = |hook: &str, command: &Option<String>| match command {
            Some(command) => hooks::numbers(hook, &self.spec.ask(hook, command, None)?),
            None => Ok(BTreeMap::new()),
        };
        Ok(Sample {
            nics,
            counters: numbers("counters", &self.spec.counters)?,
            memory: numbers("memory", &self.spec.memory)?,
        })
    }
}

impl ExternalSpec {
    fn ask(&self, hook: &str, command: &str, input: Option<&str>) -> Result<String> {
        self.ssh.as_ref().expect("a plan with hooks names the box").run(hook, command, input)
    }
}

impl Sample {
    /// What was counted since `earlier`; memory is a state and stays.
    pub fn since(&self, earlier: &Sample) -> Sample {
        let mut delta = self.clone();
        for ((_, now), (_, before)) in delta.nics.iter_mut().zip(&earlier.nics) {
            now.subtract(before);
        }
        for (name, now) in &mut delta.counters {
            *now -= earlier.counters.get(name).unwrap_or(&0);
        }
        delta
    }
}

fn ports(spec: &ExternalSpec, here: &Namespace) -> Result<[Port; 2]> {
    let mut rtnl = Rtnl::open()?;
    let mut port = |name: &str| -> Result<Port> {
        let link = rtnl.link(name)?;
        Ok(Port {
            ifname: link.name,
            ifindex: link.ifindex,
            mac: link.mac,
            next_hop_mac: [0; 6],
            namespace: here.clone(),
        })
    };
    let first = port(&spec.ports[0])?;
    let second = match spec.ports.get(1) {
        Some(name) => port(name)?,
        None => Port { ifindex: 0, ..first.clone() },
    };
    Ok([first, second])
}
