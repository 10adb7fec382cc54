//! The configuration that a node runs by: its text, and the Ethernet addresses of its ports. Planes are made of it.
//!
//! Invariant: the ports of `config` have their Ethernet addresses, whether the text names them or not.

use std::hash::{BuildHasher, RandomState};

use weir_packet::frame::Mac;
use weir_plane::{MacText, Plane, Port, PortId, Share};

use crate::applied::{Applied, Turns};
use crate::backend::{Backend, Umems};
use crate::config::{Config, Host, Settings};

/// The configuration of a node that runs.
#[derive(Debug, Clone)]
pub(crate) struct RunningConfig {
    /// What ports stand for, by their numbers; `None`: no port has the number.
    pub(crate) backends: Vec<Option<Backend>>,
    pub(crate) settings: Settings,
    pub(crate) config: weir_plane::Config,
    /// The Ethernet addresses of interfaces whose ports have none in the text, by port.
    pub(crate) own_macs: Vec<Option<Mac>>,
    /// The longest frame that chunks have room for, and whether XDP programs pass frames on.
    pub(crate) longest: usize,
    pub(crate) is_fast: bool,
    /// Numbers of ports that were removed and may still be named by frames.
    pub(crate) resting: Vec<Resting>,
    /// The memory of its threads for frames.
    pub(crate) umems: Umems,
    /// Texts and lists of commands that it has applied.
    revision: u64,
}

/// The number of a port that was removed.
#[derive(Debug, Clone)]
pub(crate) struct Resting {
    pub(crate) number: PortId,
    /// By thread, see [`Plane::frames_epoch`] when all had removed it.
    pub(crate) since: Vec<u64>,
    /// No thread keeps a frame that names it.
    pub(crate) is_unkept: bool,
    /// By thread, whether none is on its way there from another thread.
    pub(crate) is_unhanded: Vec<bool>,
}

impl RunningConfig {
    pub(crate) fn new(config: &Config, macs: &[Mac], longest: usize, umems: Umems) -> RunningConfig {
        let Config { plane, backends, settings, bng: _ } = config.clone();
        let mut config = plane.shared_by(settings.threads.len() as u8);
        let own = |(port, mac): (&mut Port, &Mac)| {
            let own = port.mac.is_none().then_some(*mac);
            port.mac = Some(*mac);
            own
        };
        RunningConfig {
            own_macs: config.ports.iter_mut().zip(macs).map(own).collect(),
            backends: backends.into_iter().map(Some).collect(),
            settings,
            config,
            longest,
            is_fast: false,
            resting: Vec::new(),
            umems,
            revision: 0,
        }
    }

    /// The Ethernet addresses of all ports; those of numbers without one do not matter.
    fn macs(&self) -> Vec<Mac> {
        self.config.ports.iter().map(|port| port.mac.unwrap_or_default()).collect()
    }

    /// The Ethernet address of a port, as it is written.
    pub(crate) fn mac(&self, port: usize) -> String {
        let mac = self.config.ports.get(port).and_then(|port| port.mac);
        mac.map(|mac| MacText::from(mac).to_string()).unwrap_or_default()
    }

    /// The names of the ports by their numbers; empty where there is none.
    pub(crate) fn port_names(&self) -> Vec<String> {
        self.config.ports.iter().map(|port| port.name.clone()).collect()
    }

    /// Another text or list of commands was applied.
    pub(crate) fn applied(&mut self, turns: Turns) -> Applied {
        self.revision += 1;
        Applied { revision: self.revision, turns }
    }

    /// A plane for each thread, with a seed that cannot be predicted from outside: NAT ports follow from it.
    pub(crate) fn planes(&self) -> Vec<Plane> {
        let macs = self.macs();
        let plane = |config: &weir_plane::Config| {
            Plane::new(config, &macs).without_machine(without_machine(config, &self.settings))
        };
        by_thread(self.config.clone(), self.settings.threads.len(), plane)
    }
}

/// Ports whose frames no machine takes.
pub(crate) fn without_machine(config: &weir_plane::Config, settings: &Settings) -> Vec<PortId> {
    let without = |(_, port): &(u16, &Port)| settings.host == Host::None && port.tap.is_none();
    (0..).zip(&config.ports).filter(without).map(|(n, _)| PortId(n)).collect()
}

/// Calls `of` for each of so many threads, with the text, the thread's share, and a seed that cannot be predicted from outside.
pub(crate) fn by_thread<T>(
    mut config: weir_plane::Config,
    threads: usize,
    mut of: impl FnMut(&weir_plane::Config) -> T,
) -> Vec<T> {
    config.seed = RandomState::new().hash_one(0);
    let threads = threads as u8;
    let one = |thread| {
        config.share = Share { thread, of: threads };
        of(&config)
    };
    (0..threads).map(one).collect()
}
