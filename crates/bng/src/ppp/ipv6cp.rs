//! IPV6CP: interface identifiers of IPv6 (RFC 5072). They become the link-local addresses of both sides.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::negotiation::{Judgement, Protocol};
use super::packet::OptionList;
use super::protocol;

const INTERFACE_ID: u8 = 1;

/// Interface identifiers; 0: not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct InterfaceIds {
    /// Of this side.
    pub own: u64,
    /// Of the peer.
    pub peer: u64,
}

/// Identifiers as they are negotiated.
#[derive(Debug)]
pub struct Ipv6cp {
    ids: InterfaceIds,
    /// What a peer gets that asks for none or for that of this side: the same in each session of a subscriber.
    suggestion: u64,
    asks: bool,
}

impl Ipv6cp {
    /// This side has `own`; a peer without an identifier gets `suggestion`.
    pub fn new(own: u64, suggestion: u64) -> Ipv6cp {
        Ipv6cp { ids: InterfaceIds { own, peer: 0 }, suggestion, asks: true }
    }

    /// What was agreed on.
    pub fn ids(&self) -> InterfaceIds {
        self.ids
    }
}

impl Protocol for Ipv6cp {
    const NUMBER: u16 = protocol::IPV6CP;

    fn request(&self) -> OptionList {
        let mut options = OptionList::default();
        if self.asks {
            options.push(INTERFACE_ID, &self.ids.own.to_be_bytes());
        }
        options
    }

    fn judge(&mut self, asked: &OptionList) -> Judgement {
        let mut rejected = OptionList::default();
        asked
            .iter()
            .filter(|(kind, _)| *kind != INTERFACE_ID)
            .for_each(|(kind, value)| rejected.push(kind, value));
        if !rejected.is_empty() {
            return Judgement::Reject(rejected);
        }
        let id = asked.fixed(INTERFACE_ID).map_or(0, u64::from_be_bytes);
        // Both have none: they cannot agree (section 4.1).
        if id == 0 && self.ids.own == 0 {
            return Judgement::Reject(asked.clone());
        }
        if id == 0 || id == self.ids.own {
            let other = if self.suggestion == self.ids.own { !self.suggestion } else { self.suggestion };
            let mut wrong = OptionList::default();
            wrong.push(INTERFACE_ID, &other.to_be_bytes());
            return Judgement::Nak(wrong);
        }
        self.ids.peer = id;
        Judgement::Ack
    }

    fn naked(&mut self, options: &OptionList) {
        if let Some(id) = options.fixed(INTERFACE_ID).map(u64::from_be_bytes).filter(|id| *id != 0) {
            self.ids.own = id;
        }
    }

    fn rejected(&mut self, _: &OptionList) {
        self.asks = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(value: u64) -> OptionList {
        let mut options = OptionList::default();
        options.push(INTERFACE_ID, &value.to_be_bytes());
        options
    }

    #[test]
    fn l9_no_identifier_on_both_sides_is_rejected_and_an_equal_one_gets_the_same_other_each_time() {
        assert_eq!(Ipv6cp::new(0, 9).judge(&id(0)), Judgement::Reject(id(0)));
        for (own, asked, judgement) in [
            (1, 0, Judgement::Nak(id(9))),
            (1, 1, Judgement::Nak(id(9))),
            (9, 9, Judgement::Nak(id(!9))),
            (1, 2, Judgement::Ack),
            (0, 2, Judgement::Ack),
        ] {
            for _ in 0..2 {
                assert_eq!(Ipv6cp::new(own, 9).judge(&id(asked)), judgement, "{own} {asked}");
            }
        }
    }

    #[test]
    fn a_client_without_an_identifier_takes_the_suggestion() {
        let mut client = Ipv6cp::new(0, 0);
        client.naked(&id(9));
        assert_eq!(client.request(), id(9));
        assert_eq!(client.judge(&id(1)), Judgement::Ack);
        assert_eq!(client.ids(), InterfaceIds { own: 9, peer: 1 });
    }
}
