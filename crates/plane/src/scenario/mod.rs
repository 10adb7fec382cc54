//! Text scenarios: packets in, packets out, in virtual time against the plane, or over a wire against any box.
//!
//! ```text
//! text > Scenario > run > Target (VirtualNode: the plane)        each packet that leaves is read, summed and compared
//! ```

mod fields;
mod run;
mod suites;
mod text;
mod virtual_node;
mod wire;

pub use run::Target;
pub use suites::suites;
pub use text::{End, Scenario, read};
pub use virtual_node::VirtualNode;
