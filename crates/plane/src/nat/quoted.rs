//! Whom a frame is about, as far as NATs must know it: of an error of ICMP, the packet that it quotes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::drops::DropReason;
use crate::frame::Frame;
use crate::quote::{self, Unclear};

/// A packet of IPv4 that an error quotes.
pub(super) type Quote = quote::Quote<u32>;

/// What a frame quotes that is an error, whole or its first fragment, with the addresses of IPv4.
pub(super) fn quote(frame: &Frame<'_>) -> Result<Quote, DropReason> {
    match quote::v4(frame) {
        Ok(quote) if quote.is_for(frame.addresses4().1) => Ok(quote),
        Ok(_) => Err(DropReason::NatBadIcmp),
        Err(why) => Err(unclear(why)),
    }
}

/// The reason to drop an error that does not say what it is about.
pub(super) fn unclear(why: Unclear) -> DropReason {
    match why {
        Unclear::Broken => DropReason::NatBadIcmp,
        Unclear::Later => DropReason::NatNoMapping,
    }
}

/// A receiver of a packet of IPv4, and whom it hears.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receiver {
    pub(crate) remote: u32,
    pub(crate) address: u32,
    pub(super) port: u16,
    pub(super) proto: u8,
}

impl Receiver {
    /// That of a frame; of an error, of a packet that goes the way back of the quoted one.
    pub(crate) fn of(frame: &Frame<'_>) -> Receiver {
        let ((remote, address), port, proto) = match quoted(frame) {
            Some(quote) => ((quote.dst.0, quote.src.0), quote.src.1, quote.proto),
            None => (frame.addresses4(), frame.ports().1, frame.proto()),
        };
        Receiver { remote, address, port, proto }
    }

    /// It is known by another end.
    pub(crate) fn at(self, address: u32, port: u16) -> Receiver {
        Receiver { address, port, ..self }
    }
}

/// Both ends of a packet from inside, and its protocol; of an error, of a packet that goes the way back of the quoted one.
pub(crate) fn sender(frame: &Frame<'_>) -> ((u32, u32), u8) {
    match quoted(frame) {
        Some(quote) => ((quote.dst.0, quote.src.0), quote.proto),
        None => (frame.addresses4(), frame.proto()),
    }
}

fn quoted(frame: &Frame<'_>) -> Option<Quote> {
    if frame.icmp_error() { quote(frame).ok() } else { None }
}
