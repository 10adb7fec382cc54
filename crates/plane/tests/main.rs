//! The tests of `weir-plane` from outside, as one program.

mod access;
mod commands;
mod flow_cache;
mod hostile;
mod nat_model;
mod pppoe;
mod profiles;
mod scenarios;
mod shaping;
mod shares;
mod stages;
mod threads;

// What they share.
mod frames;
