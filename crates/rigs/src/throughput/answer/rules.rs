//! The cost of a rule per frame, and the gain of a set.
//!
//! The cost of a rule is the slope of a chain: cycles per frame at its most rules minus those at its fewest, by the rules
//! between them. A set, an ipset or a map is compared with the chain of the same maker.

use super::axes::{Axes, Group, words};
use super::bars::{self, Group as Bars};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::{Answer, cycles, headline, times, trust};
use weir_report::view::Table;
use weir_report::view::format::{full, list, or_dash, significant};

const RULES: &str = "rules";
const FORM: &str = "filter";
const COLUMNS: &str = "frames/s by number of rules (0: without a filter); a rule: reference cycles that one more rule costs a frame.";
/// Numbers of rules with a column, at most and at least.
const MOST_COLUMNS: usize = 5;
const LEAST_COLUMNS: usize = 2;

/// `None` where the plan does not vary the number of rules.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let axes = Axes::without(data, &[RULES, FORM]);
    let groups = axes.groups(data);
    let all: Vec<Filter<'_, '_>> = groups.iter().filter_map(Filter::of).collect();
    if all.is_empty() {
        return None;
    }
    let found = all.iter().filter_map(Filter::sentence);
    let bars = all.iter().map(|filter| {
        let points = filter.forms.iter().flat_map(Form::ends_named).collect();
        Bars { label: filter.group.label.clone(), points }
    });
    Some(Answer {
        sentences: found.chain(trust(data)).collect(),
        table: table(&axes, &all),
        columns: COLUMNS.into(),
        drawing: bars::of_rates(bars.collect()),
    })
}

/// A device with its rules in one or several forms.
struct Filter<'g, 'a> {
    group: &'g Group<'a>,
    without: Option<&'a PointData>,
    forms: Vec<Form<'a>>,
}

/// One form of its rules.
struct Form<'a> {
    name: &'a str,
    /// By number of rules, the fewest first.
    points: Vec<(f64, &'a PointData)>,
}

impl<'g, 'a> Filter<'g, 'a> {
    fn of(group: &'g Group<'a>) -> Option<Self> {
        let mut filter = Filter { group, without: None, forms: Vec::new() };
        for point in &group.points {
            let Some(rules) = point.setting(RULES).and_then(|rules| rules.parse::<f64>().ok()) else {
                continue;
            };
            match point.setting(FORM).filter(|_| rules > 0.0) {
                Some(name) => match filter.forms.iter_mut().find(|form| form.name == name) {
                    Some(form) => form.points.push((rules, point)),
                    None => filter.forms.push(Form { name, points: vec![(rules, point)] }),
                },
                None => filter.without = Some(point),
            }
        }
        filter.forms.iter_mut().for_each(|form| form.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        filter.forms.iter().any(|form| form.points.len() > 1).then_some(filter)
    }

    fn sentence(&self) -> Option<String> {
        let costs = self.forms.iter().filter(|form| form.is_chain());
        let costs = costs.filter_map(|form| {
            Some(format!("{} cycles in {}", significant(form.cycles_per_rule()?), form.name))
        });
        let costs: Vec<String> = costs.collect();
        let savings: Vec<String> = self.forms.iter().filter_map(|form| self.saving(form)).collect();
        let costs = (!costs.is_empty()).then(|| format!("a rule costs a frame {}", list(&costs)));
        let parts: Vec<String> = costs.into_iter().chain(savings).collect();
        (!parts.is_empty()).then(|| format!("{}: {}.", self.group.label, parts.join("; ")))
    }

    /// What a form saves against the chain of its maker, at the most rules that both have.
    fn saving(&self, form: &Form<'a>) -> Option<String> {
        let chain = self.forms.iter().find(|chain| chain.is_chain() && chain.maker() == form.maker())?;
        if form.is_chain() {
            return None;
        }
        let both = chain.points.iter().rev().find_map(|(n, point)| Some((*n, *point, form.at(*n)?)));
        let (rules, at_chain, at_form) = both?;
        let rules = words(RULES, &rules.to_string())?;
        let (own, other) = (form.name, chain.name);
        if let Some(ratio) = times(at_form, at_chain) {
            let rates = [at_form, at_chain].map(|point| or_dash(headline(point), |rate| rate.words()));
            return Some(format!(
                "with {rules} {own} forwards {} times as many frames as {other} ({} and {} frames/s)",
                ratio.words(),
                rates[0],
                rates[1]
            ));
        }
        let (cheap, dear) = (cycles(at_form)?, cycles(at_chain)?);
        Some(format!(
            "with {rules} a frame costs {} cycles in {own} and {} in {other}, {} times as many",
            full(cheap),
            full(dear),
            significant(dear / cheap)
        ))
    }
}

impl<'a> Form<'a> {
    fn is_chain(&self) -> bool {
        self.name.ends_with("-chain")
    }

    /// `nft` of `nft-set`.
    fn maker(&self) -> &str {
        self.name.rsplit_once('-').map_or(self.name, |(maker, _)| maker)
    }

    fn at(&self, rules: f64) -> Option<&'a PointData> {
        self.points.iter().find(|(n, _)| *n == rules).map(|(_, point)| *point)
    }

    fn cycles_per_rule(&self) -> Option<f64> {
        let (fewest, most) = (self.points.first()?, self.points.last()?);
        let more = cycles(most.1)? - cycles(fewest.1)?;
        (most.0 > fewest.0).then(|| more / (most.0 - fewest.0))
    }

    /// The points with the fewest and the most rules, with their names.
    fn ends_named(&self) -> Vec<(String, &'a PointData)> {
        let ends = [self.points.first(), self.points.last()];
        let ends = ends.into_iter().flatten();
        ends.map(|(n, point)| (format!("{}, {}", self.name, full(*n)), *point)).collect()
    }
}

fn table(axes: &Axes, all: &[Filter<'_, '_>]) -> Table {
    let mut counts: Vec<f64> =
        all.iter().flat_map(|f| &f.forms).flat_map(|form| &form.points).map(|(n, _)| *n).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    let tables = (LEAST_COLUMNS..=MOST_COLUMNS).rev().map(|n| table_of(axes, all, &spread(&counts, n)));
    let mut tables = tables.skip_while(|table| !super::fits(table));
    tables.next().unwrap_or_else(|| table_of(axes, all, &spread(&counts, LEAST_COLUMNS)))
}

/// With columns for these numbers of rules.
fn table_of(axes: &Axes, all: &[Filter<'_, '_>], columns: &[f64]) -> Table {
    let named = columns.iter().map(|n| full(*n));
    let head =
        axes.head().into_iter().chain(["form".into(), "0".into()]).chain(named).chain(["a rule".into()]);
    let mut table = Table::new(&head.collect::<Vec<_>>());
    let rate = |point: Option<&PointData>| or_dash(point.and_then(headline), |rate| rate.sign());
    for (filter, form) in all.iter().flat_map(|filter| filter.forms.iter().map(move |form| (filter, form))) {
        let begin = filter.group.cells.iter().cloned().chain([form.name.to_string(), rate(filter.without)]);
        let cells = begin.chain(columns.iter().map(|n| rate(form.at(*n))));
        let cost = or_dash(form.cycles_per_rule(), significant);
        table.push(cells.chain([cost]).collect());
    }
    table.without_empty(&["0", "a rule"])
}

/// So many of these numbers, at least two: first and last, and those between them evenly.
fn spread(counts: &[f64], columns: usize) -> Vec<f64> {
    let n = counts.len();
    if n <= columns {
        return counts.to_vec();
    }
    (0..columns).filter_map(|i| counts.get(i * (n - 1) / (columns - 1)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, costs, run, shown};
    use super::*;

    #[test]
    fn cycles_of_a_rule_and_what_a_set_saves() {
        let point = |settings: &[(&'static str, &'static str)], fps| Measured {
            dut: "kernel-stateless",
            frame: 64,
            settings: settings.to_vec(),
            fps,
        };
        let mut data = run(&[
            point(&[("rules", "0")], 650e3),
            point(&[("rules", "1"), ("filter", "nft-chain")], 640e3),
            point(&[("rules", "10000"), ("filter", "nft-chain")], 22e3),
            point(&[("rules", "1"), ("filter", "nft-set")], 630e3),
            point(&[("rules", "10000"), ("filter", "nft-set")], 620e3),
        ]);
        let cycles = [4000.0, 4100.0, 104_090.0, 4200.0, 4300.0];
        data.points.iter_mut().zip(cycles).for_each(|(point, cycles)| costs(point, cycles));
        assert_eq!(
            shown(&data).lines().next().unwrap(),
            "kernel-stateless: a rule costs a frame 10.0 cycles in nft-chain; with 10 000 rules nft-set forwards 28.2 (27.8 to 28.6) \
             times as many frames as nft-chain (620 k and 22.0 k frames/s)."
        );
        let text = shown(&data);
        assert!(
            text.ends_with(
                "form          0     1  10 000  a rule\n\
                 nft-chain  650k  640k   22.0k    10.0\n\
                 nft-set    650k  630k    620k  0.0100\n"
            ),
            "{text}"
        );
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 5), [1.0, 2.0, 4.0, 5.0, 7.0]);
        assert_eq!(spread(&[1.0, 2.0], 5), [1.0, 2.0]);
    }
}
