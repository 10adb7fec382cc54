//! A capture file is judged by the times of its frames, as they would have been on the wire.
//!
//! A file of several queues has packets of one of them, then packets of another: each queue is in order of time by itself,
//! all together are not. So a frame is held back until every queue is known up to its time:
//!
//! ```text
//!  queue 0 > 1  2  4  .  .  6  7         1  2  3  4        the rest waits for queue 1
//!  queue 1 > .  .  .  3  4  .  .    >
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use weir_packet::headers::{self, Headers};
use weir_port::pcapng::read::{Item, Reader};
use weir_port::pcapng::{ETHERNET, Packet};

use super::reported::{Page, Teller};
use super::{Judge, LAG, SNAP, WAIT};

/// Frames that are held back at most: a queue of which the file says nothing must not keep all others in memory.
const MOST: usize = 1_000_000;

/// Judges the frames of a file, and withdraws what is announced.
pub(super) fn replay(
    path: &Path,
    judge: &mut Judge,
    mut teller: Teller,
    page: &mut Page<'_, impl Write>,
) -> Result<()> {
    let judged = judge_all(path, judge, &mut teller, page);
    if judged.is_ok() {
        page.write(&teller.status(&judge.engine.status()));
    }
    teller.finish();
    judged
}

fn judge_all(
    path: &Path,
    judge: &mut Judge,
    teller: &mut Teller,
    page: &mut Page<'_, impl Write>,
) -> Result<()> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read the capture {name}"))?;
    let mut reader = Reader::open(BufReader::new(file)).with_context(|| name.to_string())?;
    let (mut order, mut last_ns, mut judged_ns) = (InOrder::default(), 0, 0);
    let keeps_bytes = judge.captures.is_some();
    loop {
        let item = reader.next_item().with_context(|| name.to_string())?;
        let is_last = item.is_none();
        match item {
            Some(Item::Packet(packet)) => {
                order.add(packet.interface, packet.at_ns, Held::of(&packet, keeps_bytes));
            }
            // What came just before may still be on its way to the file.
            Some(Item::Statistics(of)) => {
                order.reach(of.interface, of.at_ns.saturating_sub(LAG.as_nanos() as u64));
            }
            None => {}
        }
        order.expect(reader.interfaces().len());
        while let Some((at_ns, held)) = order.next(is_last) {
            judge.engine.lost(held.lost);
            if let Some(headers) = held.headers {
                judge.frame(headers, &held.bytes, (held.wire_len, at_ns));
            }
            last_ns = at_ns.max(last_ns);
            // As often as on the wire, by the times of the file.
            if last_ns > judged_ns + WAIT.as_nanos() as u64 {
                judged_ns = last_ns;
                judge.take(last_ns).act(teller).iter().for_each(|line| page.write(line));
            }
        }
        if is_last || page.is_broken() {
            break;
        }
    }
    let foreign = reader.interfaces().iter().find(|interface| interface.link_type != ETHERNET);
    if let Some(interface) = foreign {
        return Err(anyhow!("{name}: link type {} is not Ethernet", interface.link_type));
    }
    // What was whole in the file is judged; what would have come after it is not known.
    judge.take(last_ns).act(teller).iter().for_each(|line| page.write(line));
    Ok(())
}

/// What is held of a packet.
struct Held {
    /// `None`: it is none of IP.
    headers: Option<Headers>,
    /// As many as on the wire would be; none where nobody wants them.
    bytes: Box<[u8]>,
    wire_len: u32,
    /// Frames lost before it.
    lost: u64,
}

impl Held {
    fn of(packet: &Packet<'_>, keeps_bytes: bool) -> Held {
        let kept = if keeps_bytes { packet.bytes.len().min(SNAP as usize) } else { 0 };
        let bytes = packet.bytes[..kept].into();
        let (wire_len, lost) = (packet.wire_len, packet.dropped);
        Held { headers: headers::read(packet.bytes), bytes, wire_len, lost }
    }
}

/// Things of several queues, of which each is in order of time.
struct InOrder<T> {
    /// By time, and in the order of the file where times are the same.
    held: BTreeMap<(u64, u64), T>,
    added: u64,
    /// Up to when each queue is known.
    reached: Vec<u64>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        InOrder { held: BTreeMap::new(), added: 0, reached: Vec::new() }
    }
}

impl<T> InOrder<T> {
    fn add(&mut self, queue: u32, at_ns: u64, thing: T) {
        self.reach(queue, at_ns);
        self.held.insert((at_ns, self.added), thing);
        self.added += 1;
    }

    /// Nothing older will come from this queue.
    fn reach(&mut self, queue: u32, at_ns: u64) {
        self.expect(queue as usize + 1);
        let reached = &mut self.reached[queue as usize];
        *reached = at_ns.max(*reached);
    }

    /// There are so many queues.
    fn expect(&mut self, queues: usize) {
        self.reached.resize(queues.max(self.reached.len()), 0);
    }

    /// The oldest thing, with its time, if none can come before it; with `all`, nothing will come any more.
    fn next(&mut self, all: bool) -> Option<(u64, T)> {
        let is_full = self.held.len() > MOST;
        let oldest = self.held.first_entry()?;
        let at_ns = oldest.key().0;
        let is_next = all || is_full || self.reached.iter().all(|&reached| at_ns <= reached);
        is_next.then(|| (at_ns, oldest.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(order: &mut InOrder<u32>, all: bool) -> Vec<u64> {
        std::iter::from_fn(|| order.next(all)).map(|(at_ns, _)| at_ns).collect()
    }

    #[test]
    fn no_more_is_held_of_a_packet_than_on_the_wire() {
        let packet = |bytes| Packet { interface: 0, at_ns: 1, wire_len: 1500, bytes, dropped: 2 };
        let held = |bytes, keeps_bytes| {
            let Held { bytes, wire_len, lost, .. } = Held::of(&packet(bytes), keeps_bytes);
            (bytes.len(), wire_len, lost)
        };
        assert_eq!(held(&[0; 1500], true), (SNAP as usize, 1500, 2));
        assert_eq!(held(&[0; 60], true), (60, 1500, 2));
        assert_eq!(held(&[0; 60], false), (0, 1500, 2));
    }

    #[test]
    fn what_may_have_a_forerunner_waits() {
        let mut order = InOrder::default();
        order.expect(2);
        [1, 2, 4].into_iter().for_each(|at| order.add(0, at, 0));
        assert!(ready(&mut order, false).is_empty(), "queue 1 may have something older");
        [3, 4].into_iter().for_each(|at| order.add(1, at, 1));
        assert_eq!(ready(&mut order, false), [1, 2, 3, 4, 4]);
        [6, 7].into_iter().for_each(|at| order.add(0, at, 0));
        assert!(ready(&mut order, false).is_empty());
        order.reach(1, 6);
        assert_eq!(ready(&mut order, false), [6], "nothing came there until then");
        assert_eq!(ready(&mut order, true), [7]);
    }

    #[test]
    fn a_silent_queue_does_not_keep_all_others() {
        let mut order = InOrder::default();
        order.expect(2);
        let count = MOST as u64 + 10;
        (0..count).for_each(|at| order.add(0, at, 0));
        assert_eq!(ready(&mut order, false), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn one_queue_waits_for_nobody() {
        let mut order = InOrder::default();
        order.add(0, 5, 0);
        // A little older: it comes late, as on the wire.
        order.add(0, 4, 0);
        assert_eq!(ready(&mut order, false), [4, 5]);
    }
}
