//! Text scenarios: frames of clients in, answers out, in virtual time.
//!
//! ```text
//! text > Scenario > run > Bng, a disk, a table of the node        each frame that leaves is read, summed and compared
//! ```

mod client;
mod run;
mod text;

pub use client::{described, frame};
pub use text::{Scenario, read};
