//! The place where a request becomes an answer. All of the connection is elsewhere: [`crate::clients`].

use std::os::fd::OwnedFd;

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use weir_linux::descriptors;
use weir_node::{Applied, Attachment, Config, Node, NodeError};

use super::hub::Hub;
use super::request::{Apply, Ask, Attach, Refusal};

/// What requests are answered from.
pub(crate) struct Service<'a> {
    pub(crate) node: &'a Node,
    /// Passes events to subscribed clients.
    pub(crate) hub: &'a Hub,
    /// Applies --cpus to a configuration.
    pub(crate) placed: &'a (dyn Fn(Config) -> Config + Sync),
}

/// An answer.
pub(crate) struct Reply {
    /// The JSON, as it is sent: a table of 64,000 rows is written once.
    pub(crate) value: Box<RawValue>,
    /// Descriptors that are passed to the client with it.
    pub(crate) fds: Vec<OwnedFd>,
}

impl Reply {
    /// An answer without descriptors.
    pub(crate) fn of(value: &impl Serialize) -> Result<Reply, Refusal> {
        Ok(Reply { value: to_raw_value(value).map_err(anyhow::Error::from)?, fds: Vec::new() })
    }
}

/// The answer to a request.
pub(crate) fn answer(service: &Service<'_>, ask: Ask) -> Result<Reply, Refusal> {
    match ask {
        Ask::Control(Attach { slots }) => attach(service, slots),
        Ask::Query(query) => Reply::of(&service.node.query(&query).map_err(refusal)?),
        Ask::Apply(texts) => Reply::of(&apply(service, &texts)?),
        Ask::Commands(commands) => {
            let applied = service.node.command(&commands).map_err(refusal)?;
            Reply::of(&done(service, commands.len(), applied))
        }
    }
}

fn apply(service: &Service<'_>, Apply { file, text, files }: &Apply) -> Result<Done> {
    let beside =
        |name: &str| files.get(name).cloned().ok_or_else(|| format!("the request lacks the text of {name}"));
    let config = Config::read(file, text, &beside)?;
    let applied = service.node.apply(&(service.placed)(config))?;
    Ok(done(service, 0, applied))
}

/// Reports to all subscribed clients that a text or a list of commands is done.
fn done(service: &Service<'_>, commands: usize, applied: Applied) -> Done {
    let done = Done {
        revision: applied.revision,
        commands,
        turns: applied.turns.count,
        longest_turn_us: applied.turns.longest.as_secs_f64() * 1e6,
    };
    service.hub.publish(&DoneEvent { event: "applied", done });
    done
}

/// A control program gets the rings of each thread, as descriptors: memory and wake of the punts, then of the injections.
fn attach(service: &Service<'_>, slots: u32) -> Result<Reply, Refusal> {
    let Attachment { threads, geometry, ports, reasons, .. } =
        service.node.attach_control(slots).map_err(refusal)?;
    if OF_A_THREAD * threads.len() > descriptors::MOST {
        return Err(
            format!("a node with {} threads has more rings than one answer can pass", threads.len()).into()
        );
    }
    let reasons = reasons.map(|reason| Reason { number: reason.number(), name: reason.name().to_string() });
    let rings = Rings {
        slots: geometry.slots(),
        frame_bytes: geometry.frame_bytes(),
        threads: threads.len(),
        ports,
        reasons: reasons.to_vec(),
    };
    let of_thread = |rings: weir_node::Rings| {
        let (punts, injections) = (rings.punts, rings.injections);
        [punts.memory, punts.wake, injections.memory, injections.wake]
    };
    let fds: Vec<OwnedFd> = threads.into_iter().flat_map(of_thread).collect();
    service.hub.publish(&AttachedEvent { event: "control program attached" });
    Ok(Reply { fds, ..Reply::of(&rings)? })
}

/// Descriptors of a thread.
pub(crate) const OF_A_THREAD: usize = 4;

/// The rings of a control program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rings {
    /// Slots of each ring.
    pub slots: u64,
    /// The longest frame that has room in a slot, without its tags.
    pub frame_bytes: usize,
    /// Threads of the node. A punt comes by the ring of the thread that received it; an injection may take any.
    pub threads: usize,
    /// Names of the ports; their places are the numbers of ports in records.
    pub ports: Vec<String>,
    /// Reasons to punt.
    pub reasons: Vec<Reason>,
}

/// A reason to punt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Its number in records.
    pub number: u16,
    /// Its name in texts and counters.
    pub name: String,
}

/// A control program has attached, in place of the one before if there was one.
#[derive(Serialize)]
struct AttachedEvent {
    event: &'static str,
}

fn refusal(error: NodeError) -> Refusal {
    match error {
        NodeError::Refused(refused) => {
            Refusal { message: refused.to_string(), command: Some(refused.command) }
        }
        other => other.to_string().into(),
    }
}

/// A text or a list of commands that is done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// Texts and lists that the node has applied since it began.
    pub revision: u64,
    /// Commands of the list; 0 of a text.
    pub commands: usize,
    /// Turns between batches that it took each thread.
    pub turns: u64,
    /// The longest of them, in CPU time, us.
    pub longest_turn_us: f64,
}

/// The same as an event.
#[derive(Serialize)]
struct DoneEvent {
    event: &'static str,
    #[serde(flatten)]
    done: Done,
}
