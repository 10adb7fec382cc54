//! The experiment `bng`: one concentrator after another, and in each round the same trials.
//!
//! ```text
//! set-ups: 500/s, 1,000/s, .. until some fail > bisection > half of the highest > 1 session, 1,000 .. with traffic > restarts
//! cold start > churn > floods
//! ```

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_cpe::FloodKind;

use super::device::{Device, Program};
use super::goodput;
use super::measured::{Forwarded, Found, Goodput, ID, Restarted, SetUps};
use super::plan::{Aaa, Concentrators, Entry, Kind, SEARCH_TRIALS};
use super::street::Street;
use super::trials::Bench;
use weir_lab::error::RunError;
use weir_lab::run::Event;
use weir_lab::run::series::{Asked, Series};
use weir_record::record::{Detail, PointResult, ProcedureResult, Purpose, Trial};
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
    stop: &'a AtomicBool,
    found: Found,
}

impl Measuring<'_> {
    pub(super) fn all_points(mut self) -> Result<(), RunError> {
        let plan = self.experiment;
        for (index, entry) in plan.entries().into_iter().enumerate() {
            if !self.has(index) {
                continue;
            }
            match self.resumed.finished(index) {
                Some(data) => self.show(index, data),
                None => self.measure(index, entry)?,
            }
        }
        Ok(())
    }

    /// A point that was finished before the run was interrupted.
    fn show(&self, index: usize, data: &PointData) {
        let observe = self.options.observe;
        observe(Event::Point {
            index: Some(index),
            count: self.experiment.entries().len(),
            point: &data.point,
        });
        data.trials.iter().for_each(|trial| observe(Event::Ended(trial)));
        data.point.result.iter().for_each(|result| observe(Event::Result(&data.point, result)));
    }

    fn measure(&mut self, index: usize, entry: Entry) -> Result<(), RunError> {
        let plan = self.experiment;
        let street = Street::new(plan, entry.dut)?;
        let device = Device::start(plan, entry, &street, &mut self.journal)?;
        let settings = vec![
            (MEASURES, ID.to_string()),
            ("access", entry.access.name().to_string()),
            ("aaa", entry.aaa.name().to_string()),
            ("lines", plan.lines.to_string()),
            ("frame_bytes", plan.frame_bytes.to_string()),
        ];
        let mut point = self.point(index, entry.dut.name(), settings);
        point.notes.extend(device.as_ref().err().map(|why| format!("{why}.")));
        let kept: VecDeque<Trial> = self.resumed.enter(&mut point, self.log)?;
        let count = plan.entries().len();
        (self.options.observe)(Event::Point { index: Some(index), count, point: &point });
        let device = match device {
            Ok(device) => device,
            Err(_) => {
                let result = PointResult { search: "left out".into(), ..PointResult::default() };
                return self.close(&point, result);
            }
        };
        let memory = device.memory();
        let bench = Bench { plan, entry, street, device, seed: self.settings.seed, memory, most_sessions: 0 };
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
        // Without trials of set-ups devices come at the first rate of the plan.
        let mut rate_per_s = 2.0 * self.bench.plan.first_per_s;
        for kind in self.bench.plan.trials.clone() {
            match kind {
                Kind::SetUps => {
                    let Some((best, is_bounded)) = self.search(round)? else { return Ok(()) };
                    rate_per_s = best.asked_per_s;
                    self.found.set_ups.push((best, is_bounded));
                    let half = self.set_ups(&format!("round {round}: half"), rate_per_s / 2.0)?;
                    self.found.half.extend(half);
                }
                Kind::Forwarding => self.forwarding(round, rate_per_s)?,
                Kind::Restart => self.restarts(round, rate_per_s, journal)?,
                Kind::Tcp => self.goodput(round, journal)?,
                Kind::Many => self.many(round)?,
                Kind::Cold => {
                    let cold = self.trial(round, "cold start", |bench, stop| bench.cold(stop))?;
                    self.found.cold.extend(cold);
                }
                Kind::Churn => {
                    let churned = self.trial(round, "churn", |bench, stop| bench.churn(rate_per_s, stop))?;
                    self.found.churned.extend(churned);
                }
                Kind::Storm => {
                    for (name, kind) in [("PADI", FloodKind::Padi), ("unknown_vlan", FloodKind::UnknownVlan)]
                    {
                        let name = format!("flood of {name}");
                        let stormed = self.trial(round, &name, |bench, stop| bench.storm(kind, stop))?;
                        self.found.stormed.extend(stormed);
                    }
                }
            }
        }
        Ok(())
    }

    /// A trial of this name, and what it found.
    fn trial<T: Detail>(
        &mut self,
        round: u32,
        name: &str,
        make: impl FnOnce(&mut Bench<'_>, &AtomicBool) -> Result<Trial, RunError>,
    ) -> Result<Option<T>, RunError> {
        let asked = Asked::Named(format!("round {round}: {name}"), Purpose::Procedure, self.bench.plan.trial);
        let (bench, stop) = (&mut self.bench, self.stop);
        Ok(self.series.one(&asked, |_| make(bench, stop))?.believed::<T>())
    }

    fn forwarding(&mut self, round: u32, rate_per_s: f64) -> Result<(), RunError> {
        for sessions in self.bench.plan.sessions.clone() {
            let name = format!("{sessions} sessions");
            let forwarded: Option<Forwarded> =
                self.trial(round, &name, |bench, stop| bench.forward(sessions, rate_per_s, stop))?;
            self.found.forwarded.extend(forwarded);
        }
        Ok(())
    }

    fn restarts(&mut self, round: u32, rate_per_s: f64, journal: &mut Journal) -> Result<(), RunError> {
        if !matches!(self.bench.device, Device::Weir(_)) {
            return Ok(());
        }
        for (name, what) in [("restart", Program::Control), ("restart of the node", Program::Node)] {
            let restarted: Option<Restarted> =
                self.trial(round, name, |bench, stop| bench.restart(what, rate_per_s, stop, journal))?;
            self.found.restarted.extend(restarted);
        }
        Ok(())
    }

    fn goodput(&mut self, round: u32, journal: &mut Journal) -> Result<(), RunError> {
        if !matches!(self.bench.device, Device::Weir(_)) {
            return Ok(());
        }
        let rate: Option<Goodput> = self.trial(round, "TCP", |bench, stop| {
            let options = bench.options(1, 1.0);
            goodput::measure(&bench.street, options, stop, journal)
        })?;
        self.found.goodput.extend(rate.map(|goodput| goodput.bits_per_s / 1e6));
        Ok(())
    }

    fn many(&mut self, round: u32) -> Result<(), RunError> {
        // A RADIUS server does not know their devices.
        if !matches!(self.bench.device, Device::Weir(_)) || self.bench.entry.aaa != Aaa::Local {
            return Ok(());
        }
        let many = self.trial(round, "TCP of many subscribers", |bench, stop| bench.many(stop))?;
        self.found.many.extend(many);
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
        ("first packet", "from the first DISCOVER or PADI to the far end, at half of the set-up rate".into()),
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
