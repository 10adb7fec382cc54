//! The tests of `weir-port` from outside, as one program.

mod capture;
mod duplex;
mod fast;
mod objects;

// What they share.
mod wire;
