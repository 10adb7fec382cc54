//! A scenario against a BNG: what came out of what went in, compared line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_config::unit;

use super::client;
use super::text::{Scenario, Step, Verb};
use crate::bng::Bng;
use crate::config::Config;
use crate::io::{AddSession, Command, Event, Input, LinkState, NodeCommand, Now, Output, Punt};
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::record::Record;
use crate::session::{Counters, Session, SessionId};
use crate::subscriber::{Service, Status, Subscriber};
use crate::words::Words;

/// What the clock on the wall says at first, s since 1970.
const WALL_S: u64 = 1_790_000_000;
/// The MAC address of ports that are not listed.
const PORT: &str = "02:00:00:00:00:fe";

/// What comes out besides frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Store,
    Node,
    Event,
    Result,
}

/// What becomes of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Ok,
    Slow,
    Full,
}

/// What has come of the steps so far.
struct Play {
    bng: Bng,
    text: String,
    now: Duration,
    /// How far the clock on the wall was set, s.
    wall_offset_s: i64,
    wake: Option<Duration>,
    disk: Disk,
    /// What is on disk, as lines.
    log: Vec<String>,
    /// What was written, and may be lost.
    unstored: Vec<Record>,
    node: BTreeMap<SessionId, AddSession>,
    /// What left and was not asked for yet.
    frames: Vec<(Line, Vec<(&'static str, String)>)>,
    others: BTreeMap<Kind, Vec<String>>,
    /// Kinds that were asked for since the last input.
    listed: Vec<Kind>,
    drops: BTreeMap<&'static str, u64>,
    listed_drops: Option<BTreeMap<String, u64>>,
    commands: u64,
}

impl Scenario {
    /// Runs the scenario.
    ///
    /// # Errors
    /// The first line that was not so, with what was seen instead.
    pub fn run(&self) -> Result<(), String> {
        let configured = self.steps.iter().take_while(|step| step.verb == Verb::Bng);
        let text: Vec<_> = configured.clone().map(|step| step.rest.as_str()).collect();
        let mut play = Play::new(&text.join(", ")).map_err(|wrong| format!("line {}: {wrong}", self.line))?;
        for step in &self.steps[configured.count()..] {
            play.step(step).map_err(|wrong| format!("line {}: {wrong}", step.line))?;
        }
        play.settle().map_err(|wrong| format!("at the end: {wrong}"))
    }
}

fn bng(text: &str) -> Result<(Bng, Vec<Subscriber>), String> {
    let (config, subscribers) = Config::read("scenario", text).map_err(|mistakes| mistakes.to_string())?;
    Ok((Bng::new(config, 1).map_err(|error| error.to_string())?, subscribers))
}

/// The text with a port that its frames come in by.
fn with_port(text: &str) -> String {
    let has_port = text.split(',').any(|item| item.trim().starts_with("port "));
    if has_port { text.into() } else { format!("{text}, port access1 mac {PORT}, port access2 mac {PORT}") }
}

impl Play {
    fn new(text: &str) -> Result<Play, String> {
        let text = with_port(text);
        let (bng, subscribers) = bng(&text)?;
        let mut play = Play {
            bng,
            text,
            now: Duration::ZERO,
            wall_offset_s: 0,
            wake: None,
            disk: Disk::Ok,
            log: Vec::new(),
            unstored: Vec::new(),
            node: BTreeMap::new(),
            frames: Vec::new(),
            others: BTreeMap::new(),
            listed: Vec::new(),
            drops: BTreeMap::new(),
            listed_drops: None,
            commands: 0,
        };
        for subscriber in subscribers {
            play.command(Command::AddSubscriber(subscriber))?;
        }
        play.succeeded()?;
        play.others.clear();
        Ok(play)
    }

    /// No command was refused.
    fn succeeded(&mut self) -> Result<(), String> {
        let results = self.others.remove(&Kind::Result).unwrap_or_default();
        results.into_iter().find(|result| result != "done").map_or(Ok(()), Err)
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Some(at) = step.at {
            self.settle()?;
            self.pass(at)?;
        }
        let words = &mut Words::new(&step.rest);
        for repetition in 0..step.times {
            match step.verb {
                Verb::In => self.frame_comes_in(&step.rest, repetition)?,
                Verb::Out => self.frame_left(&step.rest)?,
                Verb::Drop => {
                    *self.listed_drops.get_or_insert_default().entry(step.rest.clone()).or_default() += 1
                }
                Verb::Store => self.was_said(Kind::Store, &step.rest)?,
                Verb::Node => self.was_said(Kind::Node, &step.rest)?,
                Verb::Event => self.was_said(Kind::Event, &step.rest)?,
                Verb::Done => self.was_said(Kind::Result, "done")?,
                Verb::Refused => self.was_said(Kind::Result, &format!("refused {}", step.rest))?,
                Verb::Wait => {}
                Verb::Bng => self.configure(&step.rest)?,
                Verb::Do => self.operate(words)?,
                Verb::Counted => self.counted(words)?,
                Verb::Disk => self.disk(&step.rest)?,
                Verb::Crash => self.crash()?,
                Verb::Clock => self.clock(words)?,
                Verb::Link => self.link(words)?,
                Verb::Why => self.why(&step.rest)?,
                Verb::Session => self.session(&step.rest)?,
                Verb::Sessions => self.sessions(words)?,
            }
        }
        self.is_sound()
    }

    /// Time passes until then, and what is due meanwhile happens.
    fn pass(&mut self, until: Duration) -> Result<(), String> {
        while let Some(at) = self.wake.filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.wake = None;
            self.input(Input::Timer)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn input(&mut self, input: Input<'_>) -> Result<(), String> {
        let now = self.clocks();
        let mut out = Vec::new();
        self.bng.input(now, input, &mut out);
        for output in out {
            self.output(output)?;
        }
        self.write_records()
    }

    fn clocks(&self) -> Now {
        let wall_s = (WALL_S + self.now.as_secs()).saturating_add_signed(self.wall_offset_s);
        Now { at: self.now, wall_s }
    }

    /// What the disk does with what was written.
    fn write_records(&mut self) -> Result<(), String> {
        let Some(revision) = self.unstored.last().map(|record| record.revision) else { return Ok(()) };
        match self.disk {
            Disk::Ok => {
                self.log.extend(self.unstored.drain(..).map(|record| record.to_string()));
                self.input(Input::Stored { revision })
            }
            Disk::Slow => Ok(()),
            Disk::Full => {
                self.unstored.clear();
                self.input(Input::StoreFailed)
            }
        }
    }

    fn output(&mut self, output: Output) -> Result<(), String> {
        let (kind, text) = match output {
            Output::Send { port, tags, frame } => {
                let seen =
                    client::described(&frame).map_err(|wrong| format!("what left is broken: {wrong}"))?;
                self.frames.push((Line { port, tags }, seen));
                return Ok(());
            }
            Output::Wake(at) => {
                self.wake = Some(at);
                return Ok(());
            }
            Output::Dynauth { to, .. } => return Err(format!("an answer for {to}")),
            // No configuration of a scenario has a RADIUS server.
            Output::HashPassword { login, .. } => return Err(format!("the hash of a password of {login}")),
            Output::CheckPassword { id, .. } => return Err(format!("the check {id} of a password")),
            Output::Radius { server, .. } | Output::RadiusReconnect { server, .. } => {
                return Err(format!("a datagram for the server {server}"));
            }
            Output::Store(record) => {
                let text = record.change.to_string();
                self.unstored.push(record);
                (Kind::Store, text)
            }
            Output::Node(NodeCommand::AddSession(add)) => {
                let AddSession { subscriber, line, mac, address, service, .. } = &add;
                let Service { rates, status, .. } = service;
                let mut text = format!("add {subscriber} {line} {mac} {address} {rates}");
                if *status != Status::Active {
                    text = format!("{text} {status}");
                }
                self.node.insert(add.session, add);
                (Kind::Node, text)
            }
            Output::Node(NodeCommand::RemoveSession { session }) => {
                let gone = self.node.remove(&session);
                let gone = gone.ok_or_else(|| format!("the node never had session {session}"))?;
                (Kind::Node, format!("remove {}", gone.subscriber))
            }
            Output::Event(event) => (Kind::Event, shown(&event)),
            Output::Done { result: Ok(()), .. } => (Kind::Result, "done".into()),
            Output::Done { result: Err(error), .. } => (Kind::Result, format!("refused {error}")),
        };
        self.others.entry(kind).or_default().push(text);
        Ok(())
    }

    fn frame_comes_in(&mut self, rest: &str, repetition: u32) -> Result<(), String> {
        let (line, message) = rest.split_once(' ').ok_or("a line and a message should follow")?;
        let Line { port, tags } = line.parse()?;
        let bytes = client::frame(message, repetition)?;
        self.input(Input::Punt(Punt { port, tags, bytes: &bytes }))
    }

    fn frame_left(&mut self, rest: &str) -> Result<(), String> {
        let (line, message) = rest.split_once(' ').ok_or("a line and a message should follow")?;
        let line: Line = line.parse()?;
        let mut differences = Vec::new();
        for at in 0..self.frames.len() {
            let (left_by, seen) = &self.frames[at];
            let difference = match *left_by == line {
                true => client::difference(message, seen)?,
                false => Some(format!("it left by {left_by}")),
            };
            match difference {
                None => {
                    self.frames.remove(at);
                    return Ok(());
                }
                Some(difference) => differences.push(difference),
            }
        }
        Err(match differences.is_empty() {
            true => format!("it did not leave; dropped: {:?}", self.new_drops()),
            false => format!("it did not leave, but with {}", differences.join("; ")),
        })
    }

    /// A record, a command, an event or a result of these words came out.
    fn was_said(&mut self, kind: Kind, pattern: &str) -> Result<(), String> {
        self.listed.push(kind);
        let said = self.others.entry(kind).or_default();
        let matches = |text: &String| {
            let mut words = text.split_whitespace();
            pattern
                .split_whitespace()
                .all(|wanted| words.next().is_some_and(|word| wanted == "*" || wanted == word))
        };
        match said.iter().position(matches) {
            Some(at) => {
                said.remove(at);
                Ok(())
            }
            None => Err(format!("it was not said; said: {said:?}")),
        }
    }

    fn command(&mut self, command: Command) -> Result<(), String> {
        self.commands += 1;
        self.input(Input::Command { id: self.commands, command })
    }

    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.settle()?;
        self.text = with_port(text);
        let (config, subscribers) =
            Config::read("scenario", &self.text).map_err(|mistakes| mistakes.to_string())?;
        self.command(Command::Configure(config.into()))?;
        for subscriber in subscribers {
            self.command(Command::AddSubscriber(subscriber))?;
        }
        self.succeeded()
    }

    fn operate(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let verb = words.word("a command")?;
        let command = match verb {
            "add" => Command::AddSubscriber(Subscriber::read(words)?),
            "change" => Command::ChangeSubscriber(Subscriber::read(words)?),
            "block" => Command::SetStatus(words.value("a name")?, Status::Blocked),
            "wall" => Command::SetStatus(words.value("a name")?, Status::Walled),
            "unblock" => Command::SetStatus(words.value("a name")?, Status::Active),
            "remove" => Command::RemoveSubscriber(words.value("a name")?),
            "disconnect" => Command::Disconnect(self.session_of(&words.value("a name")?)?.id),
            other => return Err(format!("`{other}` is no command")),
        };
        words.end()?;
        self.command(command)
    }

    fn session_of(&self, name: &Name) -> Result<&Session, String> {
        let (_, session) =
            self.bng.subscriber(name).ok_or_else(|| format!("there is no subscriber {name}"))?;
        session.ok_or_else(|| {
            let online: Vec<_> = self.bng.sessions().map(|session| session.subscriber.to_string()).collect();
            format!("{name} has no session; online: {online:?}")
        })
    }

    fn counted(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let session = self.session_of(&words.value("a name")?)?.id;
        let mut number = || words.number("counter");
        let counters = Counters {
            down_frames: number()?,
            down_bytes: number()?,
            up_frames: number()?,
            up_bytes: number()?,
        };
        self.input(Input::Counted { session, counters })
    }

    fn disk(&mut self, state: &str) -> Result<(), String> {
        self.disk = match state {
            "ok" | "stored" => Disk::Ok,
            "slow" => Disk::Slow,
            "full" => Disk::Full,
            other => return Err(format!("a disk is not `{other}`: use ok, slow, stored or full")),
        };
        self.write_records()?;
        if state == "stored" {
            self.disk = Disk::Slow;
        }
        Ok(())
    }

    /// The program begins again with what is on disk, and asks the node what it has.
    fn crash(&mut self) -> Result<(), String> {
        self.settle()?;
        self.bng = bng(&self.text)?.0;
        (self.unstored, self.wake, self.drops) = (Vec::new(), None, BTreeMap::new());
        for line in std::mem::take(&mut self.log) {
            let record = line.parse().map_err(|error| format!("{line}: {error}"))?;
            self.log.push(line);
            self.input(Input::Adopt(record))?;
        }
        let table: Vec<_> = self.node.values().cloned().collect();
        self.input(Input::NodeTable(&table))
    }

    fn link(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let port = words.value("the name of a port")?;
        let link = match words.word("`up` or `down`")? {
            "up" => LinkState::Up,
            "down" => LinkState::Down,
            other => return Err(format!("a link is not `{other}`: use up or down")),
        };
        self.input(Input::PortLink { port, link })
    }

    fn clock(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let way = words.word("`back` or `forward`")?;
        let most = Duration::from_secs(100 * 365 * 86_400);
        let by = unit::time(words.word("a time")?, Duration::ZERO, most)?.as_secs() as i64;
        self.wall_offset_s += match way {
            "back" => -by,
            "forward" => by,
            other => return Err(format!("a clock is not set `{other}`: use back or forward")),
        };
        Ok(())
    }

    fn why(&self, rest: &str) -> Result<(), String> {
        let mut words = rest.splitn(3, ' ');
        let mut word = || words.next().ok_or("`mac MAC TEXT` or `line LINE TEXT` should follow");
        let (key, value, text) = (word()?, word()?, word()?);
        let why = match key {
            "mac" => self.bng.why_mac(value.parse::<Mac>()?),
            "line" => self.bng.why_line(&value.parse()?),
            other => return Err(format!("`{other}` cannot be asked for: use mac or line")),
        };
        match why.to_string() {
            found if found == text.trim() => Ok(()),
            found => Err(format!("it is: {found}")),
        }
    }

    fn session(&self, rest: &str) -> Result<(), String> {
        let name = rest.split(' ').next().unwrap_or_default().parse()?;
        let session = self.session_of(&name)?;
        let (lease, counters) = (&session.lease, session.counters);
        let text = format!(
            "{name} {} {} {} since {} counted {} {} {} {}",
            lease.device.line,
            lease.device.mac,
            lease.address,
            i128::from(session.start_s) - i128::from(WALL_S),
            counters.down_frames,
            counters.down_bytes,
            counters.up_frames,
            counters.up_bytes
        );
        if text.starts_with(rest) { Ok(()) } else { Err(format!("it is: {text}")) }
    }

    fn sessions(&self, words: &mut Words<'_>) -> Result<(), String> {
        let expected: usize = words.number("number of sessions")?;
        match self.bng.sessions().count() {
            found if found == expected => Ok(()),
            found => Err(format!("there are {found}")),
        }
    }

    fn new_drops(&self) -> BTreeMap<String, u64> {
        let now = self.bng.counts().drops.iter().map(|(reason, frames)| (reason.name(), frames));
        let new = now.map(|(name, frames)| (name.to_string(), frames - self.drops.get(name).unwrap_or(&0)));
        new.filter(|(_, frames)| *frames > 0).collect()
    }

    /// All that came of the last input was listed.
    fn settle(&mut self) -> Result<(), String> {
        if let Some((line, seen)) = self.frames.first() {
            let shown: Vec<_> = seen.iter().filter(|(_, value)| value != "none").collect();
            return Err(format!("before this line more left than was listed: {line} {shown:?}"));
        }
        let new = self.new_drops();
        if let Some(listed) = self.listed_drops.take().filter(|listed| *listed != new) {
            return Err(format!("before this line these drops were listed: {listed:?}, seen: {new:?}"));
        }
        self.drops = self.bng.counts().drops.iter().map(|(reason, frames)| (reason.name(), frames)).collect();
        for kind in std::mem::take(&mut self.listed) {
            if let Some(text) = self.others.get(&kind).and_then(|texts| texts.first()) {
                return Err(format!("before this line more was said than was listed: {kind:?} {text}"));
            }
        }
        self.others.clear();
        Ok(())
    }

    /// What must be true after each step.
    fn is_sound(&self) -> Result<(), String> {
        let counts = self.bng.counts();
        let waiting = self.bng.sizes().waiting_answers as u64;
        let sum = counts.answered + counts.accepted + counts.drops.sum() + waiting;
        if counts.received != sum {
            return Err(format!("{} frames came in, of which {sum} are accounted for", counts.received));
        }
        let should: BTreeMap<_, _> = self.bng.node_sessions().map(|add| (add.session, add)).collect();
        if should != self.node {
            return Err(format!("the node should have {should:?}, but has {:?}", self.node));
        }
        Ok(())
    }
}

/// An event in the words of scenarios.
fn shown(event: &Event) -> String {
    match event {
        Event::SessionStarted { subscriber, address, .. } => format!("started {subscriber} {address}"),
        Event::SessionEnded { subscriber, address, cause, .. } => {
            format!("ended {subscriber} {address} {cause}")
        }
        Event::AddressDeclined { subscriber, address } => format!("declined {subscriber} {address}"),
        Event::PoolExhausted { what } => format!("exhausted {what}"),
        Event::ServerSeen { line, mac } => format!("server {line} {mac}"),
        Event::PortLink { port, link, sessions } => {
            format!("link {port} {} {sessions}", if *link == LinkState::Up { "up" } else { "down" })
        }
        Event::RecordSkipped { revision, why } => format!("skipped {revision} {why}"),
        Event::RadiusServer { server, is_alive } => format!("radius {server} {is_alive}"),
        Event::RadiusDistrusted { server, why } => format!("radius {server} {why}"),
    }
}
