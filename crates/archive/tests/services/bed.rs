//! A run log of a test, an archive, and `weir-archive` between them.

use std::process::{Command, Output};

use tokio::runtime::Runtime;
use weir_archive::{Address, PostgresArchive, Server};
use weir_record::fixture;
use weir_record::record::{Point, Run, RunId, RunState};
use weir_record::run_data::{PointData, RunData};
use weir_record::store::contract::without_numbers;
use weir_record::store::{Archive, RunLog, StoreError};
use weir_testkit::postgres::Postgres;
use weir_testkit::{Folder, output};

/// When the runs end.
pub(crate) const END: &str = "2026-03-01T11:00:00Z";

/// A server with one empty database, and the file of a run log.
pub(crate) struct Bed {
    pub(crate) postgres: Postgres,
    pub(crate) database: String,
    pub(crate) url: String,
    pub(crate) folder: Folder,
    pub(crate) log: RunLog,
    runtime: Runtime,
}

impl Bed {
    /// `None`, aloud, where PostgreSQL is not installed.
    pub(crate) fn new() -> Option<Bed> {
        let postgres = Postgres::start()?;
        let (url, database) = postgres.database();
        let folder = Folder::new();
        let log = RunLog::open(&folder.join("records.db")).expect("a log");
        Some(Bed {
            postgres,
            database,
            url,
            folder,
            log,
            runtime: weir_archive::runtime().expect("a thread"),
        })
    }

    pub(crate) fn server(&self, url: &str) -> Server {
        Server::new(&Address::parse(url).expect("an address"), 1, self.runtime.handle().clone())
            .expect("a server")
    }

    pub(crate) fn archive(&self) -> PostgresArchive {
        PostgresArchive::open(&self.server(&self.url)).expect("an archive")
    }

    /// `weir-archive push --all` to this address.
    pub(crate) fn push_command(&self, url: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-archive"));
        command.args(["push", "--all", "--to", url, "--store"]).arg(self.folder.join("records.db"));
        command
    }

    pub(crate) fn push(&self, url: &str) -> Output {
        output(&mut self.push_command(url)).expect("weir-archive starts")
    }

    /// A push that succeeds and says this.
    pub(crate) fn pushes(&self, said: &str) {
        let pushed = self.push(&self.url);
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        assert_eq!(String::from_utf8_lossy(&pushed.stdout), format!("{said}\n"));
    }

    /// The archive has exactly what the run log has.
    pub(crate) fn check_same(&self, what: &str) {
        self.check_same_in(&self.archive(), what);
    }

    /// The same of an archive that is open.
    pub(crate) fn check_same_in(&self, archive: &PostgresArchive, what: &str) {
        let log = self.log.archive();
        let all = |archive: &dyn Archive| {
            let mut runs = archive.runs().expect("runs");
            runs.sort_by_key(|run| run.uuid);
            let data = runs.iter().map(|run| without_numbers(archive.run_data(run.uuid).expect("a run")));
            data.collect::<Vec<_>>()
        };
        assert!(all(archive) == all(log), "{what}: the archive differs from the run log");
        assert_eq!(archive.damaged(), Vec::<String>::new(), "{what}");
    }
}

/// A complete run of three points with few trials.
pub(crate) fn small_run() -> RunData {
    let mut data = fixture::quick();
    data.run.uuid = RunId::random();
    data.points.truncate(3);
    data.points.iter_mut().for_each(|point| point.trials.truncate(4));
    data
}

/// Writes a run to a log, as far as these many points; it is left running.
pub(crate) fn write(log: &RunLog, data: &RunData, points: usize) {
    log.begin(&Run { state: RunState::Running, finished: None, ..data.run.clone() }).expect("written");
    add_points(log, data, 0..points);
}

/// Writes some of the points of a run.
pub(crate) fn add_points(log: &RunLog, data: &RunData, points: std::ops::Range<usize>) {
    let run = data.run.uuid;
    for PointData { point, trials } in &data.points[points] {
        log.add_point(run, &Point { result: None, ..point.clone() }).expect("written");
        for trial in trials {
            log.append_trial(point.key(run), trial).expect("written");
        }
        log.finish_point(point.key(run), point.result.as_ref().expect("a result")).expect("written");
    }
}

/// Writes a whole run.
pub(crate) fn write_all(log: &RunLog, data: &RunData) {
    write(log, data, data.points.len());
    log.finish_run(data.run.uuid, RunState::Complete, END).expect("written");
}

/// Why an archive could not be opened.
pub(crate) fn refusal(opened: Result<PostgresArchive, StoreError>) -> String {
    match opened {
        Ok(_) => panic!("it is refused"),
        Err(error) => error.to_string(),
    }
}
