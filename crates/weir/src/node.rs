//! `weir node`: runs a node in the foreground, asks and changes one that runs. The service itself is `weir_control`.

mod asked;
mod owner;
mod shown;
mod unit;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use weir_control::client::Client;
use weir_control::request::{Apply, LONGEST};
use weir_control::socket::Access;
use weir_control::{BlocksFile, Settings, reported};
use weir_node::{Config, cpus_of};

use crate::cli::{BlocksFailure, NodeApply, NodeCommand, NodeRun, NodeShow};
use crate::outcome::Outcome;

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
        NodeCommand::Owner { file, asked } => {
            writeln!(out, "{}", owner::look_up(file, &read(file)?, asked)?)?
        }
        NodeCommand::Unit { file } => unit::write(file, &read(file)?, out)?,
    }
    Ok(Outcome::Done)
}

/// Reads a node's file.
fn read(file: &Path) -> Result<Config> {
    Ok(read_texts(file)?.0)
}

/// Reads a node's file, and the texts with which another node becomes the same.
fn read_texts(file: &Path) -> Result<(Config, Apply)> {
    let name = file.display().to_string();
    let text = text_of(file).with_context(|| format!("cannot read {name}"))?;
    let files = RefCell::new(BTreeMap::new());
    let config = Config::read(&name, &text, &|other| {
        let text = beside(file, other)?;
        files.borrow_mut().insert(other.to_string(), text.clone());
        Ok(text)
    })?;
    let texts = Apply { file: name, text, files: files.into_inner() };
    texts.check_length().map_err(anyhow::Error::msg)?;
    Ok((config, texts))
}

/// The CPUs of a command line.
fn cpus(list: &str) -> Result<Vec<usize>> {
    let words: Vec<&str> = list.split(',').collect();
    cpus_of(&words).map_err(|wrong| anyhow!("--cpus: {wrong}"))
}

/// The text of a file that a node file names, relative to the folder of that file.
fn beside(file: &Path, other: &str) -> Result<String, String> {
    let path = file.parent().unwrap_or(Path::new("")).join(other);
    // A pipe could block, and a device has no end.
    let no_file = || std::io::Error::other("it is no regular file");
    let found = std::fs::metadata(&path)
        .and_then(|about| if about.is_file() { text_of(&path) } else { Err(no_file()) });
    found.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The text of a file or pipe, if it is not too long for a node.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST as u64 + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST as u64 {
        return Err(std::io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20)));
    }
    Ok(weir_config::without_bom(&text).to_string())
}

fn in_foreground(arguments: &NodeRun, out: &mut impl Write) -> Result<Outcome> {
    weir_service::log::init(arguments.log.options())?;
    let failure = match arguments.blocks_failure {
        BlocksFailure::Refuse => weir_control::BlocksFailure::Refuse,
        BlocksFailure::Give => weir_control::BlocksFailure::Give,
    };
    let over = weir_control::run(Settings {
        cpus: arguments.cpus.as_deref().map(cpus).transpose()?,
        config: read(&arguments.file)?,
        socket: arguments.socket.path(),
        access: Access { mode: arguments.socket_mode, group: arguments.socket_group.clone() },
        prometheus: arguments.prometheus,
        events: arguments.events.as_deref(),
        blocks: arguments.blocks.as_deref().map(|path| BlocksFile { path, failure }),
        keeps_privileges: arguments.keep_privileges,
    })?;
    if arguments.json {
        writeln!(out, "{}", over.accounting)?;
    } else {
        out.write_all(reported::text(&over.accounting).as_bytes())?;
    }
    match &over.reasons[..] {
        [] => Ok(Outcome::Done),
        reasons => bail!("{}; the frames before that were forwarded", reasons.join("; ")),
    }
}

fn show(arguments: &NodeShow, out: &mut impl Write) -> Result<()> {
    let mut client = Client::connect(&arguments.socket.found()?)?;
    let answer = asked::table(&mut client, arguments.what, arguments.limit)?;
    if arguments.json {
        writeln!(out, "{answer}")?;
    } else {
        out.write_all(shown::text(arguments.what, &answer).as_bytes())?;
    }
    Ok(())
}

fn apply(arguments: &NodeApply, out: &mut impl Write) -> Result<()> {
    // Mistakes are reported here, even if no node runs. The node has dropped the right to read the files that the text names.
    let (_, texts) = read_texts(&arguments.file)?;
    let name = texts.file.clone();
    Client::connect(&arguments.socket.found()?)?.apply(texts)?;
    Ok(writeln!(out, "the node applied {name}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_no_text() {
        let node = Path::new("/dev/node");
        assert_eq!(
            beside(node, "zero").expect_err("a device"),
            "cannot read /dev/zero: it is no regular file"
        );
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
            // A reader of the pipe gets this text, and the end.
            scope.spawn(|| std::fs::write(&pipe, "policy accept").expect("it is there"));
            let read = beside(&node, "rules");
            if read.is_err() {
                std::fs::read(&pipe).expect("its writer waits");
            }
            assert_eq!(read, Err(format!("cannot read {}: it is no regular file", pipe.display())));
        });
    }
}
