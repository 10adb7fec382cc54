//! Engine, receivers and name server as a program of their own, for tests; people have `weir run mail` and `weir mail`.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir_mail::command::run_if_asked().unwrap_or_else(|| {
        eprintln!("weir-mail: started by tests only");
        ExitCode::FAILURE
    })
}
