//! The experiment `bng`: one concentrator after another, and in each round the same trials.
//!
//! ```text
//! set-ups: 500/s, 1,000/s, .. until some fail > bisection > half of the highest > 1 session, 1,000 .. with traffic
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use super::device::Device;
use super::goodput;
use super::measured::{Forwarded, Found, Goodput, ID, Restarted, SetUps};
use super::plan::{Concentrators, Dut, SEARCH_TRIALS};
use super::street::Street;
use super::trials::Bench;
use weir_lab::error::RunError;
use weir_lab::run::Event;
use weir_lab::run::series::{Asked, Series};
use weir_record::record::{PointResult, ProcedureResult, Purpose, Trial};
use weir_record::run_data::{MEASURES, PointData};
use weir_testbed::journal::Journal;

/// Rates of a bisection that are this close together are one.
const RESOLUTION: f64 = 1.15;

run_of!(
    /// A run in progress.
    pub(super) Measuring, Concentrators
);

/// A concentrator in progress.
struct Entrant<'a, 'p> {
    bench: Bench<'p>,
    series: Series<'a>,
    stop: &'a std::sync::atomic::AtomicBool,
    found: Found,
}

impl Measuring<'_> {
    pub(super) fn all_points(mut self) -> Result<(), RunError> {
        let plan = self.experiment;
        for (index, dut) in plan.duts.iter().enumerate() {
            match self.resumed.finished(index) {
                Some(data) => self.show(index, data),
                None => self.measure(index, *dut)?,
            }
        }
        Ok(())
    }

    /// A point that was finished before the run was interrupted.
    fn show(&self, index: usize, data: &PointData) {
        let observe = self.options.observe;
        observe(Event::Point { index: Some(index), count: self.experiment.duts.len(), point: &data.point });
        data.trials.iter().for_each(|trial| observe(Event::Ended(trial)));
        data.point.result.iter().for_each(|result| observe(Event::Result(&data.point, result)));
    }

    fn measure(&mut self, index: usize, dut: Dut) -> Result<(), RunError> {
        let plan = self.experiment;
        let street = Street::new(plan, dut)?;
        let device = Device::start(plan, dut, &street, &mut self.journal)?;
        let settings = vec![
            (MEASURES, ID.to_string()),
            ("lines", plan.lines.to_string()),
            ("frame_bytes", plan.frame_bytes.to_string()),
        ];
        let mut point = self.point(index, dut.name(), settings);
        point.notes.extend(device.as_ref().err().map(|why| format!("{why}.")));
        let kept: VecDeque<Trial> = self.resumed.enter(&mut point, self.log)?;
        let count = plan.duts.len();
        (self.options.observe)(Event::Point { index: Some(index), count, point: &point });
        let device = match device {
            Ok(device) => device,
            Err(_) => {
                let result = PointResult { search: "left out".into(), ..PointResult::default() };
                return self.close(&point, result);
            }
        };
        let memory = device.memory();
        let bench = Bench { plan, street, device, seed: self.settings.seed, memory, most_sessions: 0 };
        let series = Series::new(self, &point, kept);
        let mut entrant = Entrant { bench, series, stop: self.options.stop, found: Found::default() };
        for round in 1..=plan.rounds {
            entrant.round(round, &mut self.journal)?;
        }
        let Entrant { bench, found, .. } = entrant;
        bench.device.end(&mut self.journal)?;
        self.close(&point, result(plan, &found))
    }
}

impl Entrant<'_, '_> {
    fn round(&mut self, round: u32, journal: &mut Journal) -> Result<(), RunError> {
        let Some((best, is_bounded)) = self.search(round)? else { return Ok(()) };
        let rate_per_s = best.asked_per_s;
        self.found.set_ups.push((best, is_bounded));
        let half = self.set_ups(&format!("round {round}: half"), rate_per_s / 2.0)?;
        self.found.half.extend(half);
        for sessions in self.bench.plan.sessions.clone() {
            let name = format!("round {round}: {sessions} sessions");
            let asked = Asked::Named(name, Purpose::Procedure, self.bench.plan.trial);
            let (bench, stop) = (&mut self.bench, self.stop);
            let trial = self.series.one(&asked, |_| bench.forward(sessions, rate_per_s, stop))?;
            self.found.forwarded.extend(trial.believed::<Forwarded>());
        }
        if matches!(self.bench.device, Device::Weir(_)) {
            let asked =
                Asked::Named(format!("round {round}: restart"), Purpose::Procedure, self.bench.plan.trial);
            let (bench, stop) = (&mut self.bench, self.stop);
            let trial = self.series.one(&asked, |_| bench.restart(rate_per_s, stop, journal))?;
            self.found.restarted.extend(trial.believed::<Restarted>());
            let asked =
                Asked::Named(format!("round {round}: TCP"), Purpose::Procedure, self.bench.plan.trial);
            let (options, street) = (self.bench.options(1, 1.0), &self.bench.street);
            let trial = self.series.one(&asked, |_| goodput::measure(street, options, stop, journal))?;
            let rate = trial.believed::<Goodput>();
            self.found.goodput.extend(rate.map(|goodput| goodput.bits_per_s / 1e6));
        }
        Ok(())
    }

    /// The highest rate at which nothing fails, and whether a higher one was tried; `None`: there is none.
    fn search(&mut self, round: u32) -> Result<Option<(SetUps, bool)>, RunError> {
        let (first, most) = (self.bench.plan.first_per_s, self.bench.plan.most_per_s);
        let (mut good, mut bad): (Option<SetUps>, Option<f64>) = (None, None);
        let mut rate_per_s = first;
        for _ in 0..SEARCH_TRIALS {
            match self.set_ups(&format!("round {round}: set-ups"), rate_per_s)? {
                Some(found) if found.passes() => good = Some(found),
                _ => bad = Some(rate_per_s),
            }
            let highest = good.as_ref().map(|found| found.asked_per_s);
            rate_per_s = match (highest, bad) {
                (Some(good), None) if good >= most => break,
                (Some(good), None) => (2.0 * good).min(most),
                (None, Some(bad)) if bad > 2.0 => bad / 2.0,
                (Some(good), Some(bad)) if bad / good > RESOLUTION => (good * bad).sqrt().round(),
                _ => break,
            };
        }
        Ok(good.map(|good| (good, bad.is_some())))
    }

    fn set_ups(&mut self, name: &str, rate_per_s: f64) -> Result<Option<SetUps>, RunError> {
        let name = format!("{name} at {rate_per_s}/s");
        let asked = Asked::Named(name, Purpose::Procedure, self.bench.plan.trial);
        let (bench, stop) = (&mut self.bench, self.stop);
        let trial = self.series.one(&asked, |_| bench.set_ups(rate_per_s, stop))?;
        Ok(trial.believed::<SetUps>())
    }
}

/// The result of a point.
pub(super) fn result(plan: &Concentrators, found: &Found) -> PointResult {
    let parameters = [
        ("trial", format!("{} s", Duration::as_secs_f64(&plan.trial))),
        ("rounds", plan.rounds.to_string()),
        ("offered", format!("{} frames/s in each direction", plan.offered_fps)),
        (
            "no failure",
            "every device is up, no message was sent again, and set-ups came as fast as asked".into(),
        ),
        ("first packet", "from the first DISCOVER to the far end, at half of the set-up rate".into()),
    ];
    let procedure = ProcedureResult {
        procedure: ID.into(),
        parameters: parameters.map(|(name, value)| (name.to_string(), value)).to_vec(),
        figures: found.figures(),
        irregular: found.irregular(),
        ..ProcedureResult::default()
    };
    PointResult::without_search("rounds", procedure)
}

#[cfg(test)]
mod tests {
    use super::super::measured::{FIRST_PACKET, SET_UP_RATE, forwarding_name};
    use crate::testing;

    #[test]
    fn a_responder_is_measured_whole() {
        weir_testkit::need_root!();
        let sets = [
            "bng.dut=responder",
            "bng.sessions=[1,10]",
            "bng.first_per_s=100",
            "bng.most_per_s=200",
            "bng.trial_s=0.2",
            "bng.offered_fps=1000",
            "bng.rounds=1",
        ];
        let (data, notes) = testing::run("bng", &sets);
        let [point] = &data.points[..] else { panic!("{data:?}") };
        let result = point.point.result.as_ref().unwrap();
        let figures = &result.procedures[0].figures;
        let value =
            |name: &str| figures.iter().find(|figure| figure.name == name).and_then(|figure| figure.value);
        for name in [SET_UP_RATE, FIRST_PACKET[1], &forwarding_name("from", 1), &forwarding_name("to", 10)] {
            assert!(value(name).is_some_and(|value| value > 0.0), "{name}: {figures:?}, {notes:?}");
        }
    }
}
