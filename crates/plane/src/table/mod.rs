//! What tables of connections are made of: the NAT's and the filters' have it in common.
//!
//! | question | file |
//! |---|---|
//! | Where do records lie? | `arena.rs` |
//! | How are they found by a hash? | `index.rs`; which hash nobody can foresee: `secret.rs` |
//! | When is a connection over? | `timers.rs`; of TCP: `tcp.rs` |

pub(crate) mod arena;
pub(crate) mod index;
pub(crate) mod secret;
pub(crate) mod tcp;
pub(crate) mod timers;
