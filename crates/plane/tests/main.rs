//! The tests of `weir-plane` from outside, as one program.

mod access;
mod commands;
mod floods;
mod flow_cache;
mod hostile;
mod nat_model;
mod pppoe;
mod pppoe_echo;
mod pppoe_mru;
mod profiles;
mod routed;
mod scenarios;
mod session_model;
mod shaping;
mod shares;
mod stages;
mod threads;

// What they share.
mod frames;
mod sessions;
