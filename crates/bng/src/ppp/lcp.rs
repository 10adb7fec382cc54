//! LCP: the options of the link (RFC 1661, section 6; RFC 2516, section 7).
//!
//! Asked are MRU, the authentication protocol (by the concentrator) and a magic number. ACCM, protocol and address field compression
//! and alternative check sequences are rejected, since PPPoE has no use for them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::auth::Method;
use super::negotiation::{Judgement, Protocol};
use super::packet::OptionList;
use super::protocol;
use crate::random::Random;

const MRU: u8 = 1;
const AUTHENTICATION: u8 = 3;
const MAGIC: u8 = 5;

/// Smallest MRU of a peer that is accepted: what each host of IPv4 receives (RFC 791).
const LEAST_MRU: u16 = 576;
/// Equal magic numbers in a row that show a line that is looped back.
const MOST_EQUAL: u32 = 4;

/// The side of the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// The concentrator asks for one of these methods, the first first.
    Concentrator(Vec<Method>),
    /// The client accepts one of these, and asks for none.
    Client(Vec<Method>),
}

/// The link's options of both sides.
#[derive(Debug)]
pub struct Lcp {
    side: Side,
    /// Largest MRU of both sides: 1492, or more by RFC 4638.
    max_mru: u16,
    /// What is asked for; 0 and `None`: the peer does not negotiate it.
    mru: u16,
    magic: u32,
    method: Option<Method>,
    /// What the peer asked for.
    peer_mru: u16,
    peer_magic: u32,
    peer_method: Option<Method>,
    equal_magics: u32,
    magics: Random,
}

impl Lcp {
    /// A link of which nothing is negotiated.
    pub fn new(side: Side, max_mru: u16, random: &mut Random) -> Lcp {
        let method = match &side {
            Side::Concentrator(methods) => methods.first().copied(),
            Side::Client(_) => None,
        };
        let mut magics = Random::new(random.bytes());
        let magic = new_magic(&mut magics);
        Lcp {
            side,
            max_mru,
            mru: max_mru,
            magic,
            method,
            peer_mru: max_mru,
            peer_magic: 0,
            peer_method: None,
            equal_magics: 0,
            magics,
        }
    }

    /// A link that was open when the program ended.
    pub fn opened(side: Side, agreed: Agreed, random: &mut Random) -> Lcp {
        let Agreed { max_mru, peer_mru, magic, peer_magic } = agreed;
        Lcp { peer_mru, magic, peer_magic, ..Lcp::new(side, max_mru, random) }
    }

    /// What was agreed on, as far as it is of use later.
    pub fn agreed(&self) -> Agreed {
        let Lcp { max_mru, peer_mru, magic, peer_magic, .. } = *self;
        Agreed { max_mru, peer_mru: peer_mru.min(max_mru), magic, peer_magic }
    }

    /// How the peer must show who it is; `None`: it refused every method, or is a concentrator.
    pub fn method(&self) -> Option<Method> {
        self.method
    }

    /// How the peer wants to be shown who this side is.
    pub fn peer_method(&self) -> Option<Method> {
        self.peer_method
    }

    /// Whether the line sends back what is sent.
    pub fn is_looped(&self) -> bool {
        self.equal_magics >= MOST_EQUAL
    }

    fn judge_magic(&mut self, value: &[u8]) -> Option<[u8; 4]> {
        let asked = value.try_into().map_or(0, u32::from_be_bytes);
        if asked != 0 && (asked != self.magic || self.magic == 0) {
            self.equal_magics = 0;
            return None;
        }
        self.equal_magics = self.equal_magics.saturating_add(u32::from(asked != 0));
        Some(new_magic(&mut self.magics).to_be_bytes())
    }

    fn judge_mru(&self, value: &[u8]) -> Option<[u8; 2]> {
        let asked = value.try_into().map_or(0, u16::from_be_bytes);
        let right = asked.clamp(LEAST_MRU.min(self.max_mru), self.max_mru);
        (asked != right).then(|| right.to_be_bytes())
    }

    /// The method that a concentrator asks for; else the value that should stand there.
    fn judge_method(&self, value: &[u8]) -> Result<(), Option<Vec<u8>>> {
        let Side::Client(methods) = &self.side else { return Err(None) };
        match Method::read(value).filter(|method| methods.contains(method)) {
            Some(_) => Ok(()),
            None => Err(methods.first().map(|method| method.value())),
        }
    }
}

/// What both sides of a link agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Agreed {
    /// Largest MRU of both sides before negotiation.
    pub max_mru: u16,
    /// Largest payload that the peer receives.
    pub peer_mru: u16,
    /// This side's magic number; 0: none.
    pub magic: u32,
    /// The peer's; 0: none.
    pub peer_magic: u32,
}

/// Not 0, which means none.
fn new_magic(random: &mut Random) -> u32 {
    u32::from_be_bytes(random.bytes()).max(1)
}

impl Protocol for Lcp {
    const NUMBER: u16 = protocol::LCP;
    const HAS_ECHO: bool = true;

    fn request(&self) -> OptionList {
        let mut options = OptionList::default();
        if self.mru != 0 {
            options.push(MRU, &self.mru.to_be_bytes());
        }
        if let Some(method) = self.method {
            options.push(AUTHENTICATION, &method.value());
        }
        if self.magic != 0 {
            options.push(MAGIC, &self.magic.to_be_bytes());
        }
        options
    }

    fn judge(&mut self, asked: &OptionList) -> Judgement {
        let (mut rejected, mut wrong) = (OptionList::default(), OptionList::default());
        for (kind, value) in asked.iter() {
            match kind {
                MRU => {
                    if let Some(right) = self.judge_mru(value) {
                        wrong.push(kind, &right);
                    }
                }
                MAGIC => {
                    if let Some(right) = self.judge_magic(value) {
                        wrong.push(kind, &right);
                    }
                }
                AUTHENTICATION => match self.judge_method(value) {
                    Ok(()) => {}
                    Err(Some(right)) => wrong.push(kind, &right),
                    Err(None) => rejected.push(kind, value),
                },
                _ => rejected.push(kind, value),
            }
        }
        if !rejected.is_empty() {
            return Judgement::Reject(rejected);
        }
        if !wrong.is_empty() {
            return Judgement::Nak(wrong);
        }
        self.peer_mru = asked.fixed(MRU).map_or(self.max_mru, u16::from_be_bytes);
        self.peer_magic = asked.fixed(MAGIC).map_or(0, u32::from_be_bytes);
        self.peer_method = asked.get(AUTHENTICATION).and_then(Method::read);
        Judgement::Ack
    }

    fn naked(&mut self, options: &OptionList) {
        if let Some(wish) = options.fixed(MRU).map(u16::from_be_bytes) {
            self.mru = wish.clamp(LEAST_MRU.min(self.max_mru), self.max_mru);
        }
        if options.get(MAGIC).is_some() {
            self.magic = new_magic(&mut self.magics);
        }
        let (Some(value), Side::Concentrator(methods)) = (options.get(AUTHENTICATION), &self.side) else {
            return;
        };
        let wish = Method::read(value).filter(|method| methods.contains(method));
        // Its wish, or the method behind the one that it does not want.
        let place = methods.iter().position(|method| Some(*method) == self.method);
        self.method = wish.or_else(|| methods.get(place? + 1).copied());
    }

    fn rejected(&mut self, options: &OptionList) {
        for (kind, _) in options.iter() {
            match kind {
                MRU => self.mru = 0,
                MAGIC => self.magic = 0,
                AUTHENTICATION => self.method = None,
                _ => {}
            }
        }
    }

    /// With its own magic number (section 5.8), cut to what the peer receives.
    fn echo(&self, data: &[u8]) -> Vec<u8> {
        let most = usize::from(self.agreed().peer_mru).saturating_sub(8);
        let behind = data.get(4..).unwrap_or_default();
        let own = self.magic.to_be_bytes();
        own.iter().chain(behind.iter().take(most)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concentrator(max_mru: u16) -> Lcp {
        let methods = vec![Method::ChapMd5, Method::Pap];
        Lcp::new(Side::Concentrator(methods), max_mru, &mut Random::new([1; 32]))
    }

    fn options(bytes: &[u8]) -> OptionList {
        OptionList::read(bytes).unwrap()
    }

    #[test]
    fn p6_what_pppoe_does_not_use_is_neither_asked_nor_accepted() {
        let mut lcp = concentrator(1492);
        let asked: Vec<u8> = lcp.request().iter().map(|(kind, _)| kind).collect();
        assert_eq!(asked, [MRU, AUTHENTICATION, MAGIC]);
        // ACCM, PFC, ACFC, FCS, callback, multilink, an authentication of the concentrator.
        let others = [2, 6, 0, 0, 0, 0, 7, 2, 8, 2, 9, 3, 4, 13, 3, 6, 17, 4, 5, 220, 3, 4, 0xc0, 0x23];
        let with_mru = [&[1, 4, 5, 0xd4][..], &others].concat();
        assert_eq!(lcp.judge(&options(&with_mru)), Judgement::Reject(options(&others)));
    }

    #[test]
    fn p6_the_mru_is_at_most_1492_without_rfc_4638() {
        for (max, asked, right) in [
            (1492_u16, 1500_u16, Some(1492_u16)),
            (1492, 1492, None),
            (1500, 1500, None),
            (1500, 1501, Some(1500)),
            (1492, 64, Some(576)),
        ] {
            let mut request = OptionList::default();
            request.push(MRU, &asked.to_be_bytes());
            let expected = right.map_or(Judgement::Ack, |right| {
                let mut nak = OptionList::default();
                nak.push(MRU, &right.to_be_bytes());
                Judgement::Nak(nak)
            });
            assert_eq!(concentrator(max).judge(&request), expected, "{asked} of {max}");
        }
    }

    #[test]
    fn l2_an_equal_magic_number_is_naked_with_another_and_a_loop_ends() {
        let mut lcp = concentrator(1492);
        for n in 1..=MOST_EQUAL {
            let own = lcp.magic;
            let Judgement::Nak(nak) = lcp.judge(&lcp.request()) else {
                // The method is rejected first.
                let mut magic = OptionList::default();
                magic.push(MAGIC, &own.to_be_bytes());
                let Judgement::Nak(nak) = lcp.judge(&magic) else { panic!("an equal number was accepted") };
                assert_ne!(nak.fixed(MAGIC).map(u32::from_be_bytes), Some(own));
                lcp.naked(&nak);
                assert_ne!(lcp.magic, own);
                assert_eq!(lcp.is_looped(), 2 * n >= MOST_EQUAL);
                continue;
            };
            panic!("{nak:?}");
        }
    }

    #[test]
    fn l3_an_echo_reply_has_its_own_magic_number_and_fits_the_mru() {
        let mut lcp = concentrator(1492);
        let magic = lcp.magic.to_be_bytes();
        assert_eq!(lcp.judge(&options(&[1, 4, 2, 0x40])), Judgement::Ack);
        assert_eq!(lcp.echo(&[1, 2, 3, 4, 5]), [&magic[..], &[5]].concat());
        assert_eq!(lcp.echo(&[0; 1000]).len() + 4, 576);
    }

    #[test]
    fn l7_methods_are_offered_in_order_and_a_wish_is_honoured() {
        let mut lcp = concentrator(1492);
        assert_eq!(lcp.method(), Some(Method::ChapMd5));
        lcp.naked(&options(&[3, 4, 0xc0, 0x23]));
        assert_eq!(lcp.method(), Some(Method::Pap));
        lcp = concentrator(1492);
        // EAP, which it does not have.
        lcp.naked(&options(&[3, 4, 0xc2, 0x27]));
        assert_eq!(lcp.method(), Some(Method::Pap));
        lcp.naked(&options(&[3, 4, 0xc2, 0x27]));
        assert_eq!(lcp.method(), None);
    }
}
