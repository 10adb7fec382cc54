//! When did a CPU not run the code that it should? From the ticks of a clock on that CPU, which record the running thread.
//!
//! ```text
//! ticks   | | | |         | | | x x x | |   idle   | |
//!                 silent          other                     silent: not even interrupts got through, the host had taken the
//!                                                           CPU; other: a thread that has no part in the trial
//! ```
//! A CPU that is idle need not tick, and what is silent then is no stop; where idle begins or ends, it was there. A stop
//! between two ticks is not seen, and of one that is seen the begin is known to within a period. And what was lost because of
//! stops: while one lasted, and until the queue that it filled was empty again.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A tick that is late by less is no stop: interrupts are off at times.
const LEAST: Duration = Duration::from_micros(100);

/// A CPU at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// When, ns on any clock.
    pub at_ns: u64,
    /// Number of the thread that was at work; 0 when idle.
    pub thread: u32,
}

/// What a CPU did in place of what it should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Instead {
    /// Nothing at all, by its own clock: the host ran something else there, or held the machine.
    Silent,
    /// A thread of this machine that has no part in the trial.
    Other,
}

/// A time in which a CPU did not run what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Logical CPU.
    pub cpu: usize,
    /// The earliest begin: the last tick that was as it should be.
    pub from_ns: u64,
    /// The latest end: the next one that was.
    pub to_ns: u64,
    /// How long it took at least, ns.
    pub least_ns: u64,
    /// What the CPU ran in that time.
    pub instead: Instead,
}

/// A CPU whose clock is to tick once in `period`.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Logical CPU.
    pub cpu: usize,
    /// From one tick to the next.
    pub period: Duration,
}

/// The stops of a CPU at the times `during_ns`, oldest first. It was idle at the times `idle`, as begin and end, oldest
/// first. `belongs` says whether a thread, not that of idle CPUs, has a part in the trial.
pub fn stops(
    clock: Clock,
    ticks: &[Tick],
    idle: &[(u64, u64)],
    during_ns: Range<u64>,
    belongs: impl Fn(u32) -> bool,
) -> Vec<Stop> {
    let period_ns = clock.period.as_nanos() as u64;
    let mut found: Vec<Stop> = Vec::new();
    for pair in ticks.windows(2) {
        let (before, tick) = (pair[0], pair[1]);
        if tick.at_ns < during_ns.start || before.at_ns > during_ns.end {
            continue;
        }
        let awake = awake((before.at_ns, tick.at_ns), idle);
        found.extend(awake.into_iter().filter_map(|(from_ns, to_ns)| {
            let least_ns = (to_ns - from_ns).saturating_sub(period_ns);
            let stop = Stop { cpu: clock.cpu, from_ns, to_ns, least_ns, instead: Instead::Silent };
            (least_ns >= LEAST.as_nanos() as u64).then_some(stop)
        }));
        let other = |tick: Tick| tick.thread != 0 && !belongs(tick.thread);
        match found.last_mut() {
            // It goes on, or ends at this tick.
            Some(last) if last.instead == Instead::Other && last.to_ns == before.at_ns && other(before) => {
                last.least_ns += if other(tick) { tick.at_ns - before.at_ns } else { 0 };
                last.to_ns = tick.at_ns;
            }
            _ if other(tick) => {
                let (from_ns, to_ns) = (before.at_ns, tick.at_ns);
                found.push(Stop { cpu: clock.cpu, from_ns, to_ns, least_ns: 0, instead: Instead::Other });
            }
            _ => {}
        }
    }
    found
}

/// The parts of a time in which a CPU was not idle.
fn awake((mut from_ns, to_ns): (u64, u64), idle: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let first = idle.partition_point(|(_, end)| *end <= from_ns);
    let mut parts = Vec::new();
    for (begin, end) in idle.iter().skip(first).take_while(|(begin, _)| *begin < to_ns) {
        parts.push((from_ns, *begin.max(&from_ns)));
        from_ns = (*end).min(to_ns);
    }
    parts.push((from_ns, to_ns));
    parts
}

/// Frames that were lost between two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// When the first of them was sent, ns on the clock of the stops.
    pub first_ns: u64,
    /// When the last of them was.
    pub last_ns: u64,
    /// How many.
    pub frames: u64,
}

/// After a stop a queue is full and what comes on top is lost, until the device has caught up; ns.
const DRAIN_NS: u64 = 1_000_000;
/// A tester that was stopped catches up at 1.25 times its rate: as many times as long as the stop was.
const CATCH_UP: u64 = 4;

/// How many of these frames were lost while a CPU was stopped, or by the queue that a stop filled. Frames that were lost
/// all over a time are divided by it, as if they were lost evenly: rather too few are laid to stops than too many.
pub fn lost_by_stops(lost: &[Lost], stops: &[Stop], testers: &[usize]) -> u64 {
    let shadows = shadows(stops, testers);
    let share = |lost: &Lost| {
        let covered =
            |(from, to): &(u64, u64)| (lost.last_ns + 1).min(*to).saturating_sub(lost.first_ns.max(*from));
        let covered: u64 = shadows.iter().map(covered).sum();
        let share = covered as f64 / (lost.last_ns + 1 - lost.first_ns) as f64;
        (share.min(1.0) * lost.frames as f64).floor() as u64
    };
    lost.iter().map(share).sum()
}

/// The times of stops and of what follows from them, none of which overlap.
fn shadows(stops: &[Stop], testers: &[usize]) -> Vec<(u64, u64)> {
    let shadow = |stop: &Stop| {
        let of_tester = testers.contains(&stop.cpu);
        let catching_up = if of_tester { CATCH_UP * (stop.to_ns - stop.from_ns) } else { 0 };
        (stop.from_ns, stop.to_ns + catching_up + DRAIN_NS)
    };
    let mut all: Vec<(u64, u64)> = stops.iter().map(shadow).collect();
    all.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in all {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const OWN: u32 = 7;
    const ALIEN: u32 = 8;

    fn found(ticks: &[(f64, u32)]) -> Vec<(f64, f64, f64, Instead)> {
        found_idle(ticks, &[])
    }

    fn found_idle(ticks: &[(f64, u32)], idle: &[(f64, f64)]) -> Vec<(f64, f64, f64, Instead)> {
        let ns = |ms: f64| (ms * 1e6) as u64;
        let idle: Vec<(u64, u64)> = idle.iter().map(|&(from, to)| (ns(from), ns(to))).collect();
        let ticks: Vec<Tick> =
            ticks.iter().map(|&(ms, thread)| Tick { at_ns: (ms * 1e6) as u64, thread }).collect();
        let clock = Clock { cpu: 1, period: Duration::from_millis(1) };
        let ms = |ns: u64| ns as f64 / 1e6;
        let all = stops(clock, &ticks, &idle, 2 * MS..100 * MS, |thread| thread == OWN);
        all.iter().map(|s| (ms(s.from_ns), ms(s.to_ns), ms(s.least_ns), s.instead)).collect()
    }

    #[test]
    fn a_late_tick_is_a_stop_and_a_strange_thread_is_another() {
        use Instead::{Other, Silent};
        // The first one is before the trial; 0.05 ms are nothing; after a stop the clock is on its grid again.
        let ticks = [(0.0, OWN), (1.95, OWN), (3.0, 0), (4.05, OWN), (7.3, OWN), (8.0, OWN)];
        assert_eq!(found(&ticks), [(4.05, 7.3, 2.25, Silent)]);
        let ticks = [(3.0, OWN), (4.0, ALIEN), (5.0, ALIEN), (6.0, OWN), (7.0, ALIEN), (8.0, 0)];
        assert_eq!(found(&ticks), [(3.0, 6.0, 1.0, Other), (6.0, 8.0, 0.0, Other)]);
        let both = [(3.0, OWN), (6.0, ALIEN), (7.0, OWN)];
        assert_eq!(found(&both), [(3.0, 6.0, 2.0, Silent), (3.0, 7.0, 0.0, Other)]);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn a_cpu_that_is_idle_need_not_tick() {
        use Instead::Silent;
        let ticks = [(3.0, OWN), (9.0, OWN), (10.0, OWN)];
        for (idle, expected) in [
            (&[][..], &[(3.0, 9.0, 5.0, Silent)][..]),
            (&[(3.5, 8.2)], &[]),
            // Begun before, not ended yet.
            (&[(1.0, 8.5)], &[]),
            (&[(3.2, 999.0)], &[]),
            (&[(3.1, 4.0), (4.5, 5.5), (5.5, 8.4)], &[]),
            // What is silent before, between and after is a stop.
            (&[(5.0, 8.2)], &[(3.0, 5.0, 1.0, Silent)]),
            (&[(3.5, 4.0), (7.0, 8.5)], &[(4.0, 7.0, 2.0, Silent)]),
            (&[(0.0, 1.0), (2.5, 5.0)], &[(5.0, 9.0, 3.0, Silent)]),
            (&[(3.1, 3.2), (9.5, 9.9)], &[(3.2, 9.0, 4.8, Silent)]),
        ] {
            assert_eq!(found_idle(&ticks, idle), expected, "{idle:?}");
        }
    }

    fn stop(cpu: usize, from_ms: u64, to_ms: u64) -> Stop {
        let (from_ns, to_ns) = (from_ms * MS, to_ms * MS);
        Stop { cpu, from_ns, to_ns, least_ns: to_ns - from_ns, instead: Instead::Silent }
    }

    /// Of frames that were lost in these periods (first and last ms, frames), how many were by stops?
    fn check(lost: &[(u64, u64, u64)], stops: &[Stop], expected: u64) {
        let lost: Vec<Lost> = lost
            .iter()
            .map(|&(first, last, frames)| Lost { first_ns: first * MS, last_ns: last * MS, frames })
            .collect();
        assert_eq!(lost_by_stops(&lost, stops, &[0]), expected, "{lost:?} {stops:?}");
    }

    #[test]
    fn loss_is_split_by_stops_and_what_follows_from_them() {
        let device = [stop(1, 100, 102)];
        check(&[(100, 101, 500), (300, 300, 7)], &device, 500);
        check(&[(102, 102, 30)], &device, 30);
        check(&[(104, 105, 30)], &device, 0);
        // The tester sends faster for eight ms after a stop of two.
        check(&[(110, 110, 30)], &[stop(0, 100, 102)], 30);
        check(&[(112, 112, 30)], &[stop(0, 100, 102)], 0);
        // A device in overload loses all the time: three of a hundred ms.
        check(&[(50, 149, 10_000)], &device, 303);
        // Two stops with one queue count once.
        check(&[(50, 149, 10_000)], &[stop(1, 100, 102), stop(1, 101, 103)], 404);
        check(&[], &device, 0);
        check(&[(1, 2, 9)], &[], 0);
    }
}
