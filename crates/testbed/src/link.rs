//! The link of a bottleneck as the device under test: the text of its node, and how late frames left.

use weir_link::Rate;
use weir_measure::histogram::Histogram;
use weir_plane::QueueCounts;

/// A link with the same rate in both directions. Its texts are arguments of a node's `queue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// `100Mbit`, `lte:20Mbit`.
    pub rate: String,
    /// What may wait in each direction: `64kB`, `20ms`, `1bdp`.
    pub buffer: String,
    /// The queue, and its settings: `fifo`, `pie target_s=0.005`.
    pub aqm: String,
    /// One way, in each direction: `10ms`.
    pub delay: String,
}

impl Default for LinkSpec {
    fn default() -> LinkSpec {
        let [rate, buffer, aqm, delay] = ["100Mbit", "20ms", "fifo", "0s"].map(str::to_string);
        LinkSpec { rate, buffer, aqm, delay }
    }
}

impl LinkSpec {
    /// Whether there can be such a link.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn check(&self) -> Result<(), String> {
        let LinkSpec { rate, buffer, aqm, delay } = self;
        for text in [rate, buffer, aqm, delay] {
            if text.trim().is_empty() || text.contains(['(', ')', ',', '>', '#']) {
                return Err(format!(
                    "`{text}` is no value: use words as in \"100Mbit\", \"20ms\" or \"fifo\""
                ));
            }
        }
        let node = weir_plane::Config::read("link", &format!("lan > {} > wan", self.stage()));
        node.map(drop).map_err(|mistakes| {
            let texts: Vec<String> = mistakes.list.into_iter().map(|mistake| mistake.text).collect();
            texts.join("; ")
        })
    }

    /// The highest rate there is in each direction, bits/s, of a link that can be ([`LinkSpec::check`]).
    pub fn highest_bits_per_s(&self) -> u64 {
        Rate::read(&self.rate).expect("a rate that was checked").highest()
    }

    /// The stage of a node that is this link.
    pub(crate) fn stage(&self) -> String {
        let LinkSpec { rate, buffer, aqm, delay } = self;
        format!("queue(outward {rate}, inward {rate}, limit {buffer}, aqm {aqm}, delay {delay})")
    }
}

/// How much later frames left than they were due, by the node's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Late {
    /// Of both directions, ns.
    pub ns: Histogram,
    /// Time of a full frame on the link, ns.
    pub slot_ns: u64,
}

impl Late {
    /// Of all links of a node; `None` if it has none.
    pub(crate) fn of(queues: &[QueueCounts]) -> Option<Late> {
        let slot_ns = queues.iter().filter_map(|queue| queue.slot_ns).min()?;
        let mut ns = Histogram::latency();
        queues.iter().for_each(|queue| ns.add(queue.late.counts()));
        Some(Late { ns, slot_ns })
    }

    /// Since an earlier moment.
    pub fn since(&self, earlier: &Late) -> Late {
        Late { ns: self.ns.since(&earlier.ns), slot_ns: self.slot_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_checked_before_there_is_one() {
        let link = |rate: &str, buffer: &str, aqm: &str, delay: &str| {
            let [rate, buffer, aqm, delay] = [rate, buffer, aqm, delay].map(str::to_string);
            LinkSpec { rate, buffer, aqm, delay }.check()
        };
        assert_eq!(LinkSpec::default().check(), Ok(()));
        assert_eq!(link("lte:20Mbit", "1bdp", "pie target_s=0.005 burst_s=0", "10ms"), Ok(()));
        for (wrong, text) in [
            (link("fast", "20ms", "fifo", "0s"), "`fast` is no line speed"),
            (link("10Mbit", "1bdp", "fifo", "0s"), "in which no frame of full size fits"),
            (link("10Mbit", "20ms", "fifi", "0s"), "did you mean `fifo`?"),
            (link("10Mbit", "20ms", "fifo", "10"), "a time without a unit"),
            (link("trace:x", "20ms", "fifo", "0s"), "cannot be read here"),
            (link("10Mbit)", "20ms", "fifo", "0s"), "is no value"),
            (link("10Mbit", "", "fifo", "0s"), "is no value"),
        ] {
            assert!(wrong.as_ref().is_err_and(|wrong| wrong.contains(text)), "{wrong:?}");
        }
    }
}
