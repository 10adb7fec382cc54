//! The place where a request becomes an answer. All of the connection is elsewhere: [`crate::clients`].

use std::os::fd::OwnedFd;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use weir_node::{Config, Node, Sessions, Snapshot};

use super::reported;
use super::request::{Apply, Ask, Query, Refusal, Shown};

/// Most sessions that are listed one by one.
const MOST_SESSIONS: usize = 10_000;

/// What requests are answered from.
pub(crate) struct Service<'a> {
    pub(crate) node: &'a Node,
    /// The names of its ports.
    pub(crate) names: &'a [String],
    /// Applies --cpus to a configuration.
    pub(crate) placed: &'a (dyn Fn(Config) -> Config + Sync),
}

/// The number of a connection, which no other one of this node has or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// What is done once when the connection of a client has ended.
pub(crate) type OnClose = Box<dyn FnOnce() + Send>;

/// An answer.
pub(crate) struct Reply {
    /// The JSON.
    pub(crate) value: Value,
    /// Descriptors that are passed to the client with it.
    pub(crate) fds: Vec<OwnedFd>,
    /// Called when the connection has ended, however it ends: also if the answer does not arrive.
    pub(crate) on_close: Option<OnClose>,
}

impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        Reply { value, fds: Vec::new(), on_close: None }
    }
}

/// The answer to a request of a connection.
pub(crate) fn answer(service: &Service<'_>, _from: ConnectionId, ask: Ask) -> Result<Reply, Refusal> {
    let value = match ask {
        Ask::Query(Query::Show(what)) => show(service, &what)?,
        Ask::Apply(texts) => apply(service, &texts)?,
    };
    Ok(value.into())
}

fn apply(service: &Service<'_>, Apply { file, text, files }: &Apply) -> Result<Value> {
    let beside =
        |name: &str| files.get(name).cloned().ok_or_else(|| format!("the request lacks the text of {name}"));
    let config = Config::read(file, text, &beside)?;
    service.node.apply(&(service.placed)(config))?;
    Ok(Value::Null)
}

fn show(Service { node, names, .. }: &Service<'_>, what: &str) -> Result<Value> {
    let what = Shown::named(what)
        .ok_or_else(|| anyhow!("`{what}` cannot be shown: use {}", Shown::names().join(", ")))?;
    match what {
        Shown::Counters => Ok(reported::counters(&node.count()?, names)),
        Shown::Drops => Ok(reported::drops(&Snapshot::sum(&node.count()?), names)),
        Shown::Sessions => {
            let Sessions { live, shown, left_out } = node.sessions(MOST_SESSIONS)?;
            let mut answer = json!({ "live": live, "sessions": shown });
            if left_out > 0 {
                answer["left_out"] = left_out.into();
            }
            Ok(answer)
        }
        Shown::Rules => {
            let filters = node.rules()?.into_iter();
            let shown = filters.map(|rules| {
                let rules = rules.into_iter().map(|(rule, frames)| json!({ "frames": frames, "rule": rule }));
                rules.collect::<Vec<_>>()
            });
            Ok(json!({ "rules": shown.flatten().collect::<Vec<_>>() }))
        }
        Shown::Queues => Ok(reported::queues(&node.queues()?)),
        Shown::Police => Ok(reported::police(&node.policers()?)),
        Shown::Log => Ok(json!({ "log": node.logged()? })),
        Shown::Fast => Ok(reported::fast(node.fast()?.as_ref(), names)),
        Shown::Routes => Ok(json!({ "routes": node.routes() })),
    }
}
