//! The tests of `weir-queue` from outside, as one program.

mod contract;
mod models;
