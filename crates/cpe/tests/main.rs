//! The tests of `weir-cpe` from outside, as one program.

mod bng;
mod scenarios;
mod wires;
