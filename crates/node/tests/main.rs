//! The tests of `weir-node` from outside, as one program.

mod fast;
mod offload;
mod rules;
mod run;
mod threads;

// What they share.
mod street;
