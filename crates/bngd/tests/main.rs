//! The tests of `weir-bngd` from outside, as one program.

mod restart;
mod store;
