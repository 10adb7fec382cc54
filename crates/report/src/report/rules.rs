//! The cost of a rule and the gain of a set: CPU time of a frame against the number of rules, form by form.
//!
//! The cost of a rule is the slope of a chain, from its first count of rules to its last. A set or verdict map is
//! compared with the chain of the same maker; it pays from the number of rules on at which the chain, on that
//! slope, becomes dearer than the set is at its dearest. Where the CPUs of tester and device were not equally close at
//! two points, a frame's cost differs by more than a rule's: then the slope is an estimate and nothing pays.

use super::cost::median_ns_per_frame;
use super::lines::{Axis, Dot, DotKind, Line, Panel, range};
use crate::run_data::{PointData, RunData};
use crate::shards;
use crate::view::format::{full, list, or_dash, si, significant, time_ns};
use crate::view::page::{figure, legend_of, note, section};
use crate::view::{Comparison, Rate, Style, Table, core_distance, frame_name};

/// Below this many rules between two points, their difference is mostly noise.
const REMOTE: f64 = 50.0;

/// A filter of one kind under one traffic.
struct Filter<'a> {
    /// Device and what else varies, without rules and form.
    name: String,
    frame: &'a str,
    /// CPU time of a frame without rules, ns.
    without_ns: Option<f64>,
    forms: Vec<Form<'a>>,
}

/// One form of its rules.
struct Form<'a> {
    name: &'a str,
    /// Ascending number of rules.
    costs: Vec<Cost<'a>>,
}

#[derive(Clone, Copy)]
struct Cost<'a> {
    rules: f64,
    /// CPU time of a frame.
    ns: f64,
    point: &'a PointData,
}

/// The section; empty where no plan varies the number of rules.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let filters = filters(all.all().into_iter().map(|(series, point)| (&series.label, point)));
    if filters.is_empty() {
        return String::new();
    }
    let ns = || filters.iter().flat_map(|f| &f.forms).flat_map(|f| &f.costs).map(|c| c.ns);
    let (low, high) = range(ns());
    let names = form_names(&filters);
    let panels: Vec<_> =
        filters.iter().map(|filter| panel(filter, &names, (low / 1.5, high * 1.5))).collect();
    let legend = legend_of(names.iter().enumerate().map(|(i, name)| (style(i), *name)));
    section(
        "rules",
        "What rules cost",
        &(note(EXPLANATION) + &legend + &figure("multiples", &panels, CAPTION, &table(&filters))),
    )
}

const EXPLANATION: &str = "All forms describe the same flows, of which the last is the test traffic: a chain has a \
    rule for each; a set, an ipset or a verdict map has elements that one rule looks up, and the last rule. ipset \
    has no type with both ports; there a flow is described without its source port.";
const CAPTION: &str = "CPU time of the device per frame, median of the valid trials at the throughput, against the \
    number of rules; both axes are logarithmic. Without rules: see the table.";

/// Sentences about one run.
pub(super) fn findings(all: &Comparison<'_>, data: &RunData) -> Vec<String> {
    let of_run = all.all().into_iter().filter(|(series, _)| series.run.id == data.run.id);
    let filters = filters(of_run.map(|(series, point)| (&series.name, point)));
    filters.iter().flat_map(|filter| [cost_of_a_rule(filter), savings(filter)]).flatten().collect()
}

fn cost_of_a_rule(filter: &Filter<'_>) -> Option<String> {
    let reported = filter.forms.iter().filter(|form| form.is_chain()).filter_map(|form| {
        let slope = form.slope()?;
        let (low, high) = form.slopes();
        let spread = if high / low > 1.1 {
            format!(" ({} to {} piece by piece)", significant(low), significant(high))
        } else {
            String::new()
        };
        let about = if form.ends().is_some_and(|(a, b)| a.apart(&b).is_none()) { "" } else { "about " };
        Some(format!("{about}{} ns in {}{spread}", significant(slope), form.name))
    });
    let reported: Vec<_> = reported.collect();
    let ends = filter.forms.iter().filter(|form| form.is_chain()).find_map(Form::ends)?;
    (!reported.is_empty()).then(|| {
        format!(
            "{}, {}: a rule costs a frame {} of CPU time, between {} and {}.",
            filter.name,
            frame_name(filter.frame),
            list(&reported),
            full(ends.0.rules),
            rules(ends.1.rules)
        )
    })
}

fn savings(filter: &Filter<'_>) -> Option<String> {
    let reported = filter.forms.iter().filter(|form| form.is_chain()).flat_map(|chain| {
        let sets = filter.forms.iter().filter(|set| !set.is_chain() && set.maker() == chain.maker());
        sets.filter_map(move |set| saving(chain, set))
    });
    let reported: Vec<_> = reported.collect();
    (!reported.is_empty())
        .then(|| format!("{}, {}: {}.", filter.name, frame_name(filter.frame), reported.join("; ")))
}

fn rules(n: f64) -> String {
    format!("{} rule{}", full(n), if n == 1.0 { "" } else { "s" })
}

/// A set against the chain of the same maker, at the largest number of rules that both have.
fn saving(chain: &Form<'_>, set: &Form<'_>) -> Option<String> {
    let both = chain.costs.iter().rev();
    let (at_chain, at_set) =
        both.clone().find_map(|c| set.costs.iter().find(|s| s.rules == c.rules).map(|s| (c, s)))?;
    let described = rules(at_chain.rules);
    let times = at_chain.ns / at_set.ns;
    let (chain_ns, set_ns) = (time_ns(at_chain.ns), time_ns(at_set.ns));
    if times <= 1.0 {
        return Some(format!(
            "with {described} {} saves nothing ({set_ns} a frame, {} {chain_ns})",
            set.name, chain.name
        ));
    }
    if let Some(why) = at_chain.apart(at_set) {
        return Some(format!(
            "with {described} {} takes {set_ns} a frame, {} {chain_ns}, roughly: {why}",
            set.name, chain.name
        ));
    }
    let dearest = set.costs.iter().max_by(|a, b| a.ns.total_cmp(&b.ns))?;
    let first = chain.costs.first()?;
    let from = chain.slope().map(|slope| first.rules + ((dearest.ns - first.ns) / slope).max(0.0).ceil());
    let pays = from.filter(|from| *from <= at_chain.rules && dearest.apart(first).is_none());
    let pays = pays.map(|from| format!(", and pays from {} on", rules(from)));
    Some(format!(
        "with {described} {} takes {set_ns} a frame, {} {chain_ns}: the set is {} times as cheap{}",
        set.name,
        chain.name,
        significant(times),
        pays.unwrap_or_default()
    ))
}

impl<'a> Form<'a> {
    fn is_chain(&self) -> bool {
        self.name.ends_with("-chain")
    }

    /// `nft` of `nft-set`.
    fn maker(&self) -> &str {
        self.name.rsplit_once('-').map_or(self.name, |(maker, _)| maker)
    }

    fn ends(&self) -> Option<(Cost<'a>, Cost<'a>)> {
        Some((*self.costs.first()?, *self.costs.last()?)).filter(|(first, last)| first.rules < last.rules)
    }

    /// ns per rule between the ends, if it rises at all.
    fn slope(&self) -> Option<f64> {
        let (first, last) = self.ends()?;
        Some((last.ns - first.ns) / (last.rules - first.rules)).filter(|slope| *slope > 0.0)
    }

    /// Smallest and largest slope between neighbours that are far enough apart, ns per rule.
    fn slopes(&self) -> (f64, f64) {
        let remote = self
            .costs
            .windows(2)
            .filter(|pair| pair[1].rules - pair[0].rules >= REMOTE && pair[0].apart(&pair[1]).is_none());
        range(remote.map(|pair| (pair[1].ns - pair[0].ns) / (pair[1].rules - pair[0].rules)))
    }
}

impl Cost<'_> {
    /// Why the two cannot be compared.
    fn apart(&self, other: &Cost<'_>) -> Option<String> {
        let shards = shards::apart(&self.point.point, &other.point.point);
        shards.or_else(|| core_distance::apart(self.point, other.point))
    }
}

/// All filters whose number of rules varies, each point with the name of its series.
fn filters<'a, 's>(points: impl Iterator<Item = (&'s String, &'a PointData)>) -> Vec<Filter<'a>> {
    let mut found: Vec<Filter<'a>> = Vec::new();
    for (name, point) in points {
        let Some(rules) = point.setting("rules").and_then(|rules| rules.parse::<f64>().ok()) else {
            continue;
        };
        let Some(ns) = median_ns_per_frame(point) else { continue };
        let name = without_rules(name, point);
        let at = found.iter().position(|f| f.name == name && f.frame == point.point.frame);
        let filter = match at {
            Some(at) => &mut found[at],
            None => {
                found.push(Filter { name, frame: &point.point.frame, without_ns: None, forms: Vec::new() });
                found.last_mut().expect("just added")
            }
        };
        match point.setting("filter") {
            Some(form) if rules > 0.0 => filter.add(form, Cost { rules, ns, point }),
            _ => filter.without_ns = Some(ns),
        }
    }
    found
        .iter_mut()
        .flat_map(|f| &mut f.forms)
        .for_each(|form| form.costs.sort_by(|a, b| a.rules.total_cmp(&b.rules)));
    found.retain(|f| f.forms.iter().any(|form| form.ends().is_some()));
    found
}

impl<'a> Filter<'a> {
    fn add(&mut self, form: &'a str, cost: Cost<'a>) {
        match self.forms.iter_mut().find(|f| f.name == form) {
            Some(form) => form.costs.push(cost),
            None => self.forms.push(Form { name: form, costs: vec![cost] }),
        }
    }
}

/// The name of a series without what its filter adds: `kernel-stateless · cpus 2`.
fn without_rules(name: &str, point: &PointData) -> String {
    let form = point.setting("filter");
    let parts = name.split(" · ").filter(|part| !part.starts_with("rules ") && Some(*part) != form);
    parts.collect::<Vec<_>>().join(" · ")
}

fn form_names<'a>(filters: &[Filter<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in filters.iter().flat_map(|f| &f.forms).map(|form| form.name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn style(form: usize) -> Style {
    Style { colour: 1 + form % 7, marker: form, pattern: form / 7 }
}

fn panel(filter: &Filter<'_>, names: &[&str], y_range: (f64, f64)) -> String {
    let line = |form: &Form<'_>| {
        let index = names.iter().position(|name| *name == form.name).expect("one of them");
        let dot = |cost: &Cost<'_>| Dot {
            at: (cost.rules, cost.ns),
            kind: DotKind::Filled,
            title: format!("{}, {}: {} a frame", form.name, rules(cost.rules), time_ns(cost.ns)),
        };
        Line {
            style: style(index),
            line: form.costs.iter().map(|cost| (cost.rules, cost.ns)).collect(),
            dots: form.costs.iter().map(dot).collect(),
            mark: None,
        }
    };
    let heading = format!("{}, {}", filter.name, frame_name(filter.frame));
    let panel = Panel {
        heading: heading.clone(),
        x_name: "rules".into(),
        x_text: si,
        y_text: time_ns,
        x_range: range(filter.forms.iter().flat_map(|f| &f.costs).map(|c| c.rules)),
        y_range,
        y_axis: Axis::Log,
        lines: filter.forms.iter().map(line).collect(),
    };
    let title = format!("CPU time of a frame against rules, {heading}");
    panel.draw(&title, &or_dash(filter.without_ns, |ns| format!("without rules: {}", time_ns(ns))))
}

fn table(filters: &[Filter<'_>]) -> Table {
    let mut table =
        Table::new(&["Device", "Frame", "Form", "Rules", "ns per frame", "above no rules, ns", "frames/s"]);
    for filter in filters {
        let row = |form: &str, rules: &str, ns: f64, fps: String| {
            let above = filter.without_ns.filter(|_| form != "none");
            let above = or_dash(above, |without| full(ns - without));
            vec![filter.name.clone(), filter.frame.into(), form.into(), rules.into(), full(ns), above, fps]
        };
        if let Some(ns) = filter.without_ns {
            table.push(row("none", "0", ns, "–".into()));
        }
        for form in &filter.forms {
            for Cost { rules, ns, point } in &form.costs {
                table.push(row(form.name, &full(*rules), *ns, or_dash(Rate::headline(point), |r| si(r.fps))));
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A form and the CPU time of a frame by the number of rules, ns.
    type Model = (&'static str, fn(f64) -> f64);

    fn run(forms: &[Model]) -> RunData {
        let mut points = Vec::new();
        let mut add = |ns: f64, settings: Vec<(&str, String)>| {
            let mut point = fixture::point(points.len(), "kernel-stateless", 64, 0.98e9 / ns);
            point.point.settings.extend(settings.into_iter().map(|(name, value)| (name.into(), value)));
            points.push(point);
        };
        add(300.0, vec![("rules", "0".into())]);
        for (form, ns) in forms {
            for rules in [1.0, 10.0, 100.0, 1000.0] {
                add(ns(rules), vec![("rules", rules.to_string()), ("filter", form.to_string())]);
            }
        }
        RunData { run: fixture::run(1), points }
    }

    fn said(forms: &[Model]) -> Vec<String> {
        let runs = [run(forms)];
        let found = findings(&Comparison::new(&runs), &runs[0]);
        found.into_iter().map(|text| text.replace('\u{202f}', " ")).collect()
    }

    #[test]
    fn the_slope_of_a_chain_is_the_cost_of_a_rule_and_sets_are_compared_with_their_chain() {
        let found = said(&[
            ("nft-chain", |rules| 350.0 + 5.0 * rules),
            ("nft-set", |_| 450.0),
            ("iptables-legacy-chain", |rules| 340.0 + 2.0 * rules + if rules > 500.0 { 900.0 } else { 0.0 }),
        ]);
        assert_eq!(
            found,
            [
                "kernel-stateless, 64 bytes: a rule costs a frame 5.00 ns in nft-chain and 2.90 ns in \
                 iptables-legacy-chain (2.00 to 3.00 piece by piece) of CPU time, between 1 and 1 000 rules.",
                "kernel-stateless, 64 bytes: with 1 000 rules nft-set takes 450 ns a frame, nft-chain 5.35 µs: the \
                 set is 11.9 times as cheap, and pays from 20 rules on."
            ]
        );
    }

    #[test]
    fn what_was_measured_on_other_cpus_is_only_an_estimate() {
        let mut data = run(&[("nft-chain", |rules| 350.0 + 5.0 * rules), ("nft-set", |_| 450.0)]);
        for (i, point) in data.points.iter_mut().enumerate() {
            let ns = if i == 4 { 220.0 } else { 30.0 };
            point.trials.iter_mut().for_each(|trial| trial.noise.handover_ns = Some(ns));
        }
        let runs = [data];
        let found = findings(&Comparison::new(&runs), &runs[0]);
        let found: Vec<_> = found.iter().map(|text| text.replace('\u{202f}', " ")).collect();
        assert_eq!(
            found,
            [
                "kernel-stateless, 64 bytes: a rule costs a frame about 5.00 ns in nft-chain of CPU time, between 1 and \
                 1 000 rules.",
                "kernel-stateless, 64 bytes: with 1 000 rules nft-set takes 450 ns a frame, nft-chain 5.35 µs, roughly: a \
                 cache line took 220 ns between the CPUs of one and 30 ns of the other."
            ]
        );
    }

    #[test]
    fn a_set_that_saves_nothing_is_called_so() {
        let found = said(&[("nft-chain", |_| 350.0), ("nft-map", |_| 450.0)]);
        assert_eq!(
            found,
            [
                "kernel-stateless, 64 bytes: with 1 000 rules nft-map saves nothing (450 ns a frame, nft-chain 350 ns)."
            ]
        );
    }

    #[test]
    fn every_form_has_its_line_and_the_table_its_rows() {
        let runs = [run(&[("nft-chain", |rules| 350.0 + 5.0 * rules), ("nft-set", |_| 450.0)])];
        let text = html(&Comparison::new(&runs));
        assert_eq!(text.matches("<polyline").count(), 2, "{text}");
        assert_eq!(
            text.matches("<tr>").count() + text.matches("<tr class").count(),
            1 + 9,
            "head and points"
        );
        assert!(text.contains("without rules: 300"), "{text}");
    }

    #[test]
    fn without_a_varying_number_of_rules_there_is_nothing_to_say() {
        let runs = [fixture::quick()];
        let all = Comparison::new(&runs);
        assert_eq!((html(&all), findings(&all, &runs[0])), (String::new(), vec![]));
    }
}
