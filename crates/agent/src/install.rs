//! Finds the program on another host, or copies the own one there.
//!
//! ```text
//! probe: architecture, version in PATH, checksum of an earlier copy
//!   same version in PATH, or the same copy > use it          newer > refused
//!   missing or older > copy to a new file, compare checksums, run it once, rename
//! ```
//! The copy is in the XDG data folder of the user there: `weir/agent/weir-VERSION-CHECKSUM`. No file of the system is changed, and
//! runs that copy at the same time do not disturb each other.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::protocol::VERSION;
use crate::ssh::Ssh;

/// How long a copy may take.
const COPY: Duration = Duration::from_secs(600);

/// What the shell of the host runs before anything is copied: lines of `NAME VALUE`.
const PROBE: &str = r#"folder=${XDG_DATA_HOME:-$HOME/.local/share}/weir/agent
echo "machine $(uname -sm)"
echo "folder $folder"
echo "version $(weir --version 2>/dev/null | head -n 1)"
[ ! -x "$folder/NAME" ] || echo "copy $(sha256sum <"$folder/NAME")"
"#;

/// Standard input is the program. The file has its name only when it is complete and runs.
const COPY_HERE: &str = r#"set -e
umask 022
folder=FOLDER
mkdir -p "$folder"
new=$folder/.NAME.$$
trap 'rm -f "$new"' EXIT
cat >"$new"
[ "$(sha256sum <"$new" | cut -d ' ' -f 1)" = SUM ] || { echo "the copy is not complete" >&2; exit 1; }
chmod 755 "$new"
"$new" --version >/dev/null
mv "$new" "$folder/NAME"
"#;

/// A program of this host, to be copied to others.
#[derive(Debug, Clone)]
pub struct Program {
    path: std::path::PathBuf,
    /// SHA-256, hexadecimal.
    sum: String,
    /// What a host of the same kind says: `Linux x86_64`.
    machine: String,
}

/// Where a program was found or put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How the shell of the host starts it.
    pub program: String,
    /// What was done, for the user; empty if nothing was.
    pub note: Option<String>,
}

impl Program {
    /// The program in this file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> io::Result<Program> {
        let mut digest = Sha256::new();
        let mut file = File::open(path)?;
        let mut piece = vec![0; 1 << 16];
        loop {
            match file.read(&mut piece)? {
                0 => break,
                n => digest.update(piece.get(..n).unwrap_or_default()),
            }
        }
        let sum = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let machine = format!("Linux {}", std::env::consts::ARCH);
        Ok(Program { path: path.to_path_buf(), sum, machine })
    }

    /// The name of its copies.
    fn name(&self) -> String {
        format!("weir-{VERSION}-{}", self.sum.get(..16).unwrap_or(&self.sum))
    }

    /// Makes sure that the host has this version, and copies it there where it is missing or older.
    ///
    /// # Errors
    /// In words, with what to do.
    pub fn put_on(&self, ssh: &Ssh) -> Result<Found, String> {
        let said = ssh.run(&PROBE.replace("NAME", &self.name()), io::empty())?;
        let there = There::read(&said);
        match there.decide(self)? {
            Decision::Use(program) => Ok(Found { program, note: None }),
            Decision::Copy { folder, why } => {
                self.copy(ssh, folder).map_err(|why| format!("weir cannot be copied there: {why}"))?;
                let note = Some(format!("copied weir {VERSION} to {folder} ({why})"));
                Ok(Found { program: quoted(&format!("{folder}/{}", self.name())), note })
            }
        }
    }

    fn copy(&self, ssh: &Ssh, folder: &str) -> Result<(), String> {
        let file = File::open(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))?;
        let script = COPY_HERE.replace("NAME", &self.name()).replace("SUM", &self.sum);
        let script = script.replace("FOLDER", &quoted(folder));
        Ssh { timeout: COPY, ..ssh.clone() }.run(&script, file).map(drop)
    }
}

/// What a host has.
#[derive(Debug, Default, PartialEq, Eq)]
struct There<'a> {
    machine: &'a str,
    folder: &'a str,
    /// `0.1.0`; empty if there is no weir in the PATH.
    version: &'a str,
    /// Checksum of a copy of this version.
    copy: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
enum Decision<'a> {
    Use(String),
    Copy { folder: &'a str, why: String },
}

impl<'a> There<'a> {
    fn read(said: &'a str) -> There<'a> {
        let mut there = There::default();
        for line in said.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "machine" => there.machine = value,
                "folder" => there.folder = value,
                "version" => there.version = value.strip_prefix("weir ").unwrap_or_default(),
                "copy" => there.copy = value.split(' ').next().unwrap_or_default(),
                _ => {}
            }
        }
        there
    }

    fn decide(&self, own: &Program) -> Result<Decision<'a>, String> {
        if self.version == VERSION {
            return Ok(Decision::Use("weir".into()));
        }
        if numbers(self.version) > numbers(VERSION) {
            return Err(format!(
                "it has weir {}, this host has the older {VERSION}: install that version here, too",
                self.version
            ));
        }
        if !self.folder.starts_with('/') {
            return Err(
                "its shell says nothing of its home: make sure that `ssh HOST true` works and prints nothing"
                    .into(),
            );
        }
        if self.copy == own.sum {
            return Ok(Decision::Use(quoted(&format!("{}/{}", self.folder, own.name()))));
        }
        if self.machine != own.machine {
            return Err(format!(
                "it is {}, and weir of this host is for {}: build weir {VERSION} there, and name it with `weir` in the file of hosts",
                self.machine, own.machine
            ));
        }
        let why = if self.version.is_empty() {
            "there was none".into()
        } else {
            format!("there is {} in its PATH", self.version)
        };
        Ok(Decision::Copy { folder: self.folder, why })
    }
}

/// Numbers of a version, to compare; none is the oldest.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|number| number.parse().ok()).collect()
}

/// A word of a POSIX shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use weir_testkit::Folder;

    use super::*;

    fn own() -> Program {
        Program { path: "weir".into(), sum: "ab".repeat(32), machine: "Linux x86_64".into() }
    }

    #[test]
    fn the_version_of_a_host_decides() {
        let own = own();
        let check = |version: &str, copy: &str, machine: &str, expected: &str| {
            let there = There { machine, folder: "/home/lab/d", version, copy };
            let decided = match there.decide(&own) {
                Ok(Decision::Use(program)) => format!("use {program}"),
                Ok(Decision::Copy { folder, why }) => format!("copy to {folder}: {why}"),
                Err(why) => why,
            };
            assert!(decided.starts_with(expected), "{version} {copy} {machine}: {decided}");
        };
        let (same, sum) = ("Linux x86_64", own.sum.as_str());
        check(VERSION, "", "Linux riscv64", "use weir");
        check("", "", same, "copy to /home/lab/d: there was none");
        check("0.0.9", "", same, "copy to /home/lab/d: there is 0.0.9 in its PATH");
        check("0.0.9", "torn", same, "copy to /home/lab/d");
        check("0.0.9", sum, same, "use '/home/lab/d/weir-0.1.0-abababababababab'");
        check("99.0.0", sum, same, "it has weir 99.0.0, this host has the older ");
        check(
            "",
            "",
            "Linux aarch64",
            "it is Linux aarch64, and weir of this host is for Linux x86_64: build weir ",
        );
    }

    #[test]
    fn a_probe_is_read_whatever_else_the_shell_prints() {
        let said = "Welcome!\nmachine Linux x86_64\nfolder /root/My Data/weir/agent\nversion weir 0.1.0\ncopy 00ff  -\n";
        let expected = There {
            machine: "Linux x86_64",
            folder: "/root/My Data/weir/agent",
            version: "0.1.0",
            copy: "00ff",
        };
        assert_eq!(There::read(said), expected);
        assert_eq!(
            There::read("").decide(&own()).map(|_| ()).unwrap_err().split(':').next(),
            Some("its shell says nothing of its home")
        );
    }

    /// Runs a script as the shell of a host would, with its own home.
    fn shell(home: &Folder, script: &str, input: &[u8]) -> (bool, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("HOME", &**home).env_remove("XDG_DATA_HOME");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        // A shell that ends early does not read it all.
        let _ = io::Write::write_all(&mut child.stdin.take().expect("piped"), input);
        let output = child.wait_with_output().expect("it ran");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).expect("text"))
    }

    #[test]
    fn a_copy_has_its_name_only_when_it_is_whole_and_runs() {
        let home = Folder::new();
        let program = b"#!/bin/sh\necho weir 0.1.0\n";
        let broken = b"#!/bin/sh\nexit 5\n";
        let sum = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let script = |bytes: &[u8]| {
            let script = COPY_HERE.replace("NAME", "weir-x").replace("SUM", &sum(bytes));
            script.replace("FOLDER", &quoted(&home.join("it's here").display().to_string()))
        };
        let files = || std::fs::read_dir(home.join("it's here")).map_or(0, |files| files.count());
        let torn = shell(&home, &script(program), &program[..9]);
        assert_eq!((torn, files()), ((false, "the copy is not complete\n".into()), 0));
        assert_eq!((shell(&home, &script(broken), broken).0, files()), (false, 0));
        assert_eq!((shell(&home, &script(program), program), files()), ((true, String::new()), 1));
        assert_eq!(std::fs::read(home.join("it's here/weir-x")).expect("it is there"), program);
        let probe = PROBE.replace("NAME", "weir-x");
        let said = shell(&home, &probe, b"").1;
        let there = There::read(&said);
        assert_eq!(there.folder, home.join(".local/share/weir/agent").display().to_string());
        assert_eq!((there.copy, there.machine.starts_with("Linux ")), ("", true), "{said}");
    }
}
