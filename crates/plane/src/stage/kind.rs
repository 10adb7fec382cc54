//! What the pipeline asks of a stage of any kind. Most stages do only some of it: they have the answers that are written here.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Debug;

use super::{Step, Surroundings};
use crate::batch::Set;
use crate::dir::{Dir, EntryPoint};
use crate::kept::Ticket;
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::recipe::{Key, Never, Note, Part, Rewrite, SessionState, Uses};
use crate::table::tcp::{Progress, Segment};
use crate::time::Time;

/// Which frames must meet in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Together {
    /// None: nothing is remembered from one to the next.
    Nothing,
    /// The fragments of a packet.
    Fragments,
    /// All between the same two addresses.
    Ends,
    /// All of a host inside, as the NATs see it.
    Inside,
}

/// Frames that wait in a stage.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Those that are kept.
    pub(crate) kept: Vec<Ticket>,
    /// How many are copies.
    pub(crate) copies: usize,
}

/// A stage of a node that runs.
pub(crate) trait StageKind: Debug {
    /// Its name in a text.
    fn name(&self) -> &'static str;

    /// Decides about the frames of `set` on their way in `dir`; returns those that pass.
    fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set;

    /// The same for frames that are no packets of IP, which a bump in the wire has.
    fn run_no_ip(&mut self, _step: &mut Step<'_, '_>, _dir: Dir, set: Set) -> Set {
        set
    }

    /// Whether frames of the machine that the node runs on pass unseen.
    fn lets_machine_pass(&self) -> bool {
        false
    }

    /// Does a bounded part of what is due; true if there is more.
    fn tick(&mut self, _step: &mut Step<'_, '_>) -> bool {
        false
    }

    /// When something is due.
    fn due(&self, _now: Time) -> Option<Time> {
        None
    }

    /// Sets other limits for what hosts share.
    fn limit(&mut self, _limits: &Limits) {}

    /// The node around it is this one from now on.
    fn take_node(&mut self, _surroundings: &Surroundings) {}

    /// Forgets all but its configuration and counters, after a panic.
    fn begin_anew(&mut self, now: Time);

    /// Frames that wait in it.
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    /// The stage is removed: what waits in it goes on where frames of its direction enter.
    fn emit_waiting(&mut self, _now: Time, _outbox: &mut Outbox, _entry: &dyn Fn(Dir) -> EntryPoint) {}

    /// Which frames must meet in a thread.
    fn together(&self) -> Together {
        Together::Nothing
    }

    /// What it does to all frames with this key, which are of this class; `None`: they pass as they are.
    ///
    /// # Errors
    /// The frames must pass the stage.
    fn recipe(&self, now: Time, at: &Key, dir: Dir, class: u8) -> Result<Option<Part>, Never>;

    /// Counts the uses of a recipe of its own, and refreshes its session.
    fn used(&mut self, _note: &Note, _uses: &Uses, _session: SessionState) {}

    /// A segment was passed on by a recipe of its own.
    fn segment(&mut self, _note: &Note, _segment: &Segment) {}

    /// The epoch of a session.
    fn epoch(&self, _session: u32) -> u32 {
        0
    }

    /// The session of a frame with this key, if it has one, and what it does to the frame; `None`: the frame does not pass.
    fn session_of(&self, _at: &Key, _dir: Dir) -> Option<(Option<u32>, Rewrite)> {
        Some((None, Rewrite::Nothing))
    }

    /// How far the connection of a session has come.
    fn progress(&self, _session: u32) -> Option<Progress> {
        None
    }

    /// The connection of a session has come so far.
    fn catch_up(&mut self, _session: u32, _progress: &Progress) {}

    /// Whether it records which sessions change.
    fn watch(&mut self, _is_on: bool) {}

    /// The sessions that have changed since the last call.
    fn renewed(&mut self) -> Vec<u32> {
        Vec::new()
    }
}
