//! Applying a changed text to a running node: the time to prepare it, and the delay of frames.
//!
//! The node has a filter of 10,000 rules, a NAT and 1 M routes. Each change takes one rule away and adds one; or the filter
//! goes, or comes.

use std::io;
use std::time::Instant;

use weir_plane::{Beside, Config, Plane, Time, Update};

use super::probe::{Bench, MACS};
use super::{filter, forward};
use weir_rng::Rng;

const FILTER: &str = "filter(rules.fw) >";
const CHANGES: usize = 11;

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    let others = |rules: &[String]| {
        let other = |n: usize| {
            let mut changed = rules.to_vec();
            changed.swap_remove(n);
            config(FILTER, &changed)
        };
        (0..=CHANGES).map(other).collect()
    };
    row(bench, "change 10,000 rules, 1M routes", others)?;
    let both = |rules: &[String]| {
        let one = |n: usize| config(if n.is_multiple_of(2) { "" } else { FILTER }, rules);
        (0..=CHANGES).map(one).collect()
    };
    row(bench, "10,000 rules come and go", both)
}

/// A node becomes what each of the texts that are made of rules says, one after the other.
fn row(bench: &mut Bench<'_>, name: &str, texts: impl FnOnce(&[String]) -> Vec<Config>) -> io::Result<()> {
    if !bench.wants(name) {
        return Ok(());
    }
    let mut random = Rng::new(11);
    let rules: Vec<String> = filter::lines(10_000, &mut random);
    let routes = forward::routes(1_000_000, 1, false, &mut random);
    let mut texts = texts(&rules).into_iter().map(|mut text| {
        text.routes = Some(routes.iter().cloned().collect());
        text
    });
    let mut before = texts.next().expect("one more than changes");
    let mut plane = Plane::new(&before, &MACS);
    let (mut prepared_ms, mut waits_us) = (Vec::new(), Vec::new());
    for after in texts {
        let begin = Instant::now();
        let mut update = Update::prepare(&before, &after).expect("it can be changed");
        prepared_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        while plane.accept(&mut update).expect("there is room") {}
        let mut more = true;
        while more {
            let begin = Instant::now();
            more = plane.commit(Time::from_ms(1), &mut update);
            waits_us.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        before = after;
    }
    let last = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        (list[list.len() / 2], list[list.len() - 1])
    };
    let ((prepared, _), (wait, longest)) = (last(&mut prepared_ms), last(&mut waits_us));
    let figures = [
        ("changes", CHANGES as f64),
        ("prepare_ms_median", prepared),
        ("wait_us_median", wait),
        ("wait_us_most", longest),
    ];
    bench.figures(name, &figures)
}

fn config(filter: &str, rules: &[String]) -> Config {
    let text = format!("lan(10.0.0.1/8) {filter} nat(public 192.0.2.0/28) > route > wan(198.19.0.1/24)");
    let rules = rules.concat() + "policy accept\n";
    let file = |_: &str| Ok(rules.clone());
    let mut beside = Beside { item: &mut |_, _| false, file: &file };
    Config::read_with("bench", &text, &mut beside).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}
