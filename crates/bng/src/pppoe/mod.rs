//! PPP over Ethernet (RFC 2516): discovery and session frames, and the access concentrator's side of discovery.
//!
//! ```text
//! host                                             access concentrator
//!  PADI (broadcast) ---------------------------->  limits of MAC and line, Service-Name: no state
//!       <---------------- PADO (AC-Name, AC-Cookie)
//!  PADR (AC-Cookie) ---------------------------->  cookie, limits of sessions > session id
//!       <---------------- PADS (session id)
//!  session frames <----------------------------->  session frames
//!  PADT <--------------------------------------->  PADT
//! ```
//! Invariant: only a PADR with a cookie that was sent to the same MAC on the same line makes state.

pub mod concentrator;
mod cookie;
pub mod discovery;
pub mod line_tag;
pub mod session;
pub mod tags;

/// EtherType of discovery.
pub const DISCOVERY: u16 = 0x8863;
/// EtherType of sessions.
pub const SESSION: u16 = 0x8864;
/// Largest PPP payload without RFC 4638: the MTU of Ethernet less the headers of PPPoE (6) and PPP (2).
pub const MAX_PAYLOAD: u16 = 1492;

/// Whether a frame without VLAN tags is of PPPoE.
pub fn is_pppoe(frame: &[u8]) -> bool {
    matches!(weir_packet::fields::be16(frame, 12), Some(DISCOVERY | SESSION))
}

/// Bytes of an Ethernet header without tags.
const ETHERNET_BYTES: usize = 14;
/// Version 1, type 1 (RFC 2516, section 4).
const VERSION_TYPE: u8 = 0x11;
