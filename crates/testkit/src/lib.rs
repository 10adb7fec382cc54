//! What the tests of several crates share: numbers from a seed, an input or the environment, hostile packets,
//! temporary folders, programs that are watched, a PostgreSQL, sessions of a terminal, hosts with wires between them, texts that are
//! compared as a whole, and the one form in which a test says that it is skipped.
//!
//! Only tests use it: it panics where something is not as it must be, and says what was found in its place.

#![forbid(unsafe_code)]

pub mod confined;
mod craft;
mod dice;
mod env;
mod folder;
pub mod full_disk;
mod golden;
pub mod kills;
#[cfg(feature = "wires")]
pub mod pair;
pub mod postgres;
mod program;
pub mod schema;
mod session;
mod skip;
mod socket;
#[cfg(feature = "wires")]
pub mod wires;

use std::time::Duration;

pub use craft::{Craft, repair};
pub use dice::Dice;
pub use env::number;
pub use folder::Folder;
pub use golden::{check_golden, mistakes, set_mistakes};
pub use program::{Ended, Started, Watch, output};
pub use session::check_session;
pub use skip::{has, is_root};
pub use socket::{accept, be_patient};

/// Longer than anything takes that a test waits for, on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
