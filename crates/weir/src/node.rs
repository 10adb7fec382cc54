//! `weir node`: runs a node in the foreground, asks and changes one that runs. The service itself is `weir_control`.

mod asked;
mod owner;
mod shown;
mod subscribers;
mod unit;

use std::io::Write;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use weir_control::client::Client;
use weir_control::socket::Access;
use weir_control::{BlocksFile, Settings, reported, texts};
use weir_node::{Config, cpus_of};

use crate::cli::{BlocksFailure, NodeApply, NodeCommand, NodeRun, NodeShow, Shown};
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
    Ok(texts::read(file)?.0)
}

/// The CPUs of a command line.
fn cpus(list: &str) -> Result<Vec<usize>> {
    let words: Vec<&str> = list.split(',').collect();
    cpus_of(&words).map_err(|wrong| anyhow!("--cpus: {wrong}"))
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
    let answer = match arguments.what {
        Shown::Subscribers => subscribers::table(&mut client, arguments)?,
        _ if arguments.which.is_some() || arguments.top.is_some() => {
            bail!("WHICH and --top are for subscribers: weir node show subscribers")
        }
        what => asked::table(&mut client, what, arguments.limit)?,
    };
    if arguments.json {
        writeln!(out, "{answer}")?;
    } else {
        out.write_all(shown::text(arguments.what, &answer).as_bytes())?;
    }
    Ok(())
}

fn apply(arguments: &NodeApply, out: &mut impl Write) -> Result<()> {
    // Mistakes are reported here, even if no node runs. The node has dropped the right to read the files that the text names.
    let (_, texts) = texts::read(&arguments.file)?;
    let name = texts.file.clone();
    Client::connect(&arguments.socket.found()?)?.apply(texts)?;
    Ok(writeln!(out, "the node applied {name}")?)
}
