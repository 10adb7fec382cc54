//! Command lines and output of other programs.

use std::path::Path;
use std::process::{Command, Stdio};

use weir_apps::files::Durability;

use super::plan::{Peer, Work};

/// Makes the files of a trial in a directory that is there; files per second.
pub(super) fn make(peer: Peer, work: &Work, files: u32, directory: &Path) -> Result<f64, String> {
    let mut command = command(peer, work, files, directory);
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = match peer {
        Peer::FsMark => fs_mark(&said),
        Peer::Fio => fio(&said),
    };
    rate.filter(|_| output.status.success()).ok_or_else(|| {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let line = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        format!("{} gave no rate: {}", peer.name(), line.chars().take(160).collect::<String>())
    })
}

fn command(peer: Peer, work: &Work, files: u32, directory: &Path) -> Command {
    let syncs = work.durability == Durability::Fsync;
    let each = (files / work.workers).max(1).to_string();
    let (bytes, workers) = (work.bytes.to_string(), work.workers.to_string());
    let mut command = Command::new(peer.name());
    match peer {
        Peer::FsMark => {
            // It refuses a path of 40 bytes or more.
            command.current_dir(directory).args(["-d", ".", "-n", &each, "-s", &bytes, "-w", &bytes]);
            command.args(["-t", &workers, "-k", "-S", if syncs { "1" } else { "0" }, "-l", "log"]);
        }
        // One write per file: its operations are files.
        Peer::Fio => {
            command.args([
                "--name=make",
                "--rw=write",
                "--ioengine=sync",
                "--create_on_open=1",
                "--fallocate=none",
            ]);
            command.args([
                "--openfiles=1",
                "--file_service_type=sequential",
                "--group_reporting",
                "--output-format=json",
            ]);
            command.arg(format!("--directory={}", directory.display()));
            command.arg(format!("--nrfiles={each}")).arg(format!("--numjobs={workers}"));
            command.arg(format!("--filesize={bytes}")).arg(format!("--bs={bytes}"));
            command.arg(format!("--fsync_on_close={}", u8::from(syncs))).arg("--end_fsync=0");
        }
    }
    command
}

/// The fourth column of its last line.
fn fs_mark(said: &str) -> Option<f64> {
    let line = said.lines().rev().find(|line| !line.trim().is_empty())?;
    line.split_whitespace().nth(3)?.parse().ok()
}

fn fio(said: &str) -> Option<f64> {
    // Notes may stand before it.
    let result: serde_json::Value = serde_json::from_str(&said[said.find('{')?..]).ok()?;
    let write = &result["jobs"][0]["write"];
    let (files, ms) = (write["total_ios"].as_f64()?, write["runtime"].as_f64()?);
    (ms > 0.0).then(|| files / ms * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_they_say_is_read() {
        let said = "FSUse%        Count         Size    Files/sec     App Overhead\n    87          100         4096        711.3             1408\n\n";
        assert_eq!((fs_mark(said), fs_mark("")), (Some(711.3), None));
        let said = "note: something\n{\"jobs\": [{\"write\": {\"total_ios\": 100, \"runtime\": 50}}]}\n";
        assert_eq!((fio(said), fio("no"), fio("{}")), (Some(2000.0), None, None));
    }
}
