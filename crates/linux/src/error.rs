//! What the kernel refuses, and what to do about it.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A request that the kernel refused, or an input that it cannot have.
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
    /// A namespace cannot be made.
    #[error(
        "no network namespace: {0}. Run as root, or in a user namespace of its own (unshare -Urnm), \
         where kernel.unprivileged_userns_clone and AppArmor allow it"
    )]
    NoNamespace(io::Error),
    /// The request cannot be made, or the kernel does not have what was asked for.
    #[error("{0}")]
    Input(String),
}

impl Error {
    /// Wraps the last result of a system call.
    pub fn os(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Os { what, source }
    }
}
