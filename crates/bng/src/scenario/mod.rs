//! Text scenarios: frames of clients in, answers out, in virtual time; and a world that chooses what happens.
//!
//! ```text
//! text > Scenario > run > Bng, a disk, a table of the node        each frame that leaves is read, summed and compared
//! choices > World       > Bng, a disk, clients that remember      what was promised is kept
//! ```

mod client;
mod run;
mod text;
mod world;

pub use client::{described, frame};
pub use text::{Scenario, read};
pub use world::World;
