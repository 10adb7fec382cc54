use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use weir_load::TesterKind;

use super::*;
use crate::plan;
use crate::record::RunState;
use crate::run_data::RunData;

/// A folder that is gone when the test is.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        let path = std::env::temp_dir().join(format!("weir-capture-test-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A climb over some rungs at low loads.
fn short_run() -> RunData {
    let dir = TempDir::new();
    let sets = [
        "capture.rungs=[recv,ring-fanout,xdp,count]",
        "capture.threads=all",
        "capture.frame_bytes=mix:64,300",
        "capture.flows=100",
        "capture.trial_s=0.1",
        "capture.buffer_s=0.05",
        "capture.buffer_fps=20k",
        "capture.min_fps=10k",
        "capture.max_fps=20k",
        "capture.resolution=50%",
        "limits.retries=1",
    ];
    let plan = plan::load("capture", &sets.map(str::to_string)).unwrap();
    let store = Store::open(&dir.0.join("store.sqlite")).unwrap();
    let options = Options {
        seed: 1,
        tester: TesterKind::Xdp,
        tester_limits: Vec::new(),
        stop: &AtomicBool::new(false),
        observe: &|_| (),
    };
    let id = super::super::run(&plan, &store, &options).unwrap();
    store.run_data(id).unwrap()
}

#[test]
fn every_rung_is_measured_and_its_books_close() {
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: {} needs root (network namespaces)", module_path!());
    }
    let data = short_run();
    assert_eq!((data.run.state, data.points.len()), (RunState::Complete, 4));
    for point in &data.points {
        let rung = point.setting("rung").unwrap();
        for trial in point.measured() {
            assert_eq!(trial.unexplained, 0, "{rung}: {:?}", trial.ledger);
            let capture = trial.capture.as_ref().expect("each trial captures");
            assert!(capture.time.generator_ns > 0 && trial.received > 0, "{rung}: {trial:?}");
        }
        let full = point.measured().find(|trial| trial.purpose == Purpose::Ceiling).unwrap();
        let goals: Vec<_> = point.goals().iter().map(|goal| goal.goal.as_str()).collect();
        assert_eq!(goals, ["without loss", "saturated"], "{rung}");
        assert_eq!(point.goals()[1].fps_median, Some(full.received as f64 / full.duration_s));
        // A load that was accepted has lost nothing in three trials.
        let Some(fps) = point.headline_fps() else { continue };
        let at = |trial: &&Trial| trial.purpose == Purpose::Search && trial.offered_fps == fps;
        let good = point.measured().filter(at).filter(|trial| trial.lost == 0).count();
        assert!(good >= Ladder::TRIALS as usize, "{rung} at {fps}");
    }
}

#[test]
fn a_rung_keeps_up_if_all_that_is_lost_is_lost_before_it() {
    let trial = crate::report::fixture::quick().points[1].trials[1].clone();
    for (ring, other, expected) in [(0, 0, true), (9, 0, true), (11, 0, false), (9, 1, false)] {
        let line = |name: &str, frames| crate::record::LedgerLine {
            name: name.into(),
            owner: crate::record::Owner::Dut,
            frames,
            source: "s".into(),
        };
        let ledger = vec![line(RING_FULL, ring), line("ring full", other)];
        let trial =
            Trial { sent: 10_000, lost: ring + other, ledger, verdict: Verdict::Valid, ..trial.clone() };
        assert_eq!(keeps_up(&trial), expected, "{ring} {other}");
        assert!(!keeps_up(&Trial { verdict: Verdict::Invalid, ..trial }), "{ring} {other}");
    }
}
