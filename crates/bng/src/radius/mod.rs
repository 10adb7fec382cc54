//! RADIUS (RFC 2865, 2866, 2869, 5080, 5176, 5997): pure, (now, randomness, datagram) -> datagrams.
//!
//! ```text
//! attempt > access::request > Client > datagram (server, port, id) ... answer > access::Accept | Reject
//! session > accounting::Spool > Client > Accounting-Request ... Accounting-Response > the next message of the session
//! CoA, Disconnect > dynauth::Server > identification, change > session engine > ACK | NAK
//! ```
//! - A datagram with a wrong authenticator changes nothing but a counter.
//! - Open requests of a server are bounded by its ports and 256 identifiers of each.

/// What a datagram is about: logins and accounting have servers, ports and identifiers of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Logins.
    Access,
    /// Accounting.
    Accounting,
}

pub mod access;
pub mod accounting;
pub mod attribute;
pub mod client;
pub mod dynauth;
pub mod limits;
pub mod packet;
pub mod plans;
