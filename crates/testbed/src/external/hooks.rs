//! Commands that are run on the box over SSH.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::journal::dying_with_parent;

/// What a command of the box may print, bytes.
const MOST_PRINTED: u64 = 1 << 20;
/// Of what it complains, so much is kept, bytes.
const MOST_COMPLAINED: usize = 1 << 16;

/// How a shell of the box is reached: without questions, so that a key or an agent has to open it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ssh {
    /// `user@host`, or a name of the configuration.
    pub target: String,
    /// A configuration in place of the user's own, see ssh_config(5).
    pub config: Option<PathBuf>,
    /// A command that takes longer is given up.
    pub timeout: Duration,
}

impl Ssh {
    /// The ssh client with everything but the command.
    pub fn client(&self) -> Command {
        let mut ssh = Command::new("ssh");
        if let Some(config) = &self.config {
            ssh.arg("-F").arg(config);
        }
        ssh.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        // A connection that is cut without a word is noticed.
        ssh.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", &self.target]);
        ssh
    }

    /// Starts `command` on the box with pipes to and from it. The client ends with the thread that calls this.
    ///
    /// # Errors
    /// In words: there is no client, or no room for another process.
    pub fn start(&self, command: &str) -> std::result::Result<Child, String> {
        let mut ssh = self.client();
        ssh.arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        dying_with_parent(&mut ssh).spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => "there is no ssh here: apt install openssh-client".into(),
            _ => error.to_string(),
        })
    }

    /// Runs `command` on the box with `input` as its standard input and returns what it prints; `hook` is its name in
    /// the plan.
    ///
    /// # Errors
    /// [`Error::Hook`] with the box's own words.
    pub fn run(&self, hook: &str, command: &str, input: Option<&str>) -> Result<String> {
        let failed = |why: String| Error::Hook {
            hook: hook.into(),
            target: self.target.clone(),
            command: command.into(),
            why,
        };
        let mut child = self.start(command).map_err(failed)?;
        let mut stdin = child.stdin.take().expect("piped above");
        let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let status = thread::scope(|scope| {
            // If the box stops listening, its own words say more.
            scope.spawn(move || drop(stdin.write_all(input.unwrap_or_default().as_bytes())));
            let (said, complained) = (scope.spawn(|| beginning_of(stdout)), scope.spawn(|| end_of(stderr)));
            let status = ended(&mut child, self.timeout);
            if status.is_none() {
                // Ends the readers too; whether it was there still to be killed does not matter.
                let _ = child.kill();
                let _ = child.wait();
            }
            (status, said.join().unwrap_or(Ok(String::new())), complained.join().unwrap_or_default())
        });
        match status {
            (Some(_), Err(why), _) => Err(failed(why)),
            (Some(status), Ok(said), _) if status.success() => Ok(said),
            (Some(status), _, complained) => Err(failed(why(status, &complained))),
            (None, ..) => Err(failed(format!("it took longer than {} s", self.timeout.as_secs_f64()))),
        }
    }
}

/// What a command prints, or that it is too much.
fn beginning_of(mut pipe: impl Read) -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    // What came before an error counts.
    let _ = pipe.by_ref().take(MOST_PRINTED + 1).read_to_end(&mut bytes);
    if bytes.len() as u64 > MOST_PRINTED {
        // So that it can end.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        return Err(format!("it printed more than {} KiB", MOST_PRINTED >> 10));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last of what a command prints; however much it is, no more than that is kept.
pub fn end_of(mut pipe: impl Read) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    // What came before an error counts.
    while let Ok(n @ 1..) = pipe.read(&mut piece) {
        kept.extend_from_slice(&piece[..n]);
        kept.drain(..kept.len().saturating_sub(MOST_COMPLAINED));
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// How the child ended, if it does in time.
pub fn ended(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            _ => return None,
        }
    }
}

/// Why a command ended, in words: ssh itself ends with 255, and otherwise with what the command ended with (ssh(1),
/// EXIT STATUS).
pub fn why(status: ExitStatus, complained: &str) -> String {
    let lines: Vec<&str> = complained.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = lines[lines.len().saturating_sub(4)..].join("; ");
    let how = match status.code() {
        Some(255) if words.is_empty() => return "what ran there was killed, or the connection cut".into(),
        Some(255) => "no connection".into(),
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    };
    if words.is_empty() { how } else { format!("{how}: {words}") }
}

/// Reads lines of `NAME NUMBER`; of a name with spaces the last word is the number. Names that come twice are added up.
///
/// # Errors
/// [`Error::Input`] for any other line.
pub(super) fn numbers(hook: &str, text: &str) -> Result<BTreeMap<String, i64>> {
    let mut numbers = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let found = line
            .rsplit_once(char::is_whitespace)
            .and_then(|(name, number)| Some((name.trim_end(), number.parse::<i64>().ok()?)));
        let Some((name, number)) = found else {
            return Err(Error::Input(format!(
                "the command `{hook}` of [external] printed `{line}`: it must print lines with a name and a whole number"
            )));
        };
        let sum: &mut i64 = numbers.entry(name.to_string()).or_insert(0);
        *sum = sum.saturating_add(number);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_name_and_number_are_read() {
        let found = numbers("counters", "rx 5\n\n ring full\t 7 \nrx 1\nslab -3\n").unwrap();
        let text: Vec<String> = found.iter().map(|(name, number)| format!("{name}={number}")).collect();
        assert_eq!(text, ["ring full=7", "rx=6", "slab=-3"]);
        let much = format!("x {}\nx {}", i64::MAX, i64::MAX);
        assert_eq!(numbers("counters", &much).unwrap()["x"], i64::MAX);
        for wrong in ["rx", "rx 1.5", "rx: many"] {
            let error = numbers("counters", wrong).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "the command `counters` of [external] printed `{wrong}`: it must print lines with a name and a whole number"
                )
            );
        }
    }

    #[test]
    fn a_box_that_prints_without_end_is_cut_short() {
        assert_eq!(beginning_of(&b"rx 5\n"[..]), Ok("rx 5\n".into()));
        let much = std::io::repeat(b'x').take(MOST_PRINTED * 3);
        assert_eq!(beginning_of(much), Err("it printed more than 1024 KiB".into()));
        let complaint = std::io::repeat(b'x').take(MOST_PRINTED).chain(&b"at last"[..]);
        let end = end_of(complaint);
        assert!(end.len() == MOST_COMPLAINED && end.ends_with("xat last"));
    }
}
