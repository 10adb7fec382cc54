//! The tests of `weir-cpe` from outside, as one program.

mod bng;
mod pppoe;
mod scenarios;
mod wires;
