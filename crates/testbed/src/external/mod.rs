//! An external DUT: another machine, between interfaces of this one.
//!
//! ```text
//!  this machine: eth1 198.18.1.2 --- 198.18.1.1 [ the box ] 198.19.1.1 --- 198.19.1.2 eth2
//!                     \______________ ssh: set-up, reset, counters, memory ______________/
//! ```
//! The interfaces keep their addresses, or none: what the tester needs to be on the link, answers about its gateway
//! addresses, is given by [`neighbours`] while the bed stands. Nothing on them is changed for good: sockets and
//! programs vanish with the process, whatever ends it. That of side b may be on another host, see [`PortEnd`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use weir_agent::ssh::Ssh;
use weir_packet::flow::IpVersion;

use crate::error::{Error, Result};
use crate::interface::{Device, Port};
use crate::topology::Side;
use device::{Device as DeviceAgent, Reading};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Mac;

pub(crate) mod device;
mod end;
mod hooks;
mod neighbours;

pub use device::{CPU_NS, DeviceSpec};
pub use end::{NearEnd, PortEnd};

/// Where the box is and how it is talked to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExternalSpec {
    /// Interfaces of this machine towards side a and side b of the box; one if frames come back where they went in, or
    /// if the other one is far.
    pub ports: Vec<String>,
    /// The interface towards side b, if it is on another host.
    pub remote: Option<RemoteSpec>,
    /// Addresses of the box on both sides; `None`: see [`Side::dut`].
    pub box_ip: Option<[IpAddr; 2]>,
    /// Addresses of the tester on both sides, the gateways of the box; `None`: see [`Side::tester`].
    pub tester_ip: Option<[IpAddr; 2]>,
    /// Ethernet addresses of the box on both sides; `None`: it is asked.
    pub mac: Option<[Mac; 2]>,
    /// weir on the device: it does what the commands below do otherwise.
    pub device: Option<DeviceSpec>,
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

/// An interface of another host.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteSpec {
    /// How that host is reached.
    pub ssh: Ssh,
    /// How its shell starts weir.
    pub weir: String,
    /// Name of the interface there.
    pub port: String,
}

impl ExternalSpec {
    /// Does the box send frames back where they came in?
    pub fn is_hairpin(&self) -> bool {
        self.ports.len() == 1 && self.remote.is_none()
    }

    /// Address of the box on a side.
    fn box_ip(&self, side: Side, ip: IpVersion) -> IpAddr {
        self.box_ip.map_or_else(|| side.dut(ip), |both| both[side as usize])
    }

    /// Address of the tester on a side.
    pub fn tester_ip(&self, side: Side, ip: IpVersion) -> IpAddr {
        self.tester_ip.map_or_else(|| side.tester(ip), |both| both[side as usize])
    }
}

/// A box that is ready for trials.
pub struct External {
    spec: ExternalSpec,
    /// In the order of the sides; one if frames come back on it.
    ends: Vec<Arc<dyn PortEnd>>,
    ports: [Port; 2],
    idle: Namespace,
    /// The agent of the device, if it has one.
    device: Option<DeviceAgent>,
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
    /// namespace of the interfaces; `remote` is the end on side b, if it is on another host.
    pub(crate) fn open(
        spec: &ExternalSpec,
        ip: IpVersion,
        here: &Namespace,
        remote: Option<Arc<dyn PortEnd>>,
    ) -> Result<External> {
        let mut ends = Vec::new();
        for (side, name) in [Side::A, Side::B].into_iter().zip(&spec.ports) {
            let both = [Side::A, Side::B].map(|side| spec.tester_ip(side, ip));
            let answers = if spec.is_hairpin() { &both[..] } else { &both[side as usize..][..1] };
            // In mind of a box that asks as soon as it is up.
            ends.push(Arc::new(NearEnd::open(name, answers, here)?) as Arc<dyn PortEnd>);
        }
        ends.extend(remote);
        if let Some(command) = &spec.setup {
            let input = spec.setup_input.as_ref().map(|path| {
                std::fs::read_to_string(path).map_err(Error::os(format!("read {}", path.display())))
            });
            spec.ask("setup", command, input.transpose()?.as_deref())?;
        }
        let device = spec.device.as_ref().map(|device| DeviceAgent::open(device, ip)).transpose()?;
        let port = |side: Side| -> Result<Port> {
            let end = ends.get(side as usize).unwrap_or(&ends[0]);
            let next_hop_mac = match spec.mac {
                Some(mac) => mac[side as usize],
                None => end.resolve(spec.tester_ip(side, ip), spec.box_ip(side, ip))?,
            };
            Ok(Port { next_hop_mac, ..end.port() })
        };
        let mut ports = [port(Side::A)?, port(Side::B)?];
        if spec.is_hairpin() {
            ports[1].ifindex = 0;
        }
        let external = External { spec: spec.clone(), ends, ports, idle: Namespace::new()?, device };
        external.reset()?;
        Ok(external)
    }

    /// The tester's ports. One that is not here, or the second one with one interface, has the index 0, which is none.
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

    /// What a reader must know about the device.
    pub fn note(&self) -> Option<&str> {
        self.device.as_ref().map(DeviceAgent::note)
    }

    /// Connects to the device again if the connection was lost.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn reconnect(&self) -> Result<()> {
        self.device.as_ref().map_or(Ok(()), DeviceAgent::reconnect)
    }

    /// Lets the box forget its flows.
    pub(crate) fn reset(&self) -> Result<()> {
        if let Some(device) = &self.device {
            return device.reset();
        }
        let Some(command) = &self.spec.reset else { return Ok(()) };
        self.spec.ask("reset", command, None).map(drop)
    }

    /// What has become of the ends, in words; empty while all is well.
    pub(crate) fn broken(&self) -> Vec<String> {
        let ends = self.ends.iter().filter_map(|end| end.broken());
        ends.chain(self.device.as_ref().and_then(DeviceAgent::broken)).collect()
    }

    /// Reads all counters.
    pub(crate) fn sample(&self) -> Result<Sample> {
        let read = |end: &Arc<dyn PortEnd>| Ok((end.port().ifname, end.counters()?));
        let nics = self.ends.iter().map(read).collect::<Result<_>>()?;
        if let Some(device) = &self.device {
            let Reading { counters, memory } = device.read()?;
            return Ok(Sample { nics, counters, memory });
        }
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
        let ssh = self.ssh.as_ref().expect("a plan with hooks names the box");
        ssh.run(command, input.unwrap_or_default().as_bytes()).map_err(|why| Error::Hook {
            hook: hook.into(),
            target: ssh.target.clone(),
            command: command.into(),
            why,
        })
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
            *now = now.saturating_sub(*earlier.counters.get(name).unwrap_or(&0));
        }
        delta
    }
}
