//! Results of theory and other test beds as bands: each is checked against the points of a run that it applies to, and passes or
//! does not. Sources: Appenzeller, Keslassy, McKeown 2004 (C1); Spang, Arslan, McKeown 2021 (C2); Philip et al. IMC 2021 and its
//! reproduction vinitaparasrampuria/IMC-Revisiting-TCP (C3, C4); ashutoshs25/bbr-dominance-experiments (C5); Ware et al. IMC
//! 2019 (C6).

use super::{Cell, FIRST_SHARE, JAIN, K_HALVINGS, K_LOSSES, UTILISATION};
use weir_report::view::Table;
use weir_report::view::format::significant;

/// Length of a frame on the link, in bits.
const FRAME_BITS: f64 = 1514.0 * 8.0;
/// Segments.
const LEAST_WINDOW: f64 = 20.0;

/// A band at a point, or over several.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    /// C1 to C6.
    pub(super) band: &'static str,
    pub(super) what: String,
    pub(super) expected: String,
    pub(super) found: f64,
    pub(super) passes: bool,
}

impl Check {
    fn within(band: &'static str, what: String, found: f64, (low, high): (f64, f64)) -> Check {
        // A packet that is on the link at the end of an interval counts there.
        const ROUNDING: f64 = 0.005;
        let expected = match (low, high) {
            (low, f64::INFINITY) => format!("at least {}", significant(low)),
            (f64::NEG_INFINITY, high) => format!("at most {}", significant(high)),
            (low, high) => format!("{} to {}", significant(low), significant(high)),
        };
        Check { band, what, expected, found, passes: (low - ROUNDING..=high + ROUNDING).contains(&found) }
    }
}

/// The bands, in words, and how their points are found.
type Band = (&'static str, &'static str, fn(&[Cell<'_>]) -> Vec<Check>);

const BANDS: [Band; 6] = [
    (
        "C1",
        "one Reno or CUBIC flow uses what the sawtooth says; n flows fill a link with BDP / sqrt(n)",
        sawtooths,
    ),
    ("C2", "one flow of today's congestion controls needs less than a BDP", modern),
    ("C3", "K of Mathis' formula from halvings is 1.2 to 1.4, from losses larger", mathis),
    ("C4", "flows of one kind share a link equally", homogeneous),
    (
        "C5",
        "BBR version 1 among 50 flows: wins in small buffers, loses its advantage in deep ones",
        dominance,
    ),
    ("C6", "BBR version 1 against one CUBIC flow: Ware's model", ware),
];

/// All bands at all points that they speak of.
pub(super) fn checks(cells: &[Cell<'_>]) -> Vec<Check> {
    BANDS.iter().flat_map(|(_, _, of)| of(cells)).collect()
}

/// How many of the checks pass, by band; a band without points is not tested.
pub(super) fn summary(checks: &[Check]) -> Table {
    let mut table = Table::new(&["Band", "What it says", "Verdict", "Checks", "Pass"]);
    for (band, what, _) in BANDS {
        let own = || checks.iter().filter(|check| check.band == band);
        let (all, pass) = (own().count(), own().filter(|check| check.passes).count());
        let verdict = match (all, pass) {
            (0, _) => "not tested",
            (all, pass) if all == pass => "pass",
            _ => "fail",
        };
        let words = [band, what, verdict].map(str::to_string);
        table.push(words.into_iter().chain([all.to_string(), pass.to_string()]).collect());
    }
    table
}

/// Each check.
pub(super) fn table(checks: &[Check]) -> Table {
    let mut table = Table::new(&["Band", "Point", "Expected", "Found", "Verdict"]);
    for check in checks {
        let verdict = if check.passes { "pass" } else { "fail" };
        table.push(vec![
            check.band.into(),
            check.what.clone(),
            check.expected.clone(),
            significant(check.found),
            verdict.into(),
        ]);
    }
    table
}

/// Points in a FIFO with one round trip at a constant rate: what the bands speak of.
fn plain<'c, 'a>(cells: &'c [Cell<'a>]) -> impl Iterator<Item = &'c Cell<'a>> {
    let is_plain = |cell: &&Cell<'_>| {
        cell.setting("queue") == "fifo"
            && cell.rtts().len() == 1
            && cell.data.setting("rate_changes").is_none()
    };
    cells.iter().filter(is_plain)
}

fn of_mix<'c, 'a>(cells: &'c [Cell<'a>], mix: &'static str) -> impl Iterator<Item = &'c Cell<'a>> {
    plain(cells).filter(move |cell| cell.setting("mix") == mix)
}

/// Utilisation by a window that grows linearly and is multiplied by `beta` when a buffer of `b` bandwidth-delay products
/// overflows.
fn sawtooth(b: f64, beta: f64) -> f64 {
    let (top, bottom) = (1.0 + b, beta * (1.0 + b));
    if bottom >= 1.0 {
        return 1.0;
    }
    ((top * top - bottom * bottom) / 2.0) / ((1.0 - bottom) + (top * top - 1.0) / 2.0)
}

fn sawtooths(cells: &[Cell<'_>]) -> Vec<Check> {
    let mut found = Vec::new();
    // CUBIC's growth is concave: it lies above the line that this is computed by.
    for (mix, beta, above) in [("reno", 0.5, 0.03), ("cubic", 0.7, 0.06)] {
        for cell in of_mix(cells, mix).filter(|cell| cell.flows() == 1.0) {
            let Some(utilisation) = cell.value(UTILISATION) else { continue };
            let theory = sawtooth(cell.buffer_bdp(), beta);
            let band = (theory - 0.03, (theory + above).min(1.0));
            found.push(Check::within("C1", format!("utilisation, {}", cell.name()), utilisation, band));
        }
        let many = |cell: &&Cell<'_>| {
            let enough = cell.buffer_bdp() * cell.flows().sqrt() >= 0.999;
            cell.flows() >= 16.0 && enough
        };
        for cell in of_mix(cells, mix).filter(many) {
            let Some(utilisation) = cell.value(UTILISATION) else { continue };
            let what = format!("utilisation, {}", cell.name());
            found.push(Check::within("C1", what, utilisation, (0.97, f64::INFINITY)));
        }
    }
    found
}

fn modern(cells: &[Cell<'_>]) -> Vec<Check> {
    let one = |mix| of_mix(cells, mix).filter(|cell: &&Cell<'_>| cell.flows() == 1.0);
    let mut found = Vec::new();
    // Figures of a Tofino at 10 Gbit/s and 1 ms, one CUBIC flow.
    for (b, measured) in [(0.05, 0.21), (0.13, 0.57), (0.2, 0.78), (0.4, 0.89)] {
        let near = one("cubic").filter(|cell| (cell.buffer_bdp() / b - 1.0).abs() < 0.05);
        for (cell, utilisation) in near.filter_map(|cell| Some((cell, cell.value(UTILISATION)?))) {
            let what = format!("utilisation, {}", cell.name());
            found.push(Check::within("C2", what, utilisation, (measured - 0.1, measured + 0.1)));
        }
    }
    let least =
        [("cubic", 0.67, f64::INFINITY, 0.93), ("bbr1", 0.0, 0.4, 0.7), ("bbr1", 0.4, f64::INFINITY, 0.87)];
    for (mix, from, below, least) in least {
        let own = one(mix).filter(|cell| (from..below).contains(&cell.buffer_bdp()));
        for (cell, utilisation) in own.filter_map(|cell| Some((cell, cell.value(UTILISATION)?))) {
            let what = format!("utilisation, {}", cell.name());
            found.push(Check::within("C2", what, utilisation, (least, f64::INFINITY)));
        }
    }
    found
}

/// Segments of a flow in the link and in a full buffer.
fn largest_window(cell: &Cell<'_>) -> f64 {
    let rtt_s = cell.rtts().first().map_or(0.0, |ms| ms / 1e3);
    (1.0 + cell.buffer_bdp()) * cell.number("rate") * rtt_s / FRAME_BITS / cell.flows()
}

/// The formula is one of windows that are halved; those of the published runs had 20 segments and more.
fn mathis(cells: &[Cell<'_>]) -> Vec<Check> {
    let mut found = Vec::new();
    let published = |cell: &&Cell<'_>| cell.flows() >= 10.0 && largest_window(cell) >= LEAST_WINDOW;
    for cell in of_mix(cells, "reno").filter(published) {
        let (Some(halvings), Some(losses)) = (cell.value(K_HALVINGS), cell.value(K_LOSSES)) else { continue };
        found.push(Check::within("C3", format!("K from halvings, {}", cell.name()), halvings, (1.2, 1.4)));
        let what = format!("K from losses by K from halvings, {}", cell.name());
        found.push(Check::within("C3", what, losses / halvings, (1.0, f64::INFINITY)));
    }
    found
}

/// Published are means of hours, 0.963 and more; runs of minutes scatter, so that 0.95 is asked for.
fn homogeneous(cells: &[Cell<'_>]) -> Vec<Check> {
    let fits = |cell: &&Cell<'_>| {
        let kinds = ["cubic", "reno", "bbr1"];
        kinds.contains(&cell.setting("mix")) && cell.flows() >= 10.0 && cell.buffer_bdp() >= 0.99
    };
    let check = |cell: &Cell<'_>| {
        let what = format!("Jain's index, {}", cell.name());
        Some(Check::within("C4", what, cell.value(JAIN)?, (0.95, f64::INFINITY)))
    };
    plain(cells).filter(fits).filter_map(check).collect()
}

/// The share of the first group at these points, by ascending buffer.
fn shares<'c>(cells: impl Iterator<Item = &'c Cell<'c>>) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> =
        cells.filter_map(|cell| Some((cell.buffer_bdp(), cell.value(FIRST_SHARE)?))).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

fn dominance(cells: &[Cell<'_>]) -> Vec<Check> {
    let mut found = Vec::new();
    let of_50 = |mix| of_mix(cells, mix).filter(|cell: &&Cell<'_>| cell.flows() == 50.0);
    let one = of_50("bbr1+49*cubic").filter_map(|cell| Some((cell, cell.value(FIRST_SHARE)?)));
    for (cell, share) in one.filter(|(cell, _)| (0.5..=10.0).contains(&cell.buffer_bdp())) {
        let what = format!("times its fair share, {}", cell.name());
        found.push(Check::within("C5", what, share * 50.0, (10.0, 20.0)));
    }
    for (mix, name) in [("bbr1+49*cubic", "1 of 50"), ("bbr1+cubic", "25 of 50")] {
        let own = shares(of_50(mix));
        let deep = own.iter().filter(|(b, _)| *b >= 5.0);
        for ((b, share), (next, later)) in deep.clone().zip(deep.skip(1)) {
            let what = format!("share of BBR, {name}: at {next} BDP less that at {b} BDP");
            found.push(Check::within("C5", what, later - share, (f64::NEG_INFINITY, 0.0)));
        }
    }
    let half = shares(of_50("bbr1+cubic"));
    if let Some((b, share)) = half.iter().find(|(b, _)| (0.45..=0.55).contains(b)) {
        found.push(Check::within(
            "C5",
            format!("share of 25 BBR flows of 50 at {b} BDP"),
            *share,
            (0.73, 0.98),
        ));
        for (deep, later) in half.iter().filter(|(deep, _)| *deep >= 10.0) {
            let what = format!("share of 25 BBR flows of 50 at {deep} BDP less that at {b} BDP");
            found.push(Check::within("C5", what, later - share, (f64::NEG_INFINITY, -0.2)));
        }
    }
    found
}

/// The share of one BBR flow against loss-based ones: a buffer of `x` bandwidth-delay products, `packets` long, `seconds` at the
/// link's rate, with a round trip of `rtt_s`.
fn ware_share(x: f64, packets: f64, seconds: f64, rtt_s: f64) -> f64 {
    let loss_based = (0.5 - 1.0 / (2.0 * x) - 4.0 / packets).max(0.0);
    (1.0 - loss_based) * (1.0 - (seconds + 0.2 + rtt_s) / 10.0)
}

fn ware(cells: &[Cell<'_>]) -> Vec<Check> {
    let pairs = of_mix(cells, "bbr1+cubic").filter(|cell| cell.flows() == 2.0 && cell.buffer_bdp() >= 1.0);
    let check = |cell: &Cell<'_>| {
        let (x, rtt_s) = (cell.buffer_bdp(), cell.rtts().first()? / 1e3);
        let rate = cell.number("rate");
        let model = ware_share(x, x * rate * rtt_s / FRAME_BITS, x * rtt_s, rtt_s);
        let what = format!("share of BBR, {}", cell.name());
        Some(Check::within("C6", what, cell.value(FIRST_SHARE)?, (model - 0.1, model + 0.1)))
    };
    pairs.filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{point, run_of};
    use super::*;
    use crate::buffers::report::cells;

    #[test]
    fn the_models_have_their_published_values() {
        for (b, beta, expected) in [(0.0, 0.5, 0.75), (0.25, 0.5, 0.893), (1.0, 0.5, 1.0), (0.1, 0.7, 0.921)]
        {
            assert!((sawtooth(b, beta) - expected).abs() < 1e-3, "{b} {beta}: {}", sawtooth(b, beta));
        }
        // 10 Mbit/s, 40 ms; 1 Gbit/s, 100 ms.
        for (rate, rtt_s, x, expected) in
            [(1e7, 0.04, 1.0, 0.97), (1e7, 0.04, 8.0, 0.55), (1e9, 0.1, 2.0, 0.71)]
        {
            let share = ware_share(x, x * rate * rtt_s / FRAME_BITS, x * rtt_s, rtt_s);
            assert!((share - expected).abs() < 0.01, "{rate} {x}: {share}");
        }
    }

    /// A point with one figure, and the verdicts on it.
    fn verdicts(settings: [(&str, &str); 4], figures: &[(&str, f64)]) -> Vec<(&'static str, bool)> {
        let data = run_of(vec![point(0, &settings, figures)]);
        checks(&cells(&data)).iter().map(|check| (check.band, check.passes)).collect()
    }

    #[test]
    fn each_band_has_points_that_pass_and_that_fail() {
        let settings =
            |mix, flows, buffer| [("mix", mix), ("flows", flows), ("buffer_bdp", buffer), ("queue", "fifo")];
        let of =
            |mix, flows, buffer, figure, value| verdicts(settings(mix, flows, buffer), &[(figure, value)]);
        assert_eq!(of("reno", "1", "0.25", UTILISATION, 0.90), [("C1", true)]);
        assert_eq!(of("reno", "1", "0.25", UTILISATION, 0.80), [("C1", false)]);
        assert_eq!(of("cubic", "64", "0.125", UTILISATION, 0.98), [("C1", true)]);
        assert_eq!(of("cubic", "64", "0.12", UTILISATION, 0.98), [], "less than BDP / sqrt(n)");
        assert_eq!(of("cubic", "1", "0.2", UTILISATION, 0.78), [("C1", false), ("C2", true)]);
        assert_eq!(of("bbr1", "1", "0.2", UTILISATION, 0.6), [("C2", false)]);
        assert_eq!(of("cubic", "10", "1", JAIN, 0.94), [("C4", false)]);
        assert_eq!(of("bbr1+49*cubic", "50", "1", FIRST_SHARE, 0.3), [("C5", true)]);
        assert_eq!(of("bbr1+cubic", "50", "0.5", FIRST_SHARE, 0.6), [("C5", false)]);
        assert_eq!(of("bbr1+cubic", "2", "2", FIRST_SHARE, 0.75), [("C6", true)]);
        assert_eq!(of("bbr1+cubic", "2", "2", FIRST_SHARE, 0.47), [("C6", false)]);
        let reno = settings("reno", "25", "3");
        assert_eq!(verdicts(reno, &[(K_HALVINGS, 1.3), (K_LOSSES, 1.2)]), [("C3", true), ("C3", false)]);
    }

    #[test]
    fn bands_without_points_are_not_tested() {
        let rows = summary(&[]);
        assert!(rows.rows().len() == 6 && rows.rows().iter().all(|row| row[2] == "not tested"));
    }
}
