//! The program as its users run it, a module for each of its commands and for each thing that may happen to it. All of
//! them are one process: what a test changes in it, others see, and a name that holds the number of the process is not
//! unique.

mod announce;
mod attackers;
mod beds;
mod bottleneck;
mod capture;
mod capture_tools;
mod conformance;
mod control;
mod cpe;
mod detect;
mod documents;
mod external;
mod files;
mod flood;
mod flows;
mod full;
mod house;
mod killed;
mod log;
mod machines;
mod mail;
mod node;
mod node_changes;
mod node_failures;
mod on_hosts;
mod packaging;
mod planted;
mod records;
mod refused;
mod schemas;
mod servers;
mod services {
    //! Servers and clients of others beside weir: `./test services`.
    mod archive;
    mod bng;
    mod dhcp_servers;
    mod frr;
    mod grids;
    mod inspect;
    mod pppoe_server;
    mod prometheus;
    mod three_hosts;
}
mod shards;
mod stacks;
mod subscribers;
mod systemd;
mod tc;
mod tools;
mod two_hosts;
mod whole;

// What they share.
mod attack;
#[path = "../../plane/tests/frames.rs"]
mod frames;
mod home;
mod hosts;
mod kept;
mod link;
mod outside;
mod programs;
mod storm;
mod street;
mod terminal;
mod weir;
