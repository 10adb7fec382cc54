//! Scenarios as a text.
//!
//! ```text
//! == RFC 2131 3.1: a client gets an address
//! bng    pool main 100.64.0.2-100.64.0.3 router 100.64.0.1/24, subscriber anna mac 02:00:00:00:00:01 plan down 20Mbit up 5Mbit
//! 0ms    in    access1 discover 02:00:00:00:00:01
//!        out   access1 offer 100.64.0.2
//! 10ms   in    access1 request 02:00:00:00:00:01 want 100.64.0.2 server 100.64.0.1
//!        out   access1 ack 100.64.0.2 lease 3600
//!        store lease * anna access1 02:00:00:00:00:01 100.64.0.2
//!        node  add anna access1 02:00:00:00:00:01 100.64.0.2 down 20Mbit/s up 5Mbit/s
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `== REFERENCE: TITLE` | a scenario begins |
//! | `bng TEXT` | the configuration, see `config/text.rs`; a second one is applied while the BNG runs. A port that is not listed is untrusted |
//! | `TIME in LINE MESSAGE MAC ...` | a frame comes in, see `client.rs` |
//! | `TIME do COMMAND` | an operator: `add`, `change` SUBSCRIBER, `block`, `wall`, `unblock`, `remove`, `disconnect` NAME |
//! | `TIME counted NAME FRAMES BYTES FRAMES BYTES` | the node has counted: down, up |
//! | `TIME disk ok`, `slow`, `full` | records are stored at once; when `disk stored` says so; not at all |
//! | `TIME crash` | the program ends, and begins again with what is on disk; the node goes on |
//! | `TIME link PORT down`, `up` | the node says so of a port |
//! | `TIME clock back TIME`, `forward` | the clock on the wall is set |
//! | `TIME wait` | nothing but time |
//! | `out LINE MESSAGE ...` | an answer because of what came before |
//! | `store`, `node`, `event` | a record, a command for the node, an event; `*` is any word, and more words may follow |
//! | `done`, `refused TEXT` | what came of a command |
//! | `drop REASON` | a frame is not answered |
//! | `why mac MAC TEXT`, `why line LINE TEXT` | the answer to that question |
//! | `session NAME LINE MAC ADDRESS ...`, `sessions N` | a session, and the number of sessions; also `since` and `counted` as in records |
//!
//! What comes in without a time comes right behind what came before, and what follows is because of all of it. `xN` at the end repeats
//! a line, and `+` behind a MAC counts it up. All answers must be listed; the others are compared where one of their kind is listed.

use std::time::Duration;

use weir_config::unit;

/// Latest that anything happens.
const MOST_TIME: Duration = Duration::from_secs(400 * 86_400);
/// Most repetitions of a line.
const MOST_TIMES: u32 = 1_000_000;

/// A scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// What it proves: `RFC 2131 4.3.1`.
    pub reference: String,
    /// What must be so.
    pub title: String,
    /// The line it begins at, from 1.
    pub line: usize,
    pub(super) steps: Vec<Step>,
}

impl Scenario {
    /// How often its lines are carried out.
    pub fn repetitions(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.times)).sum()
    }
}

/// A line that does something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) line: usize,
    /// When; `None`: right behind what came before.
    pub(super) at: Option<Duration>,
    pub(super) verb: Verb,
    pub(super) rest: String,
    pub(super) times: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Bng,
    In,
    Do,
    Counted,
    Disk,
    Crash,
    Clock,
    Link,
    Wait,
    Out,
    Store,
    Node,
    Event,
    Done,
    Refused,
    Drop,
    Why,
    Session,
    Sessions,
}

const VERBS: [(&str, Verb); 19] = [
    ("bng", Verb::Bng),
    ("in", Verb::In),
    ("do", Verb::Do),
    ("counted", Verb::Counted),
    ("disk", Verb::Disk),
    ("crash", Verb::Crash),
    ("clock", Verb::Clock),
    ("link", Verb::Link),
    ("wait", Verb::Wait),
    ("out", Verb::Out),
    ("store", Verb::Store),
    ("node", Verb::Node),
    ("event", Verb::Event),
    ("done", Verb::Done),
    ("refused", Verb::Refused),
    ("drop", Verb::Drop),
    ("why", Verb::Why),
    ("session", Verb::Session),
    ("sessions", Verb::Sessions),
];

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
            scenarios.push(Scenario { reference, title, line: n + 1, steps: Vec::new() });
            now = Duration::ZERO;
            continue;
        }
        let Some(scenario) = scenarios.last_mut() else {
            mistakes.push(format!("line {}: begin a scenario with `== REFERENCE: TITLE`", n + 1));
            continue;
        };
        match step(line, n + 1, &mut now) {
            Ok(step) if scenario.steps.is_empty() && step.verb != Verb::Bng => {
                mistakes.push(format!("line {}: say first what the BNG is: `bng TEXT`", n + 1));
            }
            Ok(step) => scenario.steps.push(step),
            Err(text) => mistakes.push(format!("line {}: {text}", n + 1)),
        }
    }
    if mistakes.is_empty() { Ok(scenarios) } else { Err(mistakes.join("\n")) }
}

fn step(text: &str, line: usize, now: &mut Duration) -> Result<Step, String> {
    let (first, behind) = word(text);
    let (at, (verb, rest)) = match unit::time(first, Duration::ZERO, MOST_TIME) {
        Ok(time) => {
            *now = time.max(*now);
            (Some(*now), word(behind))
        }
        Err(_) => (None, (first, behind)),
    };
    let found = VERBS.iter().find(|(name, _)| *name == verb);
    let (_, verb) = found.ok_or_else(|| {
        let names: Vec<_> = VERBS.iter().map(|(name, _)| *name).collect();
        format!("`{verb}` does nothing: use {}", names.join(", "))
    })?;
    let (rest, times) = repeated(rest);
    Ok(Step { line, at, verb: *verb, rest: rest.to_string(), times })
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// A line without its `xN`, and N.
fn repeated(text: &str) -> (&str, u32) {
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let times = last.strip_prefix('x').and_then(|times| times.parse().ok());
    match times.filter(|times| (1..=MOST_TIMES).contains(times)) {
        Some(times) => (text[..text.len() - last.len()].trim_end(), times),
        None => (text, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_their_lines() {
        let text = "0ms in access1\n== a: b\n0ms in access1\nbng\n1s go on";
        assert_eq!(
            read(text).unwrap_err(),
            "line 1: begin a scenario with `== REFERENCE: TITLE`\n\
             line 3: say first what the BNG is: `bng TEXT`\n\
             line 5: `go` does nothing: use bng, in, do, counted, disk, crash, clock, link, wait, out, store, node, event, done, refused, \
             drop, why, session, sessions"
        );
    }
}
