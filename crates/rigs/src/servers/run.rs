//! The experiment `servers`: each server and each load, alternately, round by round.
//!
//! ```text
//! round 1: fork x 100  thread x 100  epoll x 100 ...    each: namespace > server > client > counters > end
//! round 2: thread x 100  epoll x 100 ... fork x 100
//! ```
//! Server and namespace are new in each trial: no trial finds the ports, the memory or the luck of another one.

use weir_apps::client::Mode;
use weir_load::Control;
use weir_testbed::cpu::CostSample;

use super::bench::Bench;
use super::measured::{self, Served};
use super::plan::{Servers, Who, Work};
use weir_lab::error::RunError;
use weir_lab::run::process::Failed;
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::{Asked, Series};
use weir_lab::run::{Event, programs};
use weir_record::record::{Noise, Point, Purpose, Trial, Verdict};
use weir_record::run_data::MEASURES;

run_of!(
    /// An experiment in progress.
    pub(super) Serving, Servers
);

/// One point.
struct Entrant<'a> {
    point: Point,
    work: Work,
    /// It cannot take part; the point's notes say why.
    absent: bool,
    series: Series<'a>,
    rounds: u32,
    found: Vec<Served>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        !self.absent
    }
}

impl<'a> Serving<'a> {
    pub(super) fn all_rounds(mut self) -> Result<(), RunError> {
        let bench = Bench::new()?;
        let mut entrants = self.entrants(&bench)?;
        let rounds = self.rounds(self.experiment.rounds, entrants.len());
        interleave(&rounds, &mut entrants, |entrant| self.trial(entrant, &bench))?;
        for entrant in &entrants {
            self.close(&entrant.point, measured::result(&entrant.found, self.experiment.rounds))?;
        }
        Ok(())
    }

    /// The servers that take part, and those that cannot.
    fn entrants(&mut self, bench: &Bench) -> Result<Vec<Entrant<'a>>, RunError> {
        let mut missing: Vec<(String, Option<String>)> = Vec::new();
        let mut list = Vec::new();
        for (index, work) in self.experiment.work().into_iter().enumerate() {
            if !self.has(index) {
                continue;
            }
            let name = work.client.map_or(work.who.name(), |client| client.name());
            let why = match missing.iter().find(|(of, _)| of == name) {
                Some((_, why)) => why.clone(),
                None => {
                    let why = obstacle(&work).map(|why| format!("{name} is left out: {why}."));
                    why.iter().for_each(|note| (self.options.observe)(Event::Note(note)));
                    missing.push((name.into(), why.clone()));
                    why
                }
            };
            let mut point = self.point_of(&work, index, bench);
            point.notes.extend(why.clone());
            let kept = self.resumed.enter(&mut point, self.log)?;
            let (series, absent) = (Series::new(self, &point, kept), why.is_some());
            list.push(Entrant { point, work, absent, series, rounds: 0, found: Vec::new() });
        }
        Ok(list)
    }

    fn point_of(&self, work: &Work, index: usize, bench: &Bench) -> Point {
        let load = match work.mode {
            Mode::Closed(n) => ("concurrency", n.to_string()),
            Mode::Open(rate) => ("rate", rate.to_string()),
            Mode::Hold(n) => ("hold", n.to_string()),
        };
        let mut settings = vec![
            (MEASURES, measured::ID.to_string()),
            ("server", work.who.name().to_string()),
            ("reply", work.reply.name().to_string()),
            load,
            ("client", work.client.map_or("weir", |client| client.name()).to_string()),
        ];
        let own_version = || env!("CARGO_PKG_VERSION").to_string();
        settings.push((
            "version",
            match work.who {
                Who::Weir(_) => own_version(),
                Who::Peer(peer) => programs::version(peer.name(), super::PROGRAMS),
            },
        ));
        settings.extend(
            work.client.map(|client| ("client_version", programs::version(client.name(), super::PROGRAMS))),
        );
        let cpus = &bench.cpus;
        let place = format!(
            "The server has CPU {}, the client CPU {}{}.",
            list(&cpus.dut),
            list(&cpus.tester),
            if cpus.shared { ", the same CPU: they slow each other down" } else { "" }
        );
        Point {
            cpus: cpus.dut.clone(),
            cpus_shared: if cpus.shared { cpus.tester.clone() } else { Vec::new() },
            notes: vec![place],
            ..self.point(index, work.who.name(), settings)
        }
    }

    fn trial(&mut self, entrant: &mut Entrant<'a>, bench: &Bench) -> Result<(), RunError> {
        entrant.rounds += 1;
        let duration = self.experiment.seconds(entrant.work.mode);
        let asked = Asked::Named(format!("round {}", entrant.rounds), Purpose::Procedure, duration);
        let (plan, work, journal) = (self.0.experiment, &entrant.work, &mut self.0.journal);
        let steal_limit = self.0.settings.limits.steal;
        let trial = entrant.series.one(&asked, |control: &Control| {
            let before = CostSample::take(&[]);
            let served = bench.trial((plan, work), control, journal);
            let cost = CostSample::take(&[]).since(&before);
            let noise = Noise { steal: steal(&cost), ..Noise::default() };
            let trial = Trial { duration_s: duration.as_secs_f64(), noise, ..Trial::default() };
            match served {
                Err(Failed::Run(error)) => Err(error),
                Err(Failed::Program(why)) => {
                    Ok(Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial })
                }
                Ok(served) => Ok(judged(trial, &served, steal_limit)),
            }
        })?;
        entrant.found.extend(trial.believed::<Served>());
        Ok(())
    }
}

fn judged(trial: Trial, served: &Served, steal_limit: f64) -> Trial {
    let mut reasons = served.remarks();
    let verdict = if served.outcome.answered == 0 {
        reasons.push("no connection was answered".into());
        Verdict::Invalid
    } else if trial.noise.steal > steal_limit {
        reasons.push(format!("the hypervisor took {:.1} % of the CPU time", trial.noise.steal * 100.0));
        Verdict::Noisy
    } else {
        Verdict::Valid
    };
    Trial { verdict, reasons, ..trial }.with_detail(served)
}

/// Share of the time of all CPUs.
fn steal(cost: &weir_testbed::cpu::Cost) -> f64 {
    let steal: u64 = cost.cpus.values().map(|cpu| cpu.steal_ns).sum();
    let busy: u64 = cost.cpus.values().map(|cpu| cpu.busy_ns).sum();
    if busy == 0 { 0.0 } else { steal as f64 / busy as f64 }
}

/// Why a server or a client cannot take part, as far as can be said without trying.
fn obstacle(work: &Work) -> Option<String> {
    let own = match work.who {
        Who::Weir(architecture) => architecture.obstacle(),
        Who::Peer(peer) => programs::missing(peer.name(), super::PROGRAMS),
    };
    let client = || programs::missing(work.client?.name(), super::PROGRAMS);
    programs::not_weir().or(own).or_else(client)
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
