//! All SQL of the store, and how a record becomes a row.
//!
//! ```text
//! record -> JSON object -> fields that people query -> columns
//!                          all other fields         -> one column `rest`
//! ```
//! A field that is added to a record is stored in `rest` without a change here.

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value as Json};

/// Marks the file as weir's (`PRAGMA application_id`): the letters "weir".
pub(super) const APPLICATION_ID: i64 = 0x7765_6972;

/// Entry i changes the schema from format i to i + 1 (`PRAGMA user_version`).
pub(super) const MIGRATIONS: [&str; 4] = [
    "
    CREATE TABLE runs (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        plan     TEXT NOT NULL,
        question TEXT NOT NULL,
        started  TEXT NOT NULL,
        finished TEXT,
        state    TEXT NOT NULL,
        version  TEXT NOT NULL,
        rest     TEXT NOT NULL
    ) STRICT;
    CREATE TABLE points (
        id               INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id           INTEGER NOT NULL REFERENCES runs,
        idx              INTEGER NOT NULL,
        dut              TEXT NOT NULL,
        frame            TEXT NOT NULL,
        frame_bytes_mean REAL NOT NULL,
        line_fps         REAL,
        result           TEXT,
        rest             TEXT NOT NULL,
        UNIQUE (run_id, idx)
    ) STRICT;
    CREATE TABLE trials (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        point_id    INTEGER NOT NULL REFERENCES points,
        idx         INTEGER NOT NULL,
        purpose     TEXT NOT NULL,
        started     TEXT NOT NULL,
        duration_s  REAL NOT NULL,
        offered_fps REAL NOT NULL,
        offered     INTEGER NOT NULL,
        sent        INTEGER NOT NULL,
        received    INTEGER NOT NULL,
        lost        INTEGER NOT NULL,
        unexplained INTEGER NOT NULL,
        verdict     TEXT NOT NULL,
        rest        TEXT NOT NULL,
        UNIQUE (point_id, idx)
    ) STRICT;
",
    // Runs are known by more than their place in one file.
    "
    UPDATE runs SET rest = json_set(rest, '$.uuid', lower(printf('%s-%s-4%s-%s%s-%s',
        hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2),
        substr('89AB', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2), hex(randomblob(6)))));
",
    // Points and trials without frames say nothing of frames: NULL, all at once. Before, all of it was 0.
    "
    CREATE TABLE new_points (
        id               INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id           INTEGER NOT NULL REFERENCES runs,
        idx              INTEGER NOT NULL,
        dut              TEXT NOT NULL,
        frame            TEXT,
        frame_bytes_mean REAL,
        line_fps         REAL,
        result           TEXT,
        rest             TEXT NOT NULL,
        UNIQUE (run_id, idx),
        CHECK ((frame IS NULL) = (frame_bytes_mean IS NULL))
    ) STRICT;
    INSERT INTO new_points SELECT id, run_id, idx, dut, nullif(frame, ''), iif(frame = '', NULL, frame_bytes_mean),
        line_fps, result, rest FROM points;
    DROP TABLE points;
    ALTER TABLE new_points RENAME TO points;
    CREATE TABLE new_trials (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        point_id    INTEGER NOT NULL REFERENCES points,
        idx         INTEGER NOT NULL,
        purpose     TEXT NOT NULL,
        started     TEXT NOT NULL,
        duration_s  REAL NOT NULL,
        offered_fps REAL,
        offered     INTEGER,
        sent        INTEGER,
        received    INTEGER,
        lost        INTEGER,
        unexplained INTEGER,
        verdict     TEXT NOT NULL,
        rest        TEXT NOT NULL,
        UNIQUE (point_id, idx),
        CHECK ((offered_fps IS NULL) + (offered IS NULL) + (sent IS NULL) + (received IS NULL) + (lost IS NULL)
            + (unexplained IS NULL) IN (0, 6))
    ) STRICT;
    INSERT INTO new_trials SELECT * FROM trials;
    UPDATE new_trials
        SET offered_fps = NULL, offered = NULL, sent = NULL, received = NULL, lost = NULL, unexplained = NULL
        WHERE offered_fps = 0 AND offered = 0 AND sent = 0 AND received = 0;
    DROP TABLE trials;
    ALTER TABLE new_trials RENAME TO trials;
",
    // Trials at full speed that are no ceiling of the tester have a purpose of their own; drop counters were the ledger.
    "
    UPDATE trials SET purpose = 'full-speed' WHERE purpose = 'ceiling' AND point_id IN (
        SELECT id FROM points WHERE dut NOT IN ('wire', 'tester')
            OR EXISTS (SELECT 1 FROM json_each(iif(json_valid(rest), rest, '{}'), '$.settings') WHERE value ->> 0 = 'measures'));
    UPDATE trials SET rest = json_remove(json_set(rest, '$.drop_counters', rest -> '$.ledger'), '$.ledger')
        WHERE iif(json_valid(rest), rest -> '$.ledger', NULL) IS NOT NULL;
",
];

/// Ends a run that is still running.
pub(super) const END_RUN: &str =
    "UPDATE runs SET state = ?2, finished = ?3 WHERE id = ?1 AND state = 'running'";
/// Keeps why a run that is still running fails.
pub(super) const NOTE_FAILURE: &str = "UPDATE runs SET rest = ?2 WHERE id = ?1 AND state = 'running'";
/// Lets a run that did not come to its end go on.
pub(super) const REOPEN_RUN: &str = "UPDATE runs SET state = 'running', finished = NULL, rest = ?2 \
                                     WHERE id = ?1 AND state IN ('interrupted', 'failed')";
/// Writes the result of a point that has none.
pub(super) const FINISH_POINT: &str = "UPDATE points SET result = ?2 WHERE id = ?1 AND result IS NULL";
/// Number of the newest run.
pub(super) const LAST_RUN: &str = "SELECT max(id) FROM runs";

/// A table of records. The number (`id`) is given by the store.
pub(super) struct Table {
    /// Name.
    pub(super) name: &'static str,
    /// Column that points to the parent, or `id`; rows are listed by it.
    parent: &'static str,
    /// Columns other than `id` and `rest`.
    columns: &'static [&'static str],
}

/// Runs; the parent column lists one run.
pub(super) const RUNS: Table = Table {
    name: "runs",
    parent: "id",
    columns: &["plan", "question", "started", "finished", "state", "version"],
};
/// Points of a run.
pub(super) const POINTS: Table = Table {
    name: "points",
    parent: "run_id",
    columns: &["run_id", "idx", "dut", "frame", "frame_bytes_mean", "line_fps", "result"],
};
/// Trials of a point.
pub(super) const TRIALS: Table = Table {
    name: "trials",
    parent: "point_id",
    columns: &[
        "point_id",
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
    /// Inserts a record and returns its number; the record's own `id` is ignored.
    pub(super) fn insert<R: Serialize + DeserializeOwned>(
        &self,
        db: &Connection,
        record: &R,
    ) -> Result<i64, RowError> {
        let row = self.write_row(record).map_err(RowError::Record)?;
        let places: Vec<_> = (1..=row.len()).map(|i| format!("?{i}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}, rest) VALUES ({})",
            self.name,
            self.columns.join(", "),
            places.join(", ")
        );
        db.prepare_cached(&sql)?.execute(params_from_iter(row))?;
        Ok(db.last_insert_rowid())
    }

    /// Records of one parent in order, or all, each with its number or why it cannot be read.
    pub(super) fn select<R: DeserializeOwned>(
        &self,
        db: &Connection,
        parent: Option<i64>,
    ) -> Result<Vec<Result<R, Unreadable>>, rusqlite::Error> {
        let sql = format!(
            "SELECT id, {}, rest FROM {} {} ORDER BY id",
            self.columns.join(", "),
            self.name,
            parent.map_or(String::new(), |_| format!("WHERE {} = ?1", self.parent))
        );
        let mut statement = db.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(parent))?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            records.push(self.read_row(id, row).map_err(|source| Unreadable { id, source }));
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
        let json = serde_json::to_value(record)?;
        // A number that is not finite becomes null and would be found only when the record is read.
        serde_json::from_value::<R>(json.clone())?;
        let Json::Object(mut fields) = json else { unreachable!("records are structs") };
        fields.remove("id");
        let mut row: Vec<_> = self
            .columns
            .iter()
            .map(|column| to_sql(fields.remove(field_of(column)).unwrap_or(Json::Null)))
            .collect();
        row.push(SqlValue::Text(Json::Object(fields).to_string()));
        Ok(row)
    }

    fn read_row<R: DeserializeOwned>(&self, id: i64, row: &Row<'_>) -> Result<R, serde_json::Error> {
        let rest: String = row.get(self.columns.len() + 1).map_err(serde_json::Error::custom)?;
        let mut fields: Map<String, Json> = serde_json::from_str(&rest)?;
        fields.insert("id".into(), id.into());
        for (i, column) in self.columns.iter().enumerate() {
            let value = row.get_ref(i + 1).map_err(serde_json::Error::custom)?;
            if value != ValueRef::Null {
                fields.insert(field_of(column).into(), to_json(column, value)?);
            }
        }
        serde_json::from_value(Json::Object(fields))
    }
}

/// `index` is a word of SQL, so its column has another name.
fn field_of(column: &str) -> &str {
    if column == "idx" { "index" } else { column }
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

fn to_json(column: &str, value: ValueRef<'_>) -> Result<Json, serde_json::Error> {
    Ok(match value {
        ValueRef::Integer(n) => n.into(),
        ValueRef::Real(x) => x.into(),
        ValueRef::Text(bytes) if column == "result" => serde_json::from_slice(bytes)?,
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into(),
        ValueRef::Null | ValueRef::Blob(_) => Json::Null,
    })
}
