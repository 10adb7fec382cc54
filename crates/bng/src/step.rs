//! The steps of a device on its way to a session.
//!
//! ```text
//! frame > discovery, link, authentication (PPPoE) > identify > status > address > offer > request > store > up
//! ```

use std::fmt;

/// How far a device came on its way to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A frame was read.
    Frame,
    /// Discovery of PPPoE: it asked for a session.
    Discovery,
    /// PPP: the link was negotiated (LCP).
    Link,
    /// Its name and password were checked, or RADIUS was asked for it.
    Authentication,
    /// Its subscriber was looked for.
    Identify,
    /// May the subscriber be online?
    Status,
    /// An address was looked for.
    Address,
    /// An address was offered.
    Offer,
    /// The client asked for an address.
    Request,
    /// The record is being written.
    Store,
    /// It has a session.
    Up,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Frame => "frame",
            Step::Discovery => "discovery",
            Step::Link => "link",
            Step::Authentication => "authentication",
            Step::Identify => "identify",
            Step::Status => "status",
            Step::Address => "address",
            Step::Offer => "offer",
            Step::Request => "request",
            Step::Store => "store",
            Step::Up => "up",
        })
    }
}
