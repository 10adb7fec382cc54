//! What is remembered from frame to frame, for NATs, filters and the steering of frames to threads alike.
//!
//! | question | file |
//! |---|---|
//! | Where do records lie? | `arena.rs` |
//! | How are they found by a hash? | `index.rs`; the hash is keyed: `secret.rs` |
//! | When is a connection over? | `timers.rs`; of TCP: `tcp.rs` |
//! | How often may something happen? | `allowance.rs`; for each host: `quota.rs` |
//! | Which host gives way where all want more than there is? | `shares.rs` |
//! | How much of a table does a host hold? | `holders.rs` |
//! | Which entry of a full table is evicted for a new one? | `eviction.rs` |
//! | How is a table shown while frames pass? | `page.rs` |
//! | What became of a packet's first fragment, and which fragments wait for it? | `fragments.rs` |

pub(crate) mod allowance;
pub(crate) mod arena;
pub(crate) mod eviction;
pub(crate) mod fragments;
pub(crate) mod holders;
pub(crate) mod index;
pub(crate) mod page;
pub(crate) mod quota;
pub(crate) mod secret;
pub(crate) mod shares;
pub(crate) mod tcp;
pub(crate) mod timers;
