//! A client of a node, for programs in Rust: a connection that asks and applies, or subscribes.
//!
//! ```text
//!   connect: greetings > ask > ask > apply ...     one after the other
//!                      > subscribe > notices ...   until the connection ends
//! ```
//! What a node sends is not trusted: an answer has a longest length.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use weir_linux::descriptors;
use weir_node::Query;
use weir_plane::Command;
use weir_punt::{Consumer, Descriptors, Injections, Producer, Punts};

use super::answers::{Done, Rings};
use super::request::{Apply, Ask, Attach, Greeting, Hello, PROTOCOL, Refusal, Request, Topic, WEIR, Wants};

/// Most bytes of an answer: an untrusted socket must not fill the memory of this process.
const LONGEST_ANSWER: usize = 1 << 30;
/// Bytes of a read.
const READ_BYTES: usize = 64 << 10;

/// A connection to a node.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// The path of the socket, for messages.
    shown: String,
    /// Bytes after the line that was read last.
    held: Vec<u8>,
    /// Descriptors that came with them, in the order of their answers.
    descriptors: VecDeque<OwnedFd>,
    /// The number of the next request.
    next: u64,
}

/// An answer of a node.
#[derive(Debug)]
pub struct Answer {
    /// The JSON.
    pub value: Value,
    /// Descriptors that the node has passed with it.
    pub descriptors: Vec<OwnedFd>,
}

/// A control program's ends of the rings. Dropping it detaches the program.
#[derive(Debug)]
pub struct Attached {
    /// What the node says of them.
    pub rings: Rings,
    /// By thread, where punts come from and where injections go.
    pub threads: Vec<(Consumer<Punts>, Producer<Injections>)>,
}

impl Client {
    /// Connects to the node at `path`, and exchanges greetings.
    ///
    /// # Errors
    /// No node listens there, or one of another version: the message has the remedy.
    pub fn connect(path: &Path) -> Result<Client> {
        let shown = path.display().to_string();
        let stream = UnixStream::connect(path).with_context(|| {
            format!("no node answers at {shown}: start one with `weir node run`, or set --socket")
        })?;
        let (held, descriptors) = (Vec::new(), VecDeque::new());
        let mut client = Client { stream, shown, held, descriptors, next: 1 };
        let hello = Hello { protocol: PROTOCOL, client: Some("weir".into()) };
        // Before the hello of the node: a node older than protocol versions sends none.
        let first = client.exchange(&serde_json::to_string(&hello)?)?;
        client.check_greeting(&first)?;
        Ok(client)
    }

    fn check_greeting(&self, first: &Value) -> Result<()> {
        let shown = &self.shown;
        let own = format!("this program is weir {WEIR} with protocol {PROTOCOL}");
        let remedy = "use weir of the same version as the node";
        match serde_json::from_value::<Greeting>(first.clone()) {
            Ok(Greeting { protocol: PROTOCOL, .. }) => Ok(()),
            Ok(Greeting { weir, protocol }) => {
                bail!("the node at {shown} is weir {weir} with protocol {protocol}, {own}: {remedy}")
            }
            Err(_) => {
                refusal(first)?;
                bail!("the node at {shown} does not greet with a version, {own}: {remedy}")
            }
        }
    }

    /// Asks the node for some of its state.
    ///
    /// # Errors
    /// The reason of the node, or that the connection has failed.
    pub fn ask(&mut self, query: Query) -> Result<Value> {
        Ok(self.request(Wants::Answer(Ask::Query(query)))?.value)
    }

    /// The same; the answer has the form that belongs to the question.
    ///
    /// # Errors
    /// The reason of the node, or that the connection has failed.
    pub fn query<T: DeserializeOwned>(&mut self, query: Query) -> Result<T> {
        let (value, _) = self.read(Wants::Answer(Ask::Query(query)))?;
        Ok(value)
    }

    /// Has the node do these commands, or none of them.
    ///
    /// # Errors
    /// A [`Refusal`] with the reason of the node and the number of the wrong command; or the connection has failed.
    pub fn command(&mut self, commands: Vec<Command>) -> Result<Done> {
        let (done, _) = self.read(Wants::Answer(Ask::Commands(commands)))?;
        Ok(done)
    }

    /// Applies a node file.
    ///
    /// # Errors
    /// The reason of the node, or that the connection has failed.
    pub fn apply(&mut self, texts: Apply) -> Result<()> {
        self.request(Wants::Answer(Ask::Apply(texts))).map(drop)
    }

    /// Attaches as the control program of the node, in place of the one before, with so many slots in each ring.
    ///
    /// # Errors
    /// The reason of the node, or that the connection has failed.
    pub fn attach_control(&mut self, slots: u32) -> Result<Attached> {
        let (rings, descriptors) = self.read::<Rings>(Wants::Answer(Ask::Control(Attach { slots })))?;
        let (mut threads, mut rest) = (Vec::new(), descriptors.into_iter());
        while let (Some(memory), Some(wake)) = (rest.next(), rest.next()) {
            let punts = Consumer::attach(Descriptors { memory, wake })?;
            let (Some(memory), Some(wake)) = (rest.next(), rest.next()) else {
                bail!("the node at {} passed half of a thread's rings", self.shown)
            };
            threads.push((punts, Producer::attach(Descriptors { memory, wake })?));
        }
        if threads.len() != rings.threads {
            bail!(
                "the node at {} has {} threads, and passed rings of {}",
                self.shown,
                rings.threads,
                threads.len()
            );
        }
        Ok(Attached { rings, threads })
    }

    /// Begins a subscription. Its lines are returned until the node ends, or the connection is dropped.
    ///
    /// # Errors
    /// The reason of the node, or that the connection has failed.
    pub fn subscribe(mut self, topic: Topic) -> Result<Notices> {
        self.request(Wants::Subscription(topic))?;
        Ok(Notices { client: self })
    }

    /// Sends a request, and waits for its answer.
    ///
    /// # Errors
    /// The reason of the node, or that the connection has failed.
    pub fn request(&mut self, wants: Wants) -> Result<Answer> {
        let (value, descriptors) = self.read(wants)?;
        Ok(Answer { value, descriptors })
    }

    /// The same; the answer is read as what it is to be, without a tree of JSON in between: tables are long.
    fn read<T: DeserializeOwned>(&mut self, wants: Wants) -> Result<(T, Vec<OwnedFd>)> {
        let id = self.next;
        self.next += 1;
        self.send(&serde_json::to_string(&Request { id, wants })?);
        let line = self.bytes()?;
        let shown = &self.shown;
        let answer: AnswerLine<'_> = serde_json::from_slice(&line)
            .with_context(|| format!("the node at {shown} sent a line that is no answer"))?;
        if let Some(refusal) = answer.error {
            return Err(refusal.into());
        }
        if answer.id != Some(id) {
            let line = String::from_utf8_lossy(&line);
            bail!("the node at {shown} sent another line than the answer to the request {id}: {line}");
        }
        let passed = answer.descriptors.unwrap_or(0);
        if passed > self.descriptors.len() {
            bail!("the node at {shown} announced {passed} descriptors and did not pass them");
        }
        let value = serde_json::from_str(answer.ok.map_or("null", RawValue::get))
            .context("the answer has another form than its question")?;
        Ok((value, self.descriptors.drain(..passed).collect()))
    }

    /// Sends a line, and returns the next one of the node.
    fn exchange(&mut self, line: &str) -> Result<Value> {
        self.send(line);
        self.line()
    }

    fn send(&mut self, line: &str) {
        // A node that does not take it has closed the connection, and may have sent the reason before.
        let _ = self.stream.write_all(line.as_bytes()).and_then(|()| self.stream.write_all(b"\n"));
    }

    /// The next line of the node.
    fn line(&mut self) -> Result<Value> {
        let line = self.bytes()?;
        serde_json::from_slice(&line)
            .with_context(|| format!("the node at {} sent a line that is no JSON", self.shown))
    }

    /// The same, unread.
    fn bytes(&mut self) -> Result<Vec<u8>> {
        let shown = &self.shown;
        next_line(&self.stream, &mut self.held, &mut self.descriptors)
            .with_context(|| format!("cannot read from the node at {shown}"))?
            .ok_or_else(|| anyhow!("the node at {shown} closed the connection"))
    }
}

/// The line of an answer.
#[derive(Deserialize)]
struct AnswerLine<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    error: Option<Refusal>,
    descriptors: Option<usize>,
}

/// The next line, without its end; `None`: there is none any more.
fn next_line(
    stream: &UnixStream,
    held: &mut Vec<u8>,
    descriptors: &mut VecDeque<OwnedFd>,
) -> io::Result<Option<Vec<u8>>> {
    let (mut searched, mut piece, mut passed) = (0, vec![0; READ_BYTES], Vec::new());
    loop {
        if let Some(at) = held[searched..].iter().position(|&byte| byte == b'\n') {
            let rest = held.split_off(searched + at + 1);
            let mut line = std::mem::replace(held, rest);
            line.pop();
            return Ok(Some(line));
        }
        searched = held.len();
        if searched > LONGEST_ANSWER {
            return Err(io::Error::other(format!("its answer is longer than {LONGEST_ANSWER} bytes")));
        }
        match descriptors::receive(stream, &mut piece, &mut passed) {
            Ok(0) => return Ok(None),
            Ok(read) => held.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The node has closed it without having read all.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
        descriptors.extend(passed.drain(..));
    }
}

/// The error of a line, if it is one.
fn refusal(line: &Value) -> Result<()> {
    match line.get("error").map(|error| serde_json::from_value::<Refusal>(error.clone())) {
        Some(Ok(refusal)) => Err(refusal.into()),
        _ => Ok(()),
    }
}

/// A line of a subscription.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// An event.
    Event(Value),
    /// The counters.
    Counters(Value),
    /// So many of them are left out here, since this program did not read them.
    LeftOut(u64),
}

/// The lines of a subscription, as long as the node runs.
#[derive(Debug)]
pub struct Notices {
    client: Client,
}

impl Iterator for Notices {
    type Item = Result<Notice>;

    fn next(&mut self) -> Option<Result<Notice>> {
        let mut line = match self.client.line() {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let notice = refusal(&line).and_then(|()| match &mut line {
            line if line["event"].is_object() => Ok(Notice::Event(line["event"].take())),
            line if line["counters"].is_object() => Ok(Notice::Counters(line["counters"].take())),
            line => match line["left_out"].as_u64() {
                Some(lines) => Ok(Notice::LeftOut(lines)),
                None => {
                    Err(anyhow!("the node at {} sent a line that is no notice: {line}", self.client.shown))
                }
            },
        });
        Some(notice)
    }
}
