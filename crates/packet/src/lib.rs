//! What a frame is: sizes, flows, signatures, and how test frames are built and read. Pure: no I/O, no
//! clock, no unsafe.
#![forbid(unsafe_code)]

#[macro_use]
mod named;

pub mod checksum;
pub mod ecn;
pub mod encapsulation;
pub mod fields;
pub mod flow;
pub mod frame;
pub mod headers;
pub mod neighbour;
pub mod offload;
pub mod options;
pub mod size;
pub mod steer;
