//! State that lives from frame to frame, the same for NATs, filters and the steering of frames to threads.
//!
//! Files:
//! - `arena.rs`: memory of records; `index.rs`: finds them by a hash; `secret.rs`: the key of a hash that no sender can predict
//! - `timers.rs`: when a connection is over; `tcp.rs`: of TCP
//! - `allowance.rs`: a rate; `quota.rs`: a rate for each host
//! - `shares.rs`: which entry is replaced when hosts want more than there is; `holders.rs`: how much of a table a host holds;
//!   `eviction.rs`: which entry of a full table a new one replaces
//! - `page.rs`: shows a table while frames pass
//! - `fragments.rs`: the fate of a packet's first fragment, and the fragments that wait for it

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
