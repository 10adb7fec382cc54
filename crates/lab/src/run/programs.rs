//! Other programs: those that a rig needs, whether they are installed, and their versions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Other programs, one per line: program, Debian package, services. `cargo:NAME` instead of a package means that Debian has none,
/// and cargo installs it.
#[derive(Debug, Clone, Copy)]
pub struct Programs(pub &'static str);

impl Programs {
    fn lines(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next().zip(words.next())
        })
    }

    /// Their names in the file system.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.lines().map(|(name, _)| name)
    }

    /// The Debian package that has one of them.
    fn package(self, program: &str) -> &'static str {
        self.lines().find(|(name, _)| *name == program).map_or("", |(_, package)| package)
    }

    /// Where one of them is to be had.
    fn source(self, program: &str) -> String {
        match self.package(program) {
            package if package.starts_with("cargo:") => {
                format!("no Debian package: cargo install {}", package.trim_start_matches("cargo:"))
            }
            package => format!("Debian package {package}"),
        }
    }
}

/// Where programs are looked for; users often lack the last ones.
pub fn path() -> String {
    let [path, home] = ["PATH", "HOME"].map(|name| std::env::var(name).unwrap_or_default());
    format!("{path}:/usr/sbin:/sbin:{home}/.cargo/bin")
}

/// Why a program cannot take part, if it is not here.
pub fn missing(program: &str, list: Programs) -> Option<String> {
    (!is_installed(program, &path())).then(|| format!("it is not installed ({})", list.source(program)))
}

fn is_installed(program: &str, path: &str) -> bool {
    path.split(':').any(|folder| {
        let found = std::fs::metadata(Path::new(folder).join(program));
        found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// The version of a program that is here: what it says itself, or its Debian package does.
pub fn version(program: &str, list: Programs) -> String {
    let package = list.package(program);
    let said = |command: &mut Command| {
        let output = command.env("PATH", path()).stdin(Stdio::null()).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        output.status.success().then(|| String::from_utf8_lossy(&text).into_owned())
    };
    let own = said(Command::new(program).arg("--version")).and_then(|text| first_version(&text));
    let packaged = || {
        said(Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]))
            .filter(|text| !text.is_empty())
    };
    own.or_else(packaged).unwrap_or_else(|| "unknown".into())
}

/// The first word that looks like one: `4.99.3` of `tcpdump version 4.99.3`.
fn first_version(text: &str) -> Option<String> {
    let words = text.lines().take(3).flat_map(str::split_whitespace);
    let mut words =
        words.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).trim_start_matches('v'));
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    words.find(is_version).map(str::to_string)
}

/// Why weir's own part cannot be started, if this is another program that uses its library.
pub fn not_weir() -> Option<String> {
    let own = std::env::current_exe().ok();
    let name = own.as_deref().and_then(Path::file_name).unwrap_or_default();
    (name != "weir").then(|| {
        format!(
            "this program is called {}, and can start copies of itself only if it is called weir",
            name.to_string_lossy()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_programs_has_their_packages() {
        let list = Programs(
            "# program, package, services\nstenotype stenographer stenographer.service\nnc netcat\n",
        );
        assert_eq!(list.names().collect::<Vec<_>>(), ["stenotype", "nc"]);
        assert_eq!((list.package("stenotype"), list.package("nc")), ("stenographer", "netcat"));
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (text, version) in [
            ("tcpdump version 4.99.3\nlibpcap version 1.10.3", Some("4.99.3")),
            ("Dumpcap (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u3).", Some("4.0.17")),
            ("\nnetsniff-ng 0.6.8 (Flutternozzle), Git id: (none)", Some("0.6.8")),
            ("tcpreplay version: v4.4.3, of old", Some("4.4.3")),
            ("no such option", None),
        ] {
            assert_eq!(first_version(text).as_deref(), version, "{text}");
        }
    }

    #[test]
    fn what_is_not_here_says_how_to_get_it() {
        assert!(is_installed("sh", "/nowhere:/bin") && !is_installed("sh", "/nowhere"));
        let list = Programs("sh dash\nno-such-program it\nno-such-crate cargo:crate\n");
        assert_eq!(missing("sh", list), None);
        assert_eq!(
            missing("no-such-crate", list).unwrap(),
            "it is not installed (no Debian package: cargo install crate)"
        );
        assert_eq!(missing("no-such-program", list).unwrap(), "it is not installed (Debian package it)");
        assert_eq!(version("no-such-program", list), "unknown");
    }
}
