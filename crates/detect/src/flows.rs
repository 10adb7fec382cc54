//! Which flows are new: a set of fingerprints in two generations. A flow is new if none of its frames came for a
//! generation, [`GENERATION_SLOTS`], at least.

use weir_packet::headers::Headers;

use crate::counts::SLOT_NS;
use crate::prefix::bits;
use crate::table::fold;

/// Half a minute.
const GENERATION_SLOTS: u32 = (30_000_000_000 / SLOT_NS) as u32;
/// Fingerprints of a row: one cache line.
const ROW: usize = 16;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row([u32; ROW]);

/// Flows that were seen lately.
pub(crate) struct Flows {
    rows: [Box<[Row]>; 2],
    /// Which of the two is being filled.
    young: usize,
    since: u32,
    secret: u64,
    forgotten: u64,
}

impl Flows {
    /// A set in so many bytes. Where more flows come than fit, old ones are forgotten, and so may be new again:
    /// [`Flows::forgotten`].
    pub(crate) fn new(bytes: usize, secret: u64) -> Flows {
        let rows = 1 << (bytes / 2 / size_of::<Row>()).max(1).ilog2();
        let empty = || vec![Row([0; ROW]); rows].into();
        Flows { rows: [empty(), empty()], young: 0, since: 0, secret, forgotten: 0 }
    }

    /// Notes a flow; true if it is new.
    pub(crate) fn is_new(&mut self, headers: &Headers, slot: u32) -> bool {
        while slot.saturating_sub(self.since) >= GENERATION_SLOTS {
            // After a longer silence both generations are too old.
            self.since = (self.since + GENERATION_SLOTS).max(slot.saturating_sub(GENERATION_SLOTS));
            self.young ^= 1;
            self.rows[self.young].fill(Row([0; ROW]));
        }
        let hash = self.hash(headers);
        // Zero means free.
        let print = ((hash >> 32) as u32).max(1);
        let row = hash as usize & (self.rows[0].len() - 1);
        let young = &mut self.rows[self.young][row].0;
        let Some(free) = young.iter().position(|&other| other == 0 || other == print) else {
            self.forgotten += 1;
            young[print as usize % ROW] = print;
            return self.elders_lack(row, print);
        };
        if young[free] == print {
            return false;
        }
        young[free] = print;
        self.elders_lack(row, print)
    }

    /// Whether the older generation does not know it either.
    fn elders_lack(&self, row: usize, print: u32) -> bool {
        !self.rows[self.young ^ 1][row].0.contains(&print)
    }

    /// Flows that had to be forgotten too early.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn hash(&self, headers: &Headers) -> u64 {
        let (src, dst) = (bits(headers.src), bits(headers.dst));
        let ports =
            u64::from(headers.ports.0) << 32 | u64::from(headers.ports.1) << 16 | u64::from(headers.protocol);
        let ends = fold(src as u64 ^ self.secret, dst as u64 ^ ports);
        fold(ends ^ (src >> 64) as u64, (dst >> 64) as u64 ^ self.secret.rotate_left(32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(n: u32) -> Headers {
        Headers {
            src: std::net::Ipv4Addr::from(0xc612_0000 + n / 1000).into(),
            dst: [198, 19, 0, 1].into(),
            protocol: 17,
            ports: (1024 + (n % 1000) as u16, 53),
            tcp_flags: 0,
            later_fragment: false,
            is_cut: false,
            header_bytes: 42,
        }
    }

    #[test]
    fn each_flow_is_new_once_until_it_was_silent() {
        let mut flows = Flows::new(1 << 20, 77);
        let new = |flows: &mut Flows, slot| (0..20_000).filter(|&n| flows.is_new(&flow(n), slot)).count();
        // Two flows may share a fingerprint by chance; of 20,000 in 32 bits and 8192 rows none is expected to.
        assert_eq!(new(&mut flows, 1), 20_000);
        assert_eq!(new(&mut flows, 2), 0);
        assert_eq!(new(&mut flows, GENERATION_SLOTS + 3), 0, "still known to the older generation");
        assert_eq!(new(&mut flows, 2 * GENERATION_SLOTS + 3), 0, "seen again before it was forgotten");
        assert!(flows.is_new(&flow(20_001), 2 * GENERATION_SLOTS + 3));
        assert_eq!(new(&mut flows, 5 * GENERATION_SLOTS), 20_000, "silent for two generations");
        assert_eq!(flows.forgotten(), 0);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut flows = Flows::new(4096, 5);
        (0..5000).for_each(|n| {
            flows.is_new(&flow(n), 1);
        });
        assert!(flows.forgotten() > 4000, "{}", flows.forgotten());
    }
}
