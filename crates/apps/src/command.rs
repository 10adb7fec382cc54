//! Servers and clients as processes of their own: hidden commands of a program, before it looks at its arguments.

use std::path::Path;
use std::process::{Command, ExitCode};

/// What follows is [`server::Listening`], and [`client::Outcome`].
pub use weir_hidden::{DONE, READY};
use weir_hidden::{command, end, order, say};

use crate::client::{self, Demand};
use crate::server::{self, Service};

const SERVER: &str = "app-server";
const CLIENT: &str = "app-client";

/// Said when a client holds its connections; what follows is how many.
pub const HOLDING: &str = "holding ";

/// A program that calls [`run_if_asked`], as a server.
pub fn server(program: &Path, service: &Service) -> Command {
    command(program, SERVER, service)
}

/// Such a program as a client.
pub fn client(program: &Path, demand: &Demand) -> Command {
    command(program, CLIENT, demand)
}

/// Becomes a server or a client if the arguments ask for that: for the first line of `main`. Returns how that ended, or
/// `None` if the program is to go on.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next()?;
    let result = match name.as_str() {
        SERVER => order(arguments.next())
            .and_then(|service: Service| server::serve(&service, |listening| say(READY, &listening))),
        CLIENT => order(arguments.next()).and_then(|demand: Demand| {
            client::load(&demand, |held| say(HOLDING, &held)).map(|outcome| say(DONE, &outcome))
        }),
        server::ANSWER => order(arguments.next()).map(server::answer),
        _ => return None,
    };
    Some(end(&name, result))
}
