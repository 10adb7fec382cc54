//! Accounting of the frames of an interface: offered = captured + drops by name + rejected by the filter + unexplained.

use weir_linux::rtnl::LinkStats;
use weir_port::capture::Drops;

use crate::worker::Reading;

/// The accounting of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accounting {
    /// Its name.
    pub interface: String,
    /// Frames that it received while it was captured from: at least and at most, since it cannot be asked at the very
    /// instant in which a queue begins or ends. `None` if it vanished, and its counters with it.
    pub offered: Option<(u64, u64)>,
    /// Frames captured.
    pub captured: u64,
    /// Frames lost, by name, and those that came after as many as were wanted.
    pub drops: Vec<Drops>,
    /// There is a filter: the kernel does not count what it refuses.
    pub filtered: bool,
    /// Captured frames that were several on the wire.
    pub merged: u64,
}

impl Accounting {
    /// `start` and `end`: the interface's counters before and after its queues were opened, and before and after they
    /// were stopped.
    pub(crate) fn close(
        interface: &str,
        start: [LinkStats; 2],
        end: Option<[LinkStats; 2]>,
        queues: &[Reading],
    ) -> Self {
        // What a NIC has no room for is not among what it received.
        let seen = |stats: &LinkStats| stats.rx_packets + stats.rx_missed;
        let missed = |stats: &LinkStats| stats.rx_missed;
        let offered = end.map(|end| {
            (
                seen(&end[0]).saturating_sub(seen(&start[1])),
                most(start.each_ref().map(seen), end.each_ref().map(seen)),
            )
        });
        let mut drops: Vec<Drops> = Vec::new();
        let mut add = |name, frames| match drops.iter_mut().find(|drops| drops.name == name) {
            Some(drops) => drops.frames += frames,
            None => drops.push(Drops { name, frames }),
        };
        for queue in queues {
            for one in &queue.account.drops {
                add(one.name, one.frames);
            }
            add("left in the buffer", queue.account.waiting());
            add("after the last one wanted", queue.beyond);
        }
        if let Some(end) = end {
            add("missed by the interface", most(start.each_ref().map(missed), end.each_ref().map(missed)));
        }
        drops.retain(|drops| drops.frames > 0);
        Accounting {
            interface: interface.into(),
            offered,
            captured: queues.iter().map(|queue| queue.frames).sum(),
            drops,
            filtered: false,
            merged: queues.iter().map(|queue| queue.merged).sum(),
        }
    }

    /// Frames that were offered and are neither captured nor dropped by name; negative if there are more of these than
    /// the interface has counted.
    pub fn unexplained(&self) -> Option<i64> {
        let (least, most) = self.offered?;
        let known = self.captured + self.drops.iter().map(|drops| drops.frames).sum::<u64>();
        Some(
            known.saturating_sub(most).cast_signed().wrapping_neg()
                + least.saturating_sub(known).cast_signed(),
        )
    }
}

/// What a counter has counted at most, by its values before and after the queues were opened, and before and after they were
/// stopped. Some drivers (vmxnet3) begin their counters anew as an XDP program comes or goes.
fn most(start: [u64; 2], end: [u64; 2]) -> u64 {
    let from = if start[1] < start[0] { 0 } else { start[0] };
    end[0].max(end[1]).saturating_sub(from)
}

#[cfg(test)]
mod tests {
    use weir_port::capture::Account;

    use super::*;

    fn accounting(counters: [u64; 4], captured: u64, dropped: u64) -> Accounting {
        let [a, b, c, d] = counters.map(|rx_packets| LinkStats { rx_packets, ..LinkStats::default() });
        let drops = vec![Drops { name: "ring full", frames: dropped }];
        let account = Account { received: captured + dropped, taken: captured, drops, ..Account::default() };
        let queue = Reading { frames: captured, account, ..Reading::default() };
        Accounting::close("a", [a, b], Some([c, d]), &[queue.clone(), Reading::default()])
    }

    #[test]
    fn accounting_close_within_their_edges() {
        let closed = accounting([10, 12, 110, 115], 90, 8);
        assert_eq!((closed.offered, closed.unexplained()), (Some((98, 105)), Some(0)));
        assert_eq!(closed.drops, [Drops { name: "ring full", frames: 8 }]);
        assert_eq!(accounting([10, 12, 110, 115], 97, 8).unexplained(), Some(0));
        assert_eq!(accounting([10, 12, 110, 115], 80, 8).unexplained(), Some(10));
        assert_eq!(accounting([10, 12, 110, 115], 100, 8).unexplained(), Some(-3));
    }

    #[test]
    fn counters_may_begin_anew_as_queues_are_opened_and_as_they_are_stopped() {
        for (counters, offered) in
            [([10, 0, 98, 100], (98, 100)), ([10, 12, 110, 0], (98, 100)), ([10, 0, 98, 0], (98, 98))]
        {
            let closed = accounting(counters, 90, 8);
            assert_eq!((closed.offered, closed.unexplained()), (Some(offered), Some(0)), "{counters:?}");
        }
    }

    #[test]
    fn an_interface_that_vanished_has_no_offer() {
        let queue = Reading { frames: 5, beyond: 2, ..Reading::default() };
        let accounting = Accounting::close("a", [LinkStats::default(); 2], None, &[queue]);
        assert_eq!((accounting.offered, accounting.unexplained(), accounting.captured), (None, None, 5));
        assert_eq!(accounting.drops, [Drops { name: "after the last one wanted", frames: 2 }]);
    }
}
