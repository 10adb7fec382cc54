//! The tests of `weir-bng` from outside, as one program.

mod accounting;
mod dhcp_radius;
mod follow;
mod ipv6;
mod ipv6_alone;
mod model;
mod pppoe;
mod refused;
mod requirements;
mod routes;
mod scenarios;
mod seats;
