//! Connections to workers: each has a thread, which takes jobs until none is left or its host fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_agent::hosts::Host;
use weir_agent::install::Program;
use weir_agent::link::{Link, Start};
use weir_agent::protocol::Trouble;
use weir_record::record::{Machine, RunState};
use weir_record::run_data::{PointData, RunData};

use super::jobs::{Job, Jobs};
use super::worker::{Measured, Order, Request};

/// How long a worker may take for what is done at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// A run may take as long as its plan: a worker that is gone is noticed by its silence.
const RUN: Duration = Duration::MAX;

/// What a worker reports.
#[derive(Debug)]
pub(crate) enum Told {
    /// Something that the user should know.
    Note(String),
    /// A line of a run: the job's name.
    Line(String, String),
    /// A job has ended, with the state of its run.
    Done(Job, Box<RunData>),
    /// The host does no more; the job that it lost, if another host may do it.
    Failed(String, Option<String>),
}

/// The text of the plan of each job goes here.
#[derive(Clone, Copy)]
pub(crate) struct Crew<'a> {
    /// Without the plan.
    pub(crate) order: &'a Order,
    pub(crate) program: &'a Program,
    pub(crate) stop: &'a AtomicBool,
}

/// How the shell of a host starts weir, which is copied there if necessary; and what was done for that.
pub(crate) fn program_on(host: &Host, own: &Program) -> Result<(String, Option<String>), String> {
    match &host.weir {
        Some(weir) => Ok((weir.clone(), None)),
        None => own.put_on(&host.ssh).map(|found| (found.program, found.note)),
    }
}

impl Crew<'_> {
    /// Does jobs on a host until none is left. Ends with the first failure: `jobs` has the job again then.
    pub(crate) fn work(self, host: &Host, jobs: &Jobs, told: &Sender<Told>) {
        let name = &host.ssh.target;
        // The receiver ends after all workers.
        let tell = |told_now| drop(told.send(told_now));
        let connected = program_on(host, self.program).and_then(|(program, note)| {
            note.into_iter().for_each(|note| tell(Told::Note(format!("{name}: {note}"))));
            let start = Start {
                ssh: &host.ssh,
                program: &program,
                role: "worker",
                option: ["weir", "the file of hosts"],
            };
            Link::connect::<Machine>(start).map(|(link, _)| link)
        });
        let mut link = match connected {
            Ok(link) => link,
            Err(why) => return tell(Told::Failed(format!("{name}: {why}"), None)),
        };
        while !self.stop.load(Ordering::Relaxed)
            && let Some(job) = jobs.next()
        {
            match self.measure(&mut link, &job, &tell) {
                Ok(data) if data.run.state == RunState::Complete || self.stop.load(Ordering::Relaxed) => {
                    tell(Told::Done(job, Box::new(data)));
                    jobs.done();
                }
                Ok(data) => {
                    let why = data.run.failure.unwrap_or_else(|| "its run was interrupted there".into());
                    tell(Told::Failed(format!("{name}: {why}"), Some(job.name.clone())));
                    return jobs.give_back(job);
                }
                Err(why) => {
                    tell(Told::Failed(format!("{name}: {why}"), Some(job.name.clone())));
                    return jobs.give_back(job);
                }
            }
        }
    }

    fn measure(self, link: &mut Link, job: &Job, tell: &impl Fn(Told)) -> Result<RunData, Trouble> {
        let order = Order { plan: job.plan.clone(), ..self.order.clone() };
        link.send(&Request::Run(order.clone()))?;
        let stopped = || self.stop.load(Ordering::Relaxed);
        let line = |line: &str| tell(Told::Line(job.name.clone(), line.to_string()));
        let measured: Measured = link.receive(RUN, stopped, line)?;
        let is_it = measured.run.plan == order.name
            && measured.run.plan_toml == order.plan
            && measured.run.seed == order.seed;
        if !is_it {
            return Err(Trouble::Lost("it sent the record of another run".into()));
        }
        let mut points = Vec::new();
        for index in 0..measured.points {
            link.send(&Request::Point(index))?;
            let point: PointData = link.receive(PATIENCE, || false, |_| ())?;
            points.push(point);
        }
        Ok(RunData { run: measured.run, points })
    }
}
