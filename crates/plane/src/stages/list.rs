//! What follows from the list of kinds: a closed set of stages, configurations and changes, each of which knows its kind.
//!
//! Invariant: a configuration, its stage, its updates and its changes are of one kind.

use super::StageChange;
use crate::stage::ConfigKind;

/// One of the kinds in a closed set.
pub(crate) trait OneOf<All>: Sized {
    /// It, if it is of this kind.
    fn of(all: &All) -> Option<&Self>;

    /// The same, to be changed.
    fn of_mut(all: &mut All) -> Option<&mut Self>;
}

/// The configuration of a kind that is in the list.
pub(crate) trait Listed: ConfigKind {
    /// A change of this kind.
    fn listed(change: Self::Change) -> StageChange;
}

/// Makes the closed sets of a list of kinds, each with its folder.
macro_rules! stages {
    ($($Kind:ident: $folder:ident),+ $(,)?) => {
        /// Names of the stages in a text.
        pub(crate) const NAMES: &[&str] = &[$(<$folder::Config as ConfigKind>::NAME),+];

        /// What a frame meets between its ports: a closed set, distinguished once per batch.
        #[derive(Debug)]
        pub(crate) enum Stage {
            $($Kind(Box<$folder::$Kind>)),+
        }

        /// The configuration of a stage.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum StageConfig {
            $($Kind(Box<$folder::Config>)),+
        }

        /// What a stage needs to have another configuration.
        #[derive(Debug)]
        pub(crate) enum StageUpdate {
            $($Kind(Box<<$folder::Config as ConfigKind>::Update>)),+
        }

        /// A change of one object of a stage.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum StageChange {
            $($Kind(<$folder::Config as ConfigKind>::Change)),+
        }

        impl Stage {
            /// The same, whatever kind it is.
            pub(crate) fn kind(&self) -> &dyn StageKind {
                match self {
                    $(Stage::$Kind(stage) => &**stage),+
                }
            }

            /// The same, to be changed.
            pub(crate) fn kind_mut(&mut self) -> &mut dyn StageKind {
                match self {
                    $(Stage::$Kind(stage) => &mut **stage),+
                }
            }

            /// Whether there is room for an update.
            ///
            /// # Errors
            /// There is none.
            pub(crate) fn accepts(&self, update: &StageUpdate) -> Result<(), String> {
                match (self, update) {
                    $((Stage::$Kind(stage), StageUpdate::$Kind(update)) => stage.accepts(update),)+
                    _ => unreachable!("a stage stays what it is"),
                }
            }

            /// Whether there is room for so many places.
            ///
            /// # Errors
            /// There is none.
            pub(crate) fn has_room_for(&self, places: usize) -> Result<(), String> {
                match self {
                    $(Stage::$Kind(stage) => stage.has_room_for(places)),+
                }
            }

            /// Takes another configuration; what is of no more use is left in `update`.
            pub(crate) fn take(&mut self, now: Time, update: &mut StageUpdate) {
                match (self, update) {
                    $((Stage::$Kind(stage), StageUpdate::$Kind(update)) => stage.take(now, update),)+
                    _ => unreachable!("a stage stays what it is"),
                }
            }

            /// Takes a change of an object.
            pub(crate) fn change(&mut self, now: Time, change: &StageChange) {
                match (self, change) {
                    $((Stage::$Kind(stage), StageChange::$Kind(change)) => stage.change(now, change),)+
                    _ => unreachable!("a stage stays what it is"),
                }
            }
        }

        impl StageConfig {
            /// Reads an item; mistakes are noted.
            pub(crate) fn read(item: &Item, beside: Reading<'_, '_>) -> Option<StageConfig> {
                match item.name.text.as_str() {
                    $(<$folder::Config as ConfigKind>::NAME => {
                        $folder::Config::read_item(item, beside).map(|config| StageConfig::$Kind(Box::new(config)))
                    })+
                    name => {
                        item.wrong(beside.notes, format!("`{name}` is no stage, and ports stand at the ends"));
                        None
                    }
                }
            }

            /// A stage in which nothing lives yet.
            pub(crate) fn stage(&self, node: &NodeParts) -> Stage {
                match self {
                    $(StageConfig::$Kind(config) => Stage::$Kind(Box::new(Configured::configured(&**config, node)))),+
                }
            }

            /// Gives ports that it names other numbers.
            pub(crate) fn renumber(&mut self, to: &dyn Fn(PortId) -> PortId) {
                match self {
                    $(StageConfig::$Kind(config) => config.renumber(to)),+
                }
            }

            /// Whether a stage of so many threads can be like this.
            ///
            /// # Errors
            /// Why not, and what to do about it.
            pub(crate) fn may_share(&self, threads: u8) -> Result<(), String> {
                match self {
                    $(StageConfig::$Kind(config) => config.may_share(threads)),+
                }
            }

            /// Bytes of frames that wait in it, at most.
            pub(crate) fn kept_bytes(&self) -> u64 {
                match self {
                    $(StageConfig::$Kind(config) => config.kept_bytes()),+
                }
            }

            /// By what frames of a port of this end are best spread over threads.
            pub(crate) fn spread(&self, is_left: bool) -> Spread {
                match self {
                    $(StageConfig::$Kind(config) => config.spread(is_left)),+
                }
            }

            /// What would be lost if its stage did not become the other one; `None`: it cannot.
            pub(crate) fn loss(&self, new: &StageConfig) -> Option<Loss> {
                match (self, new) {
                    $((StageConfig::$Kind(old), StageConfig::$Kind(new)) => old.loss(new),)+
                    _ => None,
                }
            }

            /// Whether the text of the other one is the same.
            pub(crate) fn says_the_same(&self, other: &StageConfig) -> bool {
                match (self, other) {
                    $((StageConfig::$Kind(one), StageConfig::$Kind(other)) => one.says_the_same(other),)+
                    _ => false,
                }
            }

            /// The objects that differ, if nothing else does; none if nothing differs at all.
            pub(crate) fn changes_to(&self, new: &StageConfig) -> Option<Vec<StageChange>> {
                match (self, new) {
                    (old, new) if old == new => Some(Vec::new()),
                    $((StageConfig::$Kind(old), StageConfig::$Kind(new)) => {
                        Some(old.changes_to(new)?.into_iter().map(StageChange::$Kind).collect())
                    })+
                    _ => None,
                }
            }

            /// The update from this one to another one of the same kind.
            pub(crate) fn update_to(&self, new: &StageConfig) -> StageUpdate {
                match (self, new) {
                    $((StageConfig::$Kind(old), StageConfig::$Kind(new)) => {
                        StageUpdate::$Kind(Box::new(old.update_to(new)))
                    })+
                    _ => unreachable!("a stage stays what it is"),
                }
            }

            /// Takes a change of an object.
            ///
            /// # Errors
            /// It cannot be so beside the others; nothing has changed then.
            pub(crate) fn take(&mut self, change: &StageChange) -> Result<(), String> {
                match (self, change) {
                    $((StageConfig::$Kind(config), StageChange::$Kind(change)) => config.take(change),)+
                    (other, change) => unreachable!("{change:?} of {other:?}"),
                }
            }
        }

        impl StageChange {
            /// What undoes the change.
            #[expect(unreachable_code, reason = "a stage without objects has no changes")]
            pub(crate) fn inverse(self) -> StageChange {
                match self {
                    $(StageChange::$Kind(change) => StageChange::$Kind(change.inverse())),+
                }
            }

            /// The update that does it, if a thread cannot do it at once.
            pub(crate) fn update(&self) -> Option<StageUpdate> {
                match self {
                    $(StageChange::$Kind(change) => {
                        $folder::Config::update_of(change).map(|update| StageUpdate::$Kind(Box::new(update)))
                    })+
                }
            }

            /// The place for which the stage is asked whether it has room, if it needs one.
            pub(crate) fn place(&self) -> Option<u32> {
                match self {
                    $(StageChange::$Kind(change) => $folder::Config::place_of(change)),+
                }
            }

            /// The address of IPv4 that the node translates to, if the change is one of such addresses.
            pub(crate) fn translated(&self) -> Was<u32> {
                match self {
                    $(StageChange::$Kind(change) => $folder::Config::translated_by(change)),+
                }
            }
        }

        $(
            impl OneOf<Stage> for $folder::$Kind {
                fn of(all: &Stage) -> Option<&$folder::$Kind> {
                    if let Stage::$Kind(stage) = all { Some(&**stage) } else { None }
                }

                fn of_mut(all: &mut Stage) -> Option<&mut $folder::$Kind> {
                    if let Stage::$Kind(stage) = all { Some(&mut **stage) } else { None }
                }
            }

            impl OneOf<StageConfig> for $folder::Config {
                fn of(all: &StageConfig) -> Option<&$folder::Config> {
                    if let StageConfig::$Kind(config) = all { Some(&**config) } else { None }
                }

                fn of_mut(all: &mut StageConfig) -> Option<&mut $folder::Config> {
                    if let StageConfig::$Kind(config) = all { Some(&mut **config) } else { None }
                }
            }

            impl Listed for $folder::Config {
                fn listed(change: <$folder::Config as ConfigKind>::Change) -> StageChange {
                    StageChange::$Kind(change)
                }
            }
        )+
    };
}
