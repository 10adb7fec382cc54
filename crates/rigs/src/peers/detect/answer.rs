//! The first screen: which program reports each attack first, how much sooner, and how near its rate is.

use weir_measure::stats::{self, Ratio};
use weir_record::record::{Detection, Trial};
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::view::Table;
use weir_report::view::format::{bracketed, list, or_dash, si, significant};

use super::report::{CAPTION, Detector, chart, detectors, left_out, rate_error, signed};
use crate::peers::report::{self, by_rounds, drawing, grouped, span};

const COLUMNS: &str = "Attack: frames/s. Told: attacks that the program reported before they ended. After: seconds from the first frame until \
    then, median; where not all were told, of those that were. × first: times as long as the soonest program, from rounds that \
    alternated. Stated: the rate in its first event, and how far that is from what arrived.";

/// The answer of a run that attacks programs.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let detectors = detectors(data);
    let attacks = grouped(&detectors, |detector| detector.attack_fps);
    let mut sentences: Vec<String> = attacks.iter().filter_map(|attack| sentence(attack)).collect();
    if sentences.is_empty() {
        return None;
    }
    sentences.extend(left_out(&detectors));
    Some(report::answer(sentences, table(&attacks), COLUMNS, drawing(chart(&detectors), CAPTION)))
}

/// The program that reports most of the attacks, and of those the soonest one.
fn soonest<'d, 'a>(attack: &[&'d Detector<'a>]) -> Option<&'d Detector<'a>> {
    let key = |detector: &Detector<'_>| {
        let told = detector.after_s();
        Some((detector.found.len() - told.len(), stats::median(&told)?))
    };
    let all = attack.iter().filter_map(|&detector| Some((key(detector)?, detector)));
    all.min_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, detector)| detector)
}

/// How many times as long one takes as the other, round by round: of the attacks that both reported.
fn times(slow: &Detector<'_>, fast: &Detector<'_>) -> Option<Ratio> {
    let after = |trial: &Trial| Trial::believed::<Detection>(trial)?.after_s;
    by_rounds(slow.data.measured().map(after), fast.data.measured().map(after))
}

fn sentence(attack: &[&Detector<'_>]) -> Option<String> {
    let first = soonest(attack)?;
    let others = attack.iter().filter(|other| other.name() != first.name() && !other.found.is_empty());
    let others = others.map(|other| {
        let (name, all) = (other.name(), other.found.len());
        let missed = match all - other.after_s().len() {
            0 => String::new(),
            missed => format!(", does not tell {missed} of {all} attacks"),
        };
        let Some((after, ratio)) = stats::median(&other.after_s()).zip(times(other, first)) else {
            return format!("{name} tells none of {all} attacks");
        };
        let interval = ratio.interval.map_or_else(String::new, bracketed);
        let (times, after) = (significant(ratio.value), significant(after));
        format!("{name} takes {times} times as long{interval}, {after} s{missed}{}", stated(other))
    });
    let others: Vec<String> = others.collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", list(&others)) };
    Some(format!(
        "{} tells an attack of {} frames/s first, after {} s{}{others}.",
        first.name(),
        si(first.attack_fps),
        significant(stats::median(&first.after_s())?),
        stated(first)
    ))
}

fn stated(detector: &Detector<'_>) -> String {
    detector.error().map_or_else(String::new, rate_error)
}

fn table(attacks: &[Vec<&Detector<'_>>]) -> Table {
    let columns =
        "attack | program | told | after, s | 95 % interval | × first | 95 % interval | stated | error";
    let mut table = report::table(columns);
    for attack in attacks {
        let first = soonest(attack);
        for detector in attack.iter().filter(|detector| !detector.found.is_empty()) {
            let after = detector.after_s();
            let ratio = first.filter(|first| first.name() != detector.name());
            let ratio = ratio.and_then(|first| times(detector, first));
            table.push(vec![
                si(detector.attack_fps),
                detector.name().into(),
                format!("{} of {}", after.len(), detector.found.len()),
                or_dash(stats::median(&after), significant),
                span(stats::median_interval(&after), significant),
                or_dash(ratio, |ratio| significant(ratio.value)),
                span(ratio.and_then(|ratio| ratio.interval), significant),
                or_dash(stats::median(&detector.of(|detection| detection.stated_fps)), si),
                or_dash(detector.error(), signed),
            ]);
        }
    }
    table.without_empty(&["95 % interval", "× first"])
}
