//! Losses are given by when they happened and how long they lasted.

use weir_load::TesterKind;
use weir_record::record::{LossEvent, Stream, Trial, Verdict};
use weir_testbed::dut::DutKind;

use crate::bench::{Bench, brief, for_both_testers, left, on_rig, point, shown, undisturbed};

/// A frame that the DUT's sockets take is up to two ticks of a receive ring (2 ms each, at 1000 Hz) late.
const RING_NS: u64 = 5_000_000;

/// The first stream of a trial with `faults` in which nothing else went wrong. Each attempt has a new device, since
/// faults count frames from its start.
fn faulty(groups: u32, tester: TesterKind, faults: &str, frames: u64, ms: u64) -> (Trial, Stream) {
    undisturbed(|| {
        let point = weir_lab::frames::PointSpec { groups, ..point(DutKind::FAULTY) };
        let trial = Bench::new(&point, tester, faults).trial(frames, ms).expect("a trial");
        let others = trial.drop_counters.iter().any(|l| l.name != "dropped by the faulty device");
        if trial.verdict == Verdict::Valid && !others {
            let stream = trial.streams[0].clone();
            return Ok((trial, stream));
        }
        Err(shown(&trial))
    })
}

#[test]
fn a_stall_is_one_period_with_its_date() {
    on_rig(|| {
        for_both_testers(|tester| {
            // 50 kpps: a frame each 20 us, of which number 5000 is due after 99.98 ms.
            let (trial, stream) = faulty(1, tester, "stall=20ms@5000", 25_000, 500);
            let [event] = stream.loss_events[..] else { panic!("{:#?}", brief(&trial)) };
            assert_eq!((stream.loss_event_count, event.lost), (1, stream.lost), "{:#?}", brief(&trial));
            // The first frame that the device refuses is exactly that one; how many follow is up to its clock.
            assert!(left(&trial, event.first_sent_ns, 99_980_000), "{event:?}");
            assert!(left(&trial, event.last_sent_ns, 99_980_000 + (event.lost - 1) * 20_000), "{event:?}");
            let stall = 20_000_000;
            assert!(event.outage_ns + RING_NS > stall, "{event:?}");
            assert!(
                event.outage_ns.abs_diff(event.lost * 20_000) < RING_NS + trial.noise.late_max_ns,
                "{event:?}"
            );
        });
    });
}

#[test]
fn single_drops_are_single_periods() {
    on_rig(|| {
        for_both_testers(|tester| {
            // 100 kpps: one of 1000 is one each 10 ms.
            let (trial, stream) = faulty(1, tester, "drop=1/1000", 20_000, 200);
            assert_eq!((stream.lost, stream.loss_event_count), (20, 20), "{:#?}", brief(&trial));
            for (i, event) in stream.loss_events.iter().enumerate() {
                let LossEvent { first_sent_ns, last_sent_ns, lost, .. } = *event;
                assert_eq!((first_sent_ns, lost), (last_sent_ns, 1), "{i}: {event:?}");
                assert!(left(&trial, first_sent_ns, (i as u64 * 1000 + 999) * 10_000), "{i}: {event:?}");
            }
        });
    });
}

#[test]
fn drops_that_are_close_are_one_period() {
    on_rig(|| {
        for_both_testers(|tester| {
            // 100 kpps: one of 10 is one each 0.1 ms, and a millisecond without a loss ends a period: a tester that was
            // late by nearly that much has made two of it.
            let (trial, stream) = undisturbed(|| {
                let (trial, stream) = faulty(1, tester, "drop=1/10", 10_020, 100);
                if trial.noise.late_max_ns < 800_000 { Ok((trial, stream)) } else { Err(shown(&trial)) }
            });
            let [event] = stream.loss_events[..] else { panic!("{:#?}", brief(&trial)) };
            assert_eq!((stream.loss_event_count, stream.lost, event.lost), (1, 1002, 1002), "{event:?}");
            let due_ns = |n: u64| (n as f64 * 100e6 / 10_020.0) as u64;
            assert!(left(&trial, event.first_sent_ns, due_ns(9)), "{event:?}");
            assert!(left(&trial, event.last_sent_ns, due_ns(10_019)), "{event:?}");
        });
    });
}

#[test]
fn groups_have_dates_of_their_own() {
    on_rig(|| {
        for_both_testers(|tester| {
            // Ten flows in three groups: frame n of the stream is flow n % 10.
            let (trial, _) = faulty(3, tester, "drop=1/1007", 20_000, 200);
            let mut dates: Vec<u64> = Vec::new();
            for stream in &trial.streams {
                assert_eq!(stream.loss_event_count, stream.lost, "{:#?}", brief(&trial));
                dates.extend(stream.loss_events.iter().map(|event| event.first_sent_ns));
            }
            dates.sort_unstable();
            assert_eq!(dates.len(), 19, "{:#?}", brief(&trial));
            for (date, n) in dates.iter().zip(1..) {
                assert!(left(&trial, *date, (n * 1007 - 1) * 10_000), "{n}: {:#?}", brief(&trial));
            }
        });
    });
}

#[test]
fn what_comes_late_is_not_lost() {
    on_rig(|| {
        for_both_testers(|tester| {
            let (trial, stream) = faulty(1, tester, "reorder=3/103", 20_000, 200);
            assert_eq!((stream.lost, stream.reordered), (0, 194), "{:#?}", brief(&trial));
            assert_eq!((stream.loss_event_count, stream.loss_events), (0, Vec::new()));
            // Nor does it move the date of what is lost.
            let (trial, stream) = faulty(1, tester, "reorder=3/103 drop=1/5003", 20_000, 200);
            assert_eq!((stream.lost, stream.loss_event_count), (3, 3), "{:#?}", brief(&trial));
            for (i, event) in stream.loss_events.iter().enumerate() {
                assert_eq!(event.first_sent_ns, event.last_sent_ns, "{event:?}");
                assert!(
                    left(&trial, event.first_sent_ns, (i as u64 * 5003 + 5002) * 10_000),
                    "{i}: {event:?}"
                );
            }
        });
    });
}

#[test]
fn losses_at_both_ends_of_a_trial_are_dated() {
    on_rig(|| {
        for_both_testers(|tester| {
            // Everything is lost from the first frame on, then from the 1001st on, 10 us apart.
            let cases =
                [("stall=10s@1", 0, 5000, 49_990_000), ("stall=10s@1001", 10_000_000, 4000, 40_000_000)];
            for (faults, first_sent_ns, lost, outage_ns) in cases {
                let (trial, stream) = faulty(1, tester, faults, 5000, 50);
                let [event] = stream.loss_events[..] else { panic!("{:#?}", brief(&trial)) };
                assert_eq!(event.lost, lost, "{faults}");
                assert!(left(&trial, event.first_sent_ns, first_sent_ns), "{faults}: {event:?}");
                assert!(left(&trial, event.last_sent_ns, 49_990_000), "{faults}: {event:?}");
                let error_ns = event.outage_ns.abs_diff(outage_ns);
                assert!(error_ns <= trial.noise.late_max_ns, "{faults}: {event:?}");
            }
        });
    });
}
