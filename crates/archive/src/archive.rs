//! The archive as queries: lists, points of a plan and whole runs, each by an index.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::pin;

use bytes::Bytes;
use deadpool_postgres::Object;
use futures_util::{SinkExt, TryStreamExt};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};
use weir_record::record::{Point, PointKey, Run, RunId, RunState, RunSummary, Trial};
use weir_record::run_data::{PointData, RunData, name};
use weir_record::store::{Archive, StoreError};

use crate::schema;
use crate::server::{Server, is_misplaced};
use crate::table::{POINTS, RUNS, TRIALS, Table};

/// Runs whose points are asked for at once.
const AT_ONCE: usize = 100;
/// A part of a copy is sent when it has this size.
const PART_BYTES: usize = 256 << 10;

const RUN: &str =
    "SELECT id, uuid::text, plan, question, started, finished, state, version, rest::text FROM weir.runs";
const SUMMARY: &str =
    "SELECT id, uuid::text, plan, question, started, finished, state, version FROM weir.runs";
const POINT: &str = "SELECT id, run_id, idx, dut, frame, frame_bytes_mean, line_fps, result::text, rest::text FROM weir.points";
const TRIAL: &str = "SELECT t.id, p.id AS point_id, t.idx, purpose, started, duration_s, offered_fps, offered, sent, received, lost, \
                     unexplained, verdict, t.rest::text \
                     FROM weir.trials t JOIN weir.points p ON p.run_id = t.run_id AND p.idx = t.point_idx";

/// What became of a run that was to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It was not there.
    New,
    /// A part of it was there.
    Grown,
    /// All of it was there.
    Present,
}

/// An archive in PostgreSQL, by one connection.
pub struct PostgresArchive {
    server: Server,
    client: Object,
    /// The name of this machine, for runs that do not have the name of the machine that measured them.
    host: String,
    /// Rows that could not be read, in words.
    damaged: RefCell<BTreeSet<String>>,
}

impl PostgresArchive {
    /// To read it.
    ///
    /// # Errors
    /// The server cannot be reached; the archive has no tables, or those of another weir.
    pub fn open_to_read(server: &Server) -> Result<PostgresArchive, StoreError> {
        schema::check(server)?;
        PostgresArchive::over(server)
    }

    /// To add runs; makes its tables where there are none.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; the tables are of a newer weir.
    pub fn open(server: &Server) -> Result<PostgresArchive, StoreError> {
        schema::migrate(server)?;
        PostgresArchive::over(server)
    }

    fn over(server: &Server) -> Result<PostgresArchive, StoreError> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let (client, damaged) = (server.connection()?, RefCell::default());
        Ok(PostgresArchive { server: server.clone(), client, host: host.trim().into(), damaged })
    }

    /// Its address, without a password.
    pub(crate) fn shown(&self) -> &str {
        self.server.shown()
    }

    pub(crate) fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        let answered = async {
            let statement = self.client.prepare_cached(sql).await?;
            self.client.query(&statement, values).await
        };
        self.server.wait(answered).map_err(|error| self.server.error(&error))
    }

    /// Changes rows of a table; returns their number.
    fn change(&self, table: &Table, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, StoreError> {
        self.server.wait(self.client.execute(sql, values)).map_err(|error| self.write_error(table, &error))
    }

    fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.server.wait(self.client.batch_execute(sql)).map_err(|error| self.server.error(&error))
    }

    pub(crate) fn refused(&self, error: &tokio_postgres::Error) -> StoreError {
        self.server.error(error)
    }

    fn place(&self) -> PathBuf {
        PathBuf::from(self.shown())
    }

    fn no_run(&self, run: impl ToString) -> StoreError {
        StoreError::NoRun { path: self.place(), run: run.to_string() }
    }

    fn write_error(&self, table: &Table, error: &tokio_postgres::Error) -> StoreError {
        match error.as_db_error() {
            Some(refused) if is_misplaced(error) => {
                StoreError::Misplaced { path: self.place(), table: table.name, why: refused.message().into() }
            }
            _ => self.server.error(error),
        }
    }

    /// The records of rows that can be read; the others are noted.
    fn records<R: DeserializeOwned>(&self, table: &Table, rows: &[Row]) -> Vec<R> {
        rows.iter().filter_map(|row| self.readable(self.record(table, row, row.len() - 1))).collect()
    }

    /// A record that could be read; one that could not is noted.
    fn readable<R>(&self, read: Result<R, StoreError>) -> Option<R> {
        read.map_err(|error| self.damaged.borrow_mut().insert(error.to_string())).ok()
    }

    /// The record of a row, whose column `rest` this is.
    pub(crate) fn record<R: DeserializeOwned>(
        &self,
        table: &Table,
        row: &Row,
        rest: usize,
    ) -> Result<R, StoreError> {
        Table::read(row, rest).map_err(|source| self.damage(table, row, source))
    }

    fn damage(&self, table: &Table, row: &Row, source: serde_json::Error) -> StoreError {
        let id = row.try_get(0).unwrap_or_default();
        StoreError::Damaged { path: self.place(), table: table.name, id, source }
    }

    fn run_id(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Option<RunId>, StoreError> {
        let rows = self.rows(sql, values)?;
        let read = |row: &Row| {
            let text: String = row.try_get(0).map_err(|error| self.server.error(&error))?;
            RunId::try_from(text).map_err(|error| self.server.says(format!("a UUID cannot be read: {error}")))
        };
        rows.first().map(read).transpose()
    }

    /// The number of a run.
    fn number(&self, run: RunId) -> Result<Option<i64>, StoreError> {
        let rows = self.rows("SELECT id FROM weir.runs WHERE uuid = $1::text::uuid", &[&run.to_string()])?;
        rows.first().map(|row| row.try_get(0).map_err(|error| self.server.error(&error))).transpose()
    }

    /// The states of those runs that are there.
    pub(crate) fn states(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, RunState>, StoreError> {
        let uuids: Vec<String> = runs.iter().map(ToString::to_string).collect();
        let rows = self.rows(
            "SELECT uuid::text, state FROM weir.runs WHERE uuid = ANY ($1::text[]::uuid[])",
            &[&uuids],
        )?;
        let read = |row: &Row| -> Option<(RunId, RunState)> {
            let state = serde_json::from_value(Value::String(row.try_get(1).ok()?)).ok()?;
            Some((RunId::try_from(row.try_get::<_, String>(0).ok()?).ok()?, state))
        };
        Ok(rows.iter().filter_map(read).collect())
    }

    /// Stores a run, or what is missing of it, in one transaction: all of it or nothing.
    pub(crate) fn store(&self, data: &RunData) -> Result<(Stored, i64), StoreError> {
        self.in_transaction(|| match self.insert(&data.run)? {
            Some(number) => self.add(number, data, &Parts::default()).map(|_| (Stored::New, number)),
            None => self.complete(data),
        })
    }

    fn in_transaction<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.batch("BEGIN")?;
        match work() {
            Ok(done) => self.batch("COMMIT").map(|()| done),
            Err(error) => {
                // Without a connection there is no transaction any more.
                let _ = self.batch("ROLLBACK");
                Err(error)
            }
        }
    }

    /// Inserts a run; `None`: it is there. A run that another client is just storing is waited for.
    fn insert(&self, run: &Run) -> Result<Option<i64>, StoreError> {
        let (values, rest) = RUNS.split(run).map_err(|source| unstorable(&RUNS, source))?;
        let values: Vec<Option<&str>> = values.iter().map(Value::as_str).collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let host = if run.machine.host.is_empty() { &self.host } else { &run.machine.host };
        parameters.extend([&rest as &(dyn ToSql + Sync), host]);
        let sql = "INSERT INTO weir.runs (uuid, plan, question, started, finished, state, version, rest, host, started_at) \
                   VALUES ($1::text::uuid, $2, $3, $4::text, $5, $6, $7, $8::text::json, $9, $4::text::timestamptz) \
                   ON CONFLICT (uuid) DO NOTHING RETURNING id";
        let rows = self.server.wait(self.client.query(sql, &parameters));
        let rows = rows.map_err(|error| self.write_error(&RUNS, &error))?;
        rows.first().map(|row| row.try_get(0).map_err(|error| self.server.error(&error))).transpose()
    }

    /// Adds what a run has more than the archive: it has gone on since it was pushed. A complete run never changes.
    fn complete(&self, data: &RunData) -> Result<(Stored, i64), StoreError> {
        let uuid = data.run.uuid.to_string();
        let sql = "SELECT id, state = 'complete' FROM weir.runs WHERE uuid = $1::text::uuid FOR UPDATE";
        let rows = self.rows(sql, &[&uuid])?;
        // Between two statements the run can only have been deleted.
        let row = rows.first().ok_or_else(|| self.no_run(data.run.uuid))?;
        let error = |error| self.server.error(&error);
        let number: i64 = row.try_get(0).map_err(error)?;
        if row.try_get(1).map_err(error)? {
            return Ok((Stored::Present, number));
        }
        let parts = self.parts(number)?;
        let (_, rest) = RUNS.split(&data.run).map_err(|source| unstorable(&RUNS, source))?;
        let change = "UPDATE weir.runs SET state = $2, finished = $3, rest = $4::text::json \
                      WHERE id = $1 AND (state, finished, rest::text) IS DISTINCT FROM ($2, $3, $4::text)";
        let changed =
            self.change(&RUNS, change, &[&number, &name(&data.run.state), &data.run.finished, &rest])?;
        let added = self.add(number, data, &parts)?;
        Ok((if changed + added > 0 { Stored::Grown } else { Stored::Present }, number))
    }

    /// What the archive has of a run.
    fn parts(&self, number: i64) -> Result<Parts, StoreError> {
        let error = |error| self.server.error(&error);
        let mut parts = Parts::default();
        for row in
            self.rows("SELECT idx, result IS NOT NULL FROM weir.points WHERE run_id = $1", &[&number])?
        {
            parts.points.insert(row.try_get(0).map_err(error)?, row.try_get(1).map_err(error)?);
        }
        for row in self.rows("SELECT point_idx, idx FROM weir.trials WHERE run_id = $1", &[&number])? {
            parts.trials.insert((row.try_get(0).map_err(error)?, row.try_get(1).map_err(error)?));
        }
        Ok(parts)
    }

    /// Adds points, results and trials that are not there yet; returns their number.
    fn add(&self, number: i64, data: &RunData, there: &Parts) -> Result<u64, StoreError> {
        let mut results = 0;
        for PointData { point, .. } in &data.points {
            if let (Some(false), Some(result)) = (there.points.get(&(point.index as i64)), &point.result) {
                let result = serde_json::to_string(result).map_err(|source| unstorable(&POINTS, source))?;
                let sql = "UPDATE weir.points SET result = $3::text::json WHERE run_id = $1 AND idx = $2";
                results += self.change(&POINTS, sql, &[&number, &(point.index as i64), &result])?;
            }
        }
        let points = data.points.iter().map(|data| (vec![number], &data.point));
        let points = points.filter(|(_, point)| !there.points.contains_key(&(point.index as i64)));
        let added = self.copy(&POINTS, "run_id", points)?;
        let trials = data.points.iter().flat_map(|PointData { point, trials }| {
            trials.iter().map(|trial| (vec![number, point.index as i64], trial))
        });
        let trials =
            trials.filter(|(parent, trial)| !there.trials.contains(&(parent[1], trial.index as i64)));
        Ok(results + added + self.copy(&TRIALS, "run_id, point_idx", trials)?)
    }

    /// Copies records, each below its parent; returns their number.
    fn copy<'r, R: Serialize + DeserializeOwned + 'r>(
        &self,
        table: &Table,
        parent: &str,
        records: impl Iterator<Item = (Vec<i64>, &'r R)>,
    ) -> Result<u64, StoreError> {
        let mut records = records.peekable();
        if records.peek().is_none() {
            return Ok(0);
        }
        let failed = |error: tokio_postgres::Error| self.write_error(table, &error);
        self.server.wait(async {
            let mut sink =
                Box::pin(self.client.copy_in::<_, Bytes>(&table.copy(parent)).await.map_err(failed)?);
            let mut text = Vec::with_capacity(PART_BYTES);
            for (parent, record) in records {
                table.write(&mut text, &parent, record).map_err(|source| unstorable(table, source))?;
                if text.len() >= PART_BYTES {
                    sink.send(std::mem::take(&mut text).into()).await.map_err(failed)?;
                }
            }
            sink.send(text.into()).await.map_err(failed)?;
            sink.as_mut().finish().await.map_err(failed)
        })
    }

    /// The points of several runs, in order.
    fn points_of(&self, numbers: &[i64]) -> Result<Vec<Point>, StoreError> {
        let rows =
            self.rows(&format!("{POINT} WHERE run_id = ANY ($1) ORDER BY run_id, idx"), &[&numbers])?;
        Ok(self.records(&POINTS, &rows))
    }

    /// All runs, oldest first, each read while further rows arrive: one question, however many there are.
    fn listed<R>(
        &self,
        select: &str,
        read: impl Fn(&Row) -> Result<R, StoreError>,
    ) -> Result<Vec<R>, StoreError> {
        let sql = format!("{select} ORDER BY id");
        let arrived = async {
            let none: [(&str, Type); 0] = [];
            let mut rows = pin!(self.client.query_typed_raw(&sql, none).await?);
            let mut all = Vec::new();
            while let Some(row) = rows.try_next().await? {
                all.extend(self.readable(read(&row)));
            }
            Ok(all)
        };
        self.server.wait(arrived).map_err(|error| self.server.error(&error))
    }
}

/// Which points, and whether they have a result, and which trials are there.
#[derive(Debug, Default)]
struct Parts {
    points: BTreeMap<i64, bool>,
    trials: BTreeSet<(i64, i64)>,
}

fn unstorable(table: &Table, source: serde_json::Error) -> StoreError {
    StoreError::Unstorable { table: table.name, source }
}

/// A run of a list: of all columns, without JSON, because a list may have very many.
fn summary(row: &Row) -> Result<RunSummary, serde_json::Error> {
    fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, serde_json::Error> {
        row.try_get(at).map_err(serde_json::Error::custom)
    }
    Ok(RunSummary {
        id: column(row, 0)?,
        uuid: RunId::try_from(column::<String>(row, 1)?).map_err(serde_json::Error::custom)?,
        plan: column(row, 2)?,
        question: column(row, 3)?,
        started: column(row, 4)?,
        finished: column(row, 5)?,
        state: RunState::deserialize(StrDeserializer::<serde_json::Error>::new(column(row, 6)?))?,
        version: column(row, 7)?,
    })
}

impl Archive for PostgresArchive {
    fn damaged(&self) -> Vec<String> {
        self.damaged.take().into_iter().collect()
    }

    fn runs(&self) -> Result<Vec<Run>, StoreError> {
        self.listed(RUN, |row| self.record(&RUNS, row, row.len() - 1))
    }

    fn list(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.listed(SUMMARY, |row| summary(row).map_err(|source| self.damage(&RUNS, row, source)))
    }

    fn of_plan(&self, plan: &str) -> Result<Vec<(Run, Vec<Point>)>, StoreError> {
        let rows = self.rows(&format!("{RUN} WHERE plan = $1 ORDER BY id"), &[&plan])?;
        let runs: Vec<Run> = self.records(&RUNS, &rows);
        let mut points: BTreeMap<i64, Vec<Point>> = BTreeMap::new();
        for some in runs.chunks(AT_ONCE) {
            let numbers: Vec<i64> = some.iter().map(|run| run.id).collect();
            for point in self.points_of(&numbers)? {
                points.entry(point.run_id).or_default().push(point);
            }
        }
        Ok(runs
            .into_iter()
            .map(|run| (points.remove(&run.id).unwrap_or_default(), run))
            .map(|(p, run)| (run, p))
            .collect())
    }

    fn numbered(&self, number: i64) -> Result<RunId, StoreError> {
        let found = self.run_id("SELECT uuid::text FROM weir.runs WHERE id = $1", &[&number])?;
        found.ok_or_else(|| self.no_run(number))
    }

    fn newest(&self) -> Result<Option<RunId>, StoreError> {
        self.run_id("SELECT uuid::text FROM weir.runs ORDER BY id DESC LIMIT 1", &[])
    }

    fn run(&self, run: RunId) -> Result<Run, StoreError> {
        let rows = self.rows(&format!("{RUN} WHERE uuid = $1::text::uuid"), &[&run.to_string()])?;
        let row = rows.first().ok_or_else(|| self.no_run(run))?;
        self.record(&RUNS, row, row.len() - 1)
    }

    fn points(&self, run: RunId) -> Result<Vec<Point>, StoreError> {
        match self.number(run)? {
            Some(number) => self.points_of(&[number]),
            None => Ok(Vec::new()),
        }
    }

    fn trials(&self, point: PointKey) -> Result<Vec<Trial>, StoreError> {
        let Some(number) = self.number(point.run)? else { return Ok(Vec::new()) };
        let sql = format!("{TRIAL} WHERE t.run_id = $1 AND t.point_idx = $2 ORDER BY t.idx");
        let rows = self.rows(&sql, &[&number, &(point.index as i64)])?;
        Ok(self.records(&TRIALS, &rows))
    }

    fn put(&self, data: &RunData) -> Result<i64, StoreError> {
        self.in_transaction(|| match self.insert(&data.run)? {
            Some(number) => self.add(number, data, &Parts::default()).map(|_| number),
            None => {
                let why = format!("run {} is there already", data.run.uuid);
                Err(StoreError::Misplaced { path: self.place(), table: RUNS.name, why })
            }
        })
    }

    fn run_data(&self, id: RunId) -> Result<RunData, StoreError> {
        let run = self.run(id)?;
        let rows =
            self.rows(&format!("{TRIAL} WHERE t.run_id = $1 ORDER BY t.point_idx, t.idx"), &[&run.id])?;
        let mut trials: BTreeMap<i64, Vec<Trial>> = BTreeMap::new();
        for trial in self.records::<Trial>(&TRIALS, &rows) {
            trials.entry(trial.point_id).or_default().push(trial);
        }
        let with_trials =
            |point: Point| PointData { trials: trials.remove(&point.id).unwrap_or_default(), point };
        let points = self.points_of(&[run.id])?.into_iter().map(with_trials).collect();
        let mut data = RunData { run, points };
        data.mark_bounds();
        Ok(data)
    }
}
