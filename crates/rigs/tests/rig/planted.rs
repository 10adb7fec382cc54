//! Injected faults are found, and nothing else: a few of each. `weir check` injects more.

use std::time::{Duration, Instant};

use weir_lab::check::{Answer, Checker, DELAYS, PLANTS, Plant, Proof};
use weir_load::TesterKind;

use crate::bench::{not_tested, on_rig, shown};
use crate::crowd::is_loaded;

/// Longer trials are for `weir check`.
const FRAMES: u64 = 100_000;
/// What a busy machine passes, too, frames/s.
const FPS: f64 = 50e3;
/// How long the machine may disturb the plants of a test, all together. When that is spent, each still has one trial: what is
/// named wrongly still shows.
const PATIENCE: Duration = Duration::from_secs(15);

/// Faults that only one of the testers has to name: what names them is the same for both.
const OF_ONE: [&str; 7] = [
    "loss 1e-3",
    "loss 1e-4",
    "bursts of 40",
    "reordered by 1",
    "reordered by 50",
    "delay 0.5 ms",
    "stall 2 ms",
];

#[test]
fn planted_faults_are_named_and_nothing_else() {
    on_rig(|| {
        let (mut restless, mut patience) = (Vec::new(), PATIENCE);
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            let checker = Checker::new(tester, 1).expect("root builds rigs");
            let is_tried = |plant: &&Plant| {
                plant.frames <= FRAMES && (tester == TesterKind::Xdp || !OF_ONE.contains(&plant.name))
            };
            for plant in PLANTS.iter().filter(is_tried) {
                let plant = &plant.at_most(FPS);
                let begin = Instant::now();
                let (answer, disturbed) = checker.plant(plant, patience).expect("a trial");
                if disturbed > 0 {
                    patience = patience.saturating_sub(begin.elapsed());
                }
                println!("{tester:?} {}: {disturbed} disturbed", plant.name);
                match answer {
                    Answer::Named => {}
                    Answer::Impossible(why) => println!("skipped: {} needs more: {why}", plant.name),
                    Answer::Disturbed(trial) => {
                        restless.push(format!("{tester:?} {}: {}", plant.name, shown(&trial)))
                    }
                    Answer::Wrong(trial) => panic!("{tester:?} {}: {}", plant.name, shown(&trial)),
                }
            }
        }
        if !restless.is_empty() {
            not_tested(restless.join("\n"));
        }
    });
}

/// No frame can be faster than a device that holds it lets it; and of several trials one is as slow as the device says.
#[test]
fn a_known_delay_is_measured() {
    const PAIRS: usize = 10;
    on_rig(|| {
        let begin = Instant::now();
        for tester in [TesterKind::Xdp, TesterKind::Packet] {
            let mut check =
                Checker::new(tester, 1).and_then(|checker| checker.delays()).expect("root builds rigs");
            for added in DELAYS {
                let mut pairs = Vec::new();
                let proof = (0..PAIRS).map(|_| {
                    pairs.push(
                        check.pair(added, PATIENCE.saturating_sub(begin.elapsed())).expect("two trials"),
                    );
                    Proof::of(&pairs).expect("a pair")
                });
                let proof =
                    proof.inspect(|proof| assert!(proof.possible, "{tester:?} {proof:?}")).find(Proof::holds);
                println!("{tester:?} {added:?}: {proof:?}");
                if proof.is_none() && is_loaded() {
                    not_tested(format!("{tester:?} {added:?}: {pairs:?}"));
                }
                assert!(proof.is_some(), "{tester:?} {added:?}: {pairs:?}");
            }
        }
    });
}
