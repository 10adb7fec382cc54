//! Records as rows: the text of COPY on the way in, columns of queries on the way out.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Error, Value};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use weir_record::store::fields::{self, Fields};

/// A table of records.
pub(crate) struct Table {
    /// Name.
    pub(crate) name: &'static str,
    /// Fields with numbers that the archive gives.
    numbers: &'static [&'static str],
    /// Columns that a record has, other than these and `rest`.
    columns: &'static [&'static str],
}

/// Runs.
pub(crate) const RUNS: Table = Table {
    name: "runs",
    numbers: &["id"],
    columns: &["uuid", "plan", "question", "started", "finished", "state", "version"],
};
/// Points, each below its run.
pub(crate) const POINTS: Table = Table {
    name: "points",
    numbers: &["id", "run_id"],
    columns: &["idx", "dut", "frame", "frame_bytes_mean", "line_fps", "result"],
};
/// Trials, each below its point.
pub(crate) const TRIALS: Table = Table {
    name: "trials",
    numbers: &["id", "point_id"],
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

impl Table {
    /// The beginning of a copy of records below a parent that these columns name.
    pub(crate) fn copy(&self, parent: &str) -> String {
        format!("COPY weir.{} ({parent}, {}, rest) FROM STDIN", self.name, self.columns.join(", "))
    }

    /// Adds the line of a record to the text of a copy.
    ///
    /// # Errors
    /// The record cannot be stored without loss.
    pub(crate) fn write<R: Serialize + DeserializeOwned>(
        &self,
        text: &mut Vec<u8>,
        parent: &[i64],
        record: &R,
    ) -> Result<(), Error> {
        let (values, rest) = self.split(record)?;
        for number in parent {
            text.extend(number.to_string().bytes());
            text.push(b'\t');
        }
        for value in &values {
            match value {
                Value::Null => text.extend(b"\\N"),
                Value::String(value) => escape(text, value),
                value => escape(text, &value.to_string()),
            }
            text.push(b'\t');
        }
        escape(text, &rest);
        text.push(b'\n');
        Ok(())
    }

    /// The values of the columns as JSON, and `rest`.
    pub(crate) fn split<R: Serialize + DeserializeOwned>(
        &self,
        record: &R,
    ) -> Result<(Vec<Value>, String), Error> {
        fields::split(record, self.numbers, self.columns)
    }

    /// The record of a row whose columns before `rest` have the names of its fields.
    ///
    /// # Errors
    /// A field is missing or has another type.
    pub(crate) fn read<R: DeserializeOwned>(row: &Row, rest: usize) -> Result<R, Error> {
        let Some((_, columns)) = row.columns().split_last() else {
            return Err(Error::custom("an empty row"));
        };
        let rest: &str = row.try_get(rest).map_err(Error::custom)?;
        let mut fields = Fields::with_room(rest.len());
        for (i, column) in columns.iter().enumerate() {
            let name = column.name();
            match *column.type_() {
                Type::INT8 => add(&mut fields, name, value::<i64>(row, i)?.as_ref())?,
                Type::FLOAT8 => add(&mut fields, name, value::<f64>(row, i)?.as_ref())?,
                _ => match value::<&str>(row, i)? {
                    Some(json) if name == "result" => fields.add_json(name, json.as_bytes())?,
                    text => add(&mut fields, name, text.as_ref())?,
                },
            }
        }
        fields.record(rest)
    }
}

fn value<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<Option<T>, Error> {
    row.try_get(at).map_err(Error::custom)
}

/// A column without a value is no field.
fn add(fields: &mut Fields, column: &str, value: Option<&impl Serialize>) -> Result<(), Error> {
    value.map_or(Ok(()), |value| fields.add(column, value))
}

/// The text format of COPY: a backslash before what separates columns and lines (PostgreSQL, COPY, File Formats).
fn escape(text: &mut Vec<u8>, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'\\' => text.extend(b"\\\\"),
            b'\t' => text.extend(b"\\t"),
            b'\n' => text.extend(b"\\n"),
            b'\r' => text.extend(b"\\r"),
            other => text.push(other),
        }
    }
}
