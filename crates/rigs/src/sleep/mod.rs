//! A rig for tests: how late `sleep` wakes. It has no frames and no device under test, and shows all that a rig needs.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_config::{Section, value};

use weir_lab::error::RunError;
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::Running;
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::{Asked, Series};
use weir_record::figure::{figure, unit};
use weir_record::record::{Detail, Point, PointResult, ProcedureResult, Purpose, Statistic, Trial};
use weir_record::run_data::RunData;

/// The rig.
pub(super) struct SleepRig;

impl Rig for SleepRig {
    fn name(&self) -> &'static str {
        "sleep"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[(
            "sleep",
            "question = \"How late does sleep wake?\"\nexperiment = \"sleep\"\n[sleep]\nms = [1, 2]\nrounds = 3\n",
        )]
    }

    fn options(&self) -> &'static str {
        "# [sleep]\n# ms = [1, 2]      # axis: how long to sleep\n# rounds = 3\n"
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        let section = root.section("sleep");
        let ms = section.required_axis("ms", "[1, 2]", value::count(1..=1000));
        let rounds = section.one("rounds", value::count(1..=1000)).unwrap_or(3);
        section.finish();
        Some(Arc::new(Sleeping { ms: ms?, rounds }))
    }

    fn findings(&self, data: &RunData) -> Vec<String> {
        let procedures = data.points.iter().filter_map(|p| p.point.result.as_ref()?.procedures.first());
        let late = procedures.filter(|p| p.procedure == "sleep").filter_map(|p| p.figures[0].value);
        late.reduce(f64::max)
            .map(|s| format!("Sleep wakes at most {:.3} ms late.", s * 1e3))
            .into_iter()
            .collect()
    }
}

#[derive(Debug)]
struct Sleeping {
    ms: Vec<u32>,
    rounds: u32,
}

/// How late each sleep of a trial ended, ns.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Lateness(Vec<u64>);

impl Detail for Lateness {
    const KEY: &'static str = "sleep_late_ns";
}

struct Entrant<'a> {
    point: Point,
    series: Series<'a>,
    time: Duration,
    late_s: Vec<f64>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }
}

impl Experiment for Sleeping {
    fn estimate(&self) -> Duration {
        self.ms.iter().map(|&ms| Duration::from_millis(ms.into()) * self.rounds).sum()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        vec![Vec::new(); self.ms.len()]
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        let run = run.of(self);
        let rounds = run.rounds(self.rounds, self.ms.len());
        let mut entrants = Vec::new();
        for (index, ms) in self.ms.iter().enumerate().filter(|(index, _)| run.has(*index)) {
            let mut point = run.point(index, "sleep", vec![("ms", ms.to_string())]);
            let kept = run.resumed.enter(&mut point, run.log)?;
            let series = Series::new(&run, &point, kept);
            let time = Duration::from_millis((*ms).into());
            entrants.push(Entrant { point, series, time, late_s: Vec::new() });
        }
        interleave(&rounds, &mut entrants, Entrant::turn)?;
        entrants.iter().try_for_each(|entrant| run.close(&entrant.point, entrant.result()))
    }
}

impl Entrant<'_> {
    fn turn(&mut self) -> Result<(), RunError> {
        let time = self.time;
        let asked = Asked::Named(format!("round {}", self.late_s.len() + 1), Purpose::Procedure, time);
        let trial = self.series.one(&asked, |_| {
            let begin = Instant::now();
            thread::sleep(time);
            let late = begin.elapsed().saturating_sub(time);
            let trial = Trial { duration_s: time.as_secs_f64(), ..Trial::default() };
            Ok(trial.with_detail(&Lateness(vec![late.as_nanos() as u64])))
        })?;
        self.late_s.extend(trial.detail::<Lateness>().map(|late| late.0[0] as f64 / 1e9));
        Ok(())
    }

    fn result(&self) -> PointResult {
        let figures = vec![figure("lateness", unit::SECONDS, Statistic::Median, self.late_s.clone())];
        let parameters = vec![("sleep".to_string(), format!("{} ms", self.time.as_millis()))];
        let procedure =
            ProcedureResult { procedure: "sleep".into(), parameters, figures, ..Default::default() };
        PointResult::without_search("rounds", procedure)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use weir_load::TesterKind;

    use super::*;
    use crate::PLANS;
    use weir_lab::engine;
    use weir_lab::run::{Event, Options};
    use weir_record::record::RunId;
    use weir_record::store::RunLog;
    use weir_report::{compare, export, report};

    /// Runs the plan, or goes on with the first run; stops after so many trials.
    fn sleep(log: &RunLog, resumed: bool, most: u32) -> Result<RunId, RunError> {
        let plan = PLANS.load("sleep", &[]).unwrap();
        let (stop, ended) = (AtomicBool::new(false), Mutex::new(Cell::new(0)));
        let observe = |event: Event| {
            if let Event::Ended(_) = event {
                let ended = ended.lock().unwrap();
                ended.set(ended.get() + 1);
                stop.store(ended.get() >= most, Ordering::Relaxed);
            }
        };
        let tester = TesterKind::Packet;
        let options = Options { seed: 1, tester, tester_limits: Vec::new(), stop: &stop, observe: &observe };
        if resumed {
            engine::resume(&plan, first(log), log, &options)
        } else {
            engine::run(&plan, log, &options)
        }
    }

    fn first(log: &RunLog) -> RunData {
        log.archive().run_data(log.archive().numbered(1).unwrap()).unwrap()
    }

    #[test]
    fn its_figures_are_reported_compared_and_exported_without_code_of_its_own() {
        let log = RunLog::in_memory();
        let runs = [(); 2].map(|()| log.archive().run_data(sleep(&log, false, 99).unwrap()).unwrap());
        let page = report::html(&runs, crate::sections());
        for text in ["Sleep wakes at most", "How late does sleep wake?", "Lateness"] {
            assert!(page.contains(text), "{text} in {page}");
        }
        let rows = compare::compare(&runs[0], &runs[1], &[]).rows;
        let of: Vec<_> = rows.iter().map(|row| (row.device.as_str(), row.quantity.as_str())).collect();
        assert_eq!(of, [("sleep · ms 1", "sleep: lateness"), ("sleep · ms 2", "sleep: lateness")]);
        for (name, text) in [
            ("terminal", export::show(&runs[0], crate::sections())),
            ("markdown", export::markdown(&runs[0], crate::sections())),
            ("latex", export::latex(&runs[0], crate::sections())),
            ("figures", export::figures(&runs[0])),
            ("jsonl", export::jsonl(&runs[0])),
            ("prometheus", export::prometheus(&runs[0])),
        ] {
            assert!(text.to_lowercase().contains("lateness"), "{name}: {text}");
        }
    }

    #[test]
    fn a_run_that_was_stopped_goes_on_with_the_trial_that_is_missing() {
        let log = RunLog::in_memory();
        let stopped = sleep(&log, false, 2);
        assert!(matches!(stopped, Err(RunError::Interrupted(1))), "{stopped:?}");
        let before: Vec<Trial> = first(&log).points.into_iter().flat_map(|p| p.trials).collect();
        assert!(!before.is_empty());
        sleep(&log, true, 99).unwrap();
        let after: Vec<Trial> = first(&log).points.into_iter().flat_map(|p| p.trials).collect();
        assert_eq!(after.len(), 6, "two sleeps in three rounds");
        assert!(before.iter().all(|trial| after.contains(trial)), "what was kept is as it was");
    }

    #[test]
    fn a_run_of_rounds_is_measured_in_shards() {
        let (stop, observe) = (AtomicBool::new(false), |_: Event| ());
        let log = RunLog::in_memory();
        let shards = ["2/2", "1/2"].map(|shard| {
            let plan = PLANS.load("sleep", &[format!("shard={shard}")]).unwrap();
            let tester = TesterKind::Packet;
            let options =
                Options { seed: 1, tester, tester_limits: Vec::new(), stop: &stop, observe: &observe };
            log.archive().run_data(engine::run(&plan, &log, &options).unwrap()).unwrap()
        });
        assert!(shards.iter().all(|data| data.points.len() == 1));
        let whole = weir_record::shards::merge(&shards, RunId::random()).unwrap();
        let points: Vec<_> = whole
            .points
            .iter()
            .map(|data| (data.point.index, data.trials.len(), &data.point.settings))
            .collect();
        let ms = |ms: &str| vec![("ms".to_string(), ms.to_string())];
        assert_eq!(points, [(0, 3, &ms("1")), (1, 3, &ms("2"))]);
        assert_eq!(whole.run.plan_toml, PLANS.load("sleep", &[]).unwrap().text);
    }
}
