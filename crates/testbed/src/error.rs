//! Errors of a test bed, with their remedies.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An input that cannot be built, or a kernel that refuses.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused something.
    #[error(transparent)]
    Linux(#[from] weir_linux::Error),
    /// A program that makes rules is missing.
    #[error("{program} is not installed, and the rules of this device need it: apt install {package}")]
    ToolMissing {
        /// Its name.
        program: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// A program refused a rule set.
    #[error("{program} refused the rules: {text}")]
    ToolRefused {
        /// Its name.
        program: &'static str,
        /// Its words.
        text: String,
    },
    /// A command on the box of the plan's [external] failed.
    #[error(
        "the command `{hook}` of [external] failed on {target}: {why}. Try it by hand: ssh -o BatchMode=yes {target} \
         '{command}'"
    )]
    Hook {
        /// Its name in the plan.
        hook: String,
        /// Where it was run.
        target: String,
        /// The command.
        command: String,
        /// The failure, in words.
        why: String,
    },
    /// The part of the tester on another host, `remote` in [external].
    #[error("the remote tester on {target}: {why}")]
    Remote {
        /// That host.
        target: String,
        /// The failure and what to do, in words.
        why: String,
    },
    /// weir on the device under test, `agent_ports` in [external].
    #[error("the device under test {target}: {why}")]
    Device {
        /// That host.
        target: String,
        /// The failure and what to do, in words.
        why: String,
    },
    /// A name under /run/netns is taken.
    #[error("/run/netns/{0} exists already: choose another name, or remove it with `ip netns del {0}`")]
    NameTaken(String),
    /// The specification asks for something that cannot be.
    #[error("{0}")]
    Input(String),
}

impl Error {
    /// Wraps the last result of a system call.
    pub fn os(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let wrapped = weir_linux::Error::os(what);
        move |source| wrapped(source).into()
    }
}
