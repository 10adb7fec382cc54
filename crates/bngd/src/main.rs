//! The program `weir-bngd`, which `weir bng run` and `weir bng check` start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use weir_bngd::{File, Settings};
use weir_control::socket::{self, Access};
use weir_service::log;

/// The options are those of `weir bng run`, where they are explained.
#[derive(Debug, Parser)]
#[command(
    name = "weir-bngd",
    version,
    about = "Controls the subscribers of a node; started by `weir bng run`"
)]
struct Arguments {
    /// The file of the node
    file: PathBuf,
    /// Only report all mistakes of the file
    #[arg(long)]
    check: bool,
    /// Socket of the REST API
    #[arg(long, value_name = "FILE", env = "WEIR_BNG_SOCKET")]
    socket: Option<PathBuf>,
    /// Mode of this socket
    #[arg(long, value_name = "MODE", value_parser = socket::mode)]
    socket_mode: Option<u32>,
    /// Group of this socket
    #[arg(long, value_name = "NAME")]
    socket_group: Option<String>,
    /// Control socket of the node
    #[arg(long, value_name = "FILE", env = "WEIR_NODE_SOCKET")]
    node_socket: Option<PathBuf>,
    /// Folder of the records
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Serve /metrics over HTTP at this address
    #[arg(long, value_name = "ADDR:PORT")]
    prometheus: Option<SocketAddr>,
    /// Form of the log
    #[arg(long, value_name = "FORMAT", value_parser = log::format)]
    log_format: Option<log::Format>,
    /// Least important level that is logged
    #[arg(long, value_name = "LEVEL", value_parser = log::level)]
    log_level: Option<tracing::level_filters::LevelFilter>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::end_with_error(&format!("weir: {error:#}"));
            ExitCode::from(1)
        }
    }
}

/// A file in the folder of sockets.
fn in_runtime_folder(file: &str) -> PathBuf {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| "/run".into(), PathBuf::from);
    folder.join("weir").join(file)
}

fn run(arguments: Arguments) -> Result<()> {
    if arguments.check {
        let config = File::read(&arguments.file)?.config;
        let pools: Vec<String> = config.pools.iter().map(|pool| pool.name.to_string()).collect();
        let size: u64 = config.pools.iter().map(weir_bng::Pool::size).sum();
        println!(
            "{} serves subscribers with {size} addresses of {}",
            arguments.file.display(),
            if pools.is_empty() { "no pool".into() } else { pools.join(", ") }
        );
        return Ok(());
    }
    log::init(log::Options { format: arguments.log_format, level: arguments.log_level })?;
    weir_bngd::run(Settings {
        file: arguments.file,
        store: arguments.store,
        socket: arguments.socket,
        access: Access { mode: arguments.socket_mode, group: arguments.socket_group },
        node: arguments.node_socket.unwrap_or_else(|| in_runtime_folder("node.sock")),
        prometheus: arguments.prometheus,
        usual_socket: in_runtime_folder("bng.sock"),
    })
}
