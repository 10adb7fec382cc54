//! The configuration that a node runs by: its text, and the Ethernet addresses of its ports. Planes are made of it.

use std::hash::{BuildHasher, RandomState};

use weir_packet::frame::Mac;
use weir_plane::{MacText, Plane, Port, PortId, Share};

use crate::applied::{Applied, Turns};
use crate::backend::Backend;
use crate::config::{Config, Host, Settings};

/// The configuration of a node that runs.
#[derive(Debug, Clone)]
pub(crate) struct RunningConfig {
    pub(crate) backends: Vec<Backend>,
    pub(crate) settings: Settings,
    pub(crate) config: weir_plane::Config,
    /// Texts and lists of commands that it has applied.
    revision: u64,
    macs: Vec<Mac>,
}

impl RunningConfig {
    pub(crate) fn new(config: &Config, macs: Vec<Mac>) -> RunningConfig {
        let Config { plane, backends, settings } = config.clone();
        let config = plane.shared_by(settings.threads.len() as u8);
        RunningConfig { backends, settings, config, revision: 0, macs }
    }

    /// The Ethernet address of a port, as it is written.
    pub(crate) fn mac(&self, port: usize) -> String {
        self.macs.get(port).map(|mac| MacText::from(*mac).to_string()).unwrap_or_default()
    }

    /// Another text or list of commands was applied.
    pub(crate) fn applied(&mut self, turns: Turns) -> Applied {
        self.revision += 1;
        Applied { revision: self.revision, turns }
    }

    /// A plane for each thread, with a seed that cannot be predicted from outside: NAT ports follow from it.
    pub(crate) fn planes(&self) -> Vec<Plane> {
        let without = |(_, port): &(u16, &Port)| self.settings.host == Host::None && port.tap.is_none();
        let plane = |config: &weir_plane::Config| {
            let ports = (0..).zip(&config.ports).filter(without).map(|(n, _)| PortId(n));
            Plane::new(config, &self.macs).without_machine(ports)
        };
        by_thread(self.config.clone(), self.settings.threads.len(), plane)
    }
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
