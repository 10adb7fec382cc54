//! The interface on the other host, as seen from here.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_agent::link::{Link, Start};
use weir_agent::protocol::{Hello, Trouble};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Mac;
use weir_load::TesterKind;
use weir_load::counts::Traffic;
use weir_packet::flow::IpVersion;
use weir_testbed::error::{Error, Result};
use weir_testbed::external::{ExternalSpec, PortEnd, RemoteSpec};
use weir_testbed::interface::{Device, Port};
use weir_testbed::topology::Side;

use super::heard::Heard;
use super::{Opening, Request};
use weir_record::record::Machine;

/// How long the remote side may take for what is done at once.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// An end of the tester on another host, and the connection to it.
pub(crate) struct Remote {
    spec: RemoteSpec,
    opening: Opening,
    mac: Mac,
    machine: Machine,
    here: Namespace,
    state: Mutex<State>,
}

struct State {
    /// Or why there is none any more.
    link: std::result::Result<Link, String>,
    /// What was put on the interface.
    tester: Option<(TesterKind, Traffic)>,
}

impl Remote {
    /// Opens the interface for frames of up to `frame_bytes`, if `external` has one on another host.
    pub(crate) fn open(external: &ExternalSpec, ip: IpVersion, frame_bytes: u16) -> Result<Option<Remote>> {
        let Some(spec) = &external.remote else { return Ok(None) };
        let opening = Opening {
            port: spec.port.clone(),
            address: external.tester_ip(Side::B, ip),
            frame_bytes,
            allow_default_route: external.allow_default_route,
        };
        let error = |why| Error::Remote { target: spec.ssh.target.clone(), why };
        let (link, hello) = connect(spec).map_err(error)?;
        let state = Mutex::new(State { link: Ok(link), tester: None });
        let (spec, machine, here) = (spec.clone(), hello.machine, Namespace::current()?);
        let mut remote = Remote { spec, opening, mac: [0; 6], machine, here, state };
        remote.mac = remote.ask(&Request::Open(remote.opening.clone()))?;
        Ok(Some(remote))
    }

    /// Puts a tester on the interface, and returns what a reader must know about the other host.
    pub(crate) fn open_tester(&self, kind: TesterKind, traffic: &Traffic) -> Result<Vec<String>> {
        let there: Vec<String> = self.ask(&Request::Tester { kind, traffic: traffic.clone() })?;
        self.state().tester = Some((kind, traffic.clone()));
        let (target, Machine { cpu, cpus, kernel, .. }) = (&self.spec.ssh.target, &self.machine);
        let mut notes =
            vec![format!("Port b is {} on {target} ({cpu}, {cpus} CPUs, Linux {kernel}).", self.spec.port)];
        notes.extend(there.into_iter().map(|note| format!("On {target}: {note}")));
        Ok(notes)
    }

    /// Connects again if the connection was lost, and puts the tester there again.
    pub(crate) fn reconnect(&self) -> Result<()> {
        let lost = |why: String| Error::Remote { target: self.spec.ssh.target.clone(), why };
        let Some((kind, traffic)) = ({
            let mut state = self.state();
            if state.link.is_ok() {
                return Ok(());
            }
            state.link = connect(&self.spec).map(|(link, _)| link);
            state.link.as_ref().map_err(|why| lost(why.clone()))?;
            state.tester.clone()
        }) else {
            return Ok(());
        };
        let again = self.ask::<Mac>(&Request::Open(self.opening.clone()));
        let again = again.and_then(|_| self.ask::<Vec<String>>(&Request::Tester { kind, traffic }));
        again.map(drop).inspect_err(|error| self.state().link = Err(error.to_string()))
    }

    /// Asks for what is done at once.
    pub(super) fn ask<T: Heard>(&self, request: &Request) -> Result<T> {
        self.send(request)?;
        self.receive(PATIENCE, || false)
    }

    pub(super) fn send(&self, request: &Request) -> Result<()> {
        self.with(|link| link.send(request))
    }

    /// Waits for the reply to a sent request; `stopped` ends a trial early.
    pub(crate) fn receive<T: Heard>(&self, patience: Duration, stopped: impl Fn() -> bool) -> Result<T> {
        let value: T = self.with(|link| link.receive(patience + PATIENCE, stopped, |_| ()))?;
        match value.check() {
            Ok(()) => Ok(value),
            Err(why) => Err(self.lied(&why)),
        }
    }

    /// Closes the link after impossible values: later replies cannot be trusted.
    pub(super) fn lied(&self, why: &str) -> Error {
        let why = format!("it sent impossible values: {why}");
        self.state().link = Err(why.clone());
        Error::Remote { target: self.spec.ssh.target.clone(), why }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Link) -> std::result::Result<T, Trouble>) -> Result<T> {
        let mut state = self.state();
        let result = match &mut state.link {
            Ok(link) => f(link),
            Err(why) => Err(Trouble::Failed(why.clone())),
        };
        let why = match result {
            Ok(value) => return Ok(value),
            Err(Trouble::Failed(why)) => why,
            Err(Trouble::Lost(why)) => {
                state.link = Err(why.clone());
                why
            }
        };
        Err(Error::Remote { target: self.spec.ssh.target.clone(), why })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(spec: &RemoteSpec) -> std::result::Result<(Link, Hello<Machine>), String> {
    let option = ["remote_weir", "[external]"];
    Link::connect(Start { ssh: &spec.ssh, program: &spec.weir, role: "tester", option })
}

impl PortEnd for Remote {
    fn port(&self) -> Port {
        Port {
            ifname: format!("{} on {}", self.spec.port, self.spec.ssh.target),
            ifindex: 0,
            mac: self.mac,
            next_hop_mac: [0; 6],
            namespace: self.here.clone(),
        }
    }

    fn resolve(&self, from: IpAddr, target: IpAddr) -> Result<Mac> {
        self.ask(&Request::Resolve { from, target })
    }

    fn counters(&self) -> Result<Device> {
        self.ask(&Request::Counters)
    }

    fn broken(&self) -> Option<String> {
        let why = self.state().link.as_ref().err()?.clone();
        Some(format!("the connection to {} was lost ({why})", self.spec.ssh.target))
    }
}
