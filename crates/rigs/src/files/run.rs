//! The experiment `files`: each way to make files, alternately, round by round.
//!
//! ```text
//! round 1: none  fsync  fsync-dir ...     each: a new directory > make > read warm > drain > read cold > remove > drain
//! round 2: fsync  fsync-dir ... none
//! ```

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_apps::files::{self, Durability, Failed, Method, Task};
use weir_linux::Error;

use super::measured::{self, Filing};
use super::peer;
use super::place::Place;
use super::plan::{Files, Who, Work};
use weir_lab::error::RunError;
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::{Asked, Series};
use weir_lab::run::{Event, programs};
use weir_record::record::{Point, Purpose, Trial, Verdict};
use weir_record::run_data::MEASURES;

run_of!(
    /// An experiment in progress.
    pub(super) Filling, Files
);

/// One point.
struct Entrant<'a> {
    point: Point,
    work: Work,
    /// Number of its place; `None`: it cannot take part, the point's notes say why.
    place: Option<usize>,
    series: Series<'a>,
    rounds: u32,
    found: Vec<Filing>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        self.place.is_some()
    }
}

impl<'a> Filling<'a> {
    pub(super) fn all_rounds(self) -> Result<(), RunError> {
        let plan = self.experiment;
        let places: Vec<Result<Place, String>> =
            plan.file_systems.iter().map(|&of| Place::make(of, plan)).collect();
        let mut entrants = self.entrants(&places)?;
        let rounds = self.rounds(plan.rounds, entrants.len());
        interleave(&rounds, &mut entrants, |entrant| {
            match entrant.place.and_then(|at| places[at].as_ref().ok()) {
                Some(place) => self.trial(entrant, place),
                None => Ok(()),
            }
        })?;
        for Entrant { point, found, work, .. } in &entrants {
            self.close(point, measured::result(found, work.durability.name(), plan.rounds))?;
        }
        Ok(())
    }

    /// The programs that take part, and those that cannot.
    fn entrants(&self, places: &[Result<Place, String>]) -> Result<Vec<Entrant<'a>>, RunError> {
        let (mut reported, mut list) = (Vec::new(), Vec::new());
        for (index, work) in self.experiment.work().into_iter().enumerate() {
            if !self.has(index) {
                continue;
            }
            let number = self.experiment.file_systems.iter().position(|of| *of == work.file_system);
            let place = number.and_then(|at| places.get(at));
            let obstacle = match (place, work.who) {
                (Some(Err(why)), _) => Some(format!("{} is left out: {why}.", work.file_system.name())),
                (_, Who::Peer(peer)) => programs::missing(peer.name(), super::PROGRAMS)
                    .map(|why| format!("{} is left out: {why}.", peer.name())),
                (_, Who::Weir(Method::IoUring)) => {
                    files::obstacle().map(|why| format!("io-uring is left out: {why}."))
                }
                _ => None,
            };
            let news = obstacle.iter().filter(|note| !reported.contains(*note)).cloned().collect::<Vec<_>>();
            news.iter().for_each(|note| (self.options.observe)(Event::Note(note)));
            reported.extend(news);
            let description = place.and_then(|place| place.as_ref().ok()).map(|place| &place.description);
            let mut point = self.point_of(&work, index, description.map_or("–", String::as_str));
            let place = number.filter(|_| obstacle.is_none());
            point.notes.extend(obstacle);
            let kept = self.resumed.enter(&mut point, self.log)?;
            let series = Series::new(self, &point, kept);
            list.push(Entrant { point, work, place, series, rounds: 0, found: Vec::new() });
        }
        Ok(list)
    }

    fn point_of(&self, work: &Work, index: usize, description: &str) -> Point {
        let settings = vec![
            (MEASURES, measured::ID.to_string()),
            ("file_system", work.file_system.name().to_string()),
            ("files", self.experiment.files.to_string()),
            ("bytes", work.bytes.to_string()),
            ("workers", work.workers.to_string()),
            ("durability", work.durability.name().to_string()),
            ("by", work.who.name().to_string()),
            (
                "version",
                match work.who {
                    Who::Weir(_) => env!("CARGO_PKG_VERSION").to_string(),
                    Who::Peer(peer) => programs::version(peer.name(), super::PROGRAMS),
                },
            ),
        ];
        // How full it is differs from run to run: not a setting, by which points are compared and resumed.
        let notes = vec![format!("On {description}.")];
        Point { notes, ..self.point(index, work.who.name(), settings) }
    }

    fn trial(&self, entrant: &mut Entrant<'a>, place: &Place) -> Result<(), RunError> {
        entrant.rounds += 1;
        let (work, plan) = (entrant.work, self.experiment);
        let name = format!("round {}", entrant.rounds);
        let directory = place.directory.join("files");
        let seed = self.settings.seed ^ u64::from(entrant.rounds);
        let stop = self.options.stop;
        let asked = Asked::Named(name, Purpose::Procedure, std::time::Duration::from_secs(1));
        let trial = entrant.series.one(&asked, |_| {
            let begin = Instant::now();
            let found = place.run(|| match work.who {
                Who::Weir(method) => ours((plan, &work, method), &directory, (seed, stop)),
                Who::Peer(peer) => theirs(peer, (plan, &work), &directory),
            });
            let trial = Trial { duration_s: begin.elapsed().as_secs_f64(), ..Trial::default() };
            match found {
                Ok(filing) => Ok(Trial { reasons: filing.remarks(), ..trial }.with_detail(&filing)),
                Err(Failed::Stopped) => Ok(trial),
                Err(Failed::Call(what, error)) => judged(trial, &work, &what, error),
            }
        })?;
        entrant.found.extend(trial.believed::<Filing>());
        Ok(())
    }
}

fn ours(
    (plan, work, method): (&Files, &Work, Method),
    directory: &Path,
    (seed, stop): (u64, &AtomicBool),
) -> Result<Filing, Failed> {
    let Work { bytes, workers, durability, .. } = *work;
    let task =
        Task { directory: directory.into(), files: plan.files, bytes, workers, durability, method, seed };
    files::file(&task, stop).map(|filed| Filing::new(plan.files, bytes, filed))
}

fn theirs(
    peer: super::plan::Peer,
    (plan, work): (&Files, &Work),
    directory: &Path,
) -> Result<Filing, Failed> {
    let failed = |what: &'static str| move |error| Failed::Call(what.into(), error);
    std::fs::create_dir(directory).map_err(failed("make a directory"))?;
    let rate = peer::make(peer, work, plan.files, directory);
    files::remove(directory).map_err(failed("remove a directory"))?;
    let made_per_s = rate.map_err(|why| Failed::Call(peer.name().into(), io::Error::other(why)))?;
    Ok(Filing { files: plan.files, bytes: work.bytes, made_per_s, filed: None })
}

/// What a call that failed means: the run ends where all others would fail, too.
fn judged(trial: Trial, work: &Work, what: &str, error: io::Error) -> Result<Trial, RunError> {
    let remedy = match error.raw_os_error() {
        Some(libc::EINVAL) if work.durability == Durability::Direct => {
            let why = format!("{what}: this file system has no O_DIRECT for such files");
            return Ok(Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial });
        }
        Some(libc::ENOSPC | libc::EDQUOT) => "use fewer or smaller files, or another directory",
        Some(libc::EMFILE | libc::ENFILE) => {
            "raise the limit of descriptors (ulimit -n), or use fewer workers"
        }
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => "set files.directory to a directory that you own",
        _ => {
            let why = format!("{what}: {error}");
            return Ok(Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial });
        }
    };
    let what = format!("{what} on {}; {remedy}", work.file_system.name());
    Err(RunError::Linux(Error::os(what)(error)))
}
