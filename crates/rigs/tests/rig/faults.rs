//! A device that does wrong on purpose is reported exactly so, and as nothing else.

use weir_lab::frames::PointSpec;
use weir_load::TesterKind;
use weir_packet::flow::{Direction, IpVersion};
use weir_record::record::{Owner, Stream, Trial, Verdict};
use weir_testbed::dut::DutKind;

use crate::bench::{Bench, brief, on_rig, point, shown, undisturbed};

/// Frames of a trial. No fault below hits one of the last 49, so that what is held back gets out.
const FRAMES: u64 = 5050;

/// What a receiver should see.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    dropped: u64,
    corrupted: u64,
    duplicated: u64,
    reordered: u64,
}

fn seen(stream: &Stream, trial: &Trial) -> Seen {
    let named =
        |name: &str| trial.drop_counters.iter().filter(|l| l.name == name).map(|l| l.frames).sum::<u64>();
    let dropped = named("dropped by the faulty device");
    assert_eq!(
        named("corrupted"),
        trial.streams.iter().map(|s| s.corrupted).sum::<u64>(),
        "{:#?}",
        trial.drop_counters
    );
    let Stream { corrupted, duplicated, reordered, .. } = *stream;
    Seen { dropped, corrupted, duplicated, reordered }
}

/// The machine may lose frames too: then the drop counters say so. That it was slow does not matter, see [`Bench::trial`].
fn disturbed(trial: &Trial) -> bool {
    let ours = |name: &str| ["corrupted", "dropped by the faulty device"].contains(&name);
    let other = |l: &weir_record::record::DropCounter| !ours(&l.name) && l.name.contains("full");
    trial.counts().sent < trial.counts().offered || trial.drop_counters.iter().any(other)
}

/// A trial that was not disturbed. Each attempt has a new device, since faults count frames from its start.
fn faulty(point: &PointSpec, tester: TesterKind, faults: &str) -> Trial {
    undisturbed(|| {
        let trial = Bench::new(point, tester, faults).trial(FRAMES * streams(point), 100).expect("a trial");
        if disturbed(&trial) { Err(shown(&trial)) } else { Ok(trial) }
    })
}

/// Each frame is accounted for; the machine may have been slow, which is no reason to disbelieve the counts.
fn assert_accounts(trial: &Trial, place: &str) {
    assert_eq!(trial.counts().unexplained, 0, "{place}: {:?}", trial.reasons);
    assert_ne!(trial.verdict, Verdict::Invalid, "{place}: {:?}", trial.reasons);
    assert_eq!(trial.verdict == Verdict::Valid, trial.reasons.is_empty(), "{place}: {:?}", trial.reasons);
}

fn streams(point: &PointSpec) -> u64 {
    if point.direction == Direction::Both { 2 } else { 1 }
}

fn check(faults: &str, expected: Seen) {
    for tester in [TesterKind::Xdp, TesterKind::Packet] {
        let place = format!("{faults} {tester:?}");
        println!("{place}");
        let trial = faulty(&point(DutKind::FAULTY), tester, faults);
        let stream = &trial.streams[0];
        assert_eq!(seen(stream, &trial), expected, "{place}: {:#?}", brief(&trial));
        assert_eq!(stream.lost, expected.dropped + expected.corrupted, "{place}");
        assert_eq!(stream.sent, FRAMES, "{place}");
        let named: u64 = trial.drop_counters.iter().map(|l| l.frames).sum();
        assert_eq!(named, expected.dropped + expected.corrupted, "{place}: {:#?}", brief(&trial));
        assert!(
            trial.drop_counters.iter().all(|l| l.owner == Owner::Dut),
            "{place}: {:#?}",
            trial.drop_counters
        );
        assert_accounts(&trial, &place);
        if faults.contains("delay=2ms") {
            assert!(stream.latency.min_ns >= 2_000_000, "{place}: {:#?}", brief(&trial));
        }
    }
}

#[test]
fn a_device_without_faults_has_none() {
    on_rig(|| {
        check("", Seen::default());
    });
}

#[test]
fn drops_are_losses_of_the_device() {
    on_rig(|| {
        check("drop=1/1000", Seen { dropped: 5, ..Seen::default() });
    });
}

#[test]
fn duplicates_are_duplicates() {
    on_rig(|| {
        check("duplicate=1/500", Seen { duplicated: 10, ..Seen::default() });
    });
}

#[test]
fn late_frames_are_reordered() {
    on_rig(|| {
        check("reorder=3/100", Seen { reordered: 50, ..Seen::default() });
    });
}

#[test]
fn flipped_bits_are_corruption() {
    on_rig(|| {
        check("corrupt=1/250", Seen { corrupted: 20, ..Seen::default() });
    });
}

#[test]
fn a_delay_is_latency() {
    on_rig(|| {
        check("delay=2ms", Seen::default());
    });
}

/// No two of these numbers have a common multiple below [`FRAMES`]: each fault hits frames of its own.
#[test]
fn faults_together_are_distinguished() {
    on_rig(|| {
        check("drop=1/1000 duplicate=1/501", Seen { dropped: 5, duplicated: 10, ..Seen::default() });
        check(
            "drop=1/1000 duplicate=1/501 corrupt=1/251 reorder=3/103 delay=2ms",
            Seen { dropped: 5, duplicated: 10, corrupted: 20, reordered: 49 },
        );
    });
}

#[test]
fn both_directions_fail_on_their_own() {
    on_rig(|| {
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            for ip in [IpVersion::V4, IpVersion::V6] {
                let both = PointSpec { direction: Direction::Both, ip, ..point(DutKind::FAULTY) };
                let trial = faulty(&both, tester, "drop=1/1000 duplicate=1/501 corrupt=1/251 reorder=3/103");
                for stream in &trial.streams {
                    let each = Seen { dropped: 10, duplicated: 10, corrupted: 20, reordered: 49 };
                    assert_eq!(seen(stream, &trial), each, "{tester:?} {ip}: {:#?}", brief(&trial));
                    assert_eq!(stream.lost, 25, "{tester:?} {ip}");
                }
                assert_accounts(&trial, &format!("{tester:?} {ip}"));
            }
        }
    });
}

#[test]
fn a_frame_that_is_hit_twice_is_dropped_twice_as_often() {
    on_rig(|| {
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            let reflect = PointSpec { direction: Direction::Reflect, ..point(DutKind::FAULTY) };
            let trial = faulty(&reflect, tester, "drop=1/1000");
            // 5 of 5050 on the way there, and 5 of the 5045 that come back.
            let stream = &trial.streams[0];
            assert_eq!(seen(stream, &trial), Seen { dropped: 10, ..Seen::default() }, "{tester:?}");
            assert_eq!(stream.lost, 10, "{tester:?}");
            assert_accounts(&trial, &format!("{tester:?}"));
        }
    });
}
