//! Reports of runs, which the program `weir` beside this one draws: what a rig says of its runs is compiled there.
//!
//! ```text
//! weir-archive > [RunData, ..] as JSON > weir agent report > page
//! ```

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use axum::http::StatusCode;
use weir_record::run_data::RunData;

use super::Refused;

/// The program that draws.
fn program() -> io::Result<PathBuf> {
    std::env::current_exe().map(|own| own.with_file_name("weir"))
}

/// The report of these runs as a page.
pub(super) fn html(runs: &[RunData]) -> Result<String, Refused> {
    let failed = |why: String| {
        let program = program().map_or_else(|_| "weir".into(), |path| path.display().to_string());
        Refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!(
                "{program}, which draws reports, failed: {why}; install `weir` beside `weir-archive`, in the same version"
            ),
        )
    };
    let asked = || -> io::Result<std::process::Output> {
        let mut command = Command::new(program()?);
        command.args(["agent", "report"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut drawing = command.spawn()?;
        // It reads to the end before it writes. If it ends early, its own words say more.
        if let Some(mut questions) = drawing.stdin.take() {
            let _ = serde_json::to_writer(io::BufWriter::new(&mut questions), runs);
        }
        drawing.wait_with_output()
    };
    let drawn = asked().map_err(|error| failed(error.to_string()))?;
    match String::from_utf8(drawn.stdout) {
        Ok(page) if drawn.status.success() => Ok(page),
        Ok(_) => {
            let said = String::from_utf8_lossy(&drawn.stderr);
            Err(failed(said.lines().last().unwrap_or("it says nothing").to_string()))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}
