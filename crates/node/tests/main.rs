//! The tests of `weir-node` from outside, as one program.

mod changes;
mod control;
mod fast;
mod latency;
mod links;
mod offload;
mod ports;
mod qinq;
mod rules;
mod run;
mod threads;

// What they share.
mod street;
