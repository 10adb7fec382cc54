//! The filter's part of a recipe: the rules and the connection of a flow, and what is counted when the recipe was used.

use super::classify::{Asked, BITS, DIR, DPORT, DST, Key, NONE, PORT, PROTO, SPORT, SRC, STATE};
use super::match_ranges::{self, STATES};
use super::ruleset::Act;
use super::state::State;
use super::who::Who;
use super::{Count, Filter};
use crate::dir::Dir;
use crate::recipe::{self, Ends, FilterNote, Never, Note, Part, Rewrite, SessionState, Uses};

use crate::table::tcp::Segment;
use crate::time::Time;

impl Filter {
    /// What the filter does to frames with this key in the direction `dir`.
    ///
    /// # Errors
    /// They must pass the stage.
    pub(super) fn part(&self, now: Time, key: &recipe::Key, dir: Dir) -> Result<Part, Never> {
        let open = match &self.connections {
            Some(connections) => Some(connections.open(now, key).ok_or(Never::NoSession)?),
            None => None,
        };
        let state = if open.is_some() { State::Established } else { State::New };
        let (rules, by_policy) =
            self.accepted_by(of(key, dir, state), matches!(key.ends, Ends::V4 { .. }))?;
        let accepts =
            rules.last().filter(|_| !by_policy).and_then(|&rule| self.rules.acts.get(rule as usize));
        let class = if let Some(Act::Accept { class }) = accepts { *class } else { None };
        Ok(Part {
            rewrite: Rewrite::Nothing,
            class,
            sessions: open.iter().map(|open| open.number).collect(),
            until: open.and_then(|open| open.until),
            note: Note::Filter(FilterNote {
                rules,
                by_policy,
                connection: open.map(|open| (open.number, open.side)),
            }),
        })
    }

    /// The rules that match a frame up to the one that accepts it; true if that is the policy.
    fn accepted_by(&self, key: Key, is_v4: bool) -> Result<(Vec<u32>, bool), Never> {
        let (mut asked, mut rules) = (Box::<Asked>::default(), Vec::new());
        loop {
            asked.len = 1;
            if let Some(place) = asked.keys.first_mut() {
                *place = key;
            }
            if is_v4 {
                self.rules.program.first_v4(&mut asked)
            } else {
                self.rules.program.first_v6(&mut asked)
            }
            let rule = asked.found.first().copied().unwrap_or(NONE);
            // A recipe outlives the plan and the state of its subscriber.
            if self.rules.who.get(rule as usize).is_some_and(Who::asks) {
                return Err(Never::Configured);
            }
            let act =
                if rule == NONE { Some(&self.rules.policy.0) } else { self.rules.acts.get(rule as usize) };
            match act {
                Some(Act::Accept { .. }) if rule == NONE => return Ok((rules, true)),
                Some(Act::Accept { .. }) => {
                    rules.push(rule);
                    return Ok((rules, false));
                }
                Some(Act::Count) => rules.push(rule),
                _ => return Err(Never::Configured),
            }
            if let Some(from) = asked.from.first_mut() {
                *from = rule + 1;
            }
        }
    }

    /// A frame of a recipe's flow was passed on: follows its TCP segment.
    pub(super) fn follow(&mut self, note: &FilterNote, segment: &Segment) {
        if let (Some(connections), Some((number, side))) = (&mut self.connections, note.connection) {
            connections.advance(number, side, segment);
        }
    }

    /// Counts the uses of a recipe.
    pub(super) fn count(&mut self, note: &FilterNote, uses: &Uses, session: SessionState) {
        let add = |count: &mut Count| {
            count.frames += uses.frames;
            count.bytes += uses.bytes;
        };
        for &rule in &note.rules {
            self.rules.counts.get_mut(rule as usize).into_iter().for_each(add);
        }
        if note.by_policy {
            add(&mut self.rules.policy.1);
        }
        if let (Some(connections), Some((number, _)), SessionState::Same) =
            (&mut self.connections, note.connection, session)
        {
            connections.used(number, uses.last);
        }
    }

    /// The connection that frames with this key belong to.
    pub(super) fn connection_of(&self, key: &recipe::Key) -> Option<u32> {
        self.connections.as_ref()?.of_key(key).map(|(number, _)| number)
    }
}

/// The key of the rules for a frame with this key.
fn of(key: &recipe::Key, dir: Dir, state: State) -> Key {
    let mut to = Key::default();
    match key.ends {
        Ends::V4 { src, dst } => (to.words[SRC], to.words[DST]) = (src, dst),
        Ends::V6 { src, dst } => to.set_v6(src, dst),
    }
    let state = state as u32;
    (to.words[SPORT], to.words[DPORT]) = (key.ports.0.into(), key.ports.1.into());
    (to.words[PROTO], to.words[PORT]) = (key.proto.into(), key.port.0.into());
    (to.words[STATE], to.words[DIR]) = (state, u32::from(dir == Dir::Inward));
    to.words[BITS] = match_ranges::bits(key.flags, 1 << state | 1 << (STATES + to.words[DIR]));
    to
}
