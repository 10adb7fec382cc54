//! The SQL of a file of records, but for its [schema](super::migrations), and how a record becomes a row.
//!
//! What has no column is in `rest`, see [`fields`].

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value as Json;

use crate::record::{PointKey, RunId};
use crate::store::fields::{self, Fields};

/// Marks the file as weir's (`PRAGMA application_id`): the letters "weir".
pub(super) const APPLICATION_ID: i64 = 0x7765_6972;

/// Ends a run that is still running.
pub(super) const END_RUN: &str =
    "UPDATE runs SET state = ?2, finished = ?3 WHERE uuid = ?1 AND state = 'running'";
/// Ends a run that is still running and has failed; its failure is in `rest`.
pub(super) const FAIL_RUN: &str =
    "UPDATE runs SET state = 'failed', finished = ?2, rest = ?3 WHERE uuid = ?1 AND state = 'running'";
/// Lets a run that did not come to its end go on.
pub(super) const REOPEN_RUN: &str = "UPDATE runs SET state = 'running', finished = NULL, rest = ?2 \
                                     WHERE uuid = ?1 AND state IN ('interrupted', 'failed')";
/// Writes the result of a point that has none.
pub(super) const FINISH_POINT: &str =
    "UPDATE points SET result = ?3 WHERE run_uuid = ?1 AND idx = ?2 AND result IS NULL";
/// The run with a number.
pub(super) const NUMBERED: &str = "SELECT id, uuid FROM runs WHERE id = ?1";
/// The run that began last.
pub(super) const NEWEST: &str = "SELECT id, uuid FROM runs ORDER BY id DESC LIMIT 1";

/// A table of records.
pub(super) struct Table {
    /// Name.
    pub(super) name: &'static str,
    /// Fields with numbers that the file gives, the own one first, each with its SQL.
    numbers: &'static [(&'static str, &'static str)],
    /// Columns other than these, the key of the parent and `rest`.
    columns: &'static [&'static str],
}

/// Columns by which rows are found, and their values.
pub(super) type Key = [(&'static str, SqlValue)];

/// Runs.
pub(super) const RUNS: Table = Table {
    name: "runs",
    numbers: &[("id", "id")],
    columns: &["uuid", "plan", "question", "started", "finished", "state", "version"],
};
/// Points, each below its run.
pub(super) const POINTS: Table = Table {
    name: "points",
    numbers: &[("id", "id"), ("run_id", "(SELECT id FROM runs WHERE uuid = run_uuid)")],
    columns: &["idx", "dut", "frame", "frame_bytes_mean", "line_fps", "result"],
};
/// Trials, each below its point.
pub(super) const TRIALS: Table = Table {
    name: "trials",
    numbers: &[
        ("id", "id"),
        (
            "point_id",
            "(SELECT id FROM points WHERE points.run_uuid = trials.run_uuid AND points.idx = point_idx)",
        ),
    ],
    columns: &[
        "idx",
        "purpose",
        "started",
        "duration_s",
        "offered_fps",
        "offered",
        "sent",
        "received",
        "lost",
        "unexplained",
        "verdict",
    ],
};

/// The key of the points of a run.
pub(super) fn of_run(run: RunId) -> [(&'static str, SqlValue); 1] {
    [("run_uuid", SqlValue::Text(run.to_string()))]
}

/// The key of the trials of a point.
pub(super) fn of_point(point: PointKey) -> [(&'static str, SqlValue); 2] {
    let [run] = of_run(point.run);
    [run, ("point_idx", to_sql(point.index.into()))]
}

/// A row of which no record can be made.
pub(super) struct Unreadable {
    /// Its number.
    pub(super) id: i64,
    /// Field and reason.
    pub(super) source: serde_json::Error,
}

/// Why a row could not be written.
pub(super) enum RowError {
    /// SQLite refused.
    Sql(rusqlite::Error),
    /// No row can be made of the record.
    Record(serde_json::Error),
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        RowError::Sql(error)
    }
}

impl Table {
    /// Inserts a record below its parent and returns its number; the numbers in the record are ignored.
    pub(super) fn insert<R: Serialize + DeserializeOwned>(
        &self,
        db: &Connection,
        parent: &Key,
        record: &R,
    ) -> Result<i64, RowError> {
        let row = self.write_row(record).map_err(RowError::Record)?;
        let (mut columns, mut values): (Vec<_>, Vec<_>) = parent.iter().cloned().unzip();
        columns.extend(self.columns);
        values.extend(row);
        let places: Vec<_> = (1..=values.len()).map(|i| format!("?{i}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}, rest) VALUES ({})",
            self.name,
            columns.join(", "),
            places.join(", ")
        );
        db.prepare_cached(&sql)?.execute(params_from_iter(values))?;
        Ok(db.last_insert_rowid())
    }

    /// Records with this key in order, or all, each or why it cannot be read.
    pub(super) fn select<R: DeserializeOwned>(
        &self,
        db: &Connection,
        key: &Key,
    ) -> Result<Vec<Result<R, Unreadable>>, rusqlite::Error> {
        let numbers = self.numbers.iter().map(|(_, sql)| *sql);
        let columns: Vec<_> = numbers.chain(self.columns.iter().copied()).collect();
        let wanted: String = key.iter().map(|(column, _)| format!(" AND {column} = ?")).collect();
        let sql =
            format!("SELECT {}, rest FROM {} WHERE true{wanted} ORDER BY id", columns.join(", "), self.name);
        let mut statement = db.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(key.iter().map(|(_, value)| value)))?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            records.push(self.read_row(row).map_err(|source| Unreadable { id, source }));
        }
        Ok(records)
    }

    /// What the record has beside its columns.
    pub(super) fn rest<R: Serialize + DeserializeOwned>(&self, record: &R) -> Result<SqlValue, RowError> {
        let mut row = self.write_row(record).map_err(RowError::Record)?;
        Ok(row.pop().expect("it ends with the rest"))
    }

    /// The columns' values in order, `rest` last.
    fn write_row<R: Serialize + DeserializeOwned>(
        &self,
        record: &R,
    ) -> Result<Vec<SqlValue>, serde_json::Error> {
        let numbers: Vec<&str> = self.numbers.iter().map(|(number, _)| *number).collect();
        let (values, rest) = fields::split(record, &numbers, self.columns)?;
        Ok(values.into_iter().map(to_sql).chain([SqlValue::Text(rest)]).collect())
    }

    fn read_row<R: DeserializeOwned>(&self, row: &Row<'_>) -> Result<R, serde_json::Error> {
        let names = self.numbers.iter().map(|(field, _)| *field).chain(self.columns.iter().copied());
        let rest: String = row.get("rest").map_err(serde_json::Error::custom)?;
        let mut fields = Fields::with_room(rest.len());
        for (i, column) in names.enumerate() {
            match row.get_ref(i).map_err(serde_json::Error::custom)? {
                ValueRef::Integer(n) => fields.add(column, &n)?,
                ValueRef::Real(x) => fields.add(column, &x)?,
                ValueRef::Text(json) if column == "result" => fields.add_json(column, json)?,
                ValueRef::Text(text) => fields.add(column, &String::from_utf8_lossy(text))?,
                ValueRef::Null | ValueRef::Blob(_) => {}
            }
        }
        fields.record(&rest)
    }
}

fn to_sql(value: Json) -> SqlValue {
    match value {
        Json::Null => SqlValue::Null,
        Json::String(text) => SqlValue::Text(text),
        Json::Number(n) if n.is_f64() => SqlValue::Real(n.as_f64().unwrap_or_default()),
        Json::Number(n) if n.is_i64() => SqlValue::Integer(n.as_i64().unwrap_or_default()),
        // Beyond i64 only as text, which a STRICT integer column refuses: never a wrong number.
        other => SqlValue::Text(other.to_string()),
    }
}
