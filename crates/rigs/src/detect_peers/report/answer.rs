//! The first screen: the program that reports each attack first, by how much, and the error of each program's rate.

use super::{CAPTION, Detector, chart, detectors, left_out, rate_error, signed};
use weir_measure::stats::{self, Ratio};
use weir_record::record::{Detection, Trial};
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{bracketed, list, or_dash, si, significant};

/// The answer of a run that attacks programs.
pub(in crate::detect_peers) fn answer(data: &RunData) -> Option<Answer> {
    let detectors = detectors(data);
    let attacks = attacks(&detectors);
    let mut sentences: Vec<String> = attacks.iter().filter_map(|attack| sentence(attack)).collect();
    if sentences.is_empty() {
        return None;
    }
    sentences.extend(left_out(&detectors));
    let drawing = Block::Drawing { drawings: vec![chart(&detectors)], caption: CAPTION };
    Some(Answer { sentences, table: table(&attacks), columns: COLUMNS.into(), drawing: Some(drawing) })
}

const COLUMNS: &str = "Attack: frames/s. Told: attacks that the program reported before they ended. After: seconds from the first frame until \
    then, median; where not all were told, of those that were. × first: times as long as the soonest program, from rounds that \
    alternated. Stated: the rate in its first event, and how far that is from what arrived.";

/// The programs of each attack.
fn attacks<'d, 'a>(detectors: &'d [Detector<'a>]) -> Vec<Vec<&'d Detector<'a>>> {
    let mut attacks: Vec<Vec<&Detector<'_>>> = Vec::new();
    for detector in detectors {
        match attacks.iter_mut().find(|attack| attack[0].attack_fps == detector.attack_fps) {
            Some(attack) => attack.push(detector),
            None => attacks.push(vec![detector]),
        }
    }
    attacks
}

/// The program that tells most of the attacks, and of those the soonest one.
fn soonest<'d, 'a>(attack: &[&'d Detector<'a>]) -> Option<&'d Detector<'a>> {
    let key = |detector: &Detector<'_>| {
        let told = detector.after_s();
        Some((detector.found.len() - told.len(), stats::median(&told)?))
    };
    let all = attack.iter().filter_map(|&detector| Some((key(detector)?, detector)));
    all.min_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, detector)| detector)
}

/// How many times as long one takes as the other, round by round: of the attacks that both told.
fn times(slow: &Detector<'_>, fast: &Detector<'_>) -> Option<Ratio> {
    let after = |detector: &Detector<'_>| -> Vec<Option<f64>> {
        detector.data.measured().map(|trial| Trial::believed::<Detection>(trial)?.after_s).collect()
    };
    let pairs = after(slow).into_iter().zip(after(fast));
    stats::ratio(&pairs.filter_map(|(slow, fast)| slow.zip(fast)).collect::<Vec<_>>())
}

fn sentence(attack: &[&Detector<'_>]) -> Option<String> {
    let first = soonest(attack)?;
    let others = attack.iter().filter(|other| other.name() != first.name() && !other.found.is_empty());
    let others = others.map(|other| {
        let missed = match other.found.len() - other.after_s().len() {
            0 => String::new(),
            missed => format!(", does not tell {missed} of {} attacks", other.found.len()),
        };
        match (stats::median(&other.after_s()), times(other, first)) {
            (Some(after), Some(ratio)) => {
                let interval = ratio.interval.map_or_else(String::new, bracketed);
                let (name, after) = (other.name(), significant(after));
                format!(
                    "{name} takes {} times as long{interval}, {after} s{missed}{}",
                    significant(ratio.value),
                    stated(other)
                )
            }
            _ => format!("{} tells none of {} attacks", other.name(), other.found.len()),
        }
    });
    let others: Vec<String> = others.collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", list(&others)) };
    let after = stats::median(&first.after_s())?;
    Some(format!(
        "{} tells an attack of {} frames/s first, after {} s{}{others}.",
        first.name(),
        si(first.attack_fps),
        significant(after),
        stated(first)
    ))
}

fn stated(detector: &Detector<'_>) -> String {
    detector.error().map_or_else(String::new, rate_error)
}

fn table(attacks: &[Vec<&Detector<'_>>]) -> Table {
    let head = [
        "attack",
        "program",
        "told",
        "after, s",
        "95 % interval",
        "× first",
        "95 % interval",
        "stated",
        "error",
    ];
    let mut table = Table::new(&head);
    for attack in attacks {
        let first = soonest(attack);
        for detector in attack.iter().filter(|detector| !detector.found.is_empty()) {
            let after = detector.after_s();
            let ratio = first.filter(|first| first.name() != detector.name());
            let ratio = ratio.and_then(|first| times(detector, first));
            let stated = stats::median(&detector.of(|detection| detection.stated_fps));
            let bounds = |(low, high): (f64, f64)| format!("{} – {}", significant(low), significant(high));
            table.push(vec![
                si(detector.attack_fps),
                detector.name().into(),
                format!("{} of {}", after.len(), detector.found.len()),
                or_dash(stats::median(&after), significant),
                or_dash(stats::median_interval(&after), bounds),
                or_dash(ratio, |ratio| significant(ratio.value)),
                or_dash(ratio.and_then(|ratio| ratio.interval), bounds),
                or_dash(stated, si),
                or_dash(detector.error(), signed),
            ]);
        }
    }
    table.without_empty(&["95 % interval", "× first"])
}
