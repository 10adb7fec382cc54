//! The tests of `weir-bngd` from outside, as one program.

mod accounting;
mod both_families;
mod brownout;
mod dhcp_radius;
mod flood;
mod full_disk;
mod grace;
mod lines;
mod monkey;
mod pppoe;
mod profiles;
mod radsec;
mod rest;
mod restart;
mod routes;
mod services {
    //! Servers of others: `./test services`.
    mod pppoe_codecs;
    mod radius;
    mod radius_accounting;
    mod radius_codecs;
    mod radius_sql;
    mod radius_tls;
}
mod slaac;
mod soak;
mod store;
mod walled;

// What they share.
mod certificates;
mod codecs;
mod device;
mod freeradius;
