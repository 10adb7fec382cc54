//! Scenarios as a text.
//!
//! ```text
//! == RFC 4787 REQ-1: a mapping is the same for all external hosts
//! node   nat(public 192.0.2.1)
//! 0ms    in   udp 198.18.0.1:1111 > 198.19.0.9:53
//!        out  udp 192.0.2.1:$p > 198.19.0.9:53
//! 1s     back udp 198.19.0.8:9 > 192.0.2.1:$p
//!        home udp 198.19.0.8:9 > 198.18.0.1:1111
//! 2s     back udp 198.19.0.8:9 > 192.0.2.1:1 x3
//!        drop nat_no_mapping x3
//!        check $p in 1024-65535
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `== REFERENCE: TITLE` | a scenario begins |
//! | `wire` | it can be run against a box from outside |
//! | `node TEXT` | what the node is to be; a second one is applied to the running node |
//! | `TIME in`, `TIME back` | a packet comes in at the left end, at the right end, so long after the beginning |
//! | `TIME wait` | nothing but time |
//! | `out`, `home` | a packet leaves at the right end, at the left end, because of what came before |
//! | `local` | it is for the node's own machine |
//! | `control` | it is punted to the control program, which is attached |
//! | `drop REASON` | it is dropped and counted |
//! | `check` | `$a == $b`, `$a != $b`, `$a != $b + N`, `$a in LOW-HIGH`, `$a even`, `$a odd` |
//!
//! `in` and `back` without a time come right behind the packet before, and what follows is because of all of them.
//! `xN` at the end repeats a line, up to 100000 times; a scenario lasts 100 hours at most. All that leaves must be listed; drops are compared where one is listed.

use std::time::Duration;

use super::fields::{self, Fields};

/// Latest that anything happens: time passes in small steps.
const MOST_TIME: Duration = Duration::from_secs(100 * 3600);
/// Most repetitions of a line.
const MOST_TIMES: u32 = 100_000;

/// A scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// What it proves: `RFC 4787 REQ-1`.
    pub reference: String,
    /// What must be so.
    pub title: String,
    /// Whether it can be run against a box from outside.
    pub wire: bool,
    /// The line it begins at, from 1.
    pub line: usize,
    pub(super) steps: Vec<Step>,
}

impl Scenario {
    /// The texts of its nodes.
    pub fn nodes(&self) -> impl Iterator<Item = String> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Node(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// The scenario with `there` wherever it says `here`.
    pub fn moved(mut self, here: &str, there: &str) -> Scenario {
        for step in &mut self.steps {
            if let Action::Send(_, _, fields) | Action::Expect(_, fields) = &mut step.action {
                fields
                    .values_mut()
                    .filter(|value| *value == here)
                    .for_each(|value| *value = there.to_string());
            }
        }
        self
    }
}

/// A line that does something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) times: u32,
    pub(super) action: Action,
}

/// Where packets come in and leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The inside.
    Left,
    /// The outside.
    Right,
    /// The node's own machine.
    Local,
    /// The node's control program.
    Control,
}

/// When a packet comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// So long after the beginning; all that came before has had its consequences.
    At(Duration),
    /// Right behind the one before.
    AtOnce,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Node(String),
    Send(When, End, Fields),
    Wait(Duration),
    Expect(End, Fields),
    Drop(String),
    Check(Vec<String>),
}

/// Reads all scenarios of a file.
///
/// # Errors
/// Each mistake with its line.
pub fn read(text: &str) -> Result<Vec<Scenario>, String> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut mistakes = Vec::new();
    let mut now = Duration::ZERO;
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(head) = line.strip_prefix("==") {
            let (reference, title) = head.split_once(':').unwrap_or((head, ""));
            let [reference, title] = [reference, title].map(|text| text.trim().to_string());
            scenarios.push(Scenario { reference, title, wire: false, line: n + 1, steps: Vec::new() });
            now = Duration::ZERO;
            continue;
        }
        let Some(scenario) = scenarios.last_mut() else {
            mistakes.push(format!("line {}: begin a scenario with `== REFERENCE: TITLE`", n + 1));
            continue;
        };
        if line == "wire" {
            scenario.wire = true;
            continue;
        }
        match step(line, &mut now) {
            Ok((action, _)) if scenario.steps.is_empty() && !matches!(action, Action::Node(_)) => {
                mistakes.push(format!("line {}: say first what the node is: `node TEXT`", n + 1));
            }
            Ok((action, times)) => scenario.steps.push(Step { line: n + 1, times, action }),
            Err(text) => mistakes.push(format!("line {}: {text}", n + 1)),
        }
    }
    if mistakes.is_empty() { Ok(scenarios) } else { Err(mistakes.join("\n")) }
}

fn step(line: &str, now: &mut Duration) -> Result<(Action, u32), String> {
    let (first, rest) = word(line);
    let ((verb, rest), when) = match time(first) {
        Some(time) => {
            *now = time.max(*now);
            (word(rest), When::At(*now))
        }
        None => ((first, rest), When::AtOnce),
    };
    let (rest, times) = repeated(rest);
    let action = match verb {
        "node" => Action::Node(format!("node {rest}")),
        "in" => Action::Send(when, End::Left, fields::read(rest)?),
        "back" => Action::Send(when, End::Right, fields::read(rest)?),
        "wait" => Action::Wait(*now),
        "out" => Action::Expect(End::Right, fields::read(rest)?),
        "home" => Action::Expect(End::Left, fields::read(rest)?),
        "local" => Action::Expect(End::Local, fields::read(rest)?),
        "control" => Action::Expect(End::Control, fields::read(rest)?),
        "drop" => Action::Drop(rest.to_string()),
        "check" => Action::Check(rest.split_whitespace().map(str::to_string).collect()),
        _ => {
            return Err(format!(
                "`{verb}` is nothing that happens: use in, back, out, home, local, control, drop, check, wait, node"
            ));
        }
    };
    Ok((action, times))
}

fn word(line: &str) -> (&str, &str) {
    line.split_once(char::is_whitespace).map_or((line, ""), |(word, rest)| (word, rest.trim_start()))
}

/// `x3` at the end of a line.
fn repeated(line: &str) -> (&str, u32) {
    let last = line.rsplit_once(char::is_whitespace);
    let times = last.and_then(|(_, last)| last.strip_prefix('x')?.parse().ok());
    let times = times.filter(|times| *times <= MOST_TIMES);
    times.map_or((line, 1), |times| (last.expect("there is one").0.trim_end(), times))
}

/// `5ms`, `3s`, `2h`.
fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let time = match &text[digits..] {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "h" => Duration::from_secs(number.saturating_mul(3600)),
        _ => return None,
    };
    (time <= MOST_TIME).then_some(time)
}
