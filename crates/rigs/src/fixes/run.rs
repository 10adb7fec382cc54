//! The experiment `fixes`: each setting before and after, alternately, round by round.

use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::plan::{Fix, Fixes, State};
use weir_lab::error::RunError;
use weir_lab::run::process::Failed;
use weir_lab::run::rounds::{Interleaved, Rated, comparison, interleave};
use weir_lab::run::series::{Asked, Series};
use weir_lab::run::{Event, programs};
use weir_record::figure::figure;
use weir_record::record::{
    Better, Detail, Figure, Point, PointResult, ProcedureResult, Purpose, Statistic, Trial, Verdict,
};
use weir_record::run_data::MEASURES;

/// Of the section, and of the figures in records.
pub(super) const ID: &str = "fixes";

run_of!(
    /// An experiment in progress.
    pub(super) Fixing, Fixes
);

/// What a trial has found, in the unit of the fix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Found(pub(super) f64);

impl Detail for Found {
    const KEY: &'static str = "fix";
}

/// One point.
struct Entrant<'a> {
    point: Point,
    fix: Fix,
    state: State,
    absent: bool,
    series: Series<'a>,
    /// A value for each round; `None` where the trial was none.
    found: Vec<Option<f64>>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        !self.absent
    }
}

impl<'a> Fixing<'a> {
    pub(super) fn all_rounds(mut self) -> Result<(), RunError> {
        let bench = Bench::new()?;
        let mut entrants = self.entrants()?;
        let rounds = self.rounds(self.experiment.rounds, entrants.len());
        interleave(&rounds, &mut entrants, |entrant| self.trial(entrant, &bench))?;
        for (i, entrant) in entrants.iter().enumerate() {
            let before = (entrant.state == State::After).then(|| i.checked_sub(1)).flatten();
            self.close(&entrant.point, entrant.result(before.map(|before| &entrants[before])))?;
        }
        Ok(())
    }

    /// Before and after of each fix follow each other.
    fn entrants(&self) -> Result<Vec<Entrant<'a>>, RunError> {
        let absent = programs::not_weir().map(|why| format!("The fixes are left out: {why}."));
        absent.iter().for_each(|note| (self.options.observe)(Event::Note(note)));
        let states = |&fix: &Fix| [(fix, State::Before), (fix, State::After)];
        let mut list = Vec::new();
        for (index, (fix, state)) in self.experiment.fixes.iter().flat_map(states).enumerate() {
            if !self.has(index) {
                continue;
            }
            let (setting, value) = fix.text(state);
            let settings = vec![
                (MEASURES, ID.to_string()),
                ("fix", fix.name().to_string()),
                ("state", state.name().to_string()),
                ("setting", setting),
                ("value", value),
                ("load", fix.load()),
            ];
            let mut point = self.point(index, ID, settings);
            point.notes.extend(absent.clone());
            let kept = self.resumed.enter(&mut point, self.log)?;
            let series = Series::new(self, &point, kept);
            let found = Vec::new();
            list.push(Entrant { point, fix, state, absent: absent.is_some(), series, found });
        }
        Ok(list)
    }

    fn trial(&mut self, entrant: &mut Entrant<'a>, bench: &Bench) -> Result<(), RunError> {
        let length = self.experiment.length(entrant.fix);
        let name = format!("round {}", entrant.found.len() + 1);
        let asked = Asked::Named(name, Purpose::Procedure, length);
        let (what, stop) = ((self.experiment, entrant.fix, entrant.state), self.options.stop);
        let journal = &mut self.journal;
        let trial = entrant.series.one(&asked, |_| {
            let trial = Trial { duration_s: length.as_secs_f64(), ..Trial::default() };
            match bench.trial(what, stop, journal) {
                Ok(found) => Ok(trial.with_detail(&Found(found))),
                Err(Failed::Run(error)) => Err(error),
                Err(Failed::Program(why)) => {
                    Ok(Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial })
                }
            }
        })?;
        entrant.found.push(trial.believed::<Found>().map(|found| found.0));
        Ok(())
    }
}

impl Entrant<'_> {
    /// With the ratio to `before`, round by round.
    fn result(&self, before: Option<&Entrant<'_>>) -> PointResult {
        if self.absent {
            return PointResult { search: "left out".into(), ..PointResult::default() };
        }
        let quantity = self.fix.quantity();
        let values: Vec<f64> = self.found.iter().flatten().copied().collect();
        let compared = before.and_then(|before| {
            let rates = before.found.iter().copied();
            comparison(self.found.iter().copied(), Rated { point_index: before.point.index, rates })
        });
        let procedure = ProcedureResult {
            procedure: ID.into(),
            parameters: vec![("load".into(), self.fix.load())],
            figures: vec![Figure {
                better: Some(if quantity.is_cost { Better::Lower } else { Better::Higher }),
                ..figure(quantity.name, quantity.unit, Statistic::Median, values)
            }],
            comparisons: compared.into_iter().collect(),
            ..ProcedureResult::default()
        };
        PointResult::without_search("rounds", procedure)
    }
}
