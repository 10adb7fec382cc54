//! What is planted is named, and nothing else: a few of each. `weir check` makes more.

use weir_lab::check::{Answer, Checker, DELAYS, PLANTS, Proof};
use weir_load::TesterKind;

use crate::bench::need_rig;

/// Longer trials are for `weir check`.
const FRAMES: u64 = 100_000;

#[test]
fn planted_faults_are_named_and_nothing_else() {
    let _turn = need_rig!();
    for tester in [TesterKind::Xdp, TesterKind::Packet] {
        let checker = Checker::new(tester, 1).expect("root builds rigs");
        for plant in PLANTS.iter().filter(|plant| plant.frames <= FRAMES) {
            let (answer, disturbed) = checker.plant(plant).expect("a trial");
            println!("{tester:?} {}: {disturbed} disturbed", plant.name);
            match answer {
                Answer::Named => {}
                Answer::Impossible(why) => println!("skipped: {} needs more: {why}", plant.name),
                Answer::Wrong(trial) | Answer::Disturbed(trial) => {
                    panic!("{tester:?} {}: {:#?}", plant.name, crate::bench::brief(&trial))
                }
            }
        }
    }
}

/// No frame can be faster than a device that holds it lets it; and of several trials one is as slow as the device says.
#[test]
fn a_known_delay_is_measured() {
    const PAIRS: usize = 10;
    let _turn = need_rig!();
    for tester in [TesterKind::Xdp, TesterKind::Packet] {
        let mut check =
            Checker::new(tester, 1).and_then(|checker| checker.delays()).expect("root builds rigs");
        for added in DELAYS {
            let mut pairs = Vec::new();
            let proof = (0..PAIRS).map(|_| {
                pairs.push(check.pair(added).expect("two trials"));
                Proof::of(&pairs).expect("a pair")
            });
            let proof =
                proof.inspect(|proof| assert!(proof.possible, "{tester:?} {proof:?}")).find(Proof::holds);
            println!("{tester:?} {added:?}: {proof:?}");
            assert!(proof.is_some(), "{tester:?} {added:?}: {pairs:?}");
        }
    }
}
