//! Text scenarios: packets in, packets out, in virtual time against the plane, or over a wire against any box.
//!
//! ```text
//! text > Scenario > run > Target (VirtualNode: the plane)        each packet that leaves is read, summed and compared
//! ```

mod ether;
mod fields;
mod fragments;
mod pcp;
mod run;
mod shelf;
mod suites;
pub mod talk;
mod text;
mod virtual_node;
mod wire;

pub use run::Target;
pub use shelf::Vector;
pub use suites::suites;
pub use text::{End, Scenario, read};
pub use virtual_node::{FastPathModel, VirtualNode};

/// The IP packet that a line of a scenario describes.
///
/// # Errors
/// What is wrong with the line.
pub fn packet(line: &str) -> Result<Vec<u8>, String> {
    wire::packet(&fields::read(line)?)
}

/// The line that describes an IP packet.
///
/// # Errors
/// A packet whose headers contradict each other, or with a wrong checksum.
pub fn described(packet: &[u8]) -> Result<String, String> {
    wire::seen(packet).map(|fields| fields::shown(&fields))
}
