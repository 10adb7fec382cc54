//! From the file of hosts to the records in the file of this machine.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use weir_agent::hosts::{Host, Hosts, Role};
use weir_agent::install::Program;
use weir_lab::plan::{Plan, PlanError};
use weir_record::record::{RunId, RunState};
use weir_record::run_data::RunData;
use weir_record::store::{Archive, RunLog};
use weir_service::{say, time};
use weir_testbed::setup::Mode;

use super::bed;
use super::crew::{Crew, Told};
use super::jobs::{Job, Jobs};
use super::worker::Order;
use crate::cli;

/// Reads the file of hosts.
pub(crate) fn read(path: &Path) -> Result<Hosts> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the hosts in {name}"))?;
    let modes = Mode::ALL.map(|(_, mode)| mode);
    let hosts = Hosts::read(&name, weir_config::without_bom(&text), &modes)
        .map_err(|mistakes| anyhow!("the file of hosts has mistakes:\n{mistakes}"))?;
    if let Some(config) = hosts.ssh_config() {
        let opened = std::fs::File::open(config);
        let words = || format!("{name}: ssh_config: cannot read {}, see ssh_config(5)", config.display());
        opened.with_context(words)?;
    }
    Ok(hosts)
}

/// This program, to be copied to other hosts.
pub(crate) fn own_program() -> Result<Program> {
    let own = std::env::current_exe().context("cannot find this program, to copy it to other hosts")?;
    Program::open(&own).with_context(|| format!("cannot read {}", own.display()))
}

/// The changes of a plan that its hosts make. The plan is checked before a host is asked.
pub(crate) fn changes(arguments: &cli::Run, hosts: &Hosts) -> Result<cli::Sets> {
    let changed = |more: Vec<String>| {
        let mut changes = arguments.changes();
        changes.sets.extend(more);
        changes
    };
    let is_bed = hosts.with(Role::RemoteTester).chain(hosts.with(Role::Dut)).next().is_some();
    if hosts.with(Role::Worker).next().is_none() && (arguments.each || arguments.shards.is_some()) {
        bail!("--each and --shards are for workers, and the file of hosts has none: remove the option");
    }
    let checked = changed(bed::sets(hosts, |_| Ok("weir".into()))?);
    for plan in &arguments.plans {
        let loaded = checked.load(plan);
        if is_bed { check_device(loaded)? } else { drop(loaded?) }
    }
    if !is_bed {
        return Ok(checked);
    }
    let own = own_program()?;
    Ok(changed(bed::sets(hosts, |host| bed::install(host, &own))?))
}

/// Refuses a plan for a bed that has mistakes, or does not measure the device of the bed.
fn check_device(loaded: Result<Plan, PlanError>) -> Result<()> {
    const NEEDED: &str = "the file of hosts describes an external device: the plan needs `kind = \"external\"` in [dut], and \
                          [external] (docs/external.md)";
    let settings = loaded.context(NEEDED)?.settings();
    if !settings.iter().flatten().any(|(_, value)| value == "external") {
        bail!(NEEDED);
    }
    Ok(())
}

/// A plan for the workers of a file.
pub(crate) struct Fleet<'a> {
    pub(crate) workers: Vec<&'a Host>,
    /// The plan as the command line names it.
    pub(crate) named: String,
    pub(crate) order: Order,
    pub(crate) stop: &'a AtomicBool,
    /// A job that a host lost may be done by another one.
    pub(crate) is_shared: bool,
    /// Print no progress.
    pub(crate) quiet: bool,
    /// Print each trial.
    pub(crate) verbose: bool,
}

/// What the workers have measured.
struct Harvest {
    /// In the order of the jobs; all are in the archive.
    data: Vec<(Job, RunData)>,
    /// Numbers in the archive.
    numbers: Vec<String>,
    failures: Vec<String>,
}

impl<'a> Fleet<'a> {
    /// The hosts of a file that run plans: its workers, or its tester; `None` if this host runs the plan.
    pub(crate) fn of(hosts: &'a Hosts) -> Option<Vec<&'a Host>> {
        let workers: Vec<_> = hosts.with(Role::Worker).chain(hosts.with(Role::Tester)).collect();
        (!workers.is_empty()).then_some(workers)
    }

    /// Measures the plan in shards, and puts them into the log and, if none is missing, the whole run, which is returned. The flag
    /// says whether it was interrupted: then it is the last shard.
    ///
    /// # Errors
    /// A shard is missing because no host is left: the error says which, and how to continue.
    pub(crate) fn shards(
        &self,
        of: usize,
        shard: impl Fn(&str) -> Result<Plan>,
        log: &RunLog,
    ) -> Result<(RunData, bool)> {
        let texts = (1..=of).map(|number| format!("{number}/{of}"));
        let jobs = texts.enumerate().map(|(index, text)| {
            let name = if of == 1 { format!("plan {}", self.order.name) } else { format!("shard {text}") };
            Ok(Job { index, plan: shard(&text)?.text, name })
        });
        let jobs: Vec<Job> = jobs.collect::<Result<_>>()?;
        let queue = Jobs::new(jobs.iter().cloned());
        let archive = log.archive();
        let harvest = self.work(|_| &queue, archive)?;
        let numbers = &harvest.numbers;
        let done = |job: &Job| {
            harvest
                .data
                .iter()
                .any(|(done, data)| done.index == job.index && data.run.state == RunState::Complete)
        };
        let missing: Vec<&str> = jobs.iter().filter(|job| !done(job)).map(|job| job.name.as_str()).collect();
        if missing.is_empty() && of == 1 {
            let (_, data) = harvest.data.first().context("one run")?;
            return Ok((archive.run_data(data.run.uuid)?, false));
        }
        if missing.is_empty() {
            let parts: Vec<RunData> = harvest.data.into_iter().map(|(_, data)| data).collect();
            let whole = weir_record::shards::merge(&parts, RunId::random())?;
            archive.put(&whole)?;
            return Ok((archive.run_data(whole.run.uuid)?, false));
        }
        match harvest.data.into_iter().next_back() {
            Some((_, last)) if self.stop.load(Ordering::Relaxed) => {
                Ok((archive.run_data(last.run.uuid)?, true))
            }
            _ if of == 1 => {
                bail!("no host is left for {}: remove the cause above, and run it again", missing.join(", "))
            }
            _ => bail!(
                "no host is left for {}\nremove the cause above, measure {} with the same options and `weir run {} --seed {} --shard \
                 I/{of}`, then merge all shards: `weir merge {}...`",
                missing.join(", "),
                if missing.len() == 1 { "it" } else { "each" },
                self.named,
                self.order.seed,
                numbers.iter().map(|number| format!("{number} ")).collect::<String>(),
            ),
        }
    }

    /// Measures the whole plan on each host, and puts the runs into the log. The flag says whether it was interrupted.
    ///
    /// # Errors
    /// No host has measured anything.
    pub(crate) fn each(&self, plan: &Plan, log: &RunLog) -> Result<(Vec<RunData>, Vec<String>)> {
        let queues: Vec<Jobs> = self
            .workers
            .iter()
            .enumerate()
            .map(|(index, host)| {
                Jobs::new([Job { index, name: host.ssh.target.clone(), plan: plan.text.clone() }])
            })
            .collect();
        let archive = log.archive();
        let harvest = self.work(|worker| &queues[worker], archive)?;
        if harvest.data.is_empty() {
            bail!("no host has measured the plan: remove the cause above, and run it again");
        }
        let runs = harvest.data.iter().map(|(_, data)| Ok(archive.run_data(data.run.uuid)?));
        Ok((runs.collect::<Result<_>>()?, harvest.failures))
    }

    fn work<'q>(&self, queue: impl Fn(usize) -> &'q Jobs, archive: &dyn Archive) -> Result<Harvest> {
        let program = own_program()?;
        let crew = Crew { order: &self.order, program: &program, stop: self.stop };
        let (told, heard) = channel();
        thread::scope(|scope| {
            for (index, host) in self.workers.iter().enumerate() {
                let (told, jobs) = (told.clone(), queue(index));
                scope.spawn(move || crew.work(host, jobs, &told));
            }
            drop(told);
            // Without a place for the records no host needs to go on.
            self.listen(&heard, archive).inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
        })
    }

    /// Prints what the workers report, until they have ended. A run is in the archive as soon as it is here.
    fn listen(&self, heard: &Receiver<Told>, archive: &dyn Archive) -> Result<Harvest> {
        let begun = Instant::now();
        let mut harvest = Harvest { data: Vec::new(), numbers: Vec::new(), failures: Vec::new() };
        for told in heard {
            match told {
                Told::Note(note) => self.say(&note),
                Told::Line(job, line) if self.verbose => say::say(&format!("{job}: {}", line.trim_start())),
                Told::Line(..) => {}
                Told::Done(job, data) => {
                    self.say(&format!("{} done after {}", job.name, time::in_words(begun.elapsed())));
                    harvest.numbers.push(archive.put(&data)?.to_string());
                    harvest.data.push((job, *data));
                }
                Told::Failed(why, lost) => {
                    let has_others = self.is_shared && harvest.failures.len() + 1 < self.workers.len();
                    let lost = lost.filter(|_| has_others).map(|job| format!("; {job} goes to another host"));
                    say::say(&format!("{why}{}", lost.unwrap_or_default()));
                    harvest.failures.push(why);
                }
            }
        }
        harvest.data.sort_by_key(|(job, _)| job.index);
        Ok(harvest)
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            say::say(text);
        }
    }
}
