//! Instants at which programs are killed: for one seed the same in each run, as far as the machine allows.
//!
//! `WEIR_KILLS=1000 cargo test -p weir --test weir TEST -- --nocapture` makes it a thousand, `WEIR_KILL_SEED` chooses others.

use std::process::Child;
use std::time::Duration;

use crate::{Dice, number};

/// Kills that are left.
pub struct Kills {
    left: u64,
    seed: u64,
    dice: Dice,
}

impl Kills {
    /// So many, if the environment says nothing else.
    pub fn new(usual: u64) -> Kills {
        let seed = number("WEIR_KILL_SEED", 1);
        Kills { left: number("WEIR_KILLS", usual), seed, dice: Dice::new(seed) }
    }

    /// The next one, at some instant of this time, and what it is called where something is wrong.
    pub fn next(&mut self, longest: Duration) -> Option<(Duration, String)> {
        self.left = self.left.checked_sub(1)?;
        let delay = longest.mul_f64(self.dice.roll(1_000_000_usize) as f64 / 1e6);
        Some((delay, format!("{} kills before the last of seed {}, after {delay:?}", self.left, self.seed)))
    }
}

/// Kills a program after this time, whatever it is at.
pub fn kill_after(child: &mut Child, delay: Duration) {
    // The instant is what is tested: nothing is awaited here.
    std::thread::sleep(delay);
    child.kill().expect("it is our child");
    child.wait().expect("it ran");
}
