//! A comparison in progress: the programs that take part, and their turns in each round.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use weir_config::{Section, value};
use weir_lab::error::RunError;
use weir_lab::frames::Limits;
use weir_lab::frames::mirror::Mirror;
use weir_lab::frames::verdict::Accounting;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{Failed, Process, failed};
use weir_lab::run::programs::{self, Programs};
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::Series;
use weir_lab::run::{Event, Running};
use weir_linux::lock::measuring_lock;
use weir_load::Control;
use weir_load::counts::Load;
use weir_load::xdp::XdpError;
use weir_packet::size::FrameSizes;
use weir_port::bpf::{BpfError, Link, Mode, Program, object};
use weir_record::record::{DropCounter, Noise, Owner, Point, PointResult, Trial, Verdict};
use weir_testbed::bed::Bed;
use weir_testbed::journal::Journal;

// ---- programs ------------------------------------------------------------------------------------------

/// Is this the name of a part of weir?
pub(super) fn is_own(name: &str) -> bool {
    name.starts_with("weir")
}

/// Why a program cannot take part, as far as can be said without a try.
pub(super) fn missing(name: &str, list: Programs) -> Option<String> {
    if is_own(name) { programs::not_weir() } else { programs::missing(name, list) }
}

/// The version of a program that is installed.
pub(super) fn version(name: &str, list: Programs) -> String {
    if is_own(name) { env!("CARGO_PKG_VERSION").into() } else { programs::version(name, list) }
}

/// The command line of a program: `arguments` separated by spaces, with a value for each word in braces.
pub(super) fn command(name: &str, arguments: &str, values: &[(&str, &str)]) -> Command {
    let own = || std::env::current_exe().unwrap_or_else(|_| "weir".into());
    let program: PathBuf = if is_own(name) { own() } else { name.into() };
    let fill =
        |text: &str| values.iter().fold(text.to_string(), |text, (word, value)| text.replace(word, value));
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace().map(fill));
    command
}

/// Reads the programs to compare with, each with the name in plans.
pub(super) fn read_names<P>(
    section: &Section<'_>,
    example: &str,
    what: &'static str,
    peers: &[(&'static P, &'static str)],
) -> Option<Vec<&'static P>> {
    let names: Vec<_> = peers.iter().enumerate().map(|(i, (_, name))| (i, *name)).collect();
    let chosen = section.required_axis("names", example, value::choice(what, &names))?;
    Some(chosen.into_iter().map(|i| peers[i].0).collect())
}

/// The name of a value in plans and records.
pub(super) fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(other, _)| *other == value).expect("each value has a name").1
}

/// Starts a program that listens to a wire, on this CPU, and waits until it has said that it is ready.
pub(super) fn started(
    mirror: &Mirror,
    cpu: usize,
    (command, ready): (&mut Command, &str),
    said: &Path,
    journal: &mut Journal,
) -> Result<Process, Failed> {
    let process = mirror.bed().tester().run(|| Process::start(command, &[cpu], said, journal))?;
    match process.await_words(ready) {
        Ok(()) => Ok(process),
        Err(why) => {
            // It may still run.
            let _ = process.interrupt(journal)?;
            Err(Failed::Program(why))
        }
    }
}

/// A folder for the files of programs; `remedy` chooses another place.
pub(super) fn folder(within: &Path, remedy: &str) -> Result<Folder, RunError> {
    let what = format!("create a folder in {}; choose another one with {remedy}", within.display());
    Folder::new(within).map_err(|error| failed(&what, error))
}

/// An XDP program on the second port of a wire that drops all frames.
pub(super) fn drop_all(bed: &Bed) -> Result<(Link, Program), RunError> {
    let port = &bed.ports()[1];
    let attached = bed.tester().run(|| {
        let program = Program::load("sink", object::DROP, &[])?;
        Ok((program.attach(port.ifindex, Mode::Native)?, program))
    });
    attached.map_err(|error: BpfError| RunError::Load(XdpError::from(error).into()))
}

// ---- trials --------------------------------------------------------------------------------------------

/// The fault of a program, apart from errors that end the run.
pub(super) fn fault_of<T>(found: Result<T, Failed>) -> Result<Result<T, String>, RunError> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(Failed::Program(why)) => Ok(Err(why)),
        Err(Failed::Run(error)) => Err(error),
    }
}

/// The record of a trial in which a program failed.
pub(super) fn invalid(why: String, load: &Load, limits: &Limits) -> Trial {
    let trial = Accounting::default().trial(load, 0.0, Noise::default(), limits);
    Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial }
}

/// Where frames were lost: name of the place, frames, source of the number.
pub(super) fn drop_counters(owner: Owner, places: &[(&str, u64, &str)]) -> Vec<DropCounter> {
    let lost = places.iter().filter(|(_, frames, _)| *frames > 0);
    lost.map(|&(name, frames, source)| DropCounter {
        name: name.into(),
        owner,
        frames,
        source: source.into(),
    })
    .collect()
}

// ---- rounds --------------------------------------------------------------------------------------------

/// What is compared.
pub(super) trait Kind: Sized {
    /// What an entrant does in each round.
    type Work;
    /// What a round found.
    type Round;

    /// Enters all programs, also those that are left out.
    fn enter_all(contest: &mut Contest<'_, Self>) -> Result<(), RunError>;

    /// The turn of an entrant in this round, from 1.
    fn turn(
        run: &mut Running<'_, Self>,
        work: &mut Self::Work,
        series: &mut Series<'_>,
        round: usize,
    ) -> Result<Self::Round, RunError>;

    /// The result of an entrant beside all others.
    fn result(&self, work: &Self::Work, rounds: &[Self::Round], all: &[Entrant<'_, Self>]) -> PointResult;
}

/// One point of a comparison.
pub(super) struct Entrant<'a, K: Kind> {
    pub(super) point: Point,
    /// `None`: it is left out; the notes of the point say why.
    pub(super) work: Option<K::Work>,
    /// What each round found.
    pub(super) rounds: Vec<K::Round>,
    series: Series<'a>,
}

impl<K: Kind> Interleaved for Entrant<'_, K> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        self.work.is_some()
    }
}

/// A comparison before its first round.
pub(super) struct Contest<'a, K: Kind> {
    // Dropped before the run: test beds before the journal that lists them.
    entrants: Vec<Entrant<'a, K>>,
    /// Number of the next point in the plan.
    next: usize,
    pub(super) run: Running<'a, K>,
}

impl<'a, K: Kind> Contest<'a, K> {
    /// Leaves out the next point if it is in another shard.
    pub(super) fn skips(&mut self) -> bool {
        let skips = !self.run.has(self.next);
        self.next += usize::from(skips);
        skips
    }

    /// Is one of the next points in this shard?
    pub(super) fn has_any(&self, count: usize) -> bool {
        (self.next..self.next + count).any(|point| self.run.has(point))
    }

    /// The next point.
    pub(super) fn point(&self, name: &str, frame: &FrameSizes, settings: Vec<(&str, String)>) -> Point {
        let point = self.run.point(self.next, name, settings);
        Point { frame: frame.to_string(), frame_bytes_mean: frame.mean(), ..point }
    }

    /// Tells the user why a program is left out. Returns the note.
    pub(super) fn left_out(&self, name: &str, why: &str) -> String {
        let note = format!("{name} is left out: {why}.");
        (self.run.options.observe)(Event::Note(&note));
        note
    }

    /// Lets a program run for a moment, while no other run measures: some programs are installed and do not work here. Returns
    /// why it cannot take part.
    pub(super) fn try_out(
        &mut self,
        once: impl FnOnce(&Control, &mut Journal) -> Result<Option<String>, Failed>,
    ) -> Result<Option<String>, RunError> {
        let stop = self.run.options.stop;
        let Some(_turn) = measuring_lock(|| stop.load(Ordering::Relaxed))? else {
            return Err(RunError::Interrupted(self.run.record.id));
        };
        let found = once(&Control::new(stop, &|_, _| ()), &mut self.run.journal);
        fault_of(found).map(|found| found.unwrap_or_else(Some))
    }

    /// Enters a point, with the trials that an earlier part of the run has kept.
    pub(super) fn enter(&mut self, mut point: Point, work: Option<K::Work>) -> Result<(), RunError> {
        let kept = self.run.resumed.enter(&mut point, self.run.log)?;
        let series = Series::new(&self.run, &point, kept);
        self.entrants.push(Entrant { point, work, rounds: Vec::new(), series });
        self.next += 1;
        Ok(())
    }

    /// Lets the entrant that came last make a trial before the first round.
    pub(super) fn warm_up(
        &mut self,
        trial: impl FnOnce(&Running<'_, K>, &mut K::Work, &mut Series<'_>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        match self.entrants.last_mut() {
            Some(Entrant { work: Some(work), series, .. }) => trial(&self.run, work, series),
            _ => Ok(()),
        }
    }
}

/// Measures all entrants in turn, and keeps their results.
pub(super) fn run<K: Kind>(run: Running<'_, K>, rounds: u32) -> Result<(), RunError> {
    let mut contest = Contest { entrants: Vec::new(), next: 0, run };
    K::enter_all(&mut contest)?;
    let Contest { entrants, run, .. } = &mut contest;
    let rounds = run.rounds(rounds, entrants.len());
    interleave(&rounds, entrants, |entrant| {
        let Entrant { work, rounds, series, .. } = entrant;
        if let Some(work) = work {
            rounds.push(K::turn(run, work, series, rounds.len() + 1)?);
        }
        Ok(())
    })?;
    for entrant in &*entrants {
        let result = match &entrant.work {
            Some(work) => run.experiment.result(work, &entrant.rounds, entrants),
            None => PointResult { search: "left out".into(), ..PointResult::default() },
        };
        run.close(&entrant.point, result)?;
    }
    Ok(())
}
