//! A comparison for the terminal.

use super::{Compared, CoreSteps, Difference, Row, Source, Verdict};
use crate::figure::unit;
use crate::stats::CONFIDENCE;
use crate::view::Table;
use crate::view::format::wrapped;
use crate::view::format::{count, or_dash, percent, si, significant, time_ns};

/// Values with more letters than this are cut in the table of differences.
const LONG: usize = 60;

/// Cores that differ by less than this share of their speed are not mentioned.
const WORTH_A_LINE: f64 = 0.005;

/// What differs, then the points, then what only one run has.
pub fn text(compared: &Compared) -> String {
    let mut text = format!("run {} against run {}\n", compared.other, compared.base);
    text += &differences(compared);
    if let Some(sentence) = core_speed(compared) {
        text += &format!("\n{}", wrapped(&sentence, 80));
    }
    text += &rows(compared);
    for lone in &compared.unmatched {
        let what = match lone.quantities.as_slice() {
            [] => "this point".into(),
            names => names.join(", "),
        };
        text += &format!("only run {} has {what}: {}, {}\n", lone.run, lone.frame, lone.device);
    }
    text
}

fn differences(compared: &Compared) -> String {
    if compared.differences.is_empty() {
        return "the same plan, version, machine and settings\n".into();
    }
    let run = |id: i64| format!("run {id}");
    let mut table = Table::new(&["differs".to_string(), run(compared.base), run(compared.other)]);
    for Difference { what, base, other } in &compared.differences {
        table.push(vec![what.clone(), cut(base), cut(other)]);
    }
    format!("\n{}", table.text())
}

/// What was taken out of the ratios, where that is worth a sentence.
pub fn core_speed(compared: &Compared) -> Option<String> {
    let steps = compared.core_steps.filter(|steps| steps.speed_up().ln().abs() > WORTH_A_LINE)?;
    let CoreSteps { base_ns, other_ns } = steps;
    let (apart, word) = match steps.speed_up() {
        faster if faster > 1.0 => (faster - 1.0, "faster"),
        slower => (1.0 / slower - 1.0, "slower"),
    };
    Some(format!(
        "In run {} the cores were {} {word}: a step of the same loop took {other_ns:.3} ns, {base_ns:.3} ns in run {}. Ratios \
         of capacities and cycles are at equal speed of the cores.",
        compared.other,
        percent(apart),
        compared.base
    ))
}

fn cut(value: &str) -> String {
    match value.chars().count() {
        0 => "–".into(),
        n if n > LONG => value.chars().take(LONG - 1).chain(['…']).collect(),
        _ => value.replace('\n', " "),
    }
}

fn rows(compared: &Compared) -> String {
    if compared.rows.is_empty() {
        return "\nno point has a result in both runs\n".into();
    }
    let run = |id: i64| format!("run {id}");
    let head = ["frame", "device", "quantity"].map(String::from).into_iter();
    let head = head.chain([run(compared.base), run(compared.other)]);
    let head: Vec<_> =
        head.chain(["ratio", "95 % interval", "p (Holm)", "verdict"].map(String::from)).collect();
    let mut table = Table::new(&head);
    let mut whys: Vec<&str> = Vec::new();
    for row in &compared.rows {
        let verdict = match &row.why {
            None => row.verdict.name().to_string(),
            Some(why) => {
                let at = whys.iter().position(|w| w == why).unwrap_or_else(|| {
                    whys.push(why);
                    whys.len() - 1
                });
                format!("{} [{}]", row.verdict.name(), at + 1)
            }
        };
        table.push(vec![
            row.frame.clone(),
            row.device.clone(),
            row.quantity.clone(),
            or_dash(row.base, |v| row.base_bound.sign().to_string() + &value(v, &row.unit)),
            or_dash(row.other, |v| row.other_bound.sign().to_string() + &value(v, &row.unit)),
            or_dash(row.ratio, |r| row.ratio_bound.sign().to_string() + &ratio(r)),
            or_dash(row.interval, |i| {
                let of = if i.source == Source::Bounds { " (bounds)" } else { "" };
                format!("{} – {}{of}", ratio(i.low), ratio(i.high))
            }),
            or_dash(row.p_holm, |p| if p < 0.001 { "≤ 0.001".into() } else { format!("{p:.3}") }),
            verdict,
        ]);
    }
    let notes = whys.iter().zip(1..).map(|(why, number)| format!("[{number}] {why}\n"));
    format!("\n{}\n{}{}\n", table.text(), notes.collect::<String>(), tally(&compared.rows))
}

/// A value with its unit.
pub fn value(value: f64, unit: &str) -> String {
    match unit {
        unit::FRAMES_PER_S => si(value),
        unit::SECONDS => time_ns(value * 1e9),
        unit::RATIO => percent(value),
        unit => format!("{} {unit}", si(value)),
    }
}

/// A ratio with three digits behind the point.
pub fn ratio(value: f64) -> String {
    if (0.1..10.0).contains(&value) { format!("{value:.3}") } else { significant(value) }
}

/// How many rows have which verdict, and how many would by chance.
fn tally(rows: &[Row]) -> String {
    let of = |verdict| rows.iter().filter(|r| r.verdict == verdict).count();
    let kinds = [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::Better,
        Verdict::Worse,
        Verdict::Larger,
        Verdict::Smaller,
        Verdict::NoDifference,
        Verdict::CannotTell,
    ];
    let parts: Vec<_> =
        kinds.into_iter().filter(|v| of(*v) > 0).map(|v| format!("{} {}", of(v), v.name())).collect();
    let tested = rows.iter().filter(|r| r.p_holm.is_some()).count();
    let chance = match tested {
        0 | 1 => String::new(),
        n => format!(
            ".\nOf {n} ratios between equals {} would have an interval without 1 by chance; verdicts use Holm's \
             correction,\nwith which the probability of even one wrong difference is below {:.0} %.",
            significant(n as f64 * (1.0 - CONFIDENCE)),
            (1.0 - CONFIDENCE) * 100.0
        ),
    };
    format!("{}: {}{chance}", count(rows.len(), "comparison"), parts.join(", "))
}
