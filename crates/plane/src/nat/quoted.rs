//! The ends of the packet that a frame is about, as far as NATs must know them: of an ICMP error, those of the packet that it quotes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::drops::DropReason;
use crate::frame::Frame;
use crate::quote::{self, Unclear};

/// A packet of IPv4 that an error quotes.
pub(super) type Quote = quote::Quote<u32>;

/// The packet of IPv4 that an ICMP error quotes; the error is whole, or its first fragment.
pub(super) fn quote(frame: &Frame<'_>) -> Result<Quote, DropReason> {
    match quote::v4(frame) {
        Ok(quote) if quote.is_for(frame.addresses4().1) => Ok(quote),
        Ok(_) => Err(DropReason::NatBadIcmp),
        Err(why) => Err(unclear(why)),
    }
}

/// The reason to drop an error of which the quoted packet is not clear.
pub(super) fn unclear(why: Unclear) -> DropReason {
    match why {
        Unclear::Broken => DropReason::NatBadIcmp,
        Unclear::Later => DropReason::NatNoMapping,
    }
}

/// The receiver of a packet of IPv4, and the address of its sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receiver {
    pub(crate) remote: u32,
    pub(crate) address: u32,
    pub(super) port: u16,
    pub(super) proto: u8,
}

impl Receiver {
    /// That of a frame; of an ICMP error, that of a packet in the opposite direction of the quoted one.
    pub(crate) fn of(frame: &Frame<'_>) -> Receiver {
        let ((remote, address), port, proto) = match quoted(frame) {
            Some(quote) => ((quote.dst.0, quote.src.0), quote.src.1, quote.proto),
            None => (frame.addresses4(), frame.ports().1, frame.proto()),
        };
        Receiver { remote, address, port, proto }
    }

    /// That of an answer to a frame of the node's machine.
    pub(crate) fn of_answer(frame: &Frame<'_>) -> Receiver {
        let (address, remote) = frame.addresses4();
        Receiver { remote, address, port: frame.ports().0, proto: frame.proto() }
    }

    /// The same receiver by another address and port.
    pub(crate) fn at(self, address: u32, port: u16) -> Receiver {
        Receiver { address, port, ..self }
    }
}

/// The addresses of a packet of IPv4 from inside, and its protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) address: u32,
    pub(crate) remote: u32,
    pub(crate) proto: u8,
}

impl Sender {
    /// That of a frame; of an ICMP error, that of a packet in the opposite direction of the quoted one.
    pub(crate) fn of(frame: &Frame<'_>) -> Sender {
        let ((address, remote), proto) = match quoted(frame) {
            Some(quote) => ((quote.dst.0, quote.src.0), quote.proto),
            None => (frame.addresses4(), frame.proto()),
        };
        Sender { address, remote, proto }
    }

    /// That of an answer to a frame of the node's machine.
    pub(crate) fn of_answer(frame: &Frame<'_>) -> Sender {
        let (remote, address) = frame.addresses4();
        Sender { address, remote, proto: frame.proto() }
    }
}

fn quoted(frame: &Frame<'_>) -> Option<Quote> {
    if frame.icmp_error() { quote(frame).ok() } else { None }
}
