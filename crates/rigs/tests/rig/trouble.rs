//! Faults outside of the device: the tester starves, frames vanish, interfaces vanish.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_linux::namespace::Namespace;
use weir_load::TesterKind;
use weir_load::counts::Load;
use weir_record::record::{Owner, Trial, Verdict};
use weir_testbed::dut::DutKind;
use weir_testbed::hog::Hog;

use crate::bench::{Bench, assert_accounting_close, brief, on_rig, point};

/// Runs a program in a namespace.
fn run_in(namespace: &Namespace, program: &str, arguments: &[&str]) {
    let output = namespace.run(|| Command::new(program).args(arguments).output()).expect(program);
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

#[test]
fn the_wire_loses_nothing_at_half_of_its_ceiling() {
    on_rig(|| {
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            let mut bench = Bench::new(&point(DutKind::WIRE), tester, "");
            let load = Load::full_speed(Duration::from_millis(100));
            let ceiling = bench.offer(&load).expect("a trial");
            let half = ceiling.counts().received / 2;
            println!("{tester:?}: {half} frames in 100 ms");
            for _ in 0..5 {
                let trial = bench.trial(half, 100).expect("a trial");
                assert_accounting_close(&trial);
                let late = trial.verdict != Verdict::Valid;
                assert!(late || trial.counts().lost == 0, "{:#?}", brief(&trial));
                assert_eq!(trial.dropped_by(Owner::Dut), 0, "there is no device: {:#?}", trial.drop_counters);
            }
            // Departures in time cost the tester more than departures as fast as it can.
            bench.calm(half / 2, 100);
        }
    });
}

#[test]
fn a_tester_that_cannot_send_that_much_is_tester_limited() {
    on_rig(|| {
        for dut in [DutKind::WIRE, DutKind::KERNEL_FORWARD] {
            let mut bench = Bench::new(&point(dut), TesterKind::Packet, "");
            // 20 million frames/s, far beyond any socket.
            let trial = bench.trial(400_000, 20).expect("a trial");
            assert_accounting_close(&trial);
            assert_eq!(trial.verdict, Verdict::TesterLimited, "{:#?}", brief(&trial));
            assert!(trial.reasons[0].contains("the tester"), "{:?}", trial.reasons);
        }
    });
}

#[test]
fn a_tester_without_cpu_time_is_not_believed_and_the_device_not_blamed() {
    on_rig(|| {
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            let mut bench = Bench::new(&point(DutKind::KERNEL_FORWARD), tester, "");
            if bench.rig.cpus().shared {
                return println!("skipped: a starved tester needs two CPUs, or the device starves with it");
            }
            bench.calm(2000, 200);
            let Some(hog) = Hog::on(bench.rig.cpus().tester[0]) else {
                return println!("skipped: a starved tester needs real-time threads");
            };
            // Others on a busy machine may stop the device, too: then the trial is tried again.
            let trial = (0..5).map(|_| bench.trial(2000, 200).expect("a trial")).find(|trial| {
                assert_accounting_close(trial);
                let reported = [Verdict::TesterLimited, Verdict::Noisy].contains(&trial.verdict);
                assert!(reported, "{tester:?}: {:#?}", brief(trial));
                trial.dropped_by(Owner::Dut) == 0
            });
            drop(hog);
            assert!(trial.is_some(), "{tester:?}: the device is blamed each time");
        }
    });
}

#[test]
fn loss_that_nobody_explains_makes_a_trial_invalid() {
    on_rig(|| {
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            let mut bench = Bench::new(&point(DutKind::KERNEL_FORWARD), tester, "");
            bench.calm(1000, 100);
            let rules = "table ip t { chain c { type filter hook forward priority 10; \
                     numgen inc mod 100 == 0 drop; }; }";
            let dut = bench.rig.bed().dut().expect("a router has a namespace").clone();
            run_in(&dut, "nft", &[rules]);
            let trial = bench.trial(1000, 100).expect("a trial");
            assert_eq!(trial.verdict, Verdict::Invalid, "{tester:?}: {:#?}", brief(&trial));
            assert!(
                trial.reasons[0].contains("the frame accounting does not balance"),
                "{:?}",
                trial.reasons
            );
            // What a full ring of a busy machine took did not come to the rule, or came from it.
            let full: u64 = trial.drop_counters.iter().map(|line| line.frames).sum();
            let expected = (trial.counts().sent - full).div_ceil(100)..=trial.counts().sent.div_ceil(100);
            assert!(
                expected.contains(&(trial.counts().unexplained as u64)),
                "{tester:?}: {expected:?}, {:#?}",
                trial.drop_counters
            );
        }
    });
}

/// What happens to an interface while frames pass, and what the trial says of it.
#[test]
fn an_interface_that_breaks_makes_the_trial_invalid_and_is_named() {
    on_rig(|| {
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            for (change, why) in [
                (&["link", "del", "d0"][..], "interface t0 vanished, interface d0 vanished"),
                (&["link", "del", "d1"], "interface t1 vanished, interface d1 vanished"),
                (&["link", "set", "d1", "down"], "interface t1 lost its carrier, interface d1 was set down"),
            ] {
                let mut bench = Bench::new(&point(DutKind::KERNEL_FORWARD), tester, "");
                let dut = bench.rig.bed().dut().expect("a router has a namespace").clone();
                let done = AtomicBool::new(false);
                // The first look at a running trial.
                let break_it = |_, _| {
                    if !done.swap(true, Ordering::Relaxed) {
                        run_in(&dut, "ip", change);
                    }
                };
                let load = Load::steady(1e4, Duration::from_millis(500));
                let place = format!("{tester:?} {change:?}");
                let trial = bench.watched(&load, &break_it).expect(&place);
                let reported = |trial: &Trial| {
                    assert_eq!(trial.verdict, Verdict::Invalid, "{place}: {:#?}", brief(trial));
                    assert!(trial.reasons[0].starts_with(why), "{place}: {:?}", trial.reasons);
                };
                reported(&trial);
                reported(&bench.trial(100, 10).expect("again no error"));
                bench.rig.repair().expect(&place);
                bench.calm(1000, 100);
            }
        }
    });
}
