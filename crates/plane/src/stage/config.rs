//! What is asked of the configuration of a stage of any kind: it is read, makes the stage, and changes it while the node runs. Most
//! kinds need only some of it: they have the answers that are written here.
//!
//! ```text
//! item of the text > read > ConfigKind > Configured::new > a stage that runs
//! another text     > update  (all of the stage at once)         > Configured::take
//!                  > changes (objects, where only those differ) > Configured::change
//! a command        > changes                                    > Configured::change
//! ```
//! Invariant: the inverse of a change undoes it.

use std::convert::Infallible;
use std::fmt::Debug;

use weir_config::Notes;
use weir_packet::steer::Spread;

use super::{StageKind, Surroundings};
use crate::frame::PortId;
use crate::port::Port;
use crate::text::{FileOf, Item};
use crate::threads::Share;
use crate::time::Time;
use crate::was::Was;

/// Beside what an item is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a, 'n> {
    /// The ports of the node.
    pub(crate) ports: &'a [Port],
    /// The texts of files.
    pub(crate) file: FileOf<'a>,
    /// Where mistakes are noted.
    pub(crate) notes: &'a Notes<'n>,
}

/// What a stage is made with beside its configuration.
#[derive(Debug, Clone)]
pub(crate) struct NodeParts {
    /// What must not be predictable from outside follows from it.
    pub(crate) seed: u64,
    /// The thread that the stage is for.
    pub(crate) share: Share,
    /// The node around it.
    pub(crate) surroundings: Surroundings,
}

/// What hosts lose with a stage that goes: the last one is the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// No more than frames that wait in it.
    Nothing,
    /// The connections that it remembers, which are new to another one.
    Connections,
    /// Their answers: nothing else knows where these belong.
    Answers,
}

/// What an object of a stage was, and what it is.
pub(crate) trait ObjectChange: Debug + Clone + PartialEq {
    /// What undoes the change.
    fn inverse(self) -> Self;
}

/// Of a stage without objects.
impl ObjectChange for Infallible {
    fn inverse(self) -> Infallible {
        self
    }
}

impl<T: Debug + Clone + PartialEq> ObjectChange for Was<T> {
    fn inverse(self) -> Was<T> {
        Was::inverse(self)
    }
}

/// The configuration of a stage.
pub(crate) trait ConfigKind: Debug + Clone + PartialEq {
    /// Its name in a text.
    const NAME: &'static str;

    /// A change of one of its objects.
    type Change: ObjectChange;

    /// What a stage needs to have another configuration; it is made beside the stage, since it takes its time.
    type Update: Debug;

    /// Reads an item; mistakes are noted.
    fn read_item(item: &Item, beside: Reading<'_, '_>) -> Option<Self>;

    /// Gives ports that it names other numbers.
    fn renumber(&mut self, _to: &dyn Fn(PortId) -> PortId) {}

    /// Whether a stage of so many threads can be like this.
    ///
    /// # Errors
    /// Why not, and what to do about it.
    fn may_share(&self, _threads: u8) -> Result<(), String> {
        Ok(())
    }

    /// Bytes of frames that wait in it, at most.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// By what frames of a port are best spread over threads, if frames from the port go outward, or inward.
    fn spread(&self, _is_left: bool) -> Spread {
        Spread::Flows
    }

    /// What would be lost if its stage did not become the other one; `None`: it cannot.
    fn loss(&self, new: &Self) -> Option<Loss>;

    /// Whether the text of the other one is the same.
    fn says_the_same(&self, other: &Self) -> bool {
        self == other
    }

    /// The objects that differ, if nothing else does.
    fn changes_to(&self, _new: &Self) -> Option<Vec<Self::Change>> {
        None
    }

    /// The update from this one to another.
    fn update_to(&self, new: &Self) -> Self::Update;

    /// The update that does a change, if a thread cannot do it at once.
    fn update_of(_change: &Self::Change) -> Option<Self::Update> {
        None
    }

    /// Takes a change of an object.
    ///
    /// # Errors
    /// It cannot be so beside the others; nothing has changed then.
    fn take(&mut self, _change: &Self::Change) -> Result<(), String> {
        Ok(())
    }

    /// The place for which the stage is asked whether it has room, if the change needs one.
    fn place_of(_change: &Self::Change) -> Option<u32> {
        None
    }

    /// The address of IPv4 that the node translates to, if the change is one of such addresses.
    fn translated_by(_change: &Self::Change) -> Was<u32> {
        Was { old: None, new: None }
    }
}

/// A stage that runs, as its configuration makes and changes it.
pub(crate) trait Configured: StageKind + Sized {
    /// Its configuration.
    type Config: ConfigKind;

    /// A stage, or a thread's share of it, in which nothing lives yet.
    fn configured(config: &Self::Config, node: &NodeParts) -> Self;

    /// Whether there is room for an update.
    ///
    /// # Errors
    /// There is none.
    fn accepts(&self, _update: &<Self::Config as ConfigKind>::Update) -> Result<(), String> {
        Ok(())
    }

    /// Whether there is room for so many places, see [`ConfigKind::place_of`].
    ///
    /// # Errors
    /// There is none.
    fn has_room_for(&self, _places: usize) -> Result<(), String> {
        Ok(())
    }

    /// Takes another configuration, and leaves what is of no more use in `update`, which takes its time to be freed.
    fn take(&mut self, now: Time, update: &mut <Self::Config as ConfigKind>::Update);

    /// Takes a change of an object.
    fn change(&mut self, _now: Time, _change: &<Self::Config as ConfigKind>::Change) {}
}

/// A command for one object of a stage.
pub(crate) trait StageCommand {
    /// The configuration of the stages that it is for.
    type Config: ConfigKind;

    /// What such a stage is called in messages.
    const KIND: &'static str;

    /// The number of the stage in the text, from 1.
    fn stage(&self) -> usize;

    /// What the command changes, if anything; the node has these ports.
    ///
    /// # Errors
    /// Why it cannot be done, and what to do about it.
    fn change(
        &self,
        config: &Self::Config,
        ports: &[Port],
    ) -> Result<Option<<Self::Config as ConfigKind>::Change>, String>;
}
