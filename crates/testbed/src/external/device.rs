//! weir on the device under test: an agent there configures it, and reads its counters, memory and CPU time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_agent::link::{Link, Start};
use weir_agent::protocol::Trouble;
use weir_agent::ssh::Ssh;
use weir_packet::flow::IpVersion;

use crate::error::{Error, Result};
use crate::setup::{Mode, Os, Setup};

/// How long the agent may take for a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Rules of a filter, as `weir setup` has them.
const RULES: u32 = 25;
/// Most counters of a reading.
const MOST: usize = 1000;
/// The counter of the box with the CPU time that it has used, ns: the cost of the DUT.
pub const CPU_NS: &str = "cpu_ns";
/// Counters of frames that the device dropped, of each interface.
pub(crate) const INTERFACE_DROPS: [&str; 5] =
    ["rx_missed", "rx_errors", "rx_dropped", "tx_errors", "tx_dropped"];
/// The same, of the whole device.
pub(crate) const DROPS: [&str; 4] = ["backlog full", "conntrack", "discarded", "no route"];

/// The device, and what it is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    /// How it is reached.
    pub ssh: Ssh,
    /// How its shell starts weir.
    pub weir: String,
    /// Its interfaces on side a and side b; the same name twice if it has one port for both.
    pub interfaces: [String; 2],
    /// What it does with frames.
    pub mode: Mode,
}

impl DeviceSpec {
    /// Names of its counters of dropped frames.
    pub fn drops(&self) -> Vec<String> {
        let [a, b] = &self.interfaces;
        let both = if a == b { vec![a] } else { vec![a, b] };
        let of_interface = |name: &&String| INTERFACE_DROPS.map(|drop| format!("{name} {drop}"));
        both.iter().flat_map(of_interface).chain(DROPS.map(String::from)).collect()
    }

    fn request(&self, ip: IpVersion) -> Result<Request> {
        let setup = Setup {
            os: Os::LinuxNft,
            mode: self.mode,
            nat: false,
            rules: RULES,
            interfaces: self.interfaces.clone(),
            ip,
        };
        Ok(Request::SetUp { script: setup.text()?, interfaces: self.interfaces.to_vec() })
    }
}

/// A request to the agent of a device.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Run this script of a root shell, and count at these interfaces.
    SetUp { script: String, interfaces: Vec<String> },
    /// Forget all flows.
    Reset,
    /// Returns a [`Reading`].
    Read,
}

/// What a device has counted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// By name; [`CPU_NS`] is one of them.
    pub(crate) counters: BTreeMap<String, i64>,
    /// Bytes by name.
    pub(crate) memory: BTreeMap<String, i64>,
}

impl Reading {
    /// Refuses what cannot be: the device is not trusted.
    fn check(&self) -> std::result::Result<(), String> {
        let all = || self.counters.iter().chain(&self.memory);
        match all().find(|(_, value)| !(0..=i64::MAX / 2).contains(*value)) {
            Some((name, value)) => Err(format!("it sent impossible values: {name:.80} is {value}")),
            None if all().count() > MOST => Err(format!("it sent more than {MOST} counters")),
            None => Ok(()),
        }
    }
}

/// What is said of the device in a report.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Facts {
    cpu: String,
    cpus: usize,
    kernel: String,
}

/// A device with an agent.
pub(super) struct Device {
    spec: DeviceSpec,
    ip: IpVersion,
    note: String,
    /// Or why there is none any more.
    link: Mutex<std::result::Result<Link, String>>,
}

impl Device {
    /// Connects, and configures the device.
    pub(super) fn open(spec: &DeviceSpec, ip: IpVersion) -> Result<Device> {
        let (link, facts) = connect(spec)?;
        let Facts { cpu, cpus, kernel } = facts;
        let (target, mode) = (&spec.ssh.target, spec.mode);
        let note = format!("The device is {target} ({mode}; {cpu}, {cpus} CPUs, Linux {kernel}).");
        let device = Device { spec: spec.clone(), ip, note, link: Mutex::new(Ok(link)) };
        device.ask::<()>(&spec.request(ip)?)?;
        Ok(device)
    }

    /// Connects again if the connection was lost, and configures the device again.
    pub(super) fn reconnect(&self) -> Result<()> {
        if self.link().is_ok() {
            return Ok(());
        }
        let (link, _) = connect(&self.spec)?;
        *self.link() = Ok(link);
        self.ask(&self.spec.request(self.ip)?)
    }

    pub(super) fn note(&self) -> &str {
        &self.note
    }

    pub(super) fn reset(&self) -> Result<()> {
        self.ask(&Request::Reset)
    }

    pub(super) fn read(&self) -> Result<Reading> {
        let reading: Reading = self.ask(&Request::Read)?;
        reading.check().map_err(|why| {
            // Later replies cannot be trusted either.
            *self.link() = Err(why.clone());
            self.error(why)
        })?;
        Ok(reading)
    }

    /// Why it cannot be used any more, in words.
    pub(super) fn broken(&self) -> Option<String> {
        let why = self.link().as_ref().err()?.clone();
        Some(format!("the connection to {} was lost ({why})", self.spec.ssh.target))
    }

    fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        let mut state = self.link();
        let result = match &mut *state {
            Ok(link) => link.send(request).and_then(|()| link.receive(PATIENCE, || false, |_| ())),
            Err(why) => Err(Trouble::Failed(why.clone())),
        };
        result.map_err(|trouble| {
            if let Trouble::Lost(why) = &trouble {
                *state = Err(why.clone());
            }
            self.error(trouble.to_string())
        })
    }

    fn error(&self, why: String) -> Error {
        Error::Device { target: self.spec.ssh.target.clone(), why }
    }

    fn link(&self) -> MutexGuard<'_, std::result::Result<Link, String>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(spec: &DeviceSpec) -> Result<(Link, Facts)> {
    let option = ["agent_weir", "[external]"];
    let start = Start { ssh: &spec.ssh, program: &spec.weir, role: "device", option };
    match Link::connect(start) {
        Ok((link, hello)) => Ok((link, hello.machine)),
        Err(why) => Err(Error::Device { target: spec.ssh.target.clone(), why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_cannot_be_is_refused() {
        let reading = |value: i64| Reading {
            counters: [("eth1 rx_dropped".into(), value)].into(),
            ..Reading::default()
        };
        assert_eq!(reading(7).check(), Ok(()));
        for value in [-1, i64::MIN, i64::MAX] {
            let expected = format!("it sent impossible values: eth1 rx_dropped is {value}");
            assert_eq!(reading(value).check(), Err(expected));
        }
        let many = (0..=MOST).map(|n| (n.to_string(), 1)).collect();
        let why = Reading { counters: many, ..Reading::default() }.check();
        assert_eq!(why, Err("it sent more than 1000 counters".into()));
    }

    #[test]
    fn a_device_with_one_port_counts_once() {
        let ssh = Ssh { target: "box".into(), config: None, timeout: PATIENCE };
        let spec = |interfaces: [&str; 2]| DeviceSpec {
            ssh: ssh.clone(),
            weir: "weir".into(),
            interfaces: interfaces.map(String::from),
            mode: Mode::Forward,
        };
        assert_eq!(spec(["eth1", "eth1"]).drops().len(), 9);
        assert_eq!(spec(["eth1", "eth2"]).drops().len(), 14);
    }
}
