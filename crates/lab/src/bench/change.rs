//! Another text for a node that runs: how long it takes to prepare, and how long frames wait for it.
//!
//! The node has a filter of 10,000 rules, a NAT and 1 M routes, which stay. Each change takes one rule away and adds one.

use std::io;
use std::time::Instant;

use weir_plane::{Beside, Change, Config, Plane, Time};

use super::probe::Bench;
use super::{filter, forward};
use crate::rng::Rng;

const TEXT: &str = "lan(10.0.0.1/8) filter(rules.fw) > nat(public 192.0.2.0/28) > route > wan(198.19.0.1/24)";
const NAME: &str = "change 10,000 rules, 1M routes";
const CHANGES: u32 = 11;

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let mut random = Rng::new(11);
    let rules: Vec<String> = filter::lines(10_000, &mut random);
    let routes = forward::routes(1_000_000, false, &mut random);
    let mut before = config(&rules[1..]);
    before.routes = Some(routes.clone());
    let mut plane = Plane::new(&before, &filter::MACS);
    let (mut prepared_ms, mut waits_us) = (Vec::new(), Vec::new());
    for n in 0..CHANGES {
        let mut changed = rules.clone();
        changed.swap_remove(1 + n as usize);
        let mut after = config(&changed);
        after.routes = Some(routes.clone());
        let begin = Instant::now();
        let mut change = Change::prepare(&before, &after).expect("it can be changed");
        prepared_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        plane.accept(&change).expect("there is room");
        let mut more = true;
        while more {
            let begin = Instant::now();
            more = plane.commit(Time::from_ms(1), &mut change);
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
        ("changes", f64::from(CHANGES)),
        ("prepare_ms_median", prepared),
        ("wait_us_median", wait),
        ("wait_us_most", longest),
    ];
    bench.figures(NAME, &figures)
}

fn config(rules: &[String]) -> Config {
    let text = rules.concat() + "policy accept\n";
    let file = |_: &str| Ok(text.clone());
    let mut beside = Beside { item: &mut |_, _| false, file: &file };
    Config::read_with("bench", TEXT, &mut beside).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}
