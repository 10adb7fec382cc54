//! Questions to a node that runs: a line of JSON over a Unix socket, and a line back.
//!
//! ```text
//! {"show": "counters"}                     {"ok": {...}}
//! {"apply": {"file": "x", "text": "...", "files": {"rules.fw": "..."}}}    {"error": "..."}
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use serde_json::{Value, json};
use weir_node::{Config, Node, Snapshot};
use weir_port::duplex;

use super::told;
use crate::cli::Shown;

/// Whoever is slower gets no answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A node's file is not longer.
const LONGEST: u64 = 64 << 20;

/// Sessions that are told one by one.
const MOST_SESSIONS: usize = 10_000;

/// The socket of a node.
pub(super) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Takes the place of a node that has ended without a word.
    pub(super) fn listen(path: &Path) -> Result<Control> {
        let shown = path.display();
        if UnixStream::connect(path).is_ok() {
            bail!("a node answers at {shown} already: end it, or give this one another place with --socket");
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        if std::fs::symlink_metadata(path).is_ok_and(|there| !there.file_type().is_socket()) {
            bail!("{shown} is there and no socket: name another place with --socket");
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{shown} is in the way"));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).with_context(|| format!("cannot make the socket {shown}"))?;
        // Who may ask may change the node.
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, path: path.to_path_buf() })
    }

    /// Answers one question, for which it waits so long.
    pub(super) fn answer(&self, wait: Duration, answer: impl FnOnce(&Value) -> Result<Value>) {
        // A signal ends the wait as well.
        let _ = duplex::wait(&[self.listener.as_fd()], wait);
        if let Ok((asker, _)) = self.listener.accept() {
            // An asker who goes away in between is none of ours.
            let _ = reply(asker, answer);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Without privileges it may stay; the next node takes its place.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn reply(asker: UnixStream, answer: impl FnOnce(&Value) -> Result<Value>) -> Result<()> {
    asker.set_nonblocking(false)?;
    asker.set_read_timeout(Some(PATIENCE))?;
    asker.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(asker.try_clone()?.take(LONGEST)).read_line(&mut line)?;
    let answered = serde_json::from_str(&line)
        .map_err(|error| anyhow!("no JSON: {error}"))
        .and_then(|question: Value| answer(&question));
    let line = match answered {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": format!("{error:#}") }),
    };
    Ok(writeln!(&asker, "{line}")?)
}

/// The question for something to show.
pub(super) fn show(what: Shown) -> Value {
    json!({ "show": what.to_possible_value().expect("each has a name").get_name() })
}

/// The wish for another text.
pub(super) fn apply(file: &str, text: &str, files: &BTreeMap<String, String>) -> Value {
    json!({ "apply": { "file": file, "text": text, "files": files } })
}

/// Asks the node at `path`.
pub(super) fn ask(path: &Path, question: &Value) -> Result<Value> {
    let shown = path.display();
    let node = UnixStream::connect(path).with_context(|| {
        format!("no node answers at {shown}: start one with `weir node run`, or say --socket")
    })?;
    writeln!(&node, "{question}")?;
    let mut line = String::new();
    BufReader::new(&node).read_line(&mut line)?;
    let mut answer: Value =
        serde_json::from_str(&line).with_context(|| format!("the node at {shown} has gone"))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(anyhow!("{error}")),
        None => Ok(answer["ok"].take()),
    }
}

/// What the node says to a question; `placed` puts a text on the CPUs of the command line.
pub(super) fn answer(
    node: &Node,
    names: &[String],
    question: &Value,
    placed: &dyn Fn(Config) -> Config,
) -> Result<Value> {
    if let Some(wish) = question.get("apply") {
        let [file, text] =
            ["file", "text"].map(|key| wish.get(key).and_then(Value::as_str).unwrap_or_default());
        let beside = |name: &str| {
            let text = wish.get("files").and_then(|files| files.get(name)).and_then(Value::as_str);
            text.map(str::to_string).ok_or_else(|| format!("the text of {name} did not come along"))
        };
        node.apply(&placed(Config::read(file, text, &beside)?))?;
        return Ok(Value::Null);
    }
    match question.get("show").and_then(Value::as_str).and_then(|word| Shown::from_str(word, false).ok()) {
        Some(Shown::Counters) => Ok(told::counters(&node.count()?, names)),
        Some(Shown::Drops) => Ok(told::drops(&Snapshot::sum(&node.count()?), names)),
        Some(Shown::Sessions) => {
            let (live, first) = node.sessions(MOST_SESSIONS)?;
            Ok(json!({ "live": live, "sessions": first }))
        }
        Some(Shown::Rules) => {
            let filters = node.rules()?.into_iter();
            let shown = filters.map(|rules| {
                let rules = rules.into_iter().map(|(rule, frames)| json!({ "frames": frames, "rule": rule }));
                rules.collect::<Vec<_>>()
            });
            Ok(json!({ "rules": shown.flatten().collect::<Vec<_>>() }))
        }
        Some(Shown::Log) => Ok(json!({ "log": node.logged()? })),
        Some(Shown::Routes) => Ok(json!({ "routes": node.routes() })),
        None => bail!("ask for show or apply"),
    }
}
