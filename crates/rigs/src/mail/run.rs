//! The experiment `mail`: all points alternately, round by round.
//!
//! ```text
//! round 1: capacity  100 connections  1,000  5,000  whole task      round 2: 100 connections  1,000 ...
//! ```
//! Each trial has an engine, receivers and a name server of its own, started for it.

use std::time::Instant;

use super::bench::Bench;
use super::case::{Case, name};
use super::plan::{Mail, MailPeer};
use super::result::{Delivered, figures};
use super::{PROGRAMS, report};
use weir_lab::error::RunError;
use weir_lab::run::process::Failed;
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::{Asked, Series};
use weir_lab::run::{Event, programs};
use weir_record::record::{Point, PointResult, ProcedureResult, Purpose, Trial, Verdict};
use weir_record::run_data::MEASURES;

run_of!(
    /// A run in progress.
    pub(super) Rounds, Mail
);

/// One point.
struct Entrant<'a> {
    point: Point,
    case: Case,
    /// It cannot take part; the point's notes say why.
    absent: bool,
    series: Series<'a>,
    rounds: u32,
    /// What was delivered in the trials that can be used.
    delivered: Vec<Delivered>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        !self.absent
    }
}

impl<'a> Rounds<'a> {
    pub(super) fn all_rounds(mut self) -> Result<(), RunError> {
        let bench = Bench::new()?;
        let mut entrants = self.entrants()?;
        let rounds = self.rounds(self.experiment.rounds, entrants.len());
        interleave(&rounds, &mut entrants, |entrant| self.turn(entrant, &bench))?;
        entrants.iter().try_for_each(|entrant| self.close(&entrant.point, entrant.result(self.experiment)))
    }

    fn entrants(&self) -> Result<Vec<Entrant<'a>>, RunError> {
        let mut list = Vec::new();
        for (index, case) in self.experiment.cases().into_iter().enumerate() {
            if !self.has(index) {
                continue;
            }
            let mut point = self.point(index, "mail", settings(self.experiment, case));
            let absent = absent(case);
            if let Some(why) = &absent {
                let note = format!("{why}.");
                (self.options.observe)(Event::Note(&note));
                point.notes.push(note);
            }
            let kept = self.resumed.enter(&mut point, self.log)?;
            let series = Series::new(self, &point, kept);
            list.push(Entrant {
                point,
                case,
                absent: absent.is_some(),
                series,
                rounds: 0,
                delivered: Vec::new(),
            });
        }
        Ok(list)
    }

    fn turn(&mut self, entrant: &mut Entrant<'a>, bench: &Bench) -> Result<(), RunError> {
        entrant.rounds += 1;
        let length = self.experiment.length(entrant.case);
        let asked = Asked::Named(format!("round {}", entrant.rounds), Purpose::Procedure, length);
        let trial = entrant.series.one(&asked, |_| {
            let begin = Instant::now();
            let found = bench.trial(self.experiment, entrant.case, &mut self.journal);
            let duration_s = length.min(begin.elapsed()).as_secs_f64();
            match found {
                Ok(delivered) => Ok(delivered.trial(duration_s)),
                Err(Failed::Run(error)) => Err(error),
                Err(Failed::Program(why)) => Ok(Trial {
                    duration_s,
                    verdict: Verdict::Invalid,
                    reasons: vec![why],
                    ..Trial::default()
                }),
            }
        })?;
        entrant.delivered.extend(trial.believed::<Delivered>());
        Ok(())
    }
}

impl Entrant<'_> {
    fn result(&self, mail: &Mail) -> PointResult {
        if self.absent {
            return PointResult { search: "left out".into(), ..PointResult::default() };
        }
        let parameters = [
            ("recipients", mail.job.recipients.to_string()),
            ("domains", mail.job.domains.to_string()),
            ("skew", mail.job.skew.to_string()),
            ("delay", format!("{} ms", mail.delay.as_millis())),
            ("transaction", ending(mail)),
            ("outcome log", "none: durability is that of the receivers, which keep nothing".into()),
        ];
        let procedure = ProcedureResult {
            procedure: report::ID.into(),
            parameters: parameters.map(|(name, value)| (name.to_string(), value)).to_vec(),
            figures: figures(&self.delivered),
            ..ProcedureResult::default()
        };
        PointResult::without_search("rounds", procedure)
    }
}

fn ending(mail: &Mail) -> String {
    match mail.message_bytes {
        0 => format!("{} recipients, RSET in place of DATA", mail.per_transaction),
        bytes => format!("{} recipients, a message of {bytes} bytes", mail.per_transaction),
    }
}

fn settings(mail: &Mail, case: Case) -> Vec<(&'static str, String)> {
    let mut list = vec![(MEASURES, report::ID.to_string()), ("case", case.name().to_string())];
    match case {
        Case::Ramp(_) | Case::Whole => list.push(("connections", mail.open(case).to_string())),
        Case::Capacity => {}
        Case::Pair(sender, receiver) => {
            list.push(("sender", name(sender).into()));
            list.push(("receiver", name(receiver).into()));
        }
    }
    list
}

/// Why a point cannot be measured here.
fn absent(case: Case) -> Option<String> {
    let missing = |peer: Option<MailPeer>| {
        let peer = peer?;
        programs::missing(peer.name(), PROGRAMS).map(|why| format!("{} is left out: {why}", peer.name()))
    };
    let own = programs::not_weir().map(|why| format!("weir's engine is left out: {why}"));
    own.or_else(|| match case {
        Case::Pair(sender, receiver) => missing(sender).or_else(|| missing(receiver)),
        _ => None,
    })
}
