//! A witness of stops: in each trial of a search, a clock on each CPU in use records when the CPU did not run what it should.
//! Frames lost at that time count for the host, or for other load on this machine, not for the device.

use std::sync::Arc;
use std::time::Duration;

use weir_measure::capacity::{Mark, Window, Windows, windows};
use weir_measure::stops::{Clock, Lost, Stop, Tick, lost_by_stops, stops};
use weir_port::bpf::Link;
use weir_port::perf::idle::Idles;
use weir_port::perf::ticks::Ticker;

use weir_load::counts::{Counts, Load, Mark as Arrival};

use weir_record::record::{Purpose, Stream, Witnessed};

/// From one tick to the next: each costs its CPU some ten us on a virtual machine.
const PERIOD: Duration = Duration::from_millis(1);
/// Time beside that of the load: waiting for the first frame, draining.
const BESIDE: Duration = Duration::from_secs(2);

/// Windows of a trial whose arrivals are noted: what a device forwards first, its queues still empty, does not count.
const SETTLE: Duration = Duration::from_millis(20);
const WINDOW: Duration = Duration::from_millis(16);

/// Clocks that run during a trial, and what says that a CPU has nothing to tick for.
pub struct Witness {
    ticker: Ticker,
    idles: Arc<Idles>,
    noting: Link,
}

/// What it saw of a CPU.
pub struct Seen {
    pub(crate) cpu: usize,
    pub(crate) ticks: Vec<Tick>,
    /// When it was idle, as begin and end.
    pub(crate) idle: Vec<(u64, u64)>,
}

impl Witness {
    /// For a trial of this purpose. `None` if stops are not needed, or if the kernel has no such clocks. Latencies
    /// are measured without it: a tick delays a frame.
    pub(crate) fn of(idles: &Arc<Idles>, load: &Load, purpose: Purpose) -> Option<Witness> {
        let wanted = purpose == Purpose::Search || load.overload || load.stops;
        wanted.then(|| Witness::start(idles, load.duration)).flatten()
    }

    /// For so long. `None` where the kernel has no such clocks.
    pub fn start(idles: &Arc<Idles>, duration: Duration) -> Option<Witness> {
        let most = ((duration + BESIDE).as_nanos() / PERIOD.as_nanos()) as usize;
        let ticker = Ticker::new(idles.watched(), PERIOD, most).ok()?;
        let noting = idles.start().ok()?;
        ticker.start().ok()?;
        Some(Witness { ticker, idles: idles.clone(), noting })
    }

    /// What it saw; `None` if it did not see all.
    pub fn seen(self) -> Option<Vec<Seen>> {
        let all = self.ticker.stop().ok()?;
        let idle = self.idles.stop(self.noting);
        let seen = all.into_iter().zip(idle).map(|((cpu, ticks), idle)| {
            let ticks: Vec<_> = ticks.iter().map(|t| Tick { at_ns: t.at_ns, thread: t.thread }).collect();
            let idle = idle?.iter().map(|span| (span.from_ns, span.to_ns)).collect();
            (ticks.len() > 1).then_some(Seen { cpu, ticks, idle })
        });
        seen.collect()
    }
}

/// The threads and CPUs of a trial.
pub(crate) struct Parties<'a> {
    /// CPUs of the tester.
    pub(crate) testers: &'a [usize],
    /// Threads of tester and device.
    pub(crate) threads: &'a [u32],
}

/// The stops while frames were sent, with times since the start, and what was lost by them.
pub(crate) fn witnessed(
    seen: &[Seen],
    counts: &Counts,
    streams: &[Stream],
    parties: &Parties<'_>,
) -> Witnessed {
    let start_ns = counts.streams.first().map_or(0, |s| s.start_ns);
    let stops = stopped(seen, start_ns, counts.sending, parties.threads);
    let events = streams.iter().flat_map(|s| &s.loss_events);
    let lost = |event: &weir_record::record::LossEvent| Lost {
        first_ns: event.first_sent_ns,
        last_ns: event.last_sent_ns.max(event.first_sent_ns),
        frames: event.lost,
    };
    let lost: Vec<Lost> = events.map(lost).collect();
    let lost_by_stops = lost_by_stops(&lost, &stops, parties.testers);
    Witnessed { stops, lost_by_stops }
}

/// The stops from `start_ns` on for so long, with times since then. `threads` are those of tester and device.
pub fn stopped(seen: &[Seen], start_ns: u64, duration: Duration, threads: &[u32]) -> Vec<Stop> {
    let end_ns = start_ns + duration.as_nanos() as u64;
    let belongs = |thread| threads.contains(&thread) || is_softirqd(thread);
    let of_cpu = |Seen { cpu, ticks, idle }: &Seen| {
        stops(Clock { cpu: *cpu, period: PERIOD }, ticks, idle, start_ns..end_ns, belongs)
    };
    let since = |stop: Stop| Stop {
        from_ns: stop.from_ns.saturating_sub(start_ns),
        to_ns: stop.to_ns.saturating_sub(start_ns),
        ..stop
    };
    seen.iter().flat_map(of_cpu).map(since).collect()
}

/// When there are many softirqs, this thread runs them for all, also for the device.
fn is_softirqd(thread: u32) -> bool {
    let name = weir_disk::kernel_text(format!("/proc/{thread}/comm"));
    name.is_ok_and(|name| name.starts_with("ksoftirqd/"))
}

/// What arrived, all directions together, window by window.
pub(crate) fn arrived(counts: &Counts, load: &Load, stops: &[Stop]) -> Vec<Window> {
    let marks: Vec<&[Arrival]> = counts.streams.iter().map(|stream| &stream.marks[..]).collect();
    in_windows(&marks, load.duration, stops)
}

/// The windows of a load of this duration. `marks`: how many frames had arrived at which time since its start, of each stream or
/// reader; `stops` are times since its start as well.
pub fn in_windows(marks: &[&[Arrival]], duration: Duration, stops: &[Stop]) -> Vec<Window> {
    let how = Windows { settle: SETTLE, length: WINDOW, end_ns: duration.as_nanos() as u64 };
    let stops: Vec<(u64, u64)> = stops.iter().map(|stop| (stop.from_ns, stop.to_ns)).collect();
    windows(&together(marks), how, &stops)
}

/// Arrivals of all together: at each mark of the one that has most of them, what had arrived of the others by then.
fn together(all: &[&[Arrival]]) -> Vec<Mark> {
    let Some(base) = (0..all.len()).rev().max_by_key(|&i| all[i].len()) else { return Vec::new() };
    let others = || all.iter().enumerate().filter(|(i, _)| *i != base).map(|(_, marks)| marks);
    let both = |mark: &Arrival| {
        let others: u64 = others().map(|marks| frames_at(marks, mark.at_ns)).sum();
        Mark { at_ns: mark.at_ns, frames: mark.frames + others }
    };
    all[base].iter().map(both).collect()
}

/// Frames that had arrived by this time, between two marks in proportion.
fn frames_at(marks: &[Arrival], at_ns: u64) -> u64 {
    let next = marks.partition_point(|m| m.at_ns <= at_ns);
    let Some(before) = next.checked_sub(1).and_then(|i| marks.get(i)) else { return 0 };
    let Some(after) = marks.get(next) else { return before.frames };
    let share = (at_ns - before.at_ns) as f64 / (after.at_ns - before.at_ns) as f64;
    before.frames + (share * (after.frames - before.frames) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_load::counts::{StreamCounts, empty_lateness};
    use weir_measure::stops::Instead;
    use weir_record::record::LossEvent;

    const MS: u64 = 1_000_000;
    const START: u64 = 1000 * MS;

    fn stream(number: usize, marks: Vec<weir_load::counts::Mark>) -> StreamCounts {
        StreamCounts {
            stream: number,
            offered: 0,
            sent: 0,
            sent_bytes: 0,
            late: empty_lateness(),
            late_max_ns: 0,
            late_end_ns: 0,
            start_ns: START,
            last_ns: 0,
            turned_ns: None,
            broadcasts: 0,
            groups: Vec::new(),
            marks,
        }
    }

    fn counts(streams: Vec<StreamCounts>) -> Counts {
        Counts { streams, ports: Default::default(), sending: Duration::from_millis(200), drops: Vec::new() }
    }

    /// A tick each ms from before the start to after the end, but for a hole.
    fn ticks(thread: u32, hole_ms: std::ops::Range<u64>) -> Vec<Tick> {
        let all = (990..1220u64).filter(|ms| !hole_ms.contains(&(ms.saturating_sub(1000))) || *ms < 1000);
        all.map(|ms| Tick { at_ns: ms * MS, thread }).collect()
    }

    fn seen(cpu: usize, ticks: Vec<Tick>) -> Seen {
        Seen { cpu, ticks, idle: Vec::new() }
    }

    #[test]
    fn planted_stops_split_the_loss() {
        let event = |ms: u64, lost| LossEvent {
            first_sent_ns: ms * MS,
            last_sent_ns: ms * MS + MS / 2,
            lost,
            outage_ns: 0,
        };
        let streams =
            [Stream { loss_events: vec![event(21, 400), event(90, 30)], lost: 430, ..Stream::default() }];
        let parties = Parties { testers: &[0], threads: &[5, 6] };
        let found = witnessed(
            &[seen(0, ticks(5, 0..0)), seen(1, ticks(6, 20..23))],
            &counts(vec![stream(0, Vec::new())]),
            &streams,
            &parties,
        );
        assert_eq!(found.lost_by_stops, 400);
        let stop = found.stops[0];
        assert_eq!((found.stops.len(), stop.cpu, stop.instead), (1, 1, Instead::Silent));
        assert_eq!((stop.from_ns, stop.to_ns, stop.least_ns), (19 * MS, 23 * MS, 3 * MS));
        let sleeps = Seen { idle: vec![(1019 * MS, 1022 * MS)], ..seen(1, ticks(6, 20..23)) };
        let counts_of_one = counts(vec![stream(0, Vec::new())]);
        assert_eq!(witnessed(&[sleeps], &counts_of_one, &streams, &parties).stops, [], "idle is no stop");
        // A strange thread on the device's CPU, all the time.
        let strange = witnessed(
            &[seen(1, ticks(u32::MAX, 0..0))],
            &counts(vec![stream(0, Vec::new())]),
            &streams,
            &parties,
        );
        assert_eq!((strange.lost_by_stops, strange.stops[0].instead), (430, Instead::Other));
        let nobody = witnessed(&[seen(1, Vec::new())], &counts(Vec::new()), &streams, &parties);
        assert_eq!((nobody.lost_by_stops, nobody.stops.len()), (0, 0));
    }

    #[test]
    fn directions_add_up_window_by_window() {
        let marks = |fps: u64, shift_us: u64| -> Vec<weir_load::counts::Mark> {
            let at = |ms: u64| ms * MS + shift_us * 1000;
            (0..=100)
                .map(|ms| weir_load::counts::Mark { at_ns: at(ms), frames: fps * at(ms) / (1000 * MS) })
                .collect()
        };
        let counts = counts(vec![stream(0, marks(600_000, 0)), stream(1, marks(300_000, 300))]);
        let load = Load::overload(2e6, Duration::from_millis(100));
        let windows = arrived(&counts, &load, &[]);
        assert_eq!(windows.len(), 5);
        assert!(windows.iter().all(|w| w.ran && (w.fps() / 900e3 - 1.0).abs() < 1e-3), "{windows:?}");
    }
}
