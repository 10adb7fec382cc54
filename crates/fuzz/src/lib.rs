//! Targets for fuzzers: each is a function of bytes that panics if something is wrong, with texts to begin from.
//!
//! ```text
//!            seeds, corpus/NAME > mutate, without coverage > target      ./test: tests/targets.rs, a few seconds each
//!   seeds > corpus of libFuzzer > mutate, by coverage      > target      fuzz/: hours
//! ```
//! An input that has failed once is kept in `corpus/NAME` when the mistake is mended: it is run each time.
//!
//! Files:
//! - `targets/`: the targets by subject; `grammar.rs`, `steps.rs`: turn bytes into texts and into steps; `mutate.rs`: changes
//!   inputs
//! - crafted packets are in `crates/testkit/src/craft.rs`; `fuzz/README.md` has all searches, and how to run them for hours

mod grammar;
mod mutate;
mod steps;
mod targets;

use std::path::PathBuf;

pub use targets::TARGETS;
pub use weir_testkit::Dice;

/// Makes an input of another one, with pieces of some.
pub type Mutate = fn(&mut Dice, &[u8], &[Vec<u8>]) -> Vec<u8>;

/// What is fuzzed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it does with an input.
    ///
    /// # Panics
    /// What must not be is.
    pub run: fn(&[u8]),
    /// Inputs to begin from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How another input is made of one.
    pub mutate: Mutate,
}

impl Target {
    /// The target of a name.
    pub fn of(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Inputs that have failed once, with their files.
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name);
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut corpus: Vec<_> =
            files.filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?))).collect();
        corpus.sort();
        corpus
    }
}
