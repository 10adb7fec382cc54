//! Several sessions of a subscriber: a seat for each device, up to the limit.
//!
//! ```text
//! device that has a seat > the same      a seat is free, or may be added > that one      none > refused | the oldest session ends
//! ```
//! Without `limit sessions subscriber` there is one seat, and `moves` says what becomes of another device.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Bng;
use crate::dhcp4::request::Ask;
use crate::drops::DropReason;
use crate::places::Over;
use crate::session::{Device, Session};
use crate::subscribers::{Entry, Index};

impl Bng {
    /// The seat that a device has: it is online, or has an offer.
    fn seat_with(&self, main: Index, device: &Device) -> Option<Index> {
        // On another line, too: it has moved.
        let is_same = |other: &Device| other.mac == device.mac;
        let has = |entry: &Entry| {
            let online = entry.online.as_ref().map(|online| &online.session.lease.device);
            let offered = entry.offer.as_ref().map(|offer| &offer.device);
            [online, offered].into_iter().flatten().any(is_same)
        };
        self.subscribers.seats(main).into_iter().find(|seat| self.subscribers.get(*seat).is_some_and(has))
    }

    /// The seat for a session of a device.
    ///
    /// # Errors
    /// The subscriber has as many sessions as its limit allows.
    pub(super) fn seat_for(&mut self, main: Index, device: &Device) -> Result<Index, DropReason> {
        if let Some(found) = self.seat_with(main, device) {
            return Ok(found);
        }
        let Some(limit) = self.config.session_limits.subscriber else { return Ok(main) };
        let seats = self.subscribers.seats(main);
        let mut first = seats.iter().take(limit.most).copied();
        let is_free = |seat: &Index| {
            let entry = self.subscribers.get(*seat);
            entry.is_some_and(|entry| entry.online.is_none() && entry.offer.is_none())
        };
        if let Some(free) = first.find(is_free) {
            return Ok(free);
        }
        if let Some(number) = u16::try_from(seats.len()).ok().filter(|_| seats.len() < limit.most) {
            return Ok(self.subscribers.seat(main, number));
        }
        if limit.over == Over::Refuse {
            return Err(DropReason::SessionsSubscriber);
        }
        let session = |seat: Index| Some(self.subscribers.get(seat)?.online.as_ref()?.session.id);
        let online = seats.iter().take(limit.most).filter_map(|seat| Some((session(*seat)?, *seat)));
        Ok(online.min().map_or(main, |(_, seat)| seat))
    }

    /// The seat for a message of DHCP.
    pub(super) fn seat_of_request(
        &mut self,
        index: Index,
        device: &Device,
        ask: &Ask,
    ) -> Result<Index, DropReason> {
        let main = self.subscribers.main(index);
        match self.seat_with(main, device) {
            Some(seat) => Ok(seat),
            None if ask.is_for_lease() || matches!(ask, Ask::Discover { .. }) => self.seat_for(main, device),
            None => Ok(main),
        }
    }

    /// Whether `moves` says what becomes of another device of a subscriber.
    pub(super) fn has_one_seat(&self) -> bool {
        self.config.session_limits.subscriber.is_none()
    }

    /// The session of a subscriber that a record is on disk of, the one of its first seat that has one.
    pub(super) fn first_session(&self, entry: &Entry) -> Option<&Session> {
        let seats = self.subscribers.seats(entry.main).into_iter();
        seats.filter_map(|seat| self.subscribers.get(seat)).find_map(Entry::session)
    }
}
