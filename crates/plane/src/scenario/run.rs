//! A scenario against a node: what came out of what went in, compared line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ether;
use super::fields::{self, Fields, Names};
use super::fragments::Reassembly;
use super::text::{Action, End, Scenario, Step, When};

/// What a scenario is run against.
pub trait Target {
    /// The node is to be as this text says, without losing what it holds.
    ///
    /// # Errors
    /// Why it cannot be.
    fn configure(&mut self, text: &str) -> Result<(), String>;

    /// An IP packet comes in at an end, so long after the beginning; or another frame, see `ether.rs`.
    fn send(&mut self, at: Duration, end: End, packet: &[u8]);

    /// Nothing comes in until then.
    fn wait(&mut self, until: Duration);

    /// The packets that left since the last call, and other frames.
    fn left(&mut self) -> Vec<(End, Vec<u8>)>;

    /// How often to look before what must leave is given up: more than once where a target may be late.
    fn patience(&self) -> u32;

    /// Frames dropped so far, by reason; `None` if the target does not tell.
    fn drops(&self) -> Option<BTreeMap<String, u64>>;

    /// What else must be true of it after each step.
    ///
    /// # Errors
    /// What is not.
    fn sound(&self) -> Result<(), String>;
}

/// What has come of the steps so far.
struct Play<'a, T> {
    target: &'a mut T,
    names: Names,
    now: Duration,
    /// What left and was not asked for yet.
    left: Vec<(End, Fields)>,
    fragments: Reassembly,
    drops: BTreeMap<String, u64>,
    /// Expected drops of the last input, if any were listed.
    listed: Option<BTreeMap<String, u64>>,
}

impl Scenario {
    /// Runs the scenario.
    ///
    /// # Errors
    /// The first line that was not so, with what was seen instead.
    pub fn run(&self, target: &mut impl Target) -> Result<(), String> {
        let mut play = Play {
            target,
            names: Names::new(),
            now: Duration::ZERO,
            left: Vec::new(),
            fragments: Reassembly::default(),
            drops: BTreeMap::new(),
            listed: None,
        };
        for step in &self.steps {
            play.step(step).map_err(|text| format!("line {}: {text}", step.line))?;
        }
        play.settle().map_err(|text| format!("at the end: {text}"))
    }
}

impl<T: Target> Play<'_, T> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Node(text) => {
                self.settle()?;
                self.target.configure(text)?;
            }
            Action::Wait(until) => {
                self.settle()?;
                self.target.wait(*until);
            }
            Action::Send(when, end, packet) => {
                if let When::At(time) = when {
                    self.settle()?;
                    self.now = *time;
                }
                for repetition in 0..step.times {
                    let packet = ether::packet(&fields::resolved(packet, &self.names, repetition)?)?;
                    self.target.send(self.now, *end, &packet);
                }
            }
            Action::Expect(end, pattern) => {
                self.collect()?;
                for repetition in 0..step.times {
                    self.await_packet(*end, pattern, repetition)?;
                }
            }
            Action::Drop(reason) => {
                *self.listed.get_or_insert_default().entry(reason.clone()).or_default() +=
                    u64::from(step.times);
            }
            Action::Check(words) => {
                check(&words.iter().map(String::as_str).collect::<Vec<_>>(), &self.names)?
            }
        }
        self.target.sound()
    }

    fn collect(&mut self) -> Result<(), String> {
        for (end, packet) in self.target.left() {
            let broken = |wrong: String| format!("what left is broken: {wrong}: {packet:02x?}");
            let seen = ether::seen(&packet).map_err(broken)?;
            if !ether::is_frame(&packet) {
                self.fragments.add(&packet).map_err(broken)?;
            }
            self.left.push((end, seen));
        }
        Ok(())
    }

    fn await_packet(&mut self, end: End, pattern: &Fields, repetition: u32) -> Result<(), String> {
        let count =
            |(name, text): (&String, &String)| (name.clone(), fields::counted(name, text, repetition));
        let pattern: Fields = pattern.iter().map(count).collect();
        for _ in 0..self.target.patience() {
            let names = &mut self.names;
            let found =
                self.left.iter().position(|(at, seen)| *at == end && fields::matches(&pattern, seen, names));
            if let Some(i) = found {
                self.left.remove(i);
                return Ok(());
            }
            self.collect()?;
        }
        Err(format!("it did not leave; {}{}", self.unasked(), self.dropped()))
    }

    /// All that came of the last input was listed.
    fn settle(&mut self) -> Result<(), String> {
        self.collect()?;
        if !self.left.is_empty() {
            return Err(format!("before this line more left than was listed: {}", self.unasked()));
        }
        let Some(now) = self.target.drops() else { return Ok(()) };
        if let Some(listed) = self.listed.take() {
            let new: BTreeMap<String, u64> = now
                .iter()
                .map(|(reason, frames)| (reason.clone(), frames - self.drops.get(reason).unwrap_or(&0)))
                .filter(|(_, frames)| *frames > 0)
                .collect();
            if new != listed {
                return Err(format!("before this line these drops were listed: {listed:?}, seen: {new:?}"));
            }
        }
        self.drops = now;
        Ok(())
    }

    fn unasked(&self) -> String {
        let lines: Vec<_> = self
            .left
            .iter()
            .map(|(end, seen)| {
                let verb = match end {
                    End::Left => "home",
                    End::Right => "out",
                    End::Local => "local",
                    End::Control => "control",
                };
                format!("{verb} {}", fields::shown(seen))
            })
            .take(5)
            .collect();
        if lines.is_empty() { "nothing else left".to_string() } else { format!("left: {}", lines.join("; ")) }
    }

    fn dropped(&self) -> String {
        let now = self.target.drops().unwrap_or_default();
        let new: Vec<_> = now
            .iter()
            .filter(|(reason, frames)| self.drops.get(*reason) != Some(frames))
            .map(|(reason, frames)| format!("{reason} x{}", frames - self.drops.get(reason).unwrap_or(&0)))
            .collect();
        if new.is_empty() { String::new() } else { format!("; dropped: {}", new.join(", ")) }
    }
}

fn check(words: &[&str], names: &Names) -> Result<(), String> {
    let value = |word: &str| match word.strip_prefix('$') {
        Some(name) => names.get(name).cloned().ok_or_else(|| format!("`${name}` stands for nothing yet")),
        None => Ok(word.to_string()),
    };
    let number = |word: &str| value(word)?.parse::<u64>().map_err(|_| format!("`{word}` is no number"));
    let holds = match words {
        [a, "==", b] => value(a)? == value(b)?,
        [a, "!=", b] => value(a)? != value(b)?,
        [a, "!=", b, "+", n] => number(a)? != number(b)? + number(n)?,
        [a, "even"] => number(a)? % 2 == 0,
        [a, "odd"] => number(a)? % 2 == 1,
        [a, "in", range] => {
            let (low, high) = range.split_once('-').ok_or_else(|| format!("`{range}` is no range"))?;
            (number(low)?..=number(high)?).contains(&number(a)?)
        }
        _ => return Err(format!("`{}` can not be checked: use == != + in even odd", words.join(" "))),
    };
    if holds { Ok(()) } else { Err(format!("{} is not so: {names:?}", words.join(" "))) }
}
