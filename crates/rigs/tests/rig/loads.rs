//! Loads that are not steady, and optional measurements.

use std::num::NonZeroU32;
use std::time::Duration;

use weir_lab::frames::PointSpec;
use weir_load::TesterKind;
use weir_load::counts::{Load, Shape};
use weir_packet::flow::{Direction, IpVersion};
use weir_record::record::{Broadcasts, Trial, Verdict};
use weir_testbed::dut::DutKind;

use crate::bench::{Bench, brief, for_both_testers, left, not_tested, on_rig, point, shown, undisturbed};

const MS: Duration = Duration::from_millis(1);

/// A trial with `faults` in which all frames were sent in time and nothing else was lost. Each attempt has a new device,
/// since faults count frames from its start.
fn faulty(tester: TesterKind, faults: &str, load: &Load) -> Trial {
    undisturbed(|| {
        let trial = Bench::new(&point(DutKind::FAULTY), tester, faults).offer(load).expect("a trial");
        let others = trial.drop_counters.iter().any(|l| l.name != "dropped by the faulty device");
        if trial.verdict == Verdict::Valid && !others {
            return Ok(trial);
        }
        Err(shown(&trial))
    })
}

/// Each `n`-th frame is dropped, and so dated; `due_ns` says when each of them is to be sent.
fn check_dates(tester: TesterKind, load: Load, total: u64, n: u64, due_ns: impl Fn(u64) -> u64) -> Trial {
    let trial = faulty(tester, &format!("drop=1/{n}"), &Load { merge: Duration::ZERO, ..load });
    assert_eq!((trial.counts().offered, trial.counts().sent), (total, total), "{:#?}", brief(&trial));
    let events = &trial.streams[0].loss_events;
    assert_eq!(events.len() as u64, total / n, "{:#?}", brief(&trial));
    for (event, i) in events.iter().zip(1..) {
        assert!(left(&trial, event.first_sent_ns, due_ns(i * n - 1)), "{i}: {:#?}", brief(&trial));
    }
    trial
}

#[test]
fn of_many_losses_the_last_ones_are_kept() {
    on_rig(|| {
        for_both_testers(|tester| {
            let load = Load { merge: Duration::ZERO, ..Load::steady(100e3, MS * 200) };
            let trial = faulty(tester, "drop=1/10", &load);
            let stream = &trial.streams[0];
            assert_eq!((stream.lost, stream.loss_event_count), (2000, 2000), "{:#?}", brief(&trial));
            assert_eq!(stream.loss_events.len(), 1024);
            for (event, i) in stream.loss_events.iter().zip(2000 - 1024 + 1..) {
                assert!(left(&trial, event.first_sent_ns, (i * 10 - 1) * 10_000), "{i}: {event:?}");
            }
        });
    });
}

#[test]
fn a_step_changes_the_rate_once_and_tells_when() {
    on_rig(|| {
        for_both_testers(|tester| {
            // 50 us between frames, and 200 us from 100 ms on.
            let shape = Shape::Step { at: MS * 100, fps: 5e3 };
            let load = Load { shape, ..Load::steady(20e3, MS * 200) };
            let due_ns = |n: u64| if n < 2000 { n * 50_000 } else { 100_000_000 + (n - 2000) * 200_000 };
            let trial = check_dates(tester, load, 2500, 101, due_ns);
            let changed_ns = trial.rate_changed_ns.expect("it did");
            assert!(left(&trial, changed_ns, 100_000_000), "{changed_ns}");
            assert_eq!(trial.load[0].0, "rate changes", "{:?}", trial.load);
        });
    });
}

#[test]
fn bursts_have_pauses_between_them() {
    on_rig(|| {
        for_both_testers(|tester| {
            for (frames, within_fps, gap_ns) in [(16, 100e3, 10_000), (64, 200e3, 5000)] {
                let shape = Shape::Bursts { frames, within_fps: Some(within_fps) };
                let load = Load { shape, ..Load::steady(16e3, MS * 200) };
                let n = u64::from(frames);
                // A mean of 62.5 us.
                let due_ns = |i: u64| (i / n) * n * 62_500 + (i % n) * gap_ns;
                let trial = check_dates(tester, load, 3200, 101, due_ns);
                assert_eq!(trial.rate_changed_ns, None);
            }
        });
    });
}

#[test]
fn bursts_at_full_speed_leave_at_once() {
    on_rig(|| {
        for_both_testers(|tester| {
            let shape = Shape::Bursts { frames: 16, within_fps: None };
            let load = Load { shape, merge: Duration::ZERO, ..Load::steady(16e3, MS * 200) };
            let trial = faulty(tester, "drop=1/101", &load);
            assert_eq!(
                (trial.counts().offered, trial.counts().sent, trial.counts().lost),
                (3200, 3200, 31),
                "{:#?}",
                brief(&trial)
            );
            let events = trial.streams[0].loss_events.iter().zip(1..);
            let mut after_ns: Vec<u64> =
                events.map(|(e, i)| e.first_sent_ns - (i * 101 - 1) / 16 * 1_000_000).collect();
            after_ns.sort_unstable();
            // Spread over the millisecond that each burst has, half of them would be later than its middle.
            assert!(after_ns[15] < 200_000 + trial.noise.late_max_ns, "{after_ns:?}");
        });
    });
}

#[test]
fn in_overload_frames_wait_for_a_group() {
    on_rig(|| {
        // A group is longer than the generator waits at a time. The device passes on as many frames on a slow machine, too.
        const GAP_NS: u64 = 10_000;
        let load = Load::overload(100e3, MS * 200);
        let trial = check_dates(TesterKind::Xdp, load, 20_000, 101, |i| i * GAP_NS);
        let events = trial.streams[0].loss_events.iter().zip(1..);
        let mut late_ns: Vec<u64> = events.map(|(e, i)| e.first_sent_ns - (i * 101 - 1) * GAP_NS).collect();
        late_ns.sort_unstable();
        let median_ns = late_ns[late_ns.len() / 2];
        assert!(median_ns > 6 * GAP_NS, "half of 16 in the middle: {median_ns} ns late");
    });
}

#[test]
fn both_directions_step_and_burst() {
    on_rig(|| {
        let both = PointSpec { direction: Direction::Both, ..point(DutKind::WIRE) };
        for_both_testers(|tester| {
            let mut bench = Bench::new(&both, tester, "");
            let steady = Load::steady(20e3, MS * 200);
            let step = Shape::Step { at: MS * 100, fps: 10e3 };
            let trial = bench.calm_load(&Load { shape: step, ..steady }, 3000);
            assert!(
                left(&trial, trial.rate_changed_ns.expect("it did"), 100_000_000),
                "{:#?}",
                brief(&trial)
            );
            let bursts = Shape::Bursts { frames: 50, within_fps: None };
            let trial = bench.calm_load(&Load { shape: bursts, ..steady }, 4000);
            assert_eq!((trial.streams[0].sent, trial.streams[1].sent), (2000, 2000));
        });
    });
}

#[test]
fn a_burst_has_exactly_its_frames_and_a_deep_buffer_is_waited_for() {
    on_rig(|| {
        for_both_testers(|tester| {
            // No more than the ring of a veth holds.
            let burst = Load { max_frames: Some(200), ..Load::full_speed(MS * 5000) };
            let mut bench = Bench::new(&point(DutKind::WIRE), tester, "");
            let trial = bench.calm_load(&burst, 200);
            assert!(
                trial.counts().offered_fps > 1000.0,
                "the rate of the burst, not of 5 s: {}",
                trial.counts().offered_fps
            );
            // A device that keeps frames for 300 ms.
            let offer = |drain| {
                let mut bench = Bench::new(&point(DutKind::FAULTY), tester, "delay=300ms");
                bench.offer(&Load { drain, ..burst }).expect("a trial")
            };
            let trial = offer(None);
            assert_eq!((trial.counts().sent, trial.counts().received), (200, 0), "{:#?}", brief(&trial));
            let trial = offer(Some(MS * 60_000));
            assert_eq!(
                (trial.counts().sent, trial.counts().received, trial.counts().lost),
                (200, 200, 0),
                "{:#?}",
                brief(&trial)
            );
        });
    });
}

#[test]
fn frames_are_timed_from_a_time_on() {
    on_rig(|| {
        for_both_testers(|tester| {
            let mut bench = Bench::new(&point(DutKind::WIRE), tester, "");
            let load = Load { timed_from: MS * 100, ..Load::steady(10e3, MS * 200) };
            let trial = bench.calm_load(&load, 2000);
            // Those of the first half that were late are timed as well.
            let late = trial.noise.late_max_ns / 100_000 + 1;
            let timed = trial.streams[0].latency.count;
            assert!((1000..=1000 + late).contains(&timed), "{timed}, {late} late");
            assert_eq!(bench.calm(2000, 200).streams[0].latency.count, 2000);
        });
    });
}

#[test]
fn delay_variation_is_that_of_neighbours() {
    on_rig(|| {
        for_both_testers(|tester| {
            let load = Load { ipdv: true, ..Load::steady(10e3, MS * 200) };
            for (faults, pairs) in [("", 1999), ("drop=1/10", 1600)] {
                let trial = faulty(tester, faults, &load);
                let stream = &trial.streams[0];
                let ipdv = stream.ipdv.as_ref().expect("it was asked for");
                assert_eq!(ipdv.count, pairs, "{faults}: {ipdv:?}");
                let most = (stream.latency.max_ns - stream.latency.min_ns) as i64;
                let ordered = [-most, ipdv.min_ns, ipdv.p50_ns, ipdv.max_ns, most].is_sorted();
                assert!(ordered, "{faults}: {ipdv:?} {most}");
                // The device takes frames from its ring some at a time: the later ones of them were on their way for less.
                assert!(ipdv.min_ns < 0, "{faults}: {ipdv:?}");
            }
            let trial = faulty(tester, "", &Load { ipdv: false, ..load });
            assert_eq!(trial.streams[0].ipdv, None);
        });
    });
}

#[test]
fn broadcasts_go_along_and_count_for_nothing() {
    on_rig(|| {
        for_both_testers(|tester| {
            let load = Load { broadcast_every: NonZeroU32::new(100), ..Load::steady(10e3, MS * 200) };
            for (dut, ip, received) in [
                (DutKind::WIRE, IpVersion::V4, 20),
                (DutKind::KERNEL_FORWARD, IpVersion::V4, 0),
                (DutKind::KERNEL_FORWARD, IpVersion::V6, 0),
                (DutKind::KERNEL_STATEFUL, IpVersion::V4, 0),
                (DutKind::KERNEL_STATEFUL, IpVersion::V6, 0),
                (DutKind::KERNEL_NAT, IpVersion::V4, 0),
                (DutKind::KERNEL_BRIDGE, IpVersion::V4, 20),
                (DutKind::FAULTY, IpVersion::V4, 20),
            ] {
                println!("{dut:?} {ip}");
                let mut bench = Bench::new(&PointSpec { ip, ..point(dut) }, tester, "");
                let lost_none = |trial: &Trial| {
                    assert_eq!(trial.counts().unexplained, 0, "{:#?}", brief(trial));
                    assert_ne!(trial.verdict, Verdict::Invalid, "{:#?}", trial.reasons);
                    trial.verdict == Verdict::Valid && trial.drop_counters.is_empty()
                };
                let mut trials = (0..20).map(|_| bench.offer(&load).expect("a trial"));
                let Some(trial) = trials.find(|trial| lost_none(trial)) else {
                    not_tested(format!("{dut:?} {ip}: none of 20 trials was left in peace"))
                };
                assert_eq!(
                    (trial.counts().sent, trial.counts().received),
                    (2000, 2000),
                    "{dut:?}: {:#?}",
                    brief(&trial)
                );
                let broadcasts = trial.broadcasts.expect("they were asked for");
                assert_eq!(
                    broadcasts,
                    Broadcasts { sent: 20, received, discarded: 20 - received },
                    "{dut:?}: {:#?}",
                    brief(&trial)
                );
                assert_eq!(bench.calm(1000, 100).broadcasts, None, "{dut:?}");
            }
        });
    });
}
