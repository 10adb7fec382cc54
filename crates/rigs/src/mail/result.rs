//! Results of a mail trial, and figures of a point. Pure.

use serde::{Deserialize, Serialize};
use weir_mail::Latency;
use weir_mail::engine::Report;
use weir_mail::sink::Received;

use weir_record::figure::figure;
use weir_record::record::{Detail, Figure, Statistic, Trial, Verdict};

/// Unit of rates.
pub(super) const PER_S: &str = "recipients/s";
/// A part that is busy for this share of the time is the limit.
const BUSY: f64 = 0.9;

/// What was delivered and received in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Delivered {
    /// Recipients with an outcome per second.
    pub(super) rate: f64,
    /// Of the engine; `None` if another program sent.
    pub(super) report: Option<Report>,
    /// Of weir's receivers.
    pub(super) received: Option<Received>,
    /// Threads of the engine, and of the receivers.
    pub(super) threads: u32,
    /// CPUs of the machine.
    pub(super) cpus: usize,
}

impl Detail for Delivered {
    const KEY: &'static str = "mail";
}

/// Why there were not more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// The threads of the engine.
    Engine,
    /// Those of the receivers: the engine could do more.
    Receivers,
    /// All CPUs together, which both share.
    Machine,
    /// No part is busy: connections wait for replies.
    Waiting,
}

impl Limit {
    /// In a narrow column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Limit::Engine => "engine",
            Limit::Receivers => "receivers",
            Limit::Machine => "all CPUs",
            Limit::Waiting => "waiting",
        }
    }

    /// For a sentence: "growth ends since ...".
    pub(super) fn text(self) -> &'static str {
        match self {
            Limit::Engine => "the engine's threads are busy",
            Limit::Receivers => "the receivers' threads are busy",
            Limit::Machine => "all CPUs are busy",
            Limit::Waiting => "connections wait for replies",
        }
    }
}

impl Delivered {
    /// CPUs in use by the engine, and by the receivers.
    pub(super) fn busy(&self) -> Option<(f64, f64)> {
        let measured = &self.report.as_ref()?.measured;
        let per_s = |cpu_s: f64| cpu_s / measured.seconds.max(1e-9);
        Some((per_s(measured.cpu_s), per_s(measured.beside_cpu_s)))
    }

    /// The part that limited the rate.
    pub(super) fn limit(&self) -> Option<Limit> {
        let ((engine, receivers), threads) = (self.busy()?, f64::from(self.threads) * BUSY);
        Some(match () {
            () if receivers >= threads && engine < threads => Limit::Receivers,
            () if engine + receivers >= BUSY * self.cpus as f64 => Limit::Machine,
            () if engine >= threads => Limit::Engine,
            () => Limit::Waiting,
        })
    }

    /// CPU time of the engine for a recipient, us.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        let measured = &self.report.as_ref()?.measured;
        (measured.recipients > 0).then(|| measured.cpu_s * 1e6 / measured.recipients as f64)
    }

    /// Memory of the engine for a connection, KiB.
    pub(super) fn memory_kib(&self) -> Option<f64> {
        let report = self.report.as_ref().filter(|report| report.open_max > 0)?;
        Some(report.memory_max_kib.saturating_sub(report.memory_kib) as f64 / report.open_max as f64)
    }

    /// Latency of a step.
    pub(super) fn latency(&self, step: &str) -> Option<Latency> {
        self.report.as_ref()?.latency.iter().find(|(name, _)| name == step).map(|(_, latency)| *latency)
    }

    /// What is wrong with it, if anything: recipients that the receivers know nothing of, or the other way round.
    fn mismatch(&self) -> Option<String> {
        let (report, received) = (self.report.as_ref()?, self.received?);
        let delivered = report.outcomes.get("delivered").copied().unwrap_or(0);
        // What was under way when the time was over counts with the receivers alone.
        let under_way = report.open_max * 1000 * u64::from(report.unfinished > 0);
        let fits = (delivered..=delivered + under_way).contains(&received.recipients);
        (!fits).then(|| {
            format!(
                "the engine delivered to {delivered} recipients, the receivers took {}",
                received.recipients
            )
        })
    }

    /// The trial.
    pub(super) fn trial(&self, duration_s: f64) -> Trial {
        let mut trial = Trial { duration_s, ..Trial::default() };
        if let Some(why) = self.mismatch() {
            (trial.verdict, trial.reasons) = (Verdict::Invalid, vec![why]);
        } else if self.limit() == Some(Limit::Receivers) {
            trial.verdict = Verdict::TesterLimited;
            trial.reasons =
                vec!["the receivers were the limit: raise `threads`, if there are CPUs for them".into()];
        }
        trial.with_detail(self)
    }
}

/// The figures of a point, the rate first.
pub(super) fn figures(all: &[Delivered]) -> Vec<Figure> {
    let of = |value: &dyn Fn(&Delivered) -> Option<f64>| all.iter().filter_map(value).collect::<Vec<f64>>();
    let measured = |delivered: &Delivered| Some(delivered.report.as_ref()?.measured.clone());
    let latency =
        |q: fn(&Latency) -> f64| move |delivered: &Delivered| delivered.latency("RCPT").as_ref().map(q);
    let list = [
        ("rate", PER_S, of(&|delivered| Some(delivered.rate))),
        (
            "transactions",
            "transactions/s",
            of(&|d| measured(d).map(|m| m.transactions as f64 / m.seconds.max(1e-9))),
        ),
        ("time", "s", of(&|d| measured(d).map(|m| m.seconds))),
        ("open connections", "connections", of(&|d| measured(d).map(|m| m.open_mean))),
        ("median latency of RCPT", "s", of(&latency(|l| l.p50_s))),
        ("99 % latency of RCPT", "s", of(&latency(|l| l.p99_s))),
        ("CPU time per recipient", "us", of(&Delivered::cpu_us)),
        ("memory per connection", "KiB", of(&Delivered::memory_kib)),
    ];
    let list = list.into_iter().filter(|(_, _, values)| !values.is_empty());
    list.map(|(name, unit, values)| figure(name, unit, Statistic::Median, values)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use weir_mail::engine::Measured;

    use super::*;

    pub(in super::super) fn delivered((cpu_s, beside_cpu_s): (f64, f64), received: u64) -> Delivered {
        let measured =
            Measured { seconds: 2.0, recipients: 1000, cpu_s, beside_cpu_s, ..Measured::default() };
        let outcomes = [("delivered".to_string(), 1000)].into();
        let report = Report {
            measured,
            outcomes,
            open_max: 10,
            memory_kib: 1000,
            memory_max_kib: 1200,
            ..Report::default()
        };
        let received = Received { recipients: received, ..Received::default() };
        Delivered { rate: 500.0, report: Some(report), received: Some(received), threads: 1, cpus: 4 }
    }

    #[test]
    fn who_is_busy_is_the_limit() {
        for (busy, limit) in [
            ((1.9, 0.5), Limit::Engine),
            ((0.5, 1.9), Limit::Receivers),
            ((0.5, 0.5), Limit::Waiting),
            ((1.9, 1.9), Limit::Engine),
        ] {
            assert_eq!(delivered(busy, 1000).limit(), Some(limit), "{busy:?}");
        }
        let two = Delivered { cpus: 2, ..delivered((1.8, 1.85), 1000) };
        assert_eq!(two.limit(), Some(Limit::Machine));
        assert_eq!(delivered((0.5, 1.9), 1000).trial(2.0).verdict, Verdict::TesterLimited);
    }

    #[test]
    fn engine_and_receivers_must_agree() {
        assert_eq!(delivered((0.1, 0.1), 1000).trial(2.0).verdict, Verdict::Valid);
        for received in [999, 1001] {
            let trial = delivered((0.1, 0.1), received).trial(2.0);
            assert_eq!(trial.verdict, Verdict::Invalid);
            assert_eq!(
                trial.reasons,
                [format!("the engine delivered to 1000 recipients, the receivers took {received}")]
            );
        }
        let kept: Delivered = delivered((0.1, 0.1), 1000).trial(2.0).detail().unwrap();
        assert_eq!((kept.cpu_us(), kept.memory_kib()), (Some(100.0), Some(20.0)));
        assert_eq!(figures(&[kept])[0].value, Some(500.0));
    }
}
