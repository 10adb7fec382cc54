//! The program weir-bngd, which takes the place of this one.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use crate::cli::BngRun;
use crate::outcome::Outcome;
use crate::sister::become_program;

const NAME: &str = "weir-bngd";

pub(super) fn check(file: &Path) -> Result<Outcome> {
    become_program(NAME, &["--check".into(), file.into()])
}

pub(super) fn run(arguments: &BngRun) -> Result<Outcome> {
    let mut words: Vec<OsString> = vec![arguments.file.clone().into()];
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            words.extend([name.into(), value]);
        }
    };
    option("--socket", arguments.socket.socket.clone().map(Into::into));
    option("--socket-mode", arguments.socket_mode.clone().map(Into::into));
    option("--socket-group", arguments.socket_group.clone().map(Into::into));
    option("--node-socket", arguments.node_socket.clone().map(Into::into));
    option("--store", arguments.store.clone().map(Into::into));
    option("--prometheus", arguments.prometheus.map(|address| address.to_string().into()));
    let (format, level) = arguments.log.words();
    option("--log-format", format.map(Into::into));
    option("--log-level", level.map(Into::into));
    become_program(NAME, &words)
}
