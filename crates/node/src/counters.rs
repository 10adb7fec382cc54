//! Counters that a node's thread publishes without waiting for readers: it writes a whole snapshot now and then, and a reader
//! checks whether one was written meanwhile (a sequence lock).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use weir_plane::{Accounting, DropReason, Drops, Punt, PuntCounts, PuntReason, Punts};
use weir_port::duplex::Drops as PortDrops;

/// All counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Where all frames are.
    pub accounting: Accounting,
    /// Those of the ports, in their order.
    pub ports: Vec<PortCounts>,
    /// Batches that the plane was given.
    pub batches: u64,
    /// Times that the thread slept.
    pub sleeps: u64,
    /// Frames of the node's own for which there was no memory; the accounting has them as left.
    pub withheld: u64,
    /// What threads were to hear of neighbours and had no room for; they ask again.
    pub unheard: u64,
    /// Panics that it went on after.
    pub panics: u64,
    /// Control programs that were detached because of what was in the memory of their rings.
    pub damaged: u64,
}

impl Snapshot {
    /// Those of a node, of which these are all threads'.
    pub fn sum(threads: &[Snapshot]) -> Snapshot {
        let (first, others) = threads.split_first().expect("a node has a thread");
        let mut all = first.clone();
        others.iter().for_each(|other| all.add(other));
        all
    }

    fn add(&mut self, other: &Snapshot) {
        self.accounting.add(&other.accounting);
        for (to, from) in self.ports.iter_mut().zip(&other.ports) {
            to.received += from.received;
            to.sent += from.sent;
            to.drops.iter_mut().zip(&from.drops).for_each(|(to, from)| to.frames += from.frames);
        }
        self.batches += other.batches;
        self.sleeps += other.sleeps;
        self.withheld += other.withheld;
        self.unheard += other.unheard;
        self.panics += other.panics;
        self.damaged += other.damaged;
    }
}

/// Counters of a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortCounts {
    /// Frames that it handed on.
    pub received: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// What it lost, by the name of the place.
    pub drops: Vec<PortDrops>,
}

/// A place for numbers that one thread writes.
pub(crate) struct Shown {
    /// Odd while they are written.
    version: AtomicU64,
    numbers: Vec<AtomicU64>,
    /// Names of each port's drops, which do not change.
    names: Vec<Vec<&'static str>>,
}

/// Numbers of a snapshot beside drops and ports.
const PLAIN: usize = 13;

impl Shown {
    /// Room for a snapshot like this one.
    pub(crate) fn new(like: &Snapshot) -> Shown {
        let names =
            like.ports.iter().map(|port| port.drops.iter().map(|drops| drops.name).collect()).collect();
        let numbers = numbers(like).into_iter().map(AtomicU64::new).collect();
        Shown { version: AtomicU64::new(0), numbers, names }
    }

    /// Shows other numbers; for the one thread that does.
    pub(crate) fn show(&self, snapshot: &Snapshot) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in self.numbers.iter().zip(numbers(snapshot)) {
            to.store(from, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }

    /// What is shown.
    pub(crate) fn look(&self) -> Snapshot {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let numbers: Vec<u64> =
                self.numbers.iter().map(|number| number.load(Ordering::Relaxed)).collect();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return self.snapshot(&numbers);
            }
            std::hint::spin_loop();
        }
    }

    fn snapshot(&self, numbers: &[u64]) -> Snapshot {
        let (punts, rest) = numbers[PLAIN..].split_at(Punt::ALL.len());
        let (control, rest) = rest.split_at(PuntReason::ALL.len());
        let (drops, mut rest) = rest.split_at(DropReason::ALL.len());
        let mut next = || {
            let (first, others) = rest.split_first().expect("as many as were shown");
            rest = others;
            *first
        };
        let port = |names: &Vec<&'static str>| PortCounts {
            received: next(),
            sent: next(),
            drops: names.iter().map(|&name| PortDrops { name, frames: next() }).collect(),
        };
        let ports = self.names.iter().map(port).collect();
        let [
            entered,
            originated,
            injected,
            left,
            kept,
            taken,
            handed,
            batches,
            sleeps,
            withheld,
            unheard,
            panics,
            damaged,
        ] = *numbers.first_chunk::<PLAIN>().expect("as many as were shown");
        let drops = drops.iter().copied().collect::<Drops>();
        let local = punts.iter().copied().collect::<Punts>();
        let control = control.iter().copied().collect::<PuntCounts>();
        let accounting =
            Accounting { entered, originated, injected, left, local, control, kept, taken, handed, drops };
        Snapshot { accounting, ports, batches, sleeps, withheld, unheard, panics, damaged }
    }
}

fn numbers(snapshot: &Snapshot) -> Vec<u64> {
    let Accounting { entered, originated, injected, left, local, control, kept, taken, handed, drops } =
        &snapshot.accounting;
    let Snapshot { batches, sleeps, withheld, unheard, panics, damaged, .. } = snapshot;
    let plain: [u64; PLAIN] = [
        entered, originated, injected, left, kept, taken, handed, batches, sleeps, withheld, unheard, panics,
        damaged,
    ]
    .map(|n| *n);
    let punts = local.by_reason().map(|(_, frames)| frames);
    let punts = punts.chain(control.by_reason().map(|(_, frames)| frames));
    let ports = snapshot.ports.iter().flat_map(|port| {
        [port.received, port.sent].into_iter().chain(port.drops.iter().map(|drops| drops.frames))
    });
    plain
        .into_iter()
        .chain(punts)
        .chain(DropReason::ALL.iter().map(|&reason| drops[reason]))
        .chain(ports)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn snapshot(n: u64) -> Snapshot {
        let drops =
            vec![PortDrops { name: "ring full", frames: 3 * n }, PortDrops { name: "too long", frames: n }];
        let ports = vec![PortCounts { received: n, sent: 2 * n, drops }, PortCounts::default()];
        let drops = DropReason::ALL.iter().map(|_| n).collect();
        let local = [n, 2 * n, 3 * n, 4 * n].into_iter().collect();
        let accounting = Accounting {
            entered: n,
            originated: n,
            injected: 5 * n,
            left: n,
            local,
            control: (1..8).map(|reason| reason * n).collect(),
            kept: n,
            taken: n,
            handed: n,
            drops,
        };
        let (sleeps, damaged) = (2 * n, 3 * n);
        Snapshot { accounting, ports, batches: n, sleeps, withheld: n, unheard: n, panics: n, damaged }
    }

    #[test]
    fn what_is_shown_is_whole() {
        let shown = Arc::new(Shown::new(&snapshot(0)));
        assert_eq!(shown.look(), snapshot(0));
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (shown, stop) = (shown.clone(), stop.clone());
            move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    shown.show(&snapshot(n));
                }
                n
            }
        });
        for _ in 0..2000 {
            let seen = shown.look();
            assert_eq!(seen, snapshot(seen.batches));
        }
        stop.store(true, Ordering::Relaxed);
        let last = writer.join().expect("it shows");
        assert_eq!(shown.look(), snapshot(last));
    }
}
