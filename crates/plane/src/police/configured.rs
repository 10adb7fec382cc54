//! What the list of stages asks of a policer and its configuration.

use super::{Config, Police, RateChange, Update};
use crate::stage::{ConfigKind, Configured, Loss, NodeParts, ObjectChange, Reading};
use crate::text::Item;
use crate::time::Time;

impl ObjectChange for RateChange {
    fn inverse(self) -> RateChange {
        RateChange { was: self.was.inverse(), ..self }
    }
}

impl ConfigKind for Config {
    const NAME: &'static str = "police";
    type Change = RateChange;
    type Update = Update;

    fn read_item(item: &Item, beside: Reading<'_, '_>) -> Option<Config> {
        Some(Config::read(item, beside.ports, beside.notes))
    }

    fn may_share(&self, threads: u8) -> Result<(), String> {
        let why = "a `police` limits all that a subscriber sends and receives, which several threads cannot share: run the node with one \
                   thread, or leave the police out";
        if threads == 1 { Ok(()) } else { Err(why.into()) }
    }

    fn loss(&self, new: &Config) -> Option<Loss> {
        self.has_the_shape_of(new).then_some(Loss::Nothing)
    }

    fn update_to(&self, new: &Config) -> Update {
        Update::prepare(self, new)
    }

    fn take(&mut self, change: &RateChange) -> Result<(), String> {
        change.was.new.iter().for_each(|new| self.set_limit(&change.name, *new));
        Ok(())
    }
}

impl Configured for Police {
    type Config = Config;

    fn configured(config: &Config, node: &NodeParts) -> Police {
        Police::new(config, node.seed)
    }

    fn take(&mut self, now: Time, update: &mut Update) {
        self.take_profiles(now, update);
    }

    fn change(&mut self, now: Time, change: &RateChange) {
        self.set_rate(now, change);
    }
}
