//! The program `weir-archive`, which `weir push`, `weir serve`, `weir archive` and commands with `--from` start.

use std::io::{BufReader, stdin, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use weir_archive::{
    Address, Old, PostgresArchive, Rights, Server, Tokens, Which, count_old, delete_old, push, runtime,
    serve, set_up,
};
use weir_record::store::{SqliteArchive, StoreError, answer};

/// Connections of all browsers together.
const CONNECTIONS: usize = 8;

/// The options are those of the commands of `weir`, where they are explained.
#[derive(Debug, Parser)]
#[command(
    name = "weir-archive",
    version,
    about = "Keeps runs of many machines in PostgreSQL; started by `weir`"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy runs of a run log
    Push {
        /// Numbers of the runs [default: the last one]
        runs: Vec<i64>,
        /// All runs that have ended
        #[arg(long)]
        all: bool,
        /// The run log
        #[arg(long)]
        store: PathBuf,
        /// The archive
        #[arg(long)]
        to: String,
    },
    /// Answer questions on standard input
    Answer {
        /// The archive
        #[arg(long)]
        from: String,
    },
    /// Show the archive in browsers, read-only
    Serve {
        /// The archive
        #[arg(long)]
        from: String,
        /// Address of the pages
        #[arg(long)]
        listen: SocketAddr,
        /// File of tokens
        #[arg(long)]
        tokens: Option<PathBuf>,
    },
    /// Make the tables, and give rights
    Setup {
        /// The archive
        #[arg(long)]
        at: String,
        /// Roles that may push
        #[arg(long)]
        writer: Vec<String>,
        /// Roles that may read
        #[arg(long)]
        reader: Vec<String>,
    },
    /// Delete old runs, or count them
    Prune {
        /// The archive
        #[arg(long)]
        at: String,
        /// Days that runs are kept
        #[arg(long)]
        keep_days: u32,
        /// Only runs of this plan
        #[arg(long)]
        plan: Option<String>,
        /// Delete them
        #[arg(long)]
        delete: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(command: Command) -> Result<()> {
    let runtime = runtime()?;
    let server = |address: &str| Server::new(&Address::parse(address)?, 1, runtime.handle().clone());
    match command {
        Command::Push { runs, all, store, to } => {
            let which = if all {
                Which::All
            } else if runs.is_empty() {
                Which::Last
            } else {
                Which::Numbered(runs)
            };
            let log = SqliteArchive::open_to_read(&store)?;
            let pushed = push(&log, &which, &PostgresArchive::open(&server(&to)?)?)?;
            println!("{pushed}");
            pushed.refused.iter().for_each(|reason| eprintln!("weir: {reason}"));
            if !pushed.refused.is_empty() {
                bail!("{} runs are not pushed", pushed.refused.len());
            }
            Ok(())
        }
        Command::Answer { from } => {
            // A wrong address is an answer, too: the command that asks reports it, once.
            let server = server(&from).map_err(|error| StoreError::Answered(format!("{error:#}")));
            let archive = server.and_then(|server| PostgresArchive::open_to_read(&server)).map(Box::new);
            Ok(answer(&archive, BufReader::new(stdin()), stdout().lock())?)
        }
        Command::Serve { from, listen, tokens } => {
            let tokens = tokens.map(|path| Tokens::read(&path)).transpose()?.unwrap_or_default();
            let address = Address::parse(&from)?.read_only();
            serve(&Server::new(&address, CONNECTIONS, runtime.handle().clone())?, listen, tokens)
        }
        Command::Prune { at, keep_days: days, plan, delete } => {
            let (server, old) = (server(&at)?, Old { days, plan });
            if delete {
                println!("{} runs deleted", delete_old(&server, &old)?);
            } else {
                println!("{} runs are older: --delete deletes them", count_old(&server, &old)?);
            }
            Ok(())
        }
        Command::Setup { at, writer, reader } => {
            set_up(&server(&at)?, &Rights { writers: writer, readers: reader })?;
            println!("the archive is ready");
            Ok(())
        }
    }
}
