//! Instants at which programs are killed: for one seed the same in each run, as far as the machine allows.
//!
//! `WEIR_KILLS=1000 cargo test -p weir --test weir TEST -- --nocapture` makes it a thousand, `WEIR_KILL_SEED` chooses others.

use std::process::Child;
use std::time::Duration;

use weir_testkit::number;

/// Kills that are left.
pub(crate) struct Kills {
    left: u64,
    seed: u64,
    state: u64,
}

impl Kills {
    /// So many, if the environment says nothing else.
    pub(crate) fn new(usual: u64) -> Kills {
        let seed = number("WEIR_KILL_SEED", 1);
        Kills { left: number("WEIR_KILLS", usual), seed, state: seed }
    }

    /// The next one, at some instant of this time, and what it is called where something is wrong.
    pub(crate) fn next(&mut self, longest: Duration) -> Option<(Duration, String)> {
        self.left = self.left.checked_sub(1)?;
        let delay = longest.mul_f64(next(&mut self.state) as f64 / u64::MAX as f64);
        Some((delay, format!("{} kills before the last of seed {}, after {delay:?}", self.left, self.seed)))
    }
}

/// SplitMix64: enough for instants.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Kills a program after this time, whatever it is at.
pub(crate) fn kill_after(child: &mut Child, delay: Duration) {
    // The instant is what is tested: nothing is awaited here.
    std::thread::sleep(delay);
    child.kill().expect("it is our child");
    child.wait().expect("it ran");
}
