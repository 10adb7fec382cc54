//! When was a CPU idle? A clock need not tick there meanwhile: on some virtual machines no timer of an idle CPU runs.

use crate::bpf::{BpfError, Link, Memory, Program, object};
use crate::shared::shared;

/// Times of a CPU that are kept, `IDLE_SPANS` of the program.
const SPANS: usize = 16384;

shared! {
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct IdleCpu {
        /// Its ring of spans, from 1; 0: none.
        watched: u64,
        /// CLOCK_MONOTONIC; 0 while awake.
        since_ns: u64,
        /// Spans that ended.
        spans: u64,
    }
}

shared! {
    /// A time in which a CPU was idle.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct IdleSpan {
        /// Begin, CLOCK_MONOTONIC.
        pub from_ns: u64,
        /// End.
        pub to_ns: u64,
    }
}

/// Notes when some CPUs are idle, between [`Idles::start`] and [`Idles::stop`].
pub struct Idles {
    program: Program,
    watched: Vec<usize>,
    cpus: Memory<IdleCpu>,
    spans: Memory<IdleSpan>,
}

impl Idles {
    /// For these CPUs.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_PERFMON.
    pub fn new(watched: &[usize]) -> Result<Idles, BpfError> {
        let (cpus, spans) = (watched.iter().max().map_or(1, |cpu| cpu + 1), watched.len().max(1) * SPANS);
        let entries = [("cpus", cpus as u32), ("spans", spans as u32)];
        let program = Program::load("witness of idle CPUs", object::IDLE, &entries)?;
        let (cpus, spans) = (program.memory("cpus", cpus)?, program.memory("spans", spans)?);
        Ok(Idles { program, watched: watched.to_vec(), cpus, spans })
    }

    /// The CPUs that it was made for.
    pub fn watched(&self) -> &[usize] {
        &self.watched
    }

    /// Begins to note, until the link is handed to [`Idles::stop`].
    ///
    /// # Errors
    /// Where the kernel has no such tracepoint.
    pub fn start(&self) -> Result<Link, BpfError> {
        for (&cpu, ring) in self.watched.iter().zip(1..) {
            // A CPU that was idle when this last ended may have worked since.
            self.cpus.set(cpu, &IdleCpu { watched: ring, since_ns: 0, spans: 0 });
        }
        self.program.attach_tracepoint(c"cpu_idle")
    }

    /// What it noted since, for each of [`Idles::watched`], oldest first; `None` of a CPU for which there were more than are
    /// kept. A CPU that is idle still has no end of that.
    pub fn stop(&self, noting: Link) -> Vec<Option<Vec<IdleSpan>>> {
        drop(noting);
        let of = |(ring, &cpu): (usize, &usize)| {
            let IdleCpu { since_ns, spans, .. } = self.cpus.get(cpu);
            // The program is at work still, maybe: what it may overwrite now is too old as well.
            if spans >= SPANS as u64 {
                return None;
            }
            let span = |number: usize| self.spans.get(ring * SPANS + number);
            let open = (since_ns > 0).then_some(IdleSpan { from_ns: since_ns, to_ns: u64::MAX });
            Some((0..spans as usize).map(span).chain(open).collect())
        };
        self.watched.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::now_ns;
    use crate::thread::pin_to;
    use std::time::Duration;

    /// What the kernel counts of CPU 0.
    fn idle_ticks() -> u64 {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let line = stat.lines().find(|line| line.starts_with("cpu0 ")).unwrap();
        line.split_whitespace().nth(4).unwrap().parse().unwrap()
    }

    #[test]
    fn a_cpu_that_sleeps_was_idle_and_one_that_works_was_not() {
        weir_testkit::need_root!();
        pin_to(0).unwrap();
        let idles = Idles::new(&[0]).unwrap();
        let noting = idles.start().unwrap();
        let idle_before = idle_ticks();
        std::thread::sleep(Duration::from_millis(50));
        let was_idle = idle_ticks() > idle_before + 1;
        let from = now_ns();
        let mut work_until = from;
        while work_until < from + 1_000_000 {
            work_until = now_ns();
        }
        let found = idles.stop(noting);
        let [Some(spans)] = &found[..] else { panic!("{found:?}") };
        assert!(
            spans.is_sorted_by_key(|span| span.from_ns) && spans.iter().all(|s| s.from_ns <= s.to_ns),
            "{spans:?}"
        );
        assert!(!was_idle || !spans.is_empty(), "the kernel says that it was idle");
        // Awake at both ends of that work.
        let idle_at = |at| spans.iter().any(|span| (span.from_ns..span.to_ns).contains(&at));
        assert!(!idle_at(from) && !idle_at(work_until), "{from} {work_until} {spans:?}");
    }

    #[test]
    fn what_was_noted_before_does_not_count() {
        weir_testkit::need_root!();
        let idles = Idles::new(&[0]).unwrap();
        // As if it had ended while the CPU was idle, and for the second time.
        let from = now_ns();
        idles.cpus.set(0, &IdleCpu { watched: 1, since_ns: 1, spans: 7 });
        let found = idles.stop(idles.start().unwrap());
        let [Some(spans)] = &found[..] else { panic!("{found:?}") };
        assert!(spans.iter().all(|span| span.from_ns >= from), "{from} {spans:?}");
    }
}
