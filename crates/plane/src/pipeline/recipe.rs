//! The recipe of a flow: what the stages and the exit do to its frames, part by part.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::{Exit, Pipeline};
use crate::dir::Dir;
use crate::recipe::{Depends, Key, Never, On, Out, Recipe};
use crate::table::timers::Tick;
use crate::time::Time;

impl Pipeline {
    /// The epoch of something that recipes depend on.
    pub(crate) fn epoch(&self, on: On) -> u32 {
        match (on, &self.exit) {
            (On::Text, _) => self.text_epoch,
            (On::Routes, Exit::Router(router)) => router.epochs().0,
            (On::Neighbours, Exit::Router(router)) => router.epochs().1,
            (On::Routes | On::Neighbours, Exit::Across) => 0,
            (On::Session { stage, number }, _) => {
                self.stages.get(stage).map_or(0, |stage| stage.kind().epoch(number))
            }
        }
    }

    /// What is done to frames with this key.
    ///
    /// # Errors
    /// They must pass the stages.
    pub(crate) fn recipe(&self, now: Time, key: Key) -> Result<Recipe, Never> {
        if self.tags(key.port).lines().is_some() {
            // The key does not say which line it is, and subscribers are counted.
            return Err(Never::Configured);
        }
        let dir = self.enters(key.port).ok_or(Never::Configured)?;
        let (mut at, mut class, mut parts, mut until) = (key, 0, Vec::new(), None);
        let mut depends = vec![On::Text];
        let count = self.stages.len();
        let order = (0..count).map(|n| if dir == Dir::Outward { n } else { count - 1 - n });
        for (stage, kind) in order.filter_map(|k| Some((k, self.stages.get(k)?.kind()))) {
            let Some(part) = kind.recipe(now, &at, dir, class)? else { continue };
            at = at.behind(part.rewrite);
            class = part.class.unwrap_or(class);
            depends.extend(part.sessions.iter().map(|&number| On::Session { stage, number }));
            until = match (until, part.until) {
                (Some(a), Some(b)) => Some(Tick::earlier(a, b)),
                (a, b) => a.or(b),
            };
            parts.push((stage, part));
        }
        let out = match &self.exit {
            Exit::Router(router) => {
                depends.extend([On::Routes, On::Neighbours]);
                router.recipe(&at)?
            }
            Exit::Across => Out { port: self.across[dir], routed: None },
        };
        if self.tags(out.port).lines().is_some() {
            return Err(Never::Configured);
        }
        let depends = depends.into_iter().map(|on| Depends { on, epoch: self.epoch(on) }).collect();
        Ok(Recipe { parts, out, depends, until })
    }
}
