//! Every target for a second under inputs made of its seeds: `FUZZ_S=600 cargo test --release -p weir-fuzz` goes on for ten
//! minutes each. What fails is made short and written to a file of `target/tmp`; once it is mended it is kept in `corpus`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use weir_fuzz::{Dice, TARGETS, Target};
use weir_testkit::number;

/// Fewest inputs of a target, however busy the machine is.
const FEWEST: usize = 200;

/// How long a target runs, s.
fn seconds() -> u64 {
    number("FUZZ_S", 1)
}

fn fails(target: &Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err()
}

/// An input that fails as well, of which no piece can be left out.
fn shortened(target: &Target, input: &[u8]) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(20);
    let mut short = input.to_vec();
    let mut piece = short.len() / 2;
    while piece > 0 && Instant::now() < end {
        let mut at = 0;
        while at < short.len() && Instant::now() < end {
            let mut less = short.clone();
            less.drain(at..(at + piece).min(short.len()));
            if fails(target, &less) { short = less } else { at += piece }
        }
        piece /= 2;
    }
    short
}

fn fuzz(name: &str) {
    let target = Target::of(name).expect("a target has this name");
    for (path, input) in target.corpus() {
        assert!(!fails(target, &input), "{}, which was mended", path.display());
    }
    let seeds = (target.seeds)();
    for seed in &seeds {
        assert!(!fails(target, seed), "a seed of {name}: {}", seed.escape_ascii());
    }
    let seed = number("FUZZ_SEED", 1);
    let (mut dice, mut inputs) = (Dice::new(seed), 0);
    // It takes what other tests leave: as many inputs as there is time for, and never theirs.
    let nice = rustix::process::nice(19);
    assert!(nice.is_ok(), "{nice:?}");
    let end = Instant::now() + Duration::from_secs(seconds());
    let mut input = Vec::new();
    while Instant::now() < end || inputs < FEWEST {
        // A chain of changes, each of the last one's result, begins anew now and then.
        if dice.one_in(6) || input.is_empty() {
            input = dice.pick(&seeds).cloned().unwrap_or_default();
        }
        input = (target.mutate)(&mut dice, &input, &seeds);
        inputs += 1;
        if fails(target, &input) {
            let file = format!("{}/fuzz-{name}", env!("CARGO_TARGET_TMPDIR"));
            std::fs::write(&file, &input).expect("the target folder can be written to");
            let short = shortened(target, &input);
            std::fs::write(&file, &short).expect("the target folder can be written to");
            panic!("input {inputs} of seed {seed}, made short, is in {file}: {}", short.escape_ascii());
        }
    }
    println!("{name}: {inputs} inputs of {} seeds", seeds.len());
}

/// A test for each target.
macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        #[test]
        fn each_target_has_a_test() {
            let tests = [$(stringify!($name)),*];
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, tests);
        }
    };
}

targets!(
    access,
    announced,
    apply,
    apps,
    blocks,
    bng,
    bng_log,
    bng_text,
    bottleneck,
    control,
    cpe,
    detect,
    dhcp4,
    dns,
    flows,
    frame,
    hosts,
    journal,
    kept,
    mail,
    node,
    outcomes,
    pcapng,
    plan,
    plane,
    ppp,
    pppoe,
    proc,
    punt,
    radius,
    radius_plans,
    record,
    remote,
    rules,
    scenario,
    sink,
    unit
);
