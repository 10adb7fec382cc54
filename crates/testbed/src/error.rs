//! Errors of a test bed, with their remedies.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An input that cannot be built, or a kernel that refuses.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call or a file failed.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused a netlink request.
    #[error("{what}: {source}{}{text}", if text.is_empty() { "" } else { ": " })]
    Netlink {
        /// What was asked for.
        what: String,
        /// The error number.
        source: io::Error,
        /// The kernel's own words (NLMSGERR_ATTR_MSG), often empty.
        text: String,
    },
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
    /// A namespace cannot be made.
    #[error(
        "no network namespace: {0}. Run as root, or in a user namespace of its own (unshare -Urnm), \
         where kernel.unprivileged_userns_clone and AppArmor allow it"
    )]
    NoNamespace(io::Error),
    /// A name under /run/netns is taken.
    #[error("/run/netns/{0} exists already: choose another name, or remove it with `ip netns del {0}`")]
    NameTaken(String),
    /// The specification asks for something that cannot be.
    #[error("{0}")]
    Input(String),
}

impl Error {
    /// Wraps the last result of a system call.
    pub(crate) fn os(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Os { what, source }
    }
}
