//! The procedures at a point after the search.
//!
//! ```text
//! throughput of the point > latency > pdv > frame loss > back-to-back > recovery > reset > bursts > forwarding > soak > results
//! ```
//! Each procedure is a file: what it asks of the setup, what follows from its trials (pure), and how far its
//! parameters are from those of its RFC.

use std::time::Duration;

use weir_load::counts::Load;
use weir_packet::flow::Direction;

use super::trials::Trials;
use crate::throughput::Procedures;
use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::Setup;
use weir_record::figure::procedure;
use weir_record::record::{ProcedureResult, Purpose, Trial, Verdict};

mod back_to_back;
mod bursts;
mod deviations;
mod forwarding;
mod frame_loss;
mod latency;
mod pdv;
mod recovery;
mod reset;
mod search;
mod soak;

pub(super) use deviations::deviations;
pub(super) use search::search;

/// What is known of a point when its procedures begin.
pub(super) struct Known<'a> {
    /// The point.
    pub(super) spec: &'a PointSpec,
    /// What the search found for its first goal: median in frames/s, all directions together.
    pub(super) throughput_fps: Option<f64>,
    /// What the tester manages on the wire at full speed, frames/s.
    pub(super) ceiling_fps: f64,
    /// What it can pace, frames/s.
    pub(super) paced_fps: f64,
    /// Are its frames the smallest of the plan?
    pub(super) smallest: bool,
}

/// The rate of 100 %.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Maximum {
    /// Frames/s, all directions together.
    fps: f64,
    /// What it is the rate of.
    source: &'static str,
}

impl Known<'_> {
    /// Streams that the load is spread over.
    fn streams(&self) -> f64 {
        if self.spec.direction == Direction::Both { 2.0 } else { 1.0 }
    }

    /// The theoretical maximum of the line if the plan has one; a virtual wire has none, and its ceiling stands for it.
    fn maximum(&self) -> Maximum {
        match self.spec.line_bits_per_s {
            Some(bits) => {
                Maximum { fps: self.spec.frame.line_fps(bits) * self.streams(), source: "the line" }
            }
            None => Maximum { fps: self.ceiling_fps, source: "the wire as measured" },
        }
    }

    /// A share of the throughput, as far as the tester can pace it.
    fn load(&self, percent: f64) -> Option<f64> {
        self.throughput_fps.map(|fps| (fps * percent / 100.0).min(self.paced_fps))
    }
}

/// The setup of a point and all its trials.
pub(super) struct Bench<'b, 'a> {
    pub(super) trials: &'b mut Trials<'a>,
    pub(super) setup: &'b mut Setup,
    pub(super) known: &'b Known<'b>,
}

impl Bench<'_, '_> {
    /// A trial of a procedure, repeated while it cannot be believed.
    fn trial(&mut self, load: &Load) -> Result<Trial, RunError> {
        self.trials.believed(self.setup, load, Purpose::Procedure)
    }

    /// Several alike.
    fn trials(&mut self, load: &Load, times: u32) -> Result<Vec<Trial>, RunError> {
        (0..times).map(|_| self.trial(load)).collect()
    }
}

/// Makes all procedures that are asked for, in their order.
pub(super) fn measure(procedures: &Procedures, bench: &mut Bench) -> Result<Vec<ProcedureResult>, RunError> {
    let mut results = Vec::new();
    if let Some(spec) = &procedures.latency {
        bench.trials.begin(procedure::LATENCY);
        results.push(latency::measure(spec, bench)?);
    }
    if let Some(spec) = &procedures.pdv {
        bench.trials.begin(procedure::PDV);
        results.push(pdv::measure(spec, bench)?);
    }
    if let Some(spec) = &procedures.frame_loss {
        bench.trials.begin(procedure::FRAME_LOSS);
        results.push(frame_loss::measure(spec, bench)?);
    }
    if let Some(spec) = &procedures.back_to_back {
        bench.trials.begin(procedure::BACK_TO_BACK);
        results.push(back_to_back::measure(spec, bench)?);
    }
    if let Some(spec) = &procedures.recovery {
        bench.trials.begin(procedure::RECOVERY);
        results.push(recovery::measure(spec, bench)?);
    }
    if let Some(spec) = procedures.reset.as_ref().filter(|_| bench.known.smallest) {
        bench.trials.begin(procedure::RESET);
        results.push(reset::measure(spec, bench)?);
    }
    if let Some(spec) = &procedures.bursts {
        bench.trials.begin(procedure::BURSTS);
        results.push(bursts::measure(spec, bench)?);
    }
    if let Some(spec) = &procedures.forwarding {
        bench.trials.begin(procedure::FORWARDING);
        results.push(forwarding::measure(spec, bench)?);
    }
    if let Some(spec) = &procedures.soak {
        bench.trials.begin(procedure::SOAK);
        results.push(soak::measure(spec, bench)?);
    }
    Ok(results)
}

/// A result without figures yet.
fn empty(procedure: &str, cites: &str) -> ProcedureResult {
    ProcedureResult { procedure: procedure.into(), cites: cites.into(), ..ProcedureResult::default() }
}

/// A procedure that needs a throughput, at a point that has none.
fn without_throughput(mut result: ProcedureResult) -> ProcedureResult {
    result
        .irregular
        .push("No throughput was found at this point, and without it there is no load for this.".into());
    result
}

/// The trials that count, and what there is to say about the others.
fn valid(trials: &[Trial]) -> (Vec<&Trial>, Option<String>) {
    let good: Vec<&Trial> = trials.iter().filter(|t| t.verdict == Verdict::Valid).collect();
    let bad = trials.len() - good.len();
    let text = format!("{bad} of {} trials are not valid and were not used.", trials.len());
    (good, (bad > 0).then_some(text))
}

/// A trial in which no frame may be lost.
fn loss_remark(trials: &[&Trial]) -> Option<String> {
    let lossy = trials.iter().filter(|t| t.counts().lost > 0).count();
    let text =
        format!("Frames were lost in {lossy} of {} trials; those that arrived were timed.", trials.len());
    (lossy > 0).then_some(text)
}

/// A parameter: name, value, unit.
fn parameter(name: &str, value: impl std::fmt::Display, unit: &str) -> (String, String) {
    (name.into(), format!("{value} {unit}").trim_end().into())
}

fn seconds(name: &str, time: Duration) -> (String, String) {
    parameter(name, time.as_secs_f64(), "s")
}

fn frames_per_s(name: &str, fps: f64) -> (String, String) {
    parameter(name, fps.round(), "frames/s")
}

/// The load at a share of the throughput, as a parameter.
fn load_parameter(percent: f64, fps: f64) -> (String, String) {
    parameter("load", format!("{percent} % of the throughput, {}", fps.round()), "frames/s")
}

/// A deviation, where the plan has less than the RFC asks for.
fn shorter(what: &str, here: Duration, there: Duration, rfc: &str) -> Option<String> {
    let (here_s, there_s) = (here.as_secs_f64(), there.as_secs_f64());
    (here < there).then(|| format!("{what} of {here_s} s, where {rfc} wants {there_s} s."))
}

/// A deviation, where the plan does not repeat what the RFC wants the average of, without saying how many times.
fn once(what: &str, times: u32, rfc: &str) -> Option<String> {
    (times == 1).then(|| format!("{what}: once, where {rfc} wants the average of several."))
}

/// A deviation, where the plan repeats less often than the RFC asks for.
fn fewer(what: &str, here: u32, there: u32, rfc: &str) -> Option<String> {
    (here < there).then(|| format!("{what}: {here} times, where {rfc} wants {there}."))
}

#[cfg(test)]
pub(super) mod testing {
    use super::Known;
    use crate::PLANS;

    /// A point of `quick` at which 0.5 M frames/s were found, on a wire of 1 M frames/s.
    pub(super) fn known() -> Known<'static> {
        let spec = crate::throughput::points(&PLANS.load("quick", &[]).expect("a shipped plan")).remove(0);
        Known {
            spec: Box::leak(Box::new(spec)),
            throughput_fps: Some(0.5e6),
            ceiling_fps: 1e6,
            paced_fps: 0.9e6,
            smallest: true,
        }
    }

    pub(super) use weir_record::fixture::clean_trial as trial;
}
