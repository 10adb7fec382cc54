//! Where a frame goes: longest-prefix match over IPv4 and IPv6, and what stands behind a match.
//!
//! Files:
//! - `router.rs`: the way of each frame; `router/next_hops.rs`: neighbours and groups of them; `router/egress.rs`: TTL, MTU,
//!   Ethernet addresses
//! - `v4.rs`, `v6.rs`, `blocks.rs`: the tables; `hops.rs`: looks up a batch; `group.rs`: next hops of equal cost
//! - `source.rs`: which sources a router accepts; `rpf.rs`: by which ports
//! - `options.rs`: options of IPv4
//! - `config.rs`: the text; `recipe.rs`: the router's part of a recipe

mod blocks;
mod command;
mod config;
mod group;
mod hops;
mod nexts;
mod options;
mod recipe;
mod router;
mod rpf;
mod source;
mod v4;
mod v6;

pub(crate) use command::RouteChange;
pub use command::{RouteCommand, RouteEntry, RouteTarget, Via};
pub(crate) use config::read;
pub use config::{NextHop, Route, Routes, Target};
pub use options::Options;
pub use router::NoLink;
pub(crate) use router::{PortChange, Router, Sweep};
pub(crate) use source::Refusal;

/// What a prefix leads to: a number of the caller's, below 2^31 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hop(pub(crate) u32);

impl Hop {
    /// No prefix holds the address.
    pub(crate) const NONE: Hop = Hop(u32::MAX);
}

/// A table of prefixes. An address belongs to the longest that holds it (RFC 1812, section 5.2.4.3).
pub(crate) trait Lpm {
    /// An address as a number.
    type Address: Copy;

    /// Adds a prefix, of which bits behind `length` do not count, or changes its hop; returns the hop it had.
    fn insert(&mut self, address: Self::Address, length: u8, hop: Hop) -> Option<Hop>;

    /// Takes a prefix out; `None` if it was not there.
    fn remove(&mut self, address: Self::Address, length: u8) -> Option<Hop>;

    /// The hop of exactly this prefix.
    fn get(&self, address: Self::Address, length: u8) -> Option<Hop>;

    /// Writes the hop of each address, [`Hop::NONE`] where no prefix holds it.
    fn lookup(&self, addresses: &[Self::Address], hops: &mut [Hop]);

    /// Prefixes.
    #[cfg(test)]
    fn len(&self) -> usize;

    /// Memory that lookups read, in bytes.
    fn bytes(&self) -> usize;
}

#[cfg(test)]
mod tests;
