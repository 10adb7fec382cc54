//! The router's part of a recipe: where the frames of a flow leave.

use super::nexts::Next;
use super::router::{GROUPS, Router};
use super::{Hop, Lpm};
use crate::prefix::is_link_local6;
use crate::recipe::{Ends, Key, Never, Out};

impl Router {
    /// Where frames with this key leave.
    ///
    /// # Errors
    /// They must pass the router.
    pub(crate) fn recipe(&self, key: &Key) -> Result<Out, Never> {
        let mut hop = [Hop::NONE];
        match key.ends {
            Ends::V4 { dst, .. } => self.v4.lookup(&[dst], &mut hop),
            Ends::V6 { dst, .. } => self.v6.lookup(&[dst], &mut hop),
        }
        let [mut hop] = hop;
        if hop.0 >= GROUPS && hop != Hop::NONE {
            hop = self.member_of(hop, key.flow().hash(&self.secret));
        }
        if matches!(key.ends, Ends::V6 { src, .. } if is_link_local6(src)) {
            return Err(Never::Destination);
        }
        match self.nexts.get(hop) {
            Some(Next::Ready { port, mac }) => {
                Ok(Out { port, routed: Some((mac, self.mac(port), self.mtu(port))) })
            }
            // It is about to be asked whether it is still there.
            Some(Next::Stale { .. } | Next::Unresolved | Next::Connected(_)) => Err(Never::NextHop),
            _ => Err(Never::Destination),
        }
    }

    /// Epochs of routes and of neighbours.
    pub(crate) fn epochs(&self) -> (u32, u32) {
        self.epochs
    }
}
