//! PPP (RFC 1661): the link, authentication, and addresses of one session. Pure: (now, randomness, frame) -> frames.
//!
//! ```text
//! endpoint: phases      link (lcp) > authentication (auth: PAP, CHAP) > network (ipcp | ipv6cp, each by itself) > end
//! negotiation: timers, identifiers, counters of one protocol, by the table of automaton
//! packet: codes and options
//! ```
//! The node answers and sends echoes of sessions that are up, and forwards their IP packets; everything else comes here.

pub mod auth;
pub mod automaton;
pub mod endpoint;
pub mod ipcp;
pub mod ipv6cp;
pub mod lcp;
mod mru_test;
pub mod negotiation;
pub mod packet;

/// Numbers of protocols (RFC 1661, section 2).
pub mod protocol {
    /// IPv4 packets.
    pub const IPV4: u16 = 0x0021;
    /// IPv6 packets.
    pub const IPV6: u16 = 0x0057;
    /// Addresses of IPv4 (RFC 1332).
    pub const IPCP: u16 = 0x8021;
    /// Interface identifiers of IPv6 (RFC 5072).
    pub const IPV6CP: u16 = 0x8057;
    /// The link (RFC 1661).
    pub const LCP: u16 = 0xc021;
    /// Password in clear text (RFC 1334).
    pub const PAP: u16 = 0xc023;
    /// Challenge and response (RFC 1994, RFC 2759).
    pub const CHAP: u16 = 0xc223;
}
