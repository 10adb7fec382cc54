//! The tests of `weir-bng` from outside, as one program.

mod model;
mod pppoe;
mod scenarios;
