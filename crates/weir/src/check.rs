//! `weir check`: injects known faults and reports which were found.

mod capture;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use weir_lab::check::{Answer, Checker, DELAYS, GAP, PATIENCE, PLANTS, Pair, Plant, Proof, RESOLUTION};
use weir_record::record::{Trial, invisible_loss};

use crate::outcome::Outcome;
use crate::run::stop_flag;
use crate::{cli, privilege};
use weir_service::say;

/// The name of the latency test, beside the names of the faults.
const LATENCY: &str = "latency";
/// How often each delay is measured.
const PAIRS: usize = 5;

/// The results of one fault.
#[derive(Default)]
struct Tally {
    named: u32,
    wrong: u32,
    /// The machine disturbed all trials: no result.
    undecided: u32,
    disturbed: usize,
}

pub(crate) fn run(arguments: &cli::Check, out: &mut impl Write) -> Result<Outcome> {
    if arguments.capture {
        return capture::check(arguments, out);
    }
    let chosen: Vec<&Plant> = PLANTS.iter().filter(|plant| plant.name.contains(&arguments.fault)).collect();
    let times_delays = LATENCY.contains(&arguments.fault);
    let names: Vec<&str> = PLANTS.iter().map(|plant| plant.name).chain([LATENCY]).collect();
    let any = !chosen.is_empty() || times_delays;
    ensure!(any, "there is no fault `{}`: use {}", arguments.fault, names.join(", "));
    let means = privilege::obtain(arguments.tester)?;
    say::notes(&means.limits);
    let stop = stop_flag()?;
    let checker = Checker::new(means.tester, 1)?;
    writeln!(
        out,
        "The fastest frame takes {:.1} us on a wire: each latency includes this time of the tester.",
        checker.wire_min_ns() as f64 / 1e3
    )?;
    let (mut good, mut decided) = (true, true);
    if !chosen.is_empty() {
        writeln!(
            out,
            "\n{:16} {:>7} {:>7} {:>10} {:>10}  smallest detectable loss",
            "fault", "found", "wrong", "undecided", "disturbed"
        )?;
    }
    for plant in chosen {
        let mut tally = Tally::default();
        for _ in 0..arguments.times {
            let (answer, disturbed) = checker.plant(plant, PATIENCE)?;
            tally.disturbed += disturbed;
            match answer {
                Answer::Named => tally.named += 1,
                Answer::Impossible(why) => {
                    say::say(&format!("{}: {why}", plant.name));
                    break;
                }
                Answer::Wrong(trial) => {
                    tally.wrong += 1;
                    say::say(&format!("{}: {}", plant.name, reported(&trial)));
                }
                Answer::Disturbed(trial) => {
                    tally.undecided += 1;
                    let last = reported(&trial);
                    say::say(&format!(
                        "{}: the machine disturbed all trials; the last one: {last}",
                        plant.name
                    ));
                }
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Outcome::Interrupted);
            }
        }
        let Tally { named, wrong, undecided, disturbed } = tally;
        let least = invisible_loss(plant.frames);
        writeln!(
            out,
            "{:16} {named:>7} {wrong:>7} {undecided:>10} {disturbed:>10}  {least:.1e}",
            plant.name
        )?;
        good &= wrong == 0;
        decided &= undecided == 0;
    }
    if times_delays {
        let proofs = delays(&checker, &stop)?;
        write!(out, "{}", latency_table(&proofs))?;
        good &= proofs.iter().all(Proof::holds);
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Outcome::Interrupted);
    }
    Ok(match (good, decided) {
        (false, _) => Outcome::Unfit,
        (true, false) => Outcome::NotAllValid,
        (true, true) => Outcome::Done,
    })
}

/// Measures all delays alternately, several times.
fn delays(checker: &Checker, stop: &AtomicBool) -> Result<Vec<Proof>> {
    let mut check = checker.delays()?;
    let mut pairs: [Vec<Pair>; DELAYS.len()] = Default::default();
    for _ in 0..PAIRS {
        for (added, pairs) in DELAYS.iter().zip(&mut pairs) {
            if !stop.load(Ordering::Relaxed) {
                pairs.push(check.pair(*added, PATIENCE)?);
            }
        }
    }
    Ok(pairs.iter().filter_map(|pairs| Proof::of(pairs)).collect())
}

fn latency_table(proofs: &[Proof]) -> String {
    let mut text = format!(
        "\nLatency through a device that delays each frame by a known time: medians of {PAIRS} trials without and {PAIRS} \
         with the delay, alternately, one frame every {} us. The resolution of a median is {:.1} %.\n\n",
        GAP.as_micros(),
        RESOLUTION * 100.0
    );
    let head =
        ["added, us", "without", "with", "difference", "error", "error, %", "errors from", "to", "fastest's"];
    text += &(head.map(|name| format!("{name:>12}")).concat() + "\n");
    for proof in proofs {
        let us = |ns: f64| format!("{:.2}", ns / 1e3);
        let cells = [
            us(proof.added_ns),
            us(proof.without_ns),
            us(proof.with_ns),
            us(proof.added_ns + proof.error_ns),
            us(proof.error_ns),
            format!("{:.2}", 100.0 * proof.error_ns / proof.added_ns),
            us(proof.errors_ns.0),
            us(proof.errors_ns.1),
            us(proof.fastest_error_ns),
        ];
        text += &cells.map(|cell| format!("{cell:>12}")).concat();
        text += if proof.holds() { "\n" } else { "  wrong\n" };
    }
    text + "\nThe column `without` is the latency of the tester and of a device without added delay; weir does not subtract it \
            from the latencies that it reports. The last column is the error of the fastest frames, exact to the ns.\n"
}

/// Findings and verdict of a trial.
fn reported(trial: &Trial) -> String {
    let findings: Vec<String> = trial.findings.iter().map(ToString::to_string).collect();
    let findings = if findings.is_empty() { "nothing was found".into() } else { findings.join("; ") };
    format!("{findings} ({} trial{})", trial.verdict.name(), reasons(trial))
}

fn reasons(trial: &Trial) -> String {
    if trial.reasons.is_empty() { String::new() } else { format!(": {}", trial.reasons.join("; ")) }
}
