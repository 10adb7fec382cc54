//! Files in directories to which other users may write, and files that must survive a crash.
//!
//! ```text
//! path > as the calling user > directory, link by link > name, never through a link > checked > open file
//! bytes > beside it > fsync > rename > fsync of the directory                            (a whole file)
//! ```
//! Files that another user may have placed do no harm to a program that runs as root: only links of root and of the calling user
//! are followed, no file is truncated, and files with a second name are refused.
//!
//! Files:
//! - `user.rs`, `directory.rs`, `open.rs`, `replace.rs`, `socket.rs`: files made with the rights of the user who asked, through
//!   no foreign link
//! - `faults.rs`: runs a writer again and again and lets power or room end at each write
//! - `kernel.rs`: files of /proc and /sys
#![forbid(unsafe_code)]

mod directory;
#[cfg(feature = "faults")]
pub mod faults;
mod kernel;
mod open;
mod replace;
mod socket;
mod state;
mod user;

pub use directory::{Directory, check_writable};
pub use kernel::kernel_text;
pub use open::{append, check_plain, create, inherited, keep, special};
pub use replace::{replace, replace_in};
pub use socket::{SocketAccess, listen};
pub use state::state_folder;
pub use user::{User, as_caller, caller, explained, is_root};
