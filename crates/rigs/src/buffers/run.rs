//! Simulates, or measures, each point of the grid, once for each seed.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_sim::Scenario;

use super::history::{History, Response};
use super::plan::{Bed, Buffers, Cell};
use super::shared::{Mathis, Shared};
use super::{real, report};
use weir_lab::error::RunError;
use weir_lab::run::Event;
use weir_lab::run::series::{Asked, Series};
use weir_record::figure::{figure, unit};
use weir_record::record::{
    Better, Figure, Point, PointResult, ProcedureResult, Purpose, Statistic, Trial, Verdict,
};
use weir_record::run_data::MEASURES;

run_of!(
    /// An experiment in progress.
    pub(super) Simulating, Buffers
);

impl Simulating<'_> {
    pub(super) fn all_cells(self) -> Result<(), RunError> {
        let cells = self.experiment.cells();
        let own: Vec<_> = cells.iter().enumerate().filter(|(index, _)| self.has(*index)).collect();
        own.iter().try_for_each(|(index, cell)| self.cell(cell, *index, own.len()))
    }

    fn cell(&self, cell: &Cell<'_>, index: usize, count: usize) -> Result<(), RunError> {
        let grid = self.experiment;
        let mut point: Point = self.point(index, cell.queue, settings(grid, cell));
        let kept = self.resumed.enter(&mut point, self.log)?;
        (self.options.observe)(Event::Point { index: Some(index), count, point: &point });
        let mut series = Series::new(self, &point, kept);
        let mut found = Vec::new();
        for number in 1..=grid.seeds {
            // The same numbers for all points: they differ by their settings alone.
            let scenario = grid.scenario(cell, self.settings.seed ^ u64::from(number));
            let asked = Asked::Named(format!("seed {number}"), Purpose::Procedure, grid.duration);
            let kept = |(shared, history): (Shared, History)| {
                let verdict = if shared.invalid.is_empty() { Verdict::Valid } else { Verdict::Invalid };
                let (duration_s, reasons) = (grid.duration.as_secs_f64(), shared.invalid.clone());
                let trial = Trial { duration_s, verdict, reasons, ..Trial::default() };
                let trial = trial.with_detail(&shared);
                // One series is enough to look at.
                if number == 1 { trial.with_detail(&history) } else { trial }
            };
            let trial = match cell.bed {
                Bed::Simulated => series.computed(&asked, || simulate(&scenario).map(kept)),
                Bed::Real => series.one(&asked, |_| real_trial(cell, &scenario, self.options.stop).map(kept)),
            }?;
            found.extend(trial.detail::<Shared>());
        }
        self.close(&point, result(grid, cell.bed, &found))
    }
}

/// A trial on a real bed. One that breaks down, by a connection that is lost say, is invalid: all others go on.
fn real_trial(
    cell: &Cell<'_>,
    scenario: &Scenario,
    stop: &AtomicBool,
) -> Result<(Shared, History), RunError> {
    match real::measure(cell, scenario, stop) {
        Err(RunError::Search(why)) => {
            Ok((Shared { invalid: vec![why], ..Shared::default() }, History::default()))
        }
        found => found,
    }
}

fn simulate(scenario: &Scenario) -> Result<(Shared, History), RunError> {
    let outcome = scenario.run().map_err(|error| RunError::Search(error.to_string()))?;
    let history = History::of(&outcome.series, scenario);
    Ok((Shared::of(outcome, scenario), history))
}

/// What a point is, in records.
pub(super) fn settings(grid: &Buffers, cell: &Cell<'_>) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        (MEASURES, report::ID.to_string()),
        ("queue", cell.queue.to_string()),
        ("buffer_bdp", cell.buffer_bdp.to_string()),
        ("flows", cell.flows.to_string()),
        ("mix", cell.mix.to_string()),
        ("rtt_ms", cell.rtts.to_string()),
        ("rate", grid.rate_bits_per_s.to_string()),
        ("duration_s", grid.duration.as_secs_f64().to_string()),
    ];
    // Points of earlier records had none of these, and did not say so.
    if cell.bed == Bed::Real {
        settings.push((report::BED, "real".to_string()));
        if !cell.offloads {
            settings.push(("offloads", "false".to_string()));
        }
    }
    if grid.ecn {
        settings.push(("ecn", "true".to_string()));
    }
    if grid.per_sqrt_flows {
        settings.push((report::PER_SQRT, "true".to_string()));
    }
    if !grid.rate_changes.is_empty() {
        let change = |(at, rate): &(Duration, u64)| format!("{} s: {rate}", at.as_secs_f64());
        let changes: Vec<String> = grid.rate_changes.iter().map(change).collect();
        settings.push(("rate_changes", changes.join(", ")));
    }
    settings
}

fn result(grid: &Buffers, bed: Bed, all: &[Shared]) -> PointResult {
    // What a disturbed bottleneck has shown is no figure.
    let found: Vec<Shared> = all.iter().filter(|shared| shared.invalid.is_empty()).cloned().collect();
    let found = &found[..];
    let first = |shared: &Shared| shared.groups.first().map(|group| group.share);
    let mut figures = vec![
        of(report::UTILISATION, unit::RATIO, found, |shared| Some(shared.utilisation)),
        of(report::JAIN, unit::RATIO, found, |shared| Some(shared.jain)),
        of("least Jain's index of a second", unit::RATIO, found, |shared| shared.jain_least),
        of(report::FIRST_SHARE, unit::RATIO, found, first),
        of("median sojourn", unit::SECONDS, found, |shared| Some(shared.sojourn.p50_s)),
        of(report::SOJOURN, unit::SECONDS, found, |shared| Some(shared.sojourn.p99_s)),
        of("loss", unit::RATIO, found, |shared| Some(shared.loss)),
        of(report::CONVERGENCE, unit::SECONDS, found, |shared| shared.convergence_s),
    ];
    if found.iter().any(|shared| shared.mathis.is_some()) {
        let k = |value: fn(&Mathis) -> f64| {
            let values = found.iter().filter_map(|shared| shared.mathis.as_ref().map(value));
            values.collect::<Vec<f64>>()
        };
        let (halvings, losses) = (k(|mathis| mathis.by_halvings), k(|mathis| mathis.by_losses));
        // A constant of a model: neither more nor less of it is better.
        let constant = |name: &str, values| Figure {
            better: Some(Better::Neither),
            ..figure(name, unit::TIMES, Statistic::Median, values)
        };
        figures.extend([constant(report::K_HALVINGS, halvings), constant(report::K_LOSSES, losses)]);
    }
    figures.extend(Response::figures(found.iter().map(|shared| &shared.responses[..])));
    let stalled: usize = all.iter().map(|shared| shared.stalled).sum();
    let stalled = (stalled > 0).then(|| format!("{stalled} flows stalled in {} trials.", all.len()));
    let invalid = all.iter().filter(|shared| !shared.invalid.is_empty());
    let invalid =
        invalid.map(|shared| format!("A trial on the real bed is invalid: {}.", shared.invalid.join("; ")));
    let irregular: Vec<String> = stalled.into_iter().chain(invalid).collect();
    let parameters = vec![
        ("time of a trial".to_string(), format!("{} s", grid.duration.as_secs_f64())),
        ("warm-up".to_string(), format!("{} s", grid.warm_up.as_secs_f64())),
    ];
    let procedure = ProcedureResult {
        procedure: report::ID.into(),
        parameters,
        figures,
        irregular,
        ..ProcedureResult::default()
    };
    let means = match bed {
        Bed::Simulated => "simulation",
        Bed::Real => "the kernel's TCP",
    };
    PointResult::without_search(means, procedure)
}

fn of(name: &str, unit: &str, found: &[Shared], value: fn(&Shared) -> Option<f64>) -> Figure {
    figure(name, unit, Statistic::Median, found.iter().filter_map(value).collect())
}
