//! How many sessions a MAC address, a line, a VLAN and the node have, where the configuration limits them.
//!
//! ```text
//! session > the places that it is in > as many there as its limit: the new one is refused, or replaces the oldest one
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeSet, HashMap};

use crate::drops::DropReason;
use crate::line::{Line, PortName, Tags};
use crate::mac::Mac;
use crate::session::{Device, SessionId};

/// Most sessions of each place of a kind, and what becomes of one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimit {
    /// Most sessions.
    pub most: usize,
    /// What becomes of one more.
    pub over: Over,
}

/// What becomes of a session beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {
    /// It is refused.
    Refuse,
    /// The oldest one ends.
    Replace,
}

/// Limits of sessions; `None`: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionLimits {
    /// Of a MAC address, on all lines.
    pub mac: Option<SessionLimit>,
    /// Of a line.
    pub line: Option<SessionLimit>,
    /// Of the outer VLAN of a port.
    pub vlan: Option<SessionLimit>,
    /// Of all ports.
    pub node: Option<SessionLimit>,
    /// Of a subscriber; `None`: one, which moves as the configuration says.
    pub subscriber: Option<SessionLimit>,
}

/// Where sessions are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Mac(Mac),
    Line(Line),
    Vlan(PortName, u16),
    Node,
}

impl Place {
    fn full(&self) -> DropReason {
        match self {
            Place::Mac(_) => DropReason::SessionsMac,
            Place::Line(_) => DropReason::SessionsLine,
            Place::Vlan(..) => DropReason::SessionsVlan,
            Place::Node => DropReason::SessionsNode,
        }
    }
}

/// Sessions by place, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Places {
    limits: SessionLimits,
    sessions: HashMap<Place, BTreeSet<SessionId>>,
}

impl Places {
    /// No sessions, with these limits.
    pub(crate) fn new(limits: SessionLimits) -> Places {
        Places { limits, sessions: HashMap::new() }
    }

    pub(crate) fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// The places of a device that are limited.
    fn of(&self, device: &Device) -> impl Iterator<Item = (Place, SessionLimit)> + use<> {
        let Device { line, mac, .. } = device;
        let vlan = match line.tags {
            Tags::None => None,
            Tags::One(vid) | Tags::Two { outer: vid, .. } => Some(Place::Vlan(line.port.clone(), vid)),
        };
        let SessionLimits { mac: of_mac, line: of_line, vlan: of_vlan, node, .. } = self.limits;
        let all = [
            of_mac.map(|limit| (Place::Mac(*mac), limit)),
            of_line.map(|limit| (Place::Line(line.clone()), limit)),
            vlan.zip(of_vlan),
            node.map(|limit| (Place::Node, limit)),
        ];
        all.into_iter().flatten()
    }

    pub(crate) fn insert(&mut self, device: &Device, session: SessionId) {
        for (place, _) in self.of(device) {
            self.sessions.entry(place).or_default().insert(session);
        }
    }

    pub(crate) fn remove(&mut self, device: &Device, session: SessionId) {
        for (place, _) in self.of(device) {
            if let Some(sessions) = self.sessions.get_mut(&place) {
                sessions.remove(&session);
                if sessions.is_empty() {
                    self.sessions.remove(&place);
                }
            }
        }
    }

    /// Whether a device may begin a session, which takes the place of `own`.
    ///
    /// # Errors
    /// A place of it is full.
    pub(crate) fn check(&self, device: &Device, own: Option<SessionId>) -> Result<(), DropReason> {
        for (place, limit) in self.of(device) {
            if limit.over == Over::Refuse && self.others(&place, own).count() >= limit.most {
                return Err(place.full());
            }
        }
        Ok(())
    }

    /// A session that ends so that a device may begin one: the oldest one of a place that is full.
    pub(crate) fn in_the_way(&self, device: &Device, own: Option<SessionId>) -> Option<SessionId> {
        self.of(device).find_map(|(place, limit)| {
            let is_full = self.others(&place, own).count() >= limit.most;
            self.others(&place, own).next().filter(|_| is_full && limit.over == Over::Replace)
        })
    }

    fn others(&self, place: &Place, own: Option<SessionId>) -> impl Iterator<Item = SessionId> {
        let sessions = self.sessions.get(place).into_iter().flatten().copied();
        sessions.filter(move |session| Some(*session) != own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(line: &str, mac: u8) -> Device {
        Device { line: line.parse().expect("a line"), mac: Mac([2, 0, 0, 0, 0, mac]), relay: None }
    }

    fn limit(most: usize, over: Over) -> Option<SessionLimit> {
        Some(SessionLimit { most, over })
    }

    #[test]
    fn each_place_has_its_own_limit_and_name() {
        let refuse = |most| limit(most, Over::Refuse);
        let limits = SessionLimits {
            mac: refuse(1),
            line: refuse(2),
            vlan: refuse(3),
            node: refuse(4),
            subscriber: None,
        };
        let mut places = Places::new(limits);
        let rows = [
            ("a:100.1", 1, Ok(())),
            ("a:100.2", 1, Err(DropReason::SessionsMac)),
            ("a:100.1", 2, Ok(())),
            ("a:100.1", 3, Err(DropReason::SessionsLine)),
            ("a:100.2", 3, Ok(())),
            ("a:100.3", 4, Err(DropReason::SessionsVlan)),
            ("a:101.1", 4, Ok(())),
            ("b", 5, Err(DropReason::SessionsNode)),
        ];
        for (number, (line, mac, result)) in (1..).zip(rows) {
            let device = device(line, mac);
            assert_eq!(places.check(&device, None), result, "{line} {mac}");
            if result.is_ok() {
                places.insert(&device, SessionId(number));
            }
        }
        assert_eq!(places.check(&device("a:100.2", 1), Some(SessionId(1))), Ok(()), "it replaces its own");
        places.remove(&device("a:101.1", 4), SessionId(7));
        assert_eq!(places.check(&device("b", 5), None), Ok(()));
    }

    #[test]
    fn the_oldest_session_is_in_the_way() {
        let limits = SessionLimits { line: limit(2, Over::Replace), ..SessionLimits::default() };
        let mut places = Places::new(limits);
        for (session, mac) in [(4, 1), (2, 2)] {
            places.insert(&device("a:1", mac), SessionId(session));
        }
        assert_eq!(places.in_the_way(&device("a:1", 3), None), Some(SessionId(2)));
        assert_eq!(places.in_the_way(&device("a:1", 2), Some(SessionId(2))), None);
        assert_eq!(places.in_the_way(&device("a:2", 3), None), None);
    }
}
