//! `weir node`: a node in the foreground, and what asks and changes one that runs.
//!
//! ```text
//!   weir node run:   open ports > give privileges up > threads of the node
//!                    this thread: counters for Prometheus, panics of the node, signals
//!                    another one: what happens in NATs > files
//!                    threads for the clients of the socket
//!   weir node show, apply: one line of JSON there, one line back
//! ```

mod blocks;
mod clients;
mod control;
mod mishaps;
mod notes;
mod owner;
mod reported;
mod request;
mod shown;
mod unit;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use weir_capture::privilege;
use weir_node::{Config, Node, Opened, cpus_of};

use crate::cli::{NodeApply, NodeCommand, NodeRun, NodeShow};
use crate::hangup::Hangup;
use crate::prometheus::Server;
use crate::{Outcome, capture, say};
use control::Control;
use mishaps::PanicLog;
use notes::{Events, EventsFile, KeptBlocks, Notes};
use reported::Unwritten;
use request::{Apply, Request};

/// Counters for Prometheus are not older.
const TELL: Duration = Duration::from_secs(1);
/// Bytes of a text: a million rules have fewer.
const LONGEST: u64 = 64 << 20;
/// Signals are seen after this time.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(command: &NodeCommand, out: &mut impl Write) -> Result<Outcome> {
    match command {
        NodeCommand::Check { file } => {
            let config = read(file)?;
            let ports: Vec<&str> = config.plane.ports.iter().map(|port| port.name.as_str()).collect();
            writeln!(out, "{} is a node with the ports {}", file.display(), ports.join(", "))?;
        }
        NodeCommand::Run(arguments) => return in_foreground(arguments, out),
        NodeCommand::Show(arguments) => show(arguments, out)?,
        NodeCommand::Apply(arguments) => apply(arguments, out)?,
        NodeCommand::Owner { file, asked } => writeln!(out, "{}", owner::tell(file, &read(file)?, asked)?)?,
        NodeCommand::Unit { file } => unit::write(file, &read(file)?, out)?,
    }
    Ok(Outcome::Done)
}

/// Reads a node's file.
fn read(file: &Path) -> Result<Config> {
    let name = file.display().to_string();
    let text = text_of(file).with_context(|| format!("cannot read {name}"))?;
    Ok(Config::read(&name, &text, &|other| beside(file, other))?)
}

/// The CPUs of a command line.
fn cpus(list: &str) -> Result<Vec<usize>> {
    let words: Vec<&str> = list.split(',').collect();
    cpus_of(&words).map_err(|wrong| anyhow!("--cpus: {wrong}"))
}

/// The node with a thread on each of these, if there are any.
fn placed(mut config: Config, cpus: Option<&[usize]>) -> Config {
    if let Some(cpus) = cpus {
        config.settings.threads = cpus.iter().copied().map(Some).collect();
    }
    config
}

/// The text of a file that stands in a node's file, beside which it is.
fn beside(file: &Path, other: &str) -> Result<String, String> {
    let path = file.parent().unwrap_or(Path::new("")).join(other);
    let found = std::fs::metadata(&path).and_then(|about| match about.is_file() {
        true => text_of(&path),
        // A pipe would be waited for, and a device has no end.
        false => Err(std::io::Error::other("it is no file")),
    });
    found.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The text of a file, or of a pipe, that is not longer than any node's.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > LONGEST {
        true => Err(std::io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20))),
        false => Ok(weir_config::without_bom(&text).to_string()),
    }
}

fn in_foreground(arguments: &NodeRun, out: &mut impl Write) -> Result<Outcome> {
    let cpus = arguments.cpus.as_deref().map(cpus).transpose()?;
    let config = placed(read(&arguments.file)?, cpus.as_deref());
    config.check_threads().map_err(anyhow::Error::msg)?;
    let hangup = Hangup::of_service()?;
    let events = arguments.events.as_deref().map(EventsFile::open).transpose()?;
    let prometheus = arguments.prometheus.map(capture::listen).transpose()?;
    let mut blocks = arguments
        .blocks
        .as_deref()
        .map(|path| KeptBlocks::open(path, arguments.blocks_failure))
        .transpose()?;
    let control = Control::listen(&arguments.socket.path())?;
    let mut opened = Opened::new(&config)?;
    if let Some(blocks) = &mut blocks {
        restore(&mut opened, blocks);
    }
    for (port, method) in config.plane.ports.iter().zip(opened.methods()) {
        say::say(&format!("{}: {} on {}", port.name, method, port.interface));
    }
    say::notes(opened.obstacles());
    let mut panic_log = PanicLog::open();
    if !arguments.keep_privileges {
        privilege::drop_all_but(opened.needs()).context("cannot give up privileges")?;
        privilege::run_no_program();
    }
    let node = opened.start()?;
    panic_log.begin(node.began());
    let events = events.zip(arguments.events.as_deref());
    let events = events.map(|(file, path)| Events::new(file, path, node.began()));
    let unwritten = Unwritten::default();
    let reopens = AtomicBool::new(false);
    let mut notes = Notes { events, blocks, unwritten: &unwritten, reopens: &reopens };
    let prometheus = prometheus.map(Server::start).transpose()?;
    let names: Vec<String> = config.plane.ports.iter().map(|port| port.name.clone()).collect();
    let page =
        |node: &Node| reported::prometheus(&node.snapshots(), &names) + &reported::unwritten(&unwritten);
    unit::tell_ready()?;
    // Clients are answered by threads of their own: what happens in the node is written down whatever they do.
    let (alive, over) = UnixStream::pair().context("a socket to end the others")?;
    let placed = |config| placed(config, cpus.as_deref());
    let answer = |sent: &[u8]| control::answer(&node, &names, sent, &placed);
    let tell = || {
        if let Some(server) = &prometheus {
            server.tell(page(&node));
        }
    };
    std::thread::scope(|scope| {
        let (noting, is_over) = channel();
        if notes.events.is_some() || notes.blocks.is_some() {
            let (node, notes) = (&node, &mut notes);
            scope.spawn(move || notes.run(node, &is_over));
        }
        let serve = || control.serve(&over, &answer);
        let serving = std::thread::Builder::new().name("control".into()).spawn_scoped(scope, serve);
        if serving.is_ok() {
            watch(&node, (&names, &mut panic_log), tell, (&hangup, &reopens));
        }
        drop::<Sender<()>>(noting);
        drop(alive);
        serving.map(drop)
    })?;
    end(node, &mut notes, &names, arguments.json, out)
}

/// Reports panics of the node, and tells the counters, until it ends or shall end.
fn watch(
    node: &Node,
    (names, panic_log): (&[String], &mut PanicLog),
    tell: impl Fn(),
    (hangup, reopens): (&Hangup, &AtomicBool),
) {
    tell();
    let mut reported = Instant::now();
    while !hangup.ends() && !node.has_ended() {
        std::thread::sleep(LOOK);
        reopens.fetch_or(hangup.asks_to_reopen(), Ordering::Relaxed);
        panic_log.look(node, names);
        if reported.elapsed() >= TELL {
            reported = Instant::now();
            tell();
        }
    }
}

/// Hosts have their blocks of ports again.
fn restore(opened: &mut Opened, kept: &mut KeptBlocks) {
    let before = kept.blocks.live();
    let restored = opened.restore(&before);
    if !before.is_empty() {
        say::say(&format!("{} of {} blocks of ports are their hosts' again", restored.len(), before.len()));
    }
    kept.blocks.set(&restored);
    kept.sync();
    opened.set_new_blocks(kept.new_blocks());
}

/// Drains the node and returns the accounting.
fn end(
    node: Node,
    notes: &mut Notes<'_>,
    names: &[String],
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome> {
    let mut ended = node.stop();
    // Also where a port was of no more use.
    notes.end(&mut ended);
    let accounting = reported::counters(&ended.threads?, names);
    match json {
        true => writeln!(out, "{accounting}")?,
        false => out.write_all(reported::text(&accounting).as_bytes())?,
    }
    match &ended.ended_early[..] {
        [] => Ok(Outcome::Done),
        reasons => bail!("{}; the frames before that were forwarded", reasons.join("; ")),
    }
}

fn show(arguments: &NodeShow, out: &mut impl Write) -> Result<()> {
    let answer = control::ask(&arguments.socket.found()?, &control::show(arguments.what))?;
    match arguments.json {
        true => writeln!(out, "{answer}")?,
        false => out.write_all(shown::text(arguments.what, &answer).as_bytes())?,
    }
    Ok(())
}

fn apply(arguments: &NodeApply, out: &mut impl Write) -> Result<()> {
    let name = arguments.file.display().to_string();
    let text = text_of(&arguments.file).with_context(|| format!("cannot read {name}"))?;
    // Mistakes are reported here, whether or not a node runs. It cannot read the files any more that the text names.
    let files = RefCell::new(BTreeMap::new());
    Config::read(&name, &text, &|other| {
        let text = beside(&arguments.file, other)?;
        files.borrow_mut().insert(other.to_string(), text.clone());
        Ok(text)
    })?;
    let wish = Apply { file: name.clone(), text, files: files.into_inner() };
    control::ask(&arguments.socket.found()?, &Request::Apply(wish))?;
    Ok(writeln!(out, "the node is what {name} says")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_no_text() {
        let node = Path::new("/dev/node");
        assert_eq!(beside(node, "zero").expect_err("a device"), "cannot read /dev/zero: it is no file");
        assert!(beside(node, "no-such-file").expect_err("nothing").contains("No such file"));
        assert_eq!(
            text_of(Path::new("/dev/zero")).expect_err("no end").to_string(),
            "it is longer than 64 MiB"
        );
    }

    #[test]
    fn a_pipe_beside_a_node_is_not_waited_for() {
        let folder = weir_testkit::Folder::new();
        let (node, pipe) = (folder.join("node"), folder.join("rules"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        std::thread::scope(|scope| {
            // Whoever reads it after all gets this, and an end.
            scope.spawn(|| std::fs::write(&pipe, "policy accept").expect("it is there"));
            let read = beside(&node, "rules");
            if read.is_err() {
                std::fs::read(&pipe).expect("its writer waits");
            }
            assert_eq!(read, Err(format!("cannot read {}: it is no file", pipe.display())));
        });
    }
}
