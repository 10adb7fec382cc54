//! The means that the engine gives a rig while a run proceeds: rounds, trials that are kept and resumed, wires, programs and
//! processes of others, folders.

pub mod folder;
pub mod process;
pub mod programs;
pub(crate) mod resume;
pub mod rounds;
pub mod running;
pub mod series;
pub mod tree;
pub mod wires;

pub use running::{Event, Options, Running};
