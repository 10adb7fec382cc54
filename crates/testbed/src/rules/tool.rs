//! The programs that install and read rules.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use weir_linux::process::dying_with_parent;

/// A program and where to get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) program: &'static str,
    /// Debian's package.
    pub(super) package: &'static str,
}

impl Tool {
    /// Its path.
    ///
    /// # Errors
    /// [`Error::ToolMissing`].
    pub(super) fn find(&self) -> Result<PathBuf> {
        // Debian keeps them in /usr/sbin, which is not in every user's PATH.
        let path = std::env::var_os("PATH").unwrap_or_default();
        self.find_in(&path).or_else(|_| self.find_in(OsStr::new("/usr/sbin:/sbin:/usr/bin:/bin")))
    }

    fn find_in(&self, path: &OsStr) -> Result<PathBuf> {
        let is_program = |path: &PathBuf| {
            path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let missing = Error::ToolMissing { program: self.program, package: self.package };
        std::env::split_paths(path).map(|folder| folder.join(self.program)).find(is_program).ok_or(missing)
    }

    /// Runs it in the calling thread's namespace and returns what it prints.
    pub(super) fn run(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(self.find()?);
        // A namespace of our own needs no lock against other users of iptables, and they none against us.
        command.args(arguments).env("XTABLES_LOCKFILE", "/dev/null");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            dying_with_parent(&mut command).spawn().map_err(Error::os(format!("start {}", self.program)))?;
        // All of them read their input before they write; if one ends early, its own words are the better error.
        let written = child.stdin.take().expect("piped above").write_all(input.as_bytes());
        let output = child.wait_with_output().map_err(Error::os(format!("run {}", self.program)))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(self.refused(text.lines().take(4).collect::<Vec<_>>().join("; ")));
        }
        written.map_err(Error::os(format!("write rules to {}", self.program)))?;
        String::from_utf8(output.stdout).map_err(|_| self.refused("its answer is not UTF-8".into()))
    }

    pub(super) fn refused(&self, text: String) -> Error {
        Error::ToolRefused { program: self.program, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let folder = weir_testkit::Folder::new();
        let tool = Tool { program: "ipset", package: "ipset" };
        let missing = || tool.find_in(folder.as_os_str()).unwrap_err().to_string();
        let expected = "ipset is not installed, and the rules of this device need it: apt install ipset";
        assert_eq!(missing(), expected);
        std::fs::write(folder.join("ipset"), "").unwrap();
        assert_eq!(missing(), expected, "a file is no program");
        std::fs::set_permissions(folder.join("ipset"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(tool.find_in(folder.as_os_str()).unwrap(), folder.join("ipset"));
    }

    #[test]
    fn a_refusal_repeats_the_program_s_words() {
        let refusal = super::super::nft::NFT.run(&["-c", "-f", "-"], "table ip weir { nonsense }");
        match refusal {
            Err(Error::ToolMissing { .. }) => eprintln!("skipped: {} needs nft", module_path!()),
            other => assert!(other.unwrap_err().to_string().contains("nonsense")),
        }
    }
}
