//! Simulates, or measures, each point of the grid, once for each seed.

use serde::{Deserialize, Serialize};
use weir_sim::{GroupOutcome, Outcome, Sojourn};

use super::plan::{Bed, Buffers, Cell};
use super::{real, report};
use crate::figure::{figure, unit};
use crate::record::{Detail, Figure, Point, PointResult, ProcedureResult, Purpose, Statistic, Trial};
use crate::run::series::{Asked, Series};
use crate::run::{Event, RunError, Running};
use crate::run_data::MEASURES;

/// An experiment in progress.
type Simulating<'a> = Running<'a, Buffers>;

/// What a simulation found, without its series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Shared {
    pub(super) utilisation: f64,
    pub(super) idle_empty: f64,
    pub(super) jain: f64,
    pub(super) jain_least: Option<f64>,
    pub(super) convergence_s: Option<f64>,
    pub(super) sojourn: Sojourn,
    pub(super) groups: Vec<GroupOutcome>,
    /// Dropped by the queue, per segment offered, all flows together.
    pub(super) loss: f64,
    /// Flows of which nothing left the bottleneck for long: no figure averages over them in silence.
    pub(super) stalled: usize,
    /// Why the figures of a real bed do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) invalid: Vec<String>,
}

impl Detail for Shared {
    const KEY: &'static str = "bottleneck";
}

impl Shared {
    fn of(outcome: Outcome) -> Shared {
        let sum = |of: fn(&weir_sim::FlowOutcome) -> u64| outcome.flows.iter().map(of).sum::<u64>() as f64;
        Shared {
            utilisation: outcome.utilisation,
            idle_empty: outcome.idle_empty,
            jain: outcome.jain,
            jain_least: outcome.jain_min_after_convergence,
            convergence_s: outcome.convergence_s,
            sojourn: outcome.sojourn,
            loss: sum(|flow| flow.dropped) / sum(|flow| flow.offered).max(1.0),
            stalled: outcome.flows.iter().filter(|flow| flow.stalled).count(),
            groups: outcome.groups,
            invalid: Vec::new(),
        }
    }
}

impl Simulating<'_> {
    pub(super) fn all_cells(self) -> Result<(), RunError> {
        let cells = self.experiment.cells();
        cells.iter().enumerate().try_for_each(|(index, cell)| self.cell(cell, index, cells.len()))
    }

    fn cell(&self, cell: &Cell<'_>, index: usize, count: usize) -> Result<(), RunError> {
        let grid = self.experiment;
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
        // Points of earlier records were all simulated, and did not say so.
        if cell.bed == Bed::Real {
            settings.push((report::BED, "real".to_string()));
        }
        let mut point: Point = self.point(index, cell.queue, settings);
        let kept = self.resumed.enter(&mut point, self.store)?;
        (self.options.observe)(Event::Point { index: Some(index), count, point: &point });
        let mut series = Series::new(self, &point, kept);
        let mut found = Vec::new();
        for number in 1..=grid.seeds {
            // The same numbers for all points: they differ by their settings alone.
            let scenario = grid.scenario(cell, self.settings.seed ^ u64::from(number));
            let asked = Asked::Named(format!("seed {number}"), Purpose::Procedure, grid.duration);
            let trial = series.one(&asked, |_| {
                let shared = match cell.bed {
                    Bed::Simulated => {
                        let outcome = scenario.run().map_err(|error| RunError::Search(error.to_string()))?;
                        Shared::of(outcome)
                    }
                    Bed::Real => real::measure(cell, &scenario, self.options.stop)?,
                };
                let trial = Trial { duration_s: grid.duration.as_secs_f64(), ..Trial::default() };
                Ok(trial.with_detail(&shared))
            })?;
            found.extend(trial.detail::<Shared>());
        }
        self.close(&point, result(grid, &found))
    }
}

fn result(grid: &Buffers, found: &[Shared]) -> PointResult {
    let first = |shared: &Shared| shared.groups.first().map(|group| group.share);
    let figures = vec![
        of(report::UTILISATION, unit::RATIO, found, |shared| Some(shared.utilisation)),
        of(report::JAIN, unit::RATIO, found, |shared| Some(shared.jain)),
        of("least Jain's index of a second", unit::RATIO, found, |shared| shared.jain_least),
        of("share of the first group", unit::RATIO, found, first),
        of("median sojourn", unit::SECONDS, found, |shared| Some(shared.sojourn.p50_s)),
        of(report::SOJOURN, unit::SECONDS, found, |shared| Some(shared.sojourn.p99_s)),
        of("loss", unit::RATIO, found, |shared| Some(shared.loss)),
        of("convergence", unit::SECONDS, found, |shared| shared.convergence_s),
    ];
    let stalled: usize = found.iter().map(|shared| shared.stalled).sum();
    let stalled = (stalled > 0).then(|| format!("{stalled} flows stalled in {} trials.", found.len()));
    let invalid = found.iter().filter(|shared| !shared.invalid.is_empty());
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
    PointResult::without_search("simulated", procedure)
}

fn of(name: &str, unit: &str, found: &[Shared], value: fn(&Shared) -> Option<f64>) -> Figure {
    figure(name, unit, Statistic::Median, found.iter().filter_map(value).collect())
}
