//! The tests of `weir-cpe` from outside, as one program.

mod wires;
