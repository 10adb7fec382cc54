//! The node's table of subscribers: sessions as the node has them.

use weir_bng::{AddSession, NodeCommand};
use weir_plane::Command;

/// The commands of the node for changes of sessions.
pub(crate) fn commands(changes: &[NodeCommand]) -> Vec<Command> {
    let _ = changes;
    Vec::new()
}

/// A session as the node has it, with its counters.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) session: u64,
    pub(crate) counters: weir_bng::Counters,
}

/// The sessions of the node for a comparison: those that are as they should be are `known`, of the others the number counts.
pub(crate) fn sessions(rows: &[Row], known: impl Iterator<Item = AddSession>) -> Vec<AddSession> {
    let _ = (rows, known);
    Vec::new()
}
