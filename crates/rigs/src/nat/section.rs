//! Common parts of the sections of procedures: points, figures, parameters, and irregularities.

use weir_record::record::{Figure, ProcedureResult};
use weir_record::run_data::{PointData, RunData};
use weir_report::view::Table;
use weir_report::view::format::{full, list, or_dash};

/// A point with the procedure that a section is about.
pub(super) type Measured<'d> = (&'d PointData, &'d ProcedureResult);

/// All points with this procedure.
pub(super) fn points<'d>(data: &'d RunData, id: &str) -> Vec<Measured<'d>> {
    let procedure = |data: &'d PointData| {
        data.point.result.as_ref()?.procedures.iter().find(|procedure| procedure.procedure == id)
    };
    data.points.iter().filter_map(|point| Some((point, procedure(point)?))).collect()
}

/// A figure by its name.
pub(super) fn find<'p>(procedure: &'p ProcedureResult, name: &str) -> Option<&'p Figure> {
    procedure.figures.iter().find(|figure| figure.name == name)
}

/// What was irregular, with the names of the points.
pub(super) fn irregular(points: &[Measured<'_>], label: fn(&PointData) -> String) -> Vec<String> {
    let of = |(data, procedure): &Measured<'_>| {
        let label = label(data);
        procedure.irregular.iter().map(move |text| format!("{label}: {text}.")).collect::<Vec<_>>()
    };
    points.iter().flat_map(of).collect()
}

/// Its value, and the smallest and the largest of its repetitions where there are several.
pub(super) fn with_ends(figure: &Figure) -> String {
    let value = or_dash(figure.value, full);
    let ends = figure.values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    if figure.values.len() > 1 { format!("{value} [{} {}]", full(ends.0), full(ends.1)) } else { value }
}

/// All parameters; where points differ, their values in the order of the points.
pub(super) fn parameters(data: &RunData, points: &[Measured<'_>]) -> Table {
    let mut table = Table::new(&["Parameter", "Value"]);
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in points.iter().flat_map(|(_, procedure)| &procedure.parameters) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let mut values: Vec<String> = Vec::new();
        for (_, procedure) in points {
            let own = procedure.parameters.iter().find(|(known, _)| known == name);
            values.extend(own.map(|(_, value)| value.clone()).filter(|value| !values.contains(value)));
        }
        table.push(vec![name.clone(), list(&values)]);
    }
    table.push(vec!["kernel".into(), data.run.machine.kernel.clone()]);
    table.push(vec!["processor".into(), data.run.machine.cpu.clone()]);
    table
}
