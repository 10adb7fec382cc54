//! DHCPv4 (RFC 2131): messages, their options, and the frames that carry them.
//!
//! ```text
//! frame > frame::read > Datagram > Message::read > server > Message > Message::write > frame::write > frame
//! ```

pub mod frame;
pub mod message;
pub mod options;
pub mod relay_info;
pub(crate) mod reply;
pub(crate) mod request;
