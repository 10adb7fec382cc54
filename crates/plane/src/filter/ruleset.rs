//! Compiled rules, and other rules for a filter that runs: they are compiled beside it, and replace the old ones at once.

use std::collections::HashMap;

use super::compile::{MatchRanges, Program};
use super::no_ip::{NoIpRule, is_by_default};
use super::rules::{Action, Rule, Rules};
use super::state::Connections;
use super::who::Who;
use super::{Config, Count};
use crate::access::Subscribers;
use crate::dir::Dir;
use crate::frame::Frame;

/// What is done when a rule holds for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Frames get this class, or keep theirs.
    Accept {
        class: Option<u8>,
    },
    Drop,
    Reject,
    Count,
    Log {
        every: u64,
    },
}

/// Rules with what they held for.
#[derive(Debug)]
pub(super) struct Ruleset {
    pub(super) source: Rules,
    pub(super) program: Program,
    pub(super) acts: Vec<Act>,
    pub(super) counts: Vec<Count>,
    /// What each asks of subscribers; empty, where none does.
    pub(super) who: Vec<Who>,
    /// Rules that may hold for frames that are no packets of IP, in their order.
    pub(super) no_ip: Vec<NoIpRule>,
    /// What the policy was used for.
    pub(super) policy: (Act, Count),
    /// What no rule decides about, and the policy does not either.
    pub(super) by_default: Count,
    /// How many connections are remembered, if a rule asks for them.
    pub(super) connections: Option<u32>,
    /// A rule asks for what only the first fragment of a packet has.
    pub(super) asks_first_fragments: bool,
}

impl Ruleset {
    /// Compiles the rules of a text: some 100 us for a rule where there are many.
    pub(super) fn new(config: &Config) -> Ruleset {
        let source = config.rules.clone();
        let match_ranges = MatchRanges::of(&source).expect("the text was refused otherwise");
        let acts: Vec<Act> = source.rules.iter().map(|rule| act(&rule.action, rule.class)).collect();
        Ruleset {
            program: Program::new(&match_ranges),
            counts: vec![Count::default(); acts.len()],
            acts,
            who: who(&source.rules),
            no_ip: NoIpRule::of(&source.rules),
            policy: (act(&source.policy, None), Count::default()),
            by_default: Count::default(),
            connections: source.rules.iter().any(|rule| rule.states != 0).then_some(source.connections),
            asks_first_fragments: source.rules.iter().any(Rule::asks_first_piece),
            source,
        }
    }

    /// Whether a rule that was found asks for another subscriber than that of the frame.
    #[inline]
    pub(super) fn is_of_another(
        &self,
        rule: u32,
        frame: &Frame<'_>,
        dir: Dir,
        subscribers: &Subscribers,
    ) -> bool {
        let who = self.who.get(rule as usize).filter(|who| who.asks());
        who.is_some_and(|who| !who.fits(frame, dir, subscribers))
    }

    /// What becomes of a packet that no rule decides about, and where that is counted.
    #[inline]
    pub(super) fn by_policy(&mut self, frame: &Frame<'_>) -> (Act, &mut Count) {
        match self.policy.0 {
            Act::Drop | Act::Reject if is_by_default(frame) => {
                (Act::Accept { class: None }, &mut self.by_default)
            }
            policy => (policy, &mut self.policy.1),
        }
    }

    /// Memory that frames read, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.program.bytes() + size_of_val(&*self.acts) + size_of_val(&*self.counts)
    }
}

/// What rules ask of subscribers.
fn who(rules: &[Rule]) -> Vec<Who> {
    match rules.iter().any(|rule| rule.who.asks()) {
        true => rules.iter().map(|rule| rule.who.clone()).collect(),
        false => Vec::new(),
    }
}

fn act(action: &Action, class: Option<u8>) -> Act {
    match action {
        Action::Accept => Act::Accept { class },
        Action::Drop => Act::Drop,
        Action::Reject => Act::Reject,
        Action::Count(_) => Act::Count,
        Action::Log(every) => Act::Log { every: *every },
    }
}

/// Other rules, ready to be taken; afterwards the old ones.
#[derive(Debug)]
pub(crate) struct Update {
    pub(super) rules: Ruleset,
    /// Connections that no rule asks for any more.
    pub(super) connections: Option<Box<Connections>>,
    /// Rules of the new text, and the same ones of the old.
    same: Vec<(u32, u32)>,
}

impl Update {
    /// The update from `old` to `new`.
    pub(crate) fn prepare(old: &Config, new: &Config) -> Update {
        let mut places: HashMap<&str, Vec<u32>> = HashMap::new();
        for (place, rule) in old.rules.rules.iter().enumerate().rev() {
            places.entry(&rule.text).or_default().push(place as u32);
        }
        // The first of several that are alike is the first of those before.
        let before = |rule: &Rule| places.get_mut(rule.text.as_str()).and_then(Vec::pop);
        let found = new.rules.rules.iter().map(before);
        let same = found.zip(0..).filter_map(|(before, place)| Some((place, before?))).collect();
        Update { rules: Ruleset::new(new), connections: None, same }
    }

    /// Goes on counting from what `old` has counted.
    pub(super) fn carry(&mut self, old: &Ruleset) {
        for &(place, before) in &self.same {
            self.rules.counts[place as usize] = old.counts[before as usize];
        }
        if self.rules.policy.0 == old.policy.0 {
            self.rules.policy.1 = old.policy.1;
        }
        self.rules.by_default = old.by_default;
    }
}
