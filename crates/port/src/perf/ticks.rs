//! A clock of each CPU that says when it could tick: where it is silent, the CPU did not run.
//!
//! ```text
//! timer of CPU 1  | | | | |       | | | |      a record each: CLOCK_MONOTONIC, thread that was at work
//!                          silent: interrupts did not get through, the host ran something else
//! ```
//! A tick costs its CPU some ten microseconds on a virtual machine, most of them in the host.

use std::io;
use std::time::Duration;

use super::{Attributes, Cpu, DISABLE, ENABLE, PAGE_BYTES, RECORD_LOST, RECORD_SAMPLE, record, word};

/// PERF_SAMPLE_TID, PERF_SAMPLE_TIME.
const SAMPLE_OF: u64 = 1 << 1 | 1 << 2;
/// disabled, use_clockid.
const FLAGS: u64 = 1 | 1 << 25;
/// CLOCK_MONOTONIC, in the upper half of the word that it shares.
const CLOCK: u64 = 1 << 32;
/// A tick takes so much room.
const RECORD_BYTES: usize = 24;
/// That word, behind the flags.
const CLOCK_AT: usize = 5;

/// A CPU at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Number of the thread that was at work; 0 when idle.
    pub thread: u32,
}

/// The clocks of some CPUs. They stand still but between [`Ticker::start`] and [`Ticker::stop`].
pub struct Ticker {
    cpus: Vec<(usize, Cpu)>,
}

impl Ticker {
    /// One for each of these CPUs, that ticks once in `period`, 10 us and more, and at most `most` times before it is read.
    ///
    /// # Errors
    /// Without CAP_PERFMON, or where the kernel has no performance events.
    pub fn new(cpus: &[usize], period: Duration, most: usize) -> io::Result<Ticker> {
        let room = (most.max(1) * RECORD_BYTES).next_multiple_of(PAGE_BYTES).next_power_of_two();
        let mut rest = [0; 8];
        rest[CLOCK_AT] = CLOCK;
        let open = |&cpu: &usize| {
            let frequency = period.as_nanos() as u64;
            let attributes =
                Attributes { frequency, sample_of: SAMPLE_OF, flags: FLAGS, rest, ..Attributes::default() };
            Ok((cpu, Cpu::open(cpu, attributes, room)?))
        };
        Ok(Ticker { cpus: cpus.iter().map(open).collect::<io::Result<_>>()? })
    }

    /// Lets them tick.
    pub fn start(&self) -> io::Result<()> {
        self.cpus.iter().try_for_each(|(_, cpu)| cpu.switch(ENABLE))
    }

    /// Ends that, and returns the ticks of each CPU, oldest first. A CPU of which some are missing, because they were not read
    /// for minutes, has none.
    pub fn stop(&self) -> io::Result<Vec<(usize, Vec<Tick>)>> {
        self.cpus.iter().try_for_each(|(_, cpu)| cpu.switch(DISABLE))?;
        Ok(self.cpus.iter().map(|(number, cpu)| (*number, ticks(&cpu.written()))).collect())
    }
}

/// The ticks among these records, unless some were lost.
fn ticks(mut bytes: &[u8]) -> Vec<Tick> {
    let mut found = Vec::new();
    while let Some((kind, _, body, rest)) = record(bytes) {
        match kind {
            RECORD_LOST => return Vec::new(),
            RECORD_SAMPLE => found.extend(tick(body)),
            _ => {}
        }
        bytes = rest;
    }
    found
}

/// Process and thread in one word, then the time.
fn tick(body: &[u8]) -> Option<Tick> {
    Some(Tick { thread: (word(body, 0)? >> 32) as u32, at_ns: word(body, 1)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::now_ns;
    use crate::perf::tests::bytes;

    #[test]
    fn ticks_are_read_unless_some_were_lost() {
        let tick = |thread: u64, at_ns| bytes(RECORD_SAMPLE, 1, &[thread << 32 | 6, at_ns]);
        let all = [tick(7, 1000), bytes(77, 0, &[]), tick(0, 2000)].concat();
        let [a, b] = [Tick { at_ns: 1000, thread: 7 }, Tick { at_ns: 2000, thread: 0 }];
        assert_eq!(ticks(&all), [a, b]);
        assert_eq!(ticks(&[all, bytes(RECORD_LOST, 0, &[1, 5])].concat()), []);
        assert_eq!(ticks(&[]), []);
    }

    #[test]
    fn a_clock_ticks_in_the_time_of_the_frames() {
        weir_testkit::need_root!();
        let ticker = Ticker::new(&[0], Duration::from_millis(1), 1000).unwrap();
        // However busy the machine is, some ticks get through.
        let found = (0..1000).find_map(|_| {
            let from = now_ns();
            ticker.start().unwrap();
            std::thread::sleep(Duration::from_millis(10));
            let all = ticker.stop().unwrap();
            let to = now_ns();
            let (cpu, ticks) = &all[0];
            assert_eq!((all.len(), *cpu), (1, 0));
            assert!(ticks.iter().all(|tick| (from..=to).contains(&tick.at_ns)), "{ticks:?}");
            assert!(ticks.is_sorted_by_key(|tick| tick.at_ns));
            (ticks.len() > 2).then_some(())
        });
        assert!(found.is_some());
    }
}
