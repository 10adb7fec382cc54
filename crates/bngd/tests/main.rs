//! The tests of `weir-bngd` from outside, as one program.

mod flood;
mod pppoe;
mod rest;
mod restart;
mod services {
    //! Servers of others: `./test services`.
    mod radius;
}
mod store;
mod walled;

// What they share.
mod freeradius;
