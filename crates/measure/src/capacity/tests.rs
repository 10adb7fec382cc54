use std::time::Duration;

use super::sim::{Device, Machine};
use super::*;
use crate::placement::Placement;

const MS: u64 = 1_000_000;

fn steady(fps: f64, from_ms: u64, to_ms: u64) -> Vec<Mark> {
    (from_ms..=to_ms).map(|ms| Mark { at_ns: ms * MS, frames: (fps * ms as f64 / 1e3) as u64 }).collect()
}

/// Windows of 10 ms after 5 ms, as begin, length, frames, and whether all ran.
fn check(marks: &[Mark], end_ms: u64, stops: &[(u64, u64)], expected: &[(u64, u64, u64, bool)]) {
    let how =
        Windows { settle: Duration::from_millis(5), length: Duration::from_millis(10), end_ns: end_ms * MS };
    let stops: Vec<_> = stops.iter().map(|(from, to)| (from * MS, to * MS)).collect();
    let found: Vec<_> =
        windows(marks, how, &stops).iter().map(|w| (w.at_ns / MS, w.ns / MS, w.frames, w.ran)).collect();
    assert_eq!(found, expected);
}

#[test]
fn windows_begin_after_the_settling_and_after_each_stop() {
    let marks = steady(1e6, 0, 40);
    check(&marks, 40, &[], &[(5, 10, 10_000, true), (15, 10, 10_000, true), (25, 10, 10_000, true)]);
    check(&marks, 34, &[], &[(5, 10, 10_000, true), (15, 10, 10_000, true)]);
    check(
        &marks,
        40,
        &[(16, 18)],
        &[(5, 10, 10_000, true), (15, 3, 3_000, false), (18, 10, 10_000, true), (28, 10, 10_000, true)],
    );
    // Nothing arrived meanwhile, and the stop was seen to end between two marks.
    let hole: Vec<Mark> = marks.iter().copied().filter(|m| !(8 * MS..12 * MS).contains(&m.at_ns)).collect();
    check(&hole, 40, &[(7, 11)], &[(5, 7, 7_000, false), (12, 10, 10_000, true), (22, 10, 10_000, true)]);
    check(&marks, 40, &[(0, 100)], &[(5, 35, 35_000, false)]);
    check(&[], 40, &[], &[]);
    check(&marks[..8], 40, &[], &[]);
}

#[test]
fn a_rate_is_the_median_of_the_windows_in_which_all_ran() {
    let window = |frames, ran| Window { at_ns: 0, ns: 10 * MS, frames, ran };
    let all = [window(10_000, true), window(1, false), window(11_000, true), window(9_000, true)];
    assert_eq!(rate(&all), Some(1e6));
    assert_eq!(rate(&all[..3]), None, "two windows are too few");
    assert_eq!(rate(&[window(0, true); 5]), None);
}

#[test]
fn the_load_follows_what_a_device_carries() {
    let overload = Overload { times: 1.35, least: 1.2, most: 1.5, most_fps: 2e6 };
    assert_eq!(overload.next_fps(2e6, 1e6), 1.35e6, "twice as much is too much");
    assert_eq!(overload.next_fps(1.3e6, 1e6), 1.3e6);
    assert_eq!(overload.next_fps(1.1e6, 1e6), 1.35e6);
    assert_eq!(overload.next_fps(1.9e6, 1.8e6), 2e6);
    assert!(overload.fits(2e6, 1.8e6), "the tester has no more");
    assert!(!overload.fits(1.9e6, 1.8e6));
}

fn at(placement: Placement) -> Option<Place> {
    Some(Place { disturbed: false, placement })
}

fn round(fps: f64, place: Option<Place>) -> Round {
    Round { fps: (fps > 0.0).then_some(fps), place }
}

#[test]
fn rounds_are_kept_apart_by_their_placement() {
    let (near, far) = (at(Placement::NearCores), at(Placement::FarCores));
    let one = [round(10.0, near), round(5.0, far), round(11.0, near), round(9.0, None), round(0.0, near)];
    let two = [round(20.0, near), round(10.0, far), round(10.0, far), round(18.0, None), round(2.0, near)];
    assert_eq!(places(&one), [near, far]);
    assert_eq!(places(one.iter().chain(&two)), [near, far]);
    assert_eq!(rates(&one, near), [10.0, 11.0]);
    let (ratio, rounds) = compared(&two, &one, near).unwrap();
    assert_eq!((ratio.value, rounds), (2.0, 1));
    assert_eq!(compared(&two[3..], &one[3..], near), None);
    // On one CPU nothing is known of any.
    assert_eq!(places(&[round(9.0, None)]), [None]);
    assert_eq!(places(&[]), []);
}

#[test]
fn each_round_has_an_order_of_its_own_and_again_the_same() {
    let orders: Vec<_> = (0..50).map(|round| order(3, round, 4)).collect();
    assert!(orders.iter().all(|order| {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        sorted == [0, 1, 2, 3]
    }));
    let first = |i| orders.iter().filter(|order| order[0] == i).count();
    assert!((0..4).all(|i| (5..=22).contains(&first(i))), "everybody is first at times");
    assert_eq!(order(3, 7, 4), orders[7]);
    assert_eq!(order(3, 0, 0), [0; 0]);
}

const DEVICES: [Device; 3] = [
    Device { near_fps: 1.0e6, far_fps: 0.55e6 },
    Device { near_fps: 0.8e6, far_fps: 0.47e6 },
    Device { near_fps: 0.7e6, far_fps: 0.42e6 },
];

/// The rates of a run in the placement of most of its rounds.
fn headline(found: &[Vec<Round>]) -> (Place, Vec<f64>) {
    let place = places(found.iter().flatten())[0].expect("it is probed");
    let rate = |rounds: &Vec<Round>| median(&rates(rounds, Some(place))).expect("rounds there");
    (place, found.iter().map(rate).collect())
}

#[test]
fn runs_on_a_noisy_machine_agree() {
    let runs: Vec<_> = (1..=40).map(|seed| headline(&Machine::new(seed, 500).run(&DEVICES, 15))).collect();
    let mut pairs = Vec::new();
    for (i, (place, a)) in runs.iter().enumerate() {
        for (_, b) in runs[..i].iter().filter(|(other, _)| other == place) {
            for k in 0..DEVICES.len() {
                pairs.push(((a[k] / b[k]).ln().abs(), (a[k] / a[0] / (b[k] / b[0])).ln().abs()));
            }
        }
    }
    let share = |within: &dyn Fn(&(f64, f64)) -> bool| {
        pairs.iter().filter(|pair| within(pair)).count() as f64 / pairs.len() as f64
    };
    assert!(pairs.len() > 300);
    assert!(share(&|(capacity, _)| *capacity < 0.03) > 0.9);
    assert!(share(&|(_, ratio)| *ratio < 0.03) > 0.9);
    assert!(runs.iter().all(|(_, fps)| fps[0] > fps[1] && fps[1] > fps[2]));
}

#[test]
fn stops_do_not_lower_a_rate_and_ratios_are_where_their_intervals_say() {
    let (mut covered, mut all) = (0, 0);
    for seed in 1..=150 {
        // A stop of each CPU each 100 ms, ten times as many as on the worst machine that was seen.
        let found = Machine::new(4 * seed + 1, 100).run(&DEVICES, 12);
        let near = at(Placement::NearCores);
        let rates = rates(&found[0], near);
        if rates.len() >= 6 {
            let fps = median(&rates).expect("six");
            assert!((fps / DEVICES[0].near_fps - 1.0).abs() < 0.04, "{fps} with seed {seed}");
        }
        for k in 1..DEVICES.len() {
            let Some((ratio, _)) = compared(&found[k], &found[0], near) else { continue };
            let Some((low, high)) = ratio.interval else { continue };
            let truth = DEVICES[k].near_fps / DEVICES[0].near_fps;
            covered += u32::from((low..=high).contains(&truth));
            all += 1;
        }
    }
    let share = f64::from(covered) / f64::from(all);
    assert!(all > 100 && share >= 0.93, "{share} of {all} intervals hold the true ratio");
}
