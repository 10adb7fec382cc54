//! Servers and clients without the rest of weir: for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir_apps::command::run_if_asked().unwrap_or_else(|| {
        eprintln!("weir-app: takes `app-server` or `app-client` with an order");
        ExitCode::FAILURE
    })
}
