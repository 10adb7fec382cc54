//! Engine, receivers, name server and flood as processes of their own: hidden commands of a program, before it looks at its
//! arguments. A process that serves ends with its standard input.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;

use serde::Serialize;
use tokio::sync::watch;
/// What follows is [`sink::Listening`] or [`dns::Listening`], and [`engine::Report`], [`sink::Received`] or [`flood::Taken`].
pub use weir_hidden::{DONE, READY};
use weir_hidden::{command, end, order, say};

use crate::dns::{self, NameServer};
use crate::engine::{self, Order};
use crate::flood::{self, Flood};
use crate::sink::{self, Service};

const ENGINE: &str = "mail-engine";
const SINK: &str = "mail-sink";
const NAMES: &str = "mail-names";
const FLOOD: &str = "mail-flood";

/// A program that calls [`run_if_asked`], as the delivery engine.
pub fn engine(program: &Path, order: &Order) -> Command {
    command(program, ENGINE, order)
}

/// Such a program as the receivers.
pub fn sink(program: &Path, service: &Service) -> Command {
    command(program, SINK, service)
}

/// Such a program as the name server.
pub fn names(program: &Path, server: &NameServer) -> Command {
    command(program, NAMES, server)
}

/// Such a program as the flood that shows what receivers take.
pub fn flood(program: &Path, flood: &Flood) -> Command {
    command(program, FLOOD, flood)
}

/// Becomes one of these if the arguments ask for that: for the first line of `main`. Returns how that ended, or `None` if the
/// program is to go on.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next()?;
    let result = match name.as_str() {
        ENGINE => order(arguments.next()).and_then(|order: Order| {
            done(engine::deliver(&order, &Arc::default()).map_err(io::Error::other))
        }),
        FLOOD => order(arguments.next()).and_then(|order: Flood| done(flood::flood(&order))),
        SINK => order(arguments.next()).and_then(|service: Service| {
            done(sink::serve(&service, input_ends(), |listening| say(READY, &listening)))
        }),
        NAMES => order(arguments.next()).and_then(names_until_input_ends),
        _ => return None,
    };
    Some(end(&name, result))
}

fn names_until_input_ends(server: NameServer) -> io::Result<()> {
    let mut stop = input_ends();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::task::LocalSet::new().run_until(async move {
        let serving = tokio::task::spawn_local(dns::serve(server, |listening| say(READY, &listening)));
        let abort = serving.abort_handle();
        tokio::task::spawn_local(async move {
            while stop.changed().await.is_ok() {}
            abort.abort();
        });
        serving.await.unwrap_or(Ok(()))
    }))
}

/// Dropped when the parent process has closed this process's standard input, or has ended.
fn input_ends() -> watch::Receiver<()> {
    let (running, stop) = watch::channel(());
    thread::spawn(move || {
        // What is said there has no meaning.
        let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        drop(running);
    });
    stop
}

fn done(result: io::Result<impl Serialize>) -> io::Result<()> {
    result.map(|result| say(DONE, &result))
}
