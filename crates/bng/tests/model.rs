//! Random inputs: see `scenario/world.rs` for what must be true meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weir_bng::scenario::{self, World};
use weir_bng::{Bng, Command, Config, Input, Line, MOST_TRACES_OF_LINE, Now, Output, Punt};
use weir_testkit::{Dice, number};

fn world<'a>(seed: u64) -> World<'a> {
    let mut dice = Dice::new(seed);
    World::new(move |sides| dice.roll(sides))
}

#[test]
fn no_address_is_assigned_twice_whatever_happens() {
    let first = number("MODEL_SEED", 0);
    for seed in first..first + number("MODEL_SEEDS", 25) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut world = world(seed);
            (0..600).for_each(|_| world.step());
            world.finish();
        }));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn every_prefix_of_the_records_is_a_state_without_a_double() {
    let mut world = world(1);
    (0..1500).for_each(|_| world.step());
    world.finish();
    world.check_prefixes();
}

/// A flood of made-up addresses on one line grows nothing without bound, and another line is served.
#[test]
fn a_flood_of_made_up_devices_takes_no_memory() {
    let text = "port access1 mac 02:00:00:00:00:fe, pool main 100.64.0.2-100.64.0.6 router 100.64.0.1/24";
    let (config, _) = Config::read("flood", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut bng = Bng::new(config, 7).expect("it contradicts nothing");
    let subscriber = "anna mac 02:00:00:00:00:01 plan down 1Mbit up 1Mbit".parse().expect("a subscriber");
    let now = Now { at: Duration::ZERO, wall_s: 1_790_000_000 };
    let mut out = Vec::new();
    bng.input(now, Input::Command { id: 1, command: Command::AddSubscriber(subscriber) }, &mut out);
    out.clear();
    let mut punt = |line: &str, message: &str, n| {
        let bytes = scenario::frame(message, n).expect("a message");
        let Line { port, tags } = line.parse().expect("a line");
        bng.input(now, Input::Punt(Punt { port, tags, bytes: &bytes }), &mut out);
    };
    (0..50_000).for_each(|n| punt("access1:7", "discover 02:00:00:01:00:00+", n));
    punt("access1", "discover 02:00:00:00:00:01", 0);
    assert!(matches!(*out, [Output::Send { .. }, Output::Wake(_)]), "{out:?}");
    let sizes = bng.sizes();
    assert_eq!((sizes.offers, sizes.sessions, sizes.deadlines), (1, 0, 1));
    assert_eq!(sizes.traces, 1 + MOST_TRACES_OF_LINE);
}
