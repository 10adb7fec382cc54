//! What the list of stages asks of a queue and its configuration.

use std::convert::Infallible;

use super::{Config, Queue};
use crate::stage::{ConfigKind, Configured, Loss, NodeParts, Reading};
use crate::text::Item;
use crate::time::Time;

impl ConfigKind for Config {
    const NAME: &'static str = "queue";
    type Change = Infallible;
    type Update = Config;

    fn read_item(item: &Item, beside: Reading<'_, '_>) -> Option<Config> {
        Some(Config::read(item, beside.file, beside.notes))
    }

    fn may_share(&self, threads: u8) -> Result<(), String> {
        let why = "a `queue` is one link, which several threads cannot share: run the node with one thread, or leave the queue out";
        if threads == 1 { Ok(()) } else { Err(why.into()) }
    }

    fn kept_bytes(&self) -> u64 {
        self.all_bytes()
    }

    fn loss(&self, new: &Config) -> Option<Loss> {
        self.has_the_shape_of(new).then_some(Loss::Nothing)
    }

    fn update_to(&self, new: &Config) -> Config {
        new.clone()
    }
}

impl Configured for Queue {
    type Config = Config;

    fn configured(config: &Config, node: &NodeParts) -> Queue {
        Queue::new(config, node.seed)
    }

    fn take(&mut self, now: Time, update: &mut Config) {
        self.take_config(now, update);
    }
}
