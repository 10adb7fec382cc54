//! The SSH client of the system: commands on another host, without questions.

use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_linux::process::dying_with_parent;

/// What a command may print, bytes.
const MOST_PRINTED: u64 = 1 << 20;
/// Of what it complains, so much is kept, bytes.
const MOST_COMPLAINED: usize = 1 << 16;

/// How a host is reached: without questions, so that a key or an SSH agent has to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// Starts `command` on the host with pipes to and from it. The client ends with the thread that calls this.
    ///
    /// # Errors
    /// In words: there is no client, or no room for another process.
    pub fn start(&self, command: &str) -> Result<Child, String> {
        let mut ssh = self.client();
        ssh.arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        dying_with_parent(&mut ssh).spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => "there is no ssh here: apt install openssh-client".into(),
            _ => error.to_string(),
        })
    }

    /// Runs `command` on the host with `input` as its standard input and returns what it prints.
    ///
    /// # Errors
    /// In words: why it failed, with the last lines of the host.
    pub fn run(&self, command: &str, input: impl Read + Send) -> Result<String, String> {
        let mut child = self.start(command)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the client of SSH has no pipes".into());
        };
        let status = thread::scope(|scope| {
            // If the host stops reading, its own words say more.
            scope.spawn(move || {
                let (mut stdin, mut input) = (stdin, input);
                let _ = std::io::copy(&mut input, &mut stdin);
            });
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
            (Some(_), Err(why), _) => Err(why),
            (Some(status), Ok(said), _) if status.success() => Ok(said),
            (Some(status), _, complained) => Err(why(status, &complained)),
            (None, ..) => Err(format!("it took longer than {} s", self.timeout.as_secs_f64())),
        }
    }
}

/// What a command prints, or that it is too much.
fn beginning_of(mut pipe: impl Read) -> Result<String, String> {
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
        kept.extend_from_slice(piece.get(..n).unwrap_or_default());
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
    let words = lines.get(lines.len().saturating_sub(4)..).unwrap_or_default().join("; ");
    let how = match status.code() {
        Some(255) if words.is_empty() => return "what ran there was killed, or the connection cut".into(),
        Some(255) => {
            let remedy = remedy(&words);
            let words = if remedy.is_empty() { &words } else { words.trim_end_matches('.') };
            return format!("no connection: {words}{remedy}");
        }
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    };
    if words.is_empty() { how } else { format!("{how}: {words}") }
}

/// What to do about a connection that the client or the host refuses; empty if the client's words say it.
fn remedy(words: &str) -> &'static str {
    let refusals = [
        (
            "Permission denied (",
            "; the host accepts no key of this user: `ssh-copy-id HOST`, or load the key with `ssh-add`",
        ),
        (
            "Host key verification failed",
            "; the host is not known here: log in once by hand, and compare its key",
        ),
        ("Could not resolve hostname", "; check the name in `ssh`, and in ~/.ssh/config"),
    ];
    refusals.iter().find(|(start, _)| words.contains(start)).map_or("", |(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_connection_has_a_remedy() {
        use std::os::unix::process::ExitStatusExt;
        let why = |code: i32, words: &str| why(ExitStatus::from_raw(code << 8), words);
        assert_eq!(why(255, ""), "what ran there was killed, or the connection cut");
        assert_eq!(why(7, "no\n\nroom\n"), "exit code 7: no; room");
        for (words, expected) in [
            (
                "a@b: Permission denied (publickey).",
                "; the host accepts no key of this user: `ssh-copy-id HOST`, or load",
            ),
            ("Host key verification failed.", "; the host is not known here: log in once by hand"),
            ("ssh: Could not resolve hostname b: Name or service not known", "; check the name in `ssh`"),
            ("ssh: connect to host b port 22: Connection refused", ""),
        ] {
            let said = why(255, words);
            let start = format!("no connection: {}{expected}", words.trim_end_matches('.'));
            assert!(said.starts_with(&start), "{said}");
        }
    }

    #[test]
    fn a_host_that_prints_without_end_is_cut_short() {
        assert_eq!(beginning_of(&b"rx 5\n"[..]), Ok("rx 5\n".into()));
        let much = std::io::repeat(b'x').take(MOST_PRINTED * 3);
        assert_eq!(beginning_of(much), Err("it printed more than 1024 KiB".into()));
        let complaint = std::io::repeat(b'x').take(MOST_PRINTED).chain(&b"at last"[..]);
        let end = end_of(complaint);
        assert!(end.len() == MOST_COMPLAINED && end.ends_with("xat last"));
    }
}
