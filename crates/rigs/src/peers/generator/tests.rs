use super::program::PEERS;
use super::run::{compares, goal};
use super::sender::Generator;
use super::*;
use crate::testing::run;
use weir_load::TesterKind;
use weir_record::record::RunState;
use weir_record::run_data::Measures;
use weir_testkit::need_root;

#[test]
fn a_round_with_whatever_is_installed() {
    need_root!();
    let sets = ["peers.rounds=1", "peers.trial_s=0.1", "peers.flows=[1,1000]"];
    let (data, notes) = run("peers-generator", &sets);
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
        assert!(point.headline_fps().unwrap() > 0.0, "{name}: {trial:?}");
        assert_eq!(trial.counts().unexplained, 0, "{name}");
    }
    // A machine that is busy elsewhere may let the ring of 256 frames run full, but then the ring says so.
    let weir = generators[0];
    let trial = &weir.trials[0];
    let dropped: u64 = trial.drop_counters.iter().map(|line| line.frames).sum();
    assert_eq!(
        trial.counts().offered,
        trial.counts().received + dropped,
        "all that the program redirected is accounted for"
    );
    let others =
        generators.iter().filter(|p| !p.goals().is_empty() && !p.point.dut.starts_with("weir")).count();
    assert_eq!(weir.point.result.as_ref().unwrap().comparisons.len(), others);

    let paces: Vec<_> = data.points.iter().filter(|p| p.measures() == Some(Measures::Pacing)).collect();
    assert_eq!(paces.len(), GeneratorPeers::PACES_FPS.len());
    for point in paces {
        let trial = point.measured().next().unwrap();
        let departures = trial.noise.departures.as_ref().unwrap();
        assert_eq!(departures.count, trial.counts().sent);
        assert_eq!(departures.buckets.iter().map(|(_, n)| n).sum::<u64>(), trial.counts().sent);
    }
}

#[test]
fn our_generators_are_compared_with_peers_and_with_fewer_flows() {
    let (xdp, packet) = (Generator::Weir(TesterKind::Xdp), Generator::Weir(TesterKind::Packet));
    let peer = Generator::Peer(PEERS[0]);
    for (own, other, expected) in [
        ((xdp, 64, 1), (peer, 64, 1), true),
        ((xdp, 64, 1000), (peer, 64, 1), true),
        ((xdp, 64, 1000), (xdp, 64, 1), true),
        ((xdp, 64, 1), (xdp, 64, 1000), false),
        ((xdp, 64, 1), (packet, 64, 1), false),
        ((xdp, 64, 1), (peer, 1518, 1), false),
        ((peer, 64, 1), (xdp, 64, 1), false),
    ] {
        assert_eq!(compares(own, other), expected, "{own:?} {other:?}");
    }
}

#[test]
fn a_round_without_a_rate_is_kept_and_named() {
    let goal = goal("rate", &[Some(3.0), None, Some(1.0)], 2.0);
    assert_eq!((goal.fps_median, goal.fps_interval), (Some(2.0), None));
    assert_eq!(goal.repetitions[1].irregular.as_deref(), Some("no rate"));
}
