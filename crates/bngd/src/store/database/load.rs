//! The tables as records, for the start of the program.

use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use rusqlite::{Connection, Row};
use weir_bng::{Change, Counters, Device, Lease, NO_ADDRESS, Record, SessionId, Unaccounted};

use crate::store::error::StoreError;

/// Why the tables cannot be read.
#[derive(Debug)]
pub(super) enum LoadError {
    Sqlite(rusqlite::Error),
    /// A row of a table makes no sense.
    Row {
        table: &'static str,
        why: String,
    },
}

impl From<rusqlite::Error> for LoadError {
    fn from(error: rusqlite::Error) -> LoadError {
        LoadError::Sqlite(error)
    }
}

impl LoadError {
    pub(super) fn of(self, path: &Path) -> StoreError {
        match self {
            LoadError::Sqlite(error) => StoreError::database(path)(error),
            LoadError::Row { table, why } => StoreError::Row { path: path.to_path_buf(), table, why },
        }
    }
}

/// All of the state. Subscribers come first, in the order of their records: the last one has a key that two of them have.
pub(super) fn records(db: &Connection, revision: u64) -> Result<Vec<Record>, LoadError> {
    let mut changes = Vec::new();
    for_each(db, "subscribers", SUBSCRIBERS, |row| subscriber(row, &mut changes))?;
    let mut others = Vec::new();
    for_each(db, "quarantines", QUARANTINES, |row| quarantine(row, &mut others))?;
    for_each(db, "subscribers", LAST_ADDRESSES, |row| last_address(row, &mut others))?;
    for_each(db, "subscribers", LAST_PREFIXES, |row| last_prefix(row, &mut others))?;
    for_each(db, "sessions", SESSIONS, |row| session(row, &mut others))?;
    for_each(db, "interims", INTERIMS, |row| interim(row, &mut others))?;
    for_each(db, "accounting_on", ACCOUNTING_ON, |row| lost_all(row, &mut others))?;
    for_each(db, "unaccounted", UNACCOUNTED, |row| unaccounted(row, &mut others))?;
    for_each(db, "answers", ANSWERS, |row| answer(row, &mut others))?;
    Ok(changes.into_iter().chain(others).map(|change| Record { revision, change }).collect())
}

const SUBSCRIBERS: &str = "SELECT name, key, plan, fixed_address, status, fixed_prefix, password, group_name, nat, routes, pool, prefix_pool
    FROM subscribers ORDER BY revision";
const LAST_ADDRESSES: &str =
    "SELECT name, last_address FROM subscribers WHERE last_address IS NOT NULL ORDER BY revision";
const LAST_PREFIXES: &str =
    "SELECT name, last_prefix FROM subscribers WHERE last_prefix IS NOT NULL ORDER BY revision";
const ANSWERS: &str = "SELECT login, answer FROM answers ORDER BY revision";
const QUARANTINES: &str = "SELECT address, subscriber, until_s FROM quarantines ORDER BY revision";
const SESSIONS: &str =
    "SELECT id, subscriber, line, mac, relay, address, client_id, start_s, granted_s, lease_s, down_frames,
    down_bytes, up_frames, up_bytes, ppp, prefix, account, seat FROM sessions ORDER BY revision";
const INTERIMS: &str =
    "SELECT session, at_s, down_frames, down_bytes, up_frames, up_bytes FROM interims ORDER BY session";
const ACCOUNTING_ON: &str = "SELECT at_s FROM accounting_on";
const UNACCOUNTED: &str =
    "SELECT session, subscriber, line, mac, address, access, account, start_s, end_s, cause, down_frames, down_bytes,
    up_frames, up_bytes, prefix FROM unaccounted ORDER BY session";

/// A value cannot be read, or a column.
enum Wrong {
    Value(String),
    Column(rusqlite::Error),
}

impl From<rusqlite::Error> for Wrong {
    fn from(error: rusqlite::Error) -> Wrong {
        Wrong::Column(error)
    }
}

fn for_each(
    db: &Connection,
    table: &'static str,
    sql: &str,
    mut act: impl FnMut(&Row<'_>) -> Result<(), Wrong>,
) -> Result<(), LoadError> {
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        act(row).map_err(|wrong| match wrong {
            Wrong::Value(why) => LoadError::Row { table, why },
            Wrong::Column(error) => LoadError::Row { table, why: error.to_string() },
        })?;
    }
    Ok(())
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, Wrong> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|error| Wrong::Value(format!("column {}: {error}", column + 1)))
}

fn value<T: FromStr<Err = String>>(row: &Row<'_>, column: usize) -> Result<T, Wrong> {
    text(row, column)?.parse().map_err(Wrong::Value)
}

fn optional<T: FromStr<Err = String>>(row: &Row<'_>, column: usize) -> Result<Option<T>, Wrong> {
    let text = row.get::<_, Option<String>>(column)?;
    text.map(|text| text.parse()).transpose().map_err(Wrong::Value)
}

fn address(text: &str) -> Result<Ipv4Addr, Wrong> {
    text.parse().map_err(|error| Wrong::Value(format!("`{text}` is no IPv4 address: {error}")))
}

fn number(row: &Row<'_>, column: usize) -> Result<u64, Wrong> {
    let value: i64 = row.get(column)?;
    value.try_into().map_err(|_| Wrong::Value(format!("{value} is below 0")))
}

fn subscriber(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    let mut line = format!("{} {} plan {}", text(row, 0)?, text(row, 1)?, text(row, 2)?);
    if let Some(fixed) = row.get::<_, Option<String>>(3)? {
        line = line + " address " + &fixed;
    }
    let words = [
        (" prefix ", 5),
        (" pool ", 10),
        (" prefix-pool ", 11),
        (" ", 9),
        (" password ", 6),
        (" group ", 7),
        (" nat ", 8),
    ];
    for (word, column) in words {
        if let Some(value) = row.get::<_, Option<String>>(column)? {
            line = line + word + &value;
        }
    }
    match text(row, 4)? {
        "active" => {}
        status => line = line + " " + status,
    }
    changes.push(Change::Subscriber(line.parse().map_err(Wrong::Value)?));
    Ok(())
}

fn last_address(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    changes.push(Change::LastAddress { subscriber: value(row, 0)?, address: address(text(row, 1)?)? });
    Ok(())
}

fn last_prefix(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    changes.push(Change::LastPrefix { subscriber: value(row, 0)?, prefix: value(row, 1)? });
    Ok(())
}

fn quarantine(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    let (address, until_s) = (address(text(row, 0)?)?, number(row, 2)?);
    changes.push(Change::Declined { address, subscriber: value(row, 1)?, until_s });
    Ok(())
}

fn unaccounted(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    changes.push(Change::Unaccounted(Box::new(Unaccounted {
        session: SessionId(number(row, 0)?),
        subscriber: value(row, 1)?,
        line: value(row, 2)?,
        mac: value(row, 3)?,
        address: address(text(row, 4)?)?,
        prefix: optional(row, 14)?,
        is_ppp: text(row, 5)? == "pppoe",
        account: value(row, 6)?,
        start_s: number(row, 7)?,
        end_s: number(row, 8)?,
        cause: value(row, 9)?,
        counters: counters(row, 10)?,
    })));
    Ok(())
}

/// The four columns from `first` on.
fn counters(row: &Row<'_>, first: usize) -> Result<Counters, Wrong> {
    Ok(Counters {
        down_frames: number(row, first)?,
        down_bytes: number(row, first + 1)?,
        up_frames: number(row, first + 2)?,
        up_bytes: number(row, first + 3)?,
    })
}

fn interim(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    let (session, at_s) = (SessionId(number(row, 0)?), number(row, 1)?);
    changes.push(Change::Interim { session, at_s, counters: counters(row, 2)? });
    Ok(())
}

fn lost_all(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    changes.push(Change::LostAll { at_s: number(row, 0)? });
    Ok(())
}

fn session(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    let relay = row.get::<_, Option<String>>(4)?.map(|relay| address(&relay)).transpose()?;
    let lease = Lease {
        device: Device { line: value(row, 2)?, mac: value(row, 3)?, relay },
        seat: row.get(17)?,
        address: row.get::<_, Option<String>>(5)?.map_or(Ok(NO_ADDRESS), |text| address(&text))?,
        prefix: optional(row, 15)?,
        client_id: row.get::<_, Option<Vec<u8>>>(6)?.map(Vec::into_boxed_slice),
        granted_s: number(row, 8)?,
        lease_s: row.get(9)?,
        ppp: optional(row, 14)?,
        account: optional(row, 16)?,
    };
    let counters = counters(row, 10)?;
    changes.push(Change::Lease {
        session: SessionId(number(row, 0)?),
        subscriber: value(row, 1)?,
        start_s: number(row, 7)?,
        counters,
        lease,
    });
    Ok(())
}

fn answer(row: &Row<'_>, changes: &mut Vec<Change>) -> Result<(), Wrong> {
    changes.push(Change::Answer { login: value(row, 0)?, answer: Box::new(value(row, 1)?) });
    Ok(())
}
