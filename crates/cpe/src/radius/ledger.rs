//! What a RADIUS server was told by accounting (RFC 2866): how many sessions began and ended, and what they counted.
//!
//! ```text
//!  Start, Interim, Stop by Acct-Session-Id > one entry a session > totals
//! ```
//! A message may come again (RFC 2866, section 2): it counts once. Counters of a session never decrease; one that does is counted.

use std::collections::HashMap;

use weir_bng::radius::attribute::{Attributes, number};

/// Values of Acct-Status-Type (RFC 2866, section 5.1).
const START: u32 = 1;
const STOP: u32 = 2;
const INTERIM: u32 = 3;

/// What all sessions together were, and what they counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accounted {
    /// Sessions of which a Start came.
    pub starts: u64,
    /// Interim updates, those that came again included.
    pub interims: u64,
    /// Sessions of which a Stop came.
    pub stops: u64,
    /// Starts and Stops that came again.
    pub repeated: u64,
    /// Stops of sessions of which no Start had come.
    pub without_start: u64,
    /// Messages with a counter that is smaller than an earlier one of its session.
    pub decreased: u64,
    /// Packets and bytes from subscribers, by the last message of each session.
    pub from: [u64; 2],
    /// The same to subscribers.
    pub to: [u64; 2],
}

impl Accounted {
    /// What came since an earlier time.
    #[must_use]
    pub fn since(&self, before: &Accounted) -> Accounted {
        let minus = |now: [u64; 2], before: [u64; 2]| [now[0] - before[0], now[1] - before[1]];
        Accounted {
            starts: self.starts - before.starts,
            interims: self.interims - before.interims,
            stops: self.stops - before.stops,
            repeated: self.repeated - before.repeated,
            without_start: self.without_start - before.without_start,
            decreased: self.decreased - before.decreased,
            from: minus(self.from, before.from),
            to: minus(self.to, before.to),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    has_start: bool,
    has_stop: bool,
    from: [u64; 2],
    to: [u64; 2],
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Ledger {
    sessions: HashMap<Box<[u8]>, Entry>,
    accounted: Accounted,
}

impl Ledger {
    /// What all sessions together were.
    pub fn accounted(&self) -> Accounted {
        self.accounted
    }

    /// Takes in the attributes of an Accounting-Request.
    pub fn take(&mut self, attributes: &Attributes) {
        let (Some(status), Some(id)) =
            (attributes.u32(number::ACCT_STATUS_TYPE), attributes.get(number::ACCT_SESSION_ID))
        else {
            return;
        };
        let (entry, all) = (self.sessions.entry(id.into()).or_default(), &mut self.accounted);
        match status {
            START => {
                all.repeated += u64::from(entry.has_start);
                all.starts += u64::from(!entry.has_start);
                entry.has_start = true;
                return;
            }
            INTERIM => all.interims += 1,
            STOP => {
                all.repeated += u64::from(entry.has_stop);
                all.stops += u64::from(!entry.has_stop);
                all.without_start += u64::from(!entry.has_start && !entry.has_stop);
                entry.has_stop = true;
            }
            _ => return,
        }
        let count = |low, high| {
            let [low, high] = [low, high].map(|kind| u64::from(attributes.u32(kind).unwrap_or(0)));
            high << 32 | low
        };
        let packets = |kind| u64::from(attributes.u32(kind).unwrap_or(0));
        let from = [
            packets(number::ACCT_INPUT_PACKETS),
            count(number::ACCT_INPUT_OCTETS, number::ACCT_INPUT_GIGAWORDS),
        ];
        let to = [
            packets(number::ACCT_OUTPUT_PACKETS),
            count(number::ACCT_OUTPUT_OCTETS, number::ACCT_OUTPUT_GIGAWORDS),
        ];
        let mut is_less = false;
        let mut add = |sum: &mut [u64; 2], last: &mut [u64; 2], now: [u64; 2]| {
            for ((sum, last), now) in sum.iter_mut().zip(last).zip(now) {
                is_less |= now < *last;
                *sum += now.saturating_sub(*last);
                *last = now.max(*last);
            }
        };
        add(&mut all.from, &mut entry.from, from);
        add(&mut all.to, &mut entry.to, to);
        all.decreased += u64::from(is_less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of session `id` with packets from and to the subscriber; each packet has 100 bytes and 2^32 bytes more for all.
    fn message(id: &str, status: u32, packets: [u32; 2]) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.push(number::ACCT_SESSION_ID, id.as_bytes());
        attributes.push_u32(number::ACCT_STATUS_TYPE, status);
        if status != START {
            attributes.push_u32(number::ACCT_INPUT_PACKETS, packets[0]);
            attributes.push_u32(number::ACCT_INPUT_OCTETS, packets[0] * 100);
            attributes.push_u32(number::ACCT_INPUT_GIGAWORDS, 1);
            attributes.push_u32(number::ACCT_OUTPUT_PACKETS, packets[1]);
            attributes.push_u32(number::ACCT_OUTPUT_OCTETS, packets[1] * 100);
        }
        attributes
    }

    #[test]
    fn each_session_counts_once_whatever_comes_again() {
        let mut ledger = Ledger::default();
        let messages = [
            ("a", START, [0, 0]),
            ("a", START, [0, 0]),
            ("b", START, [0, 0]),
            ("a", INTERIM, [5, 6]),
            ("a", STOP, [7, 8]),
            ("a", STOP, [7, 8]),
            ("b", INTERIM, [9, 9]),
            ("b", INTERIM, [8, 9]),
            ("c", STOP, [1, 0]),
        ];
        for (id, status, packets) in messages {
            ledger.take(&message(id, status, packets));
        }
        let all = ledger.accounted();
        assert_eq!((all.starts, all.interims, all.stops), (2, 3, 2), "{all:?}");
        assert_eq!((all.repeated, all.without_start, all.decreased), (2, 1, 1), "{all:?}");
        assert_eq!(all.from, [7 + 9 + 1, 1700 + (3 << 32)], "{all:?}");
        assert_eq!(all.to, [8 + 9, 1700], "{all:?}");
        assert_eq!(all.since(&all), Accounted::default());
    }
}
