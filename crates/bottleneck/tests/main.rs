//! The tests of `weir-bottleneck` from outside, as one program.

mod exact;
mod stage;
