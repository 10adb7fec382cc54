//! Files that weir writes where others may write too, and files that must outlive a crash.
//!
//! ```text
//! path > as the user who asked > directory, link by link > name, never through a link > checked > open file
//! bytes > beside it > fsync > rename > fsync of the directory                            (a whole file)
//! ```
//! Root writes what somebody else has laid in its way only if nothing comes of it: no link is followed but those of root
//! and of the user who asked, no file is emptied, and one with a second name is left alone.
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
pub use socket::listen;
pub use state::state_folder;
pub use user::{User, as_caller, caller, explained, is_root};
