//! The tests of `weir-bng` from outside, as one program.

mod accounting;
mod follow;
mod ipv6;
mod model;
mod pppoe;
mod requirements;
mod scenarios;
