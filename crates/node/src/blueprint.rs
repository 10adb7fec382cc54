//! What the planes of a node are made of: a text, and what was found of its ports.

use std::hash::{BuildHasher, RandomState};

use weir_packet::frame::Mac;
use weir_plane::{Plane, Share};

use crate::backend::Backend;
use crate::config::{Config, Host, Settings};

/// What its plane is made of.
#[derive(Debug, Clone)]
pub(crate) struct Blueprint {
    pub(crate) backends: Vec<Backend>,
    pub(crate) settings: Settings,
    pub(crate) config: weir_plane::Config,
    macs: Vec<Mac>,
}

impl Blueprint {
    pub(crate) fn new(config: &Config, macs: Vec<Mac>) -> Blueprint {
        let Config { plane, backends, settings } = config.clone();
        let config = plane.shared_by(settings.threads.len() as u8);
        Blueprint { backends, settings, config, macs }
    }

    /// A plane for each thread, of which nobody can foretell the ports.
    pub(crate) fn planes(&self) -> Vec<Plane> {
        let is_taken = self.settings.host != Host::Nobody;
        let plane = |config: &weir_plane::Config| {
            let plane = Plane::new(config, &self.macs);
            if is_taken { plane } else { plane.without_machine() }
        };
        by_thread(self.config.clone(), self.settings.threads.len(), plane)
    }
}

/// What comes of a text for each of so many threads: its share, and a seed that nobody can foretell.
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
