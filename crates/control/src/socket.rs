//! Questions to a node that runs: a line of JSON over a Unix socket, and a line back.
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
use super::request::{Apply, Request, Shown};

/// A node's file with those that it names is not longer, and one that has nothing to ask may be idle for so long.
const LIMITS: Limits = Limits { places: 16, request_bytes: 16 << 20, patience: Duration::from_secs(30) };

/// An answer is not longer, bytes: whoever has laid a socket there cannot fill this process's memory.
const LONGEST_ANSWER: u64 = 1 << 30;

/// Sessions that are reported one by one.
const MOST_SESSIONS: usize = 10_000;

/// The socket of a node.
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Takes the place of a node that has ended without a word.
    pub(crate) fn listen(path: &Path) -> Result<Control> {
        let shown = path.display();
        if UnixStream::connect(path).is_ok() {
            bail!("a node answers at {shown} already: end it, or give this one another place with --socket");
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        // Who may ask may change the node.
        let listener = weir_disk::listen(path)
            .with_context(|| format!("cannot make the socket {shown}: name another place with --socket"))?;
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
        // Without privileges it may stay; the next node takes its place.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Asks the node at `path`.
pub fn ask(path: &Path, request: &Request) -> Result<Value> {
    let shown = path.display();
    let node = UnixStream::connect(path).with_context(|| {
        format!("no node answers at {shown}: start one with `weir node run`, or say --socket")
    })?;
    // A node that does not take the request says why.
    let sent = writeln!(&node, "{}", serde_json::to_string(request)?);
    let mut line = String::new();
    BufReader::new(&node).take(LONGEST_ANSWER).read_line(&mut line)?;
    if line.is_empty() {
        sent?;
    }
    let mut answer: Value =
        serde_json::from_str(&line).with_context(|| format!("the node at {shown} has gone"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(anyhow!("{error}")),
        None => Ok(answer["ok"].take()),
    }
}

/// What the node says to the bytes of a request; `placed` puts a text on the CPUs of the command line.
pub(crate) fn answer(
    node: &Node,
    names: &[String],
    sent: &[u8],
    placed: &dyn Fn(Config) -> Config,
) -> Result<Value> {
    let what = match Request::read(sent).map_err(anyhow::Error::msg)? {
        Request::Apply(Apply { file, text, files }) => {
            let beside = |name: &str| {
                files.get(name).cloned().ok_or_else(|| format!("the text of {name} did not come along"))
            };
            node.apply(&placed(Config::read(&file, &text, &beside)?))?;
            return Ok(Value::Null);
        }
        Request::Show(what) => Shown::named(&what)
            .ok_or_else(|| anyhow!("`{what}` cannot be shown: ask for {}", Shown::names().join(", ")))?,
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
