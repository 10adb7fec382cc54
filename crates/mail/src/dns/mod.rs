//! DNS for mail: the zone of a job, the server that has it, and the resolver of the engine.

mod resolver;
mod server;
mod zone;

pub(crate) use resolver::Resolver;
/// For fuzz targets.
#[cfg(feature = "fuzz")]
pub(crate) use resolver::{Judged, additional, judge, servers};
pub use server::{Listening, NameServer, serve};
pub use zone::{Zone, domain_name};

/// As which packet a message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// At most 512 bytes, else it is truncated (RFC 1035, section 4.2.1).
    Udp,
    /// With a length before it (RFC 1035, section 4.2.2).
    Tcp,
}

#[cfg(test)]
mod tests;
