//! What the list of stages asks of a filter and its configuration.

use weir_packet::steer::Spread;

use super::{Config, Filter, RulesChange, Update};
use crate::frame::PortId;
use crate::stage::{ConfigKind, Configured, Loss, NodeParts, Reading};
use crate::text::Item;
use crate::time::Time;

impl ConfigKind for Config {
    const NAME: &'static str = "filter";
    type Change = RulesChange;
    type Update = Update;

    fn read_item(item: &Item, beside: Reading<'_, '_>) -> Option<Config> {
        Config::read(item, beside.ports, beside.file, beside.notes)
    }

    fn renumber(&mut self, to: &dyn Fn(PortId) -> PortId) {
        self.ports_mut().for_each(|port| *port = to(*port));
    }

    fn spread(&self, _: bool) -> Spread {
        if self.is_stateful() { Spread::Ends } else { Spread::Flows }
    }

    fn loss(&self, new: &Config) -> Option<Loss> {
        let has_connections = self.is_stateful() && new.is_stateful();
        Some(if has_connections { Loss::Connections } else { Loss::Nothing })
    }

    fn update_to(&self, new: &Config) -> Update {
        Update::prepare(self, new)
    }

    /// Rules are compiled beside the thread.
    fn update_of(change: &RulesChange) -> Option<Update> {
        let (old, new) = change.old.as_ref().zip(change.new.as_ref())?;
        Some(Update::prepare(old, new))
    }

    fn take(&mut self, change: &RulesChange) -> Result<(), String> {
        change.new.iter().for_each(|new| self.clone_from(new));
        Ok(())
    }
}

impl Configured for Filter {
    type Config = Config;

    fn configured(config: &Config, node: &NodeParts) -> Filter {
        Filter::new(config, node.seed, node.share)
    }

    fn take(&mut self, _: Time, update: &mut Update) {
        self.take_rules(update);
    }
}
