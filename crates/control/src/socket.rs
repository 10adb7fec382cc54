//! Requests to a running node: a line of JSON over a Unix socket, and a line as the answer.
//!
//! ```text
//! {"show": "counters"}                     {"ok": {...}}
//! {"apply": {"file": "x", "text": "...", "files": {"rules.fw": "..."}}}    {"error": "..."}
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use weir_node::{Config, Node, Sessions, Snapshot};

use super::clients::{self, Answer, Limits};
use super::reported;
use super::request::{self, Apply, Request, Shown};

/// Limits of a request, which may hold a node file with all files that it names, and of the idle time of a client.
const LIMITS: Limits =
    Limits { places: 16, request_bytes: request::LONGEST, patience: Duration::from_secs(30) };

/// Most bytes of an answer: an untrusted socket must not fill the memory of this process.
const LONGEST_ANSWER: u64 = 1 << 30;

/// Most sessions that are listed one by one.
const MOST_SESSIONS: usize = 10_000;

/// The socket of a node.
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Creates the socket; replaces that of a killed node.
    pub(crate) fn listen(path: &Path) -> Result<Control> {
        let shown = path.display();
        if UnixStream::connect(path).is_ok() {
            bail!("another node uses the socket {shown}: stop it, or choose another socket with --socket");
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        // A client that may connect may also change the node.
        let listener = weir_disk::listen(path)
            .with_context(|| format!("cannot create the socket {shown}: choose another one with --socket"))?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, path: path.to_path_buf() })
    }

    /// Answers clients until the other end of `over` is closed.
    pub(crate) fn serve(&self, over: &UnixStream, answer: &Answer<'_>) {
        clients::serve(&self.listener, over, LIMITS, answer);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Without privileges it may stay; the next node replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Asks the node at `path`.
pub fn ask(path: &Path, request: &Request) -> Result<Value> {
    let shown = path.display();
    let node = UnixStream::connect(path).with_context(|| {
        format!("no node answers at {shown}: start one with `weir node run`, or set --socket")
    })?;
    // A node that rejects the request sends the reason.
    let sent = writeln!(&node, "{}", serde_json::to_string(request)?);
    let mut line = String::new();
    BufReader::new(&node).take(LONGEST_ANSWER).read_line(&mut line)?;
    if line.is_empty() {
        sent?;
    }
    let mut answer: Value =
        serde_json::from_str(&line).with_context(|| format!("the node at {shown} closed the connection"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(anyhow!("{error}")),
        None => Ok(answer["ok"].take()),
    }
}

/// The answer to the bytes of a request; `placed` applies --cpus to a configuration.
pub(crate) fn answer(
    node: &Node,
    names: &[String],
    sent: &[u8],
    placed: &dyn Fn(Config) -> Config,
) -> Result<Value> {
    let what = match Request::read(sent).map_err(anyhow::Error::msg)? {
        Request::Apply(Apply { file, text, files }) => {
            let beside = |name: &str| {
                files.get(name).cloned().ok_or_else(|| format!("the request lacks the text of {name}"))
            };
            node.apply(&placed(Config::read(&file, &text, &beside)?))?;
            return Ok(Value::Null);
        }
        Request::Show(what) => Shown::named(&what)
            .ok_or_else(|| anyhow!("`{what}` cannot be shown: use {}", Shown::names().join(", ")))?,
    };
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
