//! weir on other hosts: the local side starts `weir agent ROLE` there over SSH and talks to it in lines of JSON.
//!
//! ```text
//!  this host:  Link ---- ssh, stdin: requests, signals ---->  serve: other host
//!                   <--- stdout: greeting, signals, replies --
//! ```
//! - A **greeting** comes first: the version of weir there, and the machine. Both sides must have the same version.
//! - A **heartbeat** goes both ways every [`protocol::BEAT`]. An agent that hears nothing for [`protocol::SILENCE`] ends, and with
//!   it all that it holds on its host. A link that hears nothing for longer is lost.
//! - **Lines are bounded** ([`protocol::LONGEST`]). A line that is too long, no UTF-8 or no reply ends the link: what comes after it
//!   cannot be trusted.
//!
//! The crate knows no request: each role (tester, device, worker) has its own types and checks their values.
//!
//! Files:
//! - `protocol.rs`: greeting, signals, replies, lines; `link.rs`: the local side; `serve.rs`: the side of the agent
//! - `ssh.rs`: the SSH client; `install.rs`: finds weir on a host, or copies it there
//! - `hosts.rs`: hosts.toml, hosts and their roles
#![forbid(unsafe_code)]

pub mod hosts;
pub mod install;
pub mod link;
pub mod protocol;
pub mod serve;
pub mod ssh;
