//! What a recipe is for a fast path, which has no stages: one rewrite.

use std::time::Duration;

use weir_packet::headers::TCP;

use super::{FlowKey, FlowRule};
use crate::recipe::{Ends, Key, Note, Recipe, Rewrite};
use crate::time::Time;

/// A session of a NAT or a connection of a filter: the stage of the present text, and the number that it has there. With
/// another text all are cleared.
pub(crate) type Track = (usize, u32);

impl FlowKey {
    pub(super) fn of(key: &Key) -> FlowKey {
        let Key { port, ends, ports, proto, flags, keeps_whole, .. } = *key;
        FlowKey { port, ends, ports, proto, flags, keeps_whole }
    }
}

/// The slots of connections in a table, with the side that sends.
pub(super) type Slots = [Option<(u32, u8)>; 2];

impl Recipe {
    /// The connections of the recipe, with the side that sends.
    pub(super) fn tracks(&self, proto: u8) -> Vec<(Track, u8)> {
        let of = |(stage, note): (usize, &Note)| match note {
            Note::Filter(note) => note.connection.map(|(number, side)| ((stage, number), side as u8)),
            Note::Nat(note) => Some(((stage, note.session), note.side as u8)),
        };
        let parts = self.parts.iter().filter(|_| proto == TCP);
        parts.filter_map(|(stage, part)| of((*stage, &part.note))).collect()
    }
}

/// The rule for frames with this key.
pub(super) fn rule_of(
    (now, margin): (Time, Duration),
    key: &Key,
    recipe: &Recipe,
    (epochs, tracks): ([u32; 3], Slots),
) -> FlowRule {
    let at = recipe.parts.iter().fold(*key, |at, (_, part)| at.behind(part.rewrite));
    let is_rewritten = recipe.parts.iter().any(|(_, part)| part.rewrite != Rewrite::Nothing);
    let rewritten = match at.ends {
        Ends::V4 { src, dst } if is_rewritten => Some(((src, dst), at.ports)),
        _ => None,
    };
    FlowRule {
        rewritten,
        out: recipe.out.port,
        routed: recipe.out.routed,
        tracks,
        epochs,
        until: until_of(now, recipe, margin),
    }
}

/// How long an entry of a recipe may hold: it ends before any of its sessions can.
pub(super) fn until_of(now: Time, recipe: &Recipe, margin: Duration) -> Option<Time> {
    let end = recipe.until?.time(now);
    Some(Time::from_ns(end.ns().saturating_sub(margin.as_nanos() as u64)))
}
