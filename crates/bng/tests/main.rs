//! The tests of `weir-bng` from outside, as one program.

mod accounting;
mod model;
mod pppoe;
mod scenarios;
