//! The tests of `weir-bngd` from outside, as one program.

mod accounting;
mod flood;
mod pppoe;
mod rest;
mod restart;
mod store;
mod walled;
