use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::plan;
use crate::record::RunState;
use crate::run_data::RunData;

/// A folder that is gone when the test is.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        let path = std::env::temp_dir().join(format!("weir-peers-test-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// One short round with whatever is installed.
fn short_run(sets: &[&str]) -> (RunData, Vec<String>) {
    let dir = TempDir::new();
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    let plan = plan::load("peers-generator", &sets).unwrap();
    let store = Store::open(&dir.0.join("store.sqlite")).unwrap();
    let notes = Mutex::new(Vec::new());
    let observe = |event: Event| {
        if let Event::Note(note) = event {
            notes.lock().unwrap().push(note.to_string());
        }
    };
    let options = Options {
        seed: 7,
        tester: TesterKind::Xdp,
        tester_limits: Vec::new(),
        stop: &AtomicBool::new(false),
        observe: &observe,
    };
    let id = crate::run::run(&plan, &store, &options).unwrap();
    (store.run_data(id).unwrap(), notes.into_inner().unwrap())
}

#[test]
fn a_round_with_whatever_is_installed() {
    if !is_root() {
        println!("skipped: generators are compared as root only (network namespaces, eBPF)");
        return;
    }
    let (data, notes) = short_run(&["peers.rounds=1", "peers.trial_s=0.1", "peers.flows=[1,1000]"]);
    assert_eq!(data.run.state, RunState::Complete);
    notes.iter().filter(|n| n.contains("left out")).for_each(|note| println!("skipped: {note}"));

    let generators: Vec<_> =
        data.points.iter().filter(|p| p.measures() == Some(Measures::Generator)).collect();
    assert_eq!(generators.len(), 2 + 4 + 2, "ours with each number of flows, peers with one");
    let absent = generators.iter().filter(|p| p.goals().is_empty());
    for point in absent {
        assert!(point.trials.is_empty() && point.point.notes[0].contains("left out"), "{:?}", point.point);
    }
    for point in generators.iter().filter(|p| !p.goals().is_empty()) {
        let (name, trial) = (&point.point.dut, &point.trials[0]);
        assert!(point.headline_fps().unwrap() > 10_000.0, "{name}: {trial:?}");
        assert_eq!(trial.unexplained, 0, "{name}");
    }
    // A machine that is busy elsewhere may let the ring of 256 frames run full, but then the ring says so.
    let weir = generators[0];
    let trial = &weir.trials[0];
    let dropped: u64 = trial.ledger.iter().map(|line| line.frames).sum();
    assert_eq!(trial.offered, trial.received + dropped, "all that the program redirected is accounted for");
    let others =
        generators.iter().filter(|p| !p.goals().is_empty() && !p.point.dut.starts_with("weir")).count();
    assert_eq!(weir.point.result.as_ref().unwrap().comparisons.len(), others);

    let paces: Vec<_> = data.points.iter().filter(|p| p.measures() == Some(Measures::Pacing)).collect();
    assert_eq!(paces.len(), Peers::PACES_FPS.len());
    for point in paces {
        let trial = point.measured().next().unwrap();
        let departures = trial.noise.departures.as_ref().unwrap();
        assert_eq!(departures.count, trial.sent);
        assert_eq!(departures.buckets.iter().map(|(_, n)| n).sum::<u64>(), trial.sent);
    }
}

#[test]
fn our_generators_are_compared_with_peers_and_with_fewer_flows() {
    let (xdp, packet) = (Generator::Weir(TesterKind::Xdp), Generator::Weir(TesterKind::Packet));
    let peer = Generator::Peer(Peer::Trafgen);
    for (own, other, expected) in [
        ((xdp, 1), (peer, 1), true),
        ((xdp, 1000), (peer, 1), true),
        ((xdp, 1000), (xdp, 1), true),
        ((xdp, 1), (xdp, 1000), false),
        ((xdp, 1), (packet, 1), false),
        ((peer, 1), (xdp, 1), false),
    ] {
        assert_eq!(compares(own, other), expected, "{own:?} {other:?}");
    }
}
