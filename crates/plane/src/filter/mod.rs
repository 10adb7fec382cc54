//! Which frames pass: rules, the first of which decides, see [`rules`] for their language.
//!
//! ```text
//! frames > connection of each (state) > key of each > first rule of each (classify) > accept, drop, reject
//!                                                         count, log: from the next rule on again
//! later fragments of a packet > as the first one, which they wait for (fragments)
//! ```
//!
//! | argument of `filter` | meaning |
//! |---|---|
//! | a file name, with a dot or a slash in it | the rules are in that file |
//! | a rule, `policy ...`, `connections ...` | as a line of a file; several arguments are several lines |
//!
//! What a router hears about neighbours (ARP, neighbour discovery) passes no filter. In a bump in the wire all frames do, see
//! `no_ip.rs`. Errors that the node sends pass the filters on their way back, in the state `related`.
//!
//! Files:
//! - `rules.rs`: the language; `compile.rs`, `match_ranges.rs`: rules as ranges of each field; `ruleset.rs`: a set of rules,
//!   and its update
//! - `classify.rs`: finds the first rule that matches a frame
//! - `who.rs`: the subscriber of a frame
//! - `state.rs`: connections; `fragments.rs`: later fragments
//! - `no_ip.rs`: frames that are not IP packets, in a bump in the wire
//! - `recipe.rs`: the filter's part of a recipe

mod answer;
mod classify;
mod command;
mod compile;
mod configured;
mod fragments;
mod match_ranges;
mod no_ip;
mod recipe;
mod rules;
mod ruleset;
mod stage;
mod state;
mod who;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use weir_config::{Mistake, Notes, Place};
use weir_packet::headers::{self, Headers, ICMP, ICMP6, TCP, UDP};

use self::classify::{BITS, DIR, DPORT, DST, Key, NONE, PORT, PROTO, SPORT, SRC, STATE};
use self::compile::MatchRanges;
use self::fragments::{First, FragmentTable, Later};
use self::match_ranges::{LATER, STATES};
use self::no_ip::is_by_default;
use self::rules::Rules;
use self::ruleset::{Act, Ruleset};
use self::state::{Connections, Found, State};
use crate::batch::{BATCH, PerFrame, Set, Verdict};
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::frame::{Fragment, Frame, Kind, PortId};
use crate::icmp::Error;
use crate::limits::Limits;
use crate::port::Port;
use crate::stage::Step;
use crate::table::page::Page;
use crate::text::{Arg, FileOf, Item};
use crate::threads::Share;
use crate::time::Time;

pub use self::answer::{FilterSession, RuleCount};
pub use self::command::FilterCommand;
pub(crate) use self::command::RulesChange;
pub(crate) use self::rules::{CLASSES, class};
pub(crate) use self::ruleset::Update;
pub(crate) use self::state::Connection;

/// The configuration of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    rules: Rules,
}

impl Config {
    /// Whether it remembers connections.
    pub(crate) fn is_stateful(&self) -> bool {
        self.rules.rules.iter().any(|rule| rule.states != 0)
    }

    /// The ports that its rules name.
    pub(crate) fn ports_mut(&mut self) -> impl Iterator<Item = &mut PortId> {
        self.rules.rules.iter_mut().filter_map(|rule| rule.port.as_mut())
    }

    /// Reads an item for a node with these ports; `load` gives the text of a file. Mistakes are noted, those of a file
    /// with its name and their lines.
    pub(crate) fn read(item: &Item, ports: &[Port], load: FileOf<'_>, notes: &Notes<'_>) -> Option<Config> {
        let is_file = |arg: &&Arg| arg.0.len() == 1 && arg.0[0].text.contains(['.', '/']);
        let file = item.args.first().filter(is_file);
        let (text, begins) = match (file, &item.args[..]) {
            (None, args @ [_, ..]) => lines(args),
            (Some(file), [_]) => match load(&file.0[0].text) {
                Ok(text) => (text, Vec::new()),
                Err(text) => {
                    file.wrong(notes, text);
                    return None;
                }
            },
            _ => {
                let text = "a filter has one file with rules, or rules with commas between, as in filter(rules.fw) or \
                            filter(accept state established,related, policy drop)";
                item.wrong(notes, text.to_string());
                return None;
            }
        };
        let name = file.map_or("filter", |file| &file.0[0].text);
        match rules::read(name, &text, ports) {
            Ok(rules) => match MatchRanges::of(&rules) {
                Ok(_) => Some(Config { rules }),
                Err(text) => {
                    item.wrong(notes, format!("{name}: {text}"));
                    None
                }
            },
            Err(mistakes) => {
                for Mistake { place, text } in mistakes.list {
                    match place {
                        Place::Line(n) if file.is_none() => begins[n - 1].wrong(notes, text),
                        Place::Line(n) => item.wrong(notes, format!("{name}:{n}: {text}")),
                        Place::Set(_) => unreachable!("rules are in a text"),
                    }
                }
                None
            }
        }
    }
}

/// Arguments as the lines of a file, and what each line begins with: an argument that begins no rule goes on with the
/// list that the one before ends with.
fn lines(args: &[Arg]) -> (String, Vec<&Arg>) {
    let (mut text, mut begins) = (String::new(), Vec::new());
    for arg in args {
        if begins.is_empty() || rules::BEGINNINGS.contains(&arg.0[0].text.as_str()) {
            begins.push(arg);
            text.push('\n');
        } else {
            text.push(',');
        }
        text += &arg.words().join(" ");
    }
    text.remove(0);
    (text, begins)
}

/// Frames and bytes that a rule held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Bytes of their packets.
    pub bytes: u64,
}

/// A frame that a rule has logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// When.
    pub time: Time,
    /// The rule.
    pub rule: String,
    /// What it carries.
    pub ether_type: u16,
    /// The first bytes of the packet, enough for its headers.
    pub packet: Vec<u8>,
}

#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl fmt::Display for Logged {
    /// The time, the ends of the packet, and the rule that logged it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s  ", self.time.ns() as f64 / 1e9)?;
        let frame = [&[0; 12][..], &self.ether_type.to_be_bytes(), &self.packet].concat();
        if !matches!(self.ether_type, 0x0800 | 0x86dd) {
            write!(f, "EtherType {:#06x} ", self.ether_type)?;
        }
        if let Some(Headers { src, dst, protocol, ports: (sport, dport), .. }) = headers::read(&frame) {
            match headers::protocol_name(protocol) {
                Some(name) => write!(f, "{name} ")?,
                None => write!(f, "protocol {protocol} ")?,
            }
            match protocol {
                TCP | UDP => write!(f, "{} > {}", SocketAddr::new(src, sport), SocketAddr::new(dst, dport))?,
                ICMP | ICMP6 => write!(f, "{src} > {dst} type {sport} code {dport}")?,
                _ => write!(f, "{src} > {dst}")?,
            }
        }
        write!(f, "  by `{}`", self.rule)
    }
}

/// Logged frames that were not read; older ones are forgotten.
pub(crate) const MOST_LOGGED: usize = 1024;
/// Bytes of a logged frame.
const LOGGED_BYTES: usize = 96;

/// A filter.
#[derive(Debug)]
pub(crate) struct Filter {
    rules: Ruleset,
    logged: VecDeque<Logged>,
    /// Where a rule asks for states.
    connections: Option<Box<Connections>>,
    fragments: FragmentTable,
    seed: u64,
    share: Share,
    /// What is asked about a batch; kept, since to make it anew costs more than to use it.
    asked: Option<Box<Asked>>,
}

/// Frames of a batch of one version of IP, with what is asked about each.
#[derive(Debug)]
struct Asked {
    frames: [u8; BATCH],
    rules: classify::Asked,
}

#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl Filter {
    /// A filter as the text says, or a thread's share of it. What must not be predictable from outside follows from `seed`.
    pub(crate) fn new(config: &Config, seed: u64, share: Share) -> Filter {
        let rules = Ruleset::new(config);
        let most = rules.connections.map(|most| share.part(most));
        Filter {
            rules,
            logged: VecDeque::new(),
            connections: most.map(|most| Box::new(Connections::new(seed, most))),
            fragments: FragmentTable::new(Limits::default().fragments(share)),
            seed,
            share,
            asked: Some(Box::default()),
        }
    }

    /// Takes other rules; a rule that is also among the old ones keeps its counts. Connections stay if the new rules ask for
    /// them. What is of no more use is left in `update`.
    fn take_rules(&mut self, update: &mut Update) {
        update.carry(&self.rules);
        std::mem::swap(&mut self.rules, &mut update.rules);
        let seed = self.seed;
        match self.rules.connections.map(|most| self.share.part(most)) {
            Some(most) => {
                let new = || Box::new(Connections::new(seed, most));
                self.connections.get_or_insert_with(new).set_most(most);
            }
            None => update.connections = self.connections.take(),
        }
    }

    /// All stages have seen the batch; these are the verdicts of its frames.
    pub(crate) fn settle(&mut self, verdicts: &PerFrame<Verdict>) {
        if let Some(connections) = &mut self.connections {
            connections.settle(verdicts);
        }
    }

    /// Forgets connections whose first frame was dropped by a later stage.
    pub(crate) fn forget_refused(&mut self) {
        if let Some(connections) = &mut self.connections {
            connections.forget_refused();
        }
    }

    /// Connections that are remembered from this number on, so many at most.
    pub(crate) fn shown(&self, from: u32) -> Page<Connection> {
        let none = || Page { records: Vec::new(), next: None };
        self.connections.as_ref().map_or_else(none, |connections| connections.shown(from))
    }

    /// Whether it remembers connections.
    pub(crate) fn is_stateful(&self) -> bool {
        self.connections.is_some()
    }

    /// Connections that are remembered.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.as_ref().map_or(0, |connections| connections.live())
    }

    /// The rules as they were written, with their counts, the policy, and what was accepted in spite of it.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, Count)> {
        let Ruleset { source, counts, policy, by_default, .. } = &self.rules;
        let rules = source.rules.iter().map(|rule| rule.text.as_str());
        let name = match policy.0 {
            Act::Accept { .. } => "policy accept",
            Act::Reject => "policy reject",
            _ => "policy drop",
        };
        let by_default = Some((no_ip::DEFAULT, *by_default)).filter(|(_, count)| count.frames > 0);
        rules.zip(counts.iter().copied()).chain([(name, policy.1)]).chain(by_default)
    }

    /// Frames that were logged since the last call.
    pub(crate) fn logged(&mut self) -> impl Iterator<Item = Logged> {
        self.logged.drain(..)
    }

    /// Memory that frames read, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let connections = self.connections.as_ref().map_or(0, |connections| connections.bytes());
        self.rules.bytes() + connections
    }

    /// Decides about frames; returns those that pass.
    fn judge(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        let (mut passed, mut judged) = (Set::EMPTY, set);
        for i in set {
            if step.frames[i].fragment() == Fragment::Later {
                match self.fragments.later(step, i, dir, self.rules.asks_first_fragments) {
                    Later::Judged => continue,
                    Later::Passes(class) => {
                        classify(&mut step.frames[i], class);
                        passed.insert(i);
                    }
                    Later::Gone => {}
                }
                judged.remove(i);
            }
        }
        let set = judged;
        let found = self.connections.as_ref().map(|connections| connections.find(step, set));
        let mut asked = self.asked.take().unwrap_or_default();
        for v4 in [true, false] {
            asked.fill(step, dir, set, v4, found.as_ref());
            while asked.rules.len > 0 {
                if v4 {
                    self.rules.program.first_v4(&mut asked.rules)
                } else {
                    self.rules.program.first_v6(&mut asked.rules)
                }
                self.act(step, dir, &mut asked, &mut passed);
            }
        }
        self.asked = Some(asked);
        let judged = passed.and(set);
        match &found {
            Some(found) => passed.without(self.remember(step, judged, found)),
            None => passed,
        }
    }

    /// Acts on the rules that were found; frames that go on to the next rule are left in `asked`.
    #[expect(
        clippy::indexing_slicing,
        reason = "places below the count of a batch, and numbers of rules that were found"
    )]
    fn act(&mut self, step: &mut Step<'_, '_>, dir: Dir, asked: &mut Asked, passed: &mut Set) {
        let mut left = 0;
        let Asked { frames, rules } = asked;
        for n in 0..rules.len {
            let (i, rule) = (usize::from(frames[n]) % BATCH, rules.found[n]);
            if self.rules.is_of_another(rule, &step.frames[i], dir, step.subscribers) {
                frames[left] = frames[n];
                rules.keys[left] = rules.keys[n];
                rules.from[left] = rule + 1;
                left += 1;
                continue;
            }
            let bytes = step.frames[i].ip_bytes();
            let (act, count) = match rule {
                NONE => self.rules.by_policy(&step.frames[i]),
                rule => (self.rules.acts[rule as usize], &mut self.rules.counts[rule as usize]),
            };
            count.add(bytes);
            match act {
                Act::Accept { class } => {
                    classify(&mut step.frames[i], class);
                    passed.insert(i);
                }
                Act::Drop if rule == NONE => step.drop(i, DropReason::FilterPolicy),
                Act::Drop => step.drop(i, DropReason::FilterDrop),
                Act::Reject => reject(step, dir, i),
                Act::Count | Act::Log { .. } => {
                    if let Act::Log { every } = act
                        && count.frames % every == 1 % every
                    {
                        self.log(step, i, rule);
                    }
                    frames[left] = frames[n];
                    rules.keys[left] = rules.keys[n];
                    rules.from[left] = rule + 1;
                    left += 1;
                    continue;
                }
            }
            if step.frames[i].fragment() == Fragment::First {
                let first =
                    if let Act::Accept { class } = act { First::Passed(class) } else { First::Refused };
                self.fragments.judged(step, i, dir, first);
            }
        }
        rules.len = left;
    }

    /// Updates the connections of frames that pass; returns the frames for which there was no room.
    fn remember(&mut self, step: &mut Step<'_, '_>, set: Set, found: &Found) -> Set {
        let mut refused = Set::EMPTY;
        let Some(connections) = &mut self.connections else { return refused };
        for i in set {
            let is_full = connections.passed(&step.frames[i], found, i, step.now).is_err();
            // A neighbour is found although the table is full.
            if is_full && !is_by_default(&step.frames[i]) {
                step.drop(i, DropReason::FilterTable);
                refused.insert(i);
            }
        }
        refused
    }

    #[cold]
    #[expect(clippy::indexing_slicing, reason = "the number of a rule that was found")]
    fn log(&mut self, step: &Step<'_, '_>, i: usize, rule: u32) {
        if self.logged.len() == MOST_LOGGED {
            self.logged.pop_front();
        }
        let packet = step.frames[i].ip();
        self.logged.push_back(Logged {
            time: step.now,
            rule: self.rules.source.rules[rule as usize].text.clone(),
            ether_type: step.frames[i].ether_type(),
            packet: packet.get(..LOGGED_BYTES).unwrap_or(packet).to_vec(),
        });
    }
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { frames: [0; BATCH], rules: classify::Asked::default() }
    }
}

impl Asked {
    /// The frames of one version, each with all rules before it.
    fn fill(&mut self, step: &Step<'_, '_>, dir: Dir, set: Set, v4: bool, found: Option<&Found>) {
        let rules = &mut self.rules;
        rules.len = 0;
        for i in set {
            let frame = &step.frames[i];
            if (frame.kind() == Kind::V4) == v4 {
                self.frames[rules.len] = i as u8;
                rules.from[rules.len] = 0;
                let state = found.map_or(State::New, |found| found.states[i]);
                fill(&mut rules.keys[rules.len], frame, dir, state);
                rules.len += 1;
            }
        }
    }
}

/// Writes the key of a frame; its connection is in this state.
#[inline]
fn fill(key: &mut Key, frame: &Frame<'_>, dir: Dir, state: State) {
    let state = state as u32;
    if frame.kind() == Kind::V4 {
        (key.words[SRC], key.words[DST]) = frame.addresses4();
    } else {
        let (src, dst) = frame.addresses6();
        key.set_v6(src, dst);
    }
    let (sport, dport) = match frame.icmp() {
        Some((kind, code)) => (u16::from_be_bytes([kind, code]), 0),
        None => frame.ports(),
    };
    key.words[SPORT] = u32::from(sport);
    key.words[DPORT] = u32::from(dport);
    key.words[PROTO] = u32::from(frame.proto());
    key.words[PORT] = u32::from(frame.port.0);
    key.words[STATE] = state;
    key.words[DIR] = u32::from(dir == Dir::Inward);
    let later = if frame.fragment() == Fragment::Later { LATER } else { 0 };
    let meta = 1 << state | 1 << (STATES + key.words[DIR]) | later;
    key.words[BITS] = match_ranges::bits(frame.tcp_flags(), meta);
}

/// The rule that has accepted a frame may say its class.
#[inline]
fn classify(frame: &mut Frame<'_>, class: Option<u8>) {
    if let Some(class) = class {
        frame.class = class;
    }
}

/// The frame goes no further, and its sender is informed as if no service listened there.
#[cold]
fn reject(step: &mut Step<'_, '_>, dir: Dir, i: usize) {
    let back = step.back(dir);
    if step.frames[i].proto() != TCP {
        return step.refuse(i, DropReason::FilterReject, Error::NoPort, back);
    }
    step.outbox.reset(step.now, &step.frames[i], back);
    step.drop(i, DropReason::FilterReject);
}

#[cfg(test)]
mod tests;
