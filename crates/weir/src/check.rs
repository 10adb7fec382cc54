//! `weir check`: plants faults and says which were named.

use std::io::Write;
use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use weir_lab::check::{Answer, Checker, PLANTS, Plant};
use weir_lab::record::{Trial, invisible_loss};

use crate::run::stop_flag;
use crate::{Outcome, cli, privilege, say};

/// What came of one plant.
#[derive(Default)]
struct Tally {
    named: u32,
    wrong: u32,
    disturbed: usize,
}

pub(crate) fn run(arguments: &cli::Check, out: &mut impl Write) -> Result<Outcome> {
    let chosen: Vec<&Plant> = PLANTS.iter().filter(|plant| plant.name.contains(&arguments.fault)).collect();
    let names: Vec<&str> = PLANTS.iter().map(|plant| plant.name).collect();
    ensure!(!chosen.is_empty(), "no fault is called `{}`: use {}", arguments.fault, names.join(", "));
    let means = privilege::obtain(arguments.tester)?;
    say::notes(&means.limits);
    let stop = stop_flag()?;
    let checker = Checker::new(means.tester, 1)?;
    writeln!(
        out,
        "The fastest frame takes {:.1} us on a wire: so much of each latency is the tester's.\n",
        checker.wire_min_ns() as f64 / 1e3
    )?;
    writeln!(out, "{:16} {:>7} {:>7} {:>10}  sees no loss below", "planted", "named", "wrong", "disturbed")?;
    let mut good = true;
    for plant in chosen {
        let mut tally = Tally::default();
        for _ in 0..arguments.times {
            let (answer, disturbed) = checker.plant(plant)?;
            tally.disturbed += disturbed;
            match answer {
                Answer::Named => tally.named += 1,
                Answer::Impossible(why) => {
                    say::say(&format!("{}: {why}", plant.name));
                    break;
                }
                Answer::Wrong(trial) | Answer::Disturbed(trial) => {
                    tally.wrong += 1;
                    say::say(&format!("{}: {}", plant.name, told(&trial)));
                }
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Outcome::Interrupted);
            }
        }
        let Tally { named, wrong, disturbed } = tally;
        let least = invisible_loss(plant.frames);
        writeln!(out, "{:16} {named:>7} {wrong:>7} {disturbed:>10}  {least:.1e}", plant.name)?;
        good &= wrong == 0;
    }
    Ok(if good { Outcome::Done } else { Outcome::Unfit })
}

/// What a trial says of itself.
fn told(trial: &Trial) -> String {
    let findings: Vec<String> = trial.findings.iter().map(ToString::to_string).collect();
    let findings = if findings.is_empty() { "nothing was found".into() } else { findings.join("; ") };
    format!("{findings} ({} trial{})", trial.verdict.name(), reasons(trial))
}

fn reasons(trial: &Trial) -> String {
    if trial.reasons.is_empty() { String::new() } else { format!(": {}", trial.reasons.join("; ")) }
}
