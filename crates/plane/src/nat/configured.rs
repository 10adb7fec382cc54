//! What the list of stages asks of a NAT and its configuration.

use weir_packet::steer::Spread;

use super::command::NatChange;
use super::config::Config;
use super::stage::Nat;
use super::table::Update;
use crate::stage::{ConfigKind, Configured, Loss, NodeParts, ObjectChange, Reading, StageKind};
use crate::text::Item;
use crate::time::Time;
use crate::was::Was;

impl ObjectChange for NatChange {
    fn inverse(self) -> NatChange {
        match self {
            NatChange::Forward(was) => NatChange::Forward(was.inverse()),
            NatChange::OneToOne(was) => NatChange::OneToOne(was.inverse()),
            NatChange::EndMapping(_) => self,
        }
    }
}

impl ConfigKind for Config {
    const NAME: &'static str = "nat";
    type Change = NatChange;
    type Update = Update;

    fn read_item(item: &Item, beside: Reading<'_, '_>) -> Option<Config> {
        Some(Config::read(item, beside.notes))
    }

    fn may_share(&self, threads: u8) -> Result<(), String> {
        self.has_blocks_for(threads)
    }

    /// Behind the NAT the inside address is not visible.
    fn spread(&self, is_left: bool) -> Spread {
        if is_left { Spread::Sources } else { Spread::Flows }
    }

    fn loss(&self, _: &Config) -> Option<Loss> {
        Some(Loss::Answers)
    }

    /// How threads share a NAT is not part of its text.
    fn says_the_same(&self, other: &Config) -> bool {
        let like_other = Config { sharding: other.sharding, before: other.before.clone(), ..self.clone() };
        like_other == *other
    }

    fn changes_to(&self, new: &Config) -> Option<Vec<NatChange>> {
        self.ends_to(new)
    }

    fn update_to(&self, new: &Config) -> Update {
        Update::prepare(self, new)
    }

    fn take(&mut self, change: &NatChange) -> Result<(), String> {
        self.take_end(change)
    }

    fn place_of(change: &NatChange) -> Option<u32> {
        match change {
            NatChange::Forward(was) => was.new.map(|new| new.outside.0),
            NatChange::OneToOne(_) | NatChange::EndMapping(_) => None,
        }
    }

    fn translated_by(change: &NatChange) -> Was<u32> {
        match change {
            NatChange::OneToOne(was) => {
                Was { old: was.old.map(|old| old.outside), new: was.new.map(|new| new.outside) }
            }
            NatChange::Forward(_) | NatChange::EndMapping(_) => Was { old: None, new: None },
        }
    }
}

impl Configured for Nat {
    type Config = Config;

    fn configured(config: &Config, node: &NodeParts) -> Nat {
        let mut nat = Nat::new(config.clone(), node.seed, node.share);
        nat.take_node(&node.surroundings);
        nat
    }

    fn accepts(&self, update: &Update) -> Result<(), String> {
        self.table.accepts(update)
    }

    fn has_room_for(&self, places: usize) -> Result<(), String> {
        self.table.has_room_for(places)
    }

    fn take(&mut self, now: Time, update: &mut Update) {
        self.take_text(now, update);
    }

    fn change(&mut self, now: Time, change: &NatChange) {
        self.take_end(now, change);
    }
}
