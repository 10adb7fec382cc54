//! The database of a BNG: the state up to a record, which is part of the same transaction, and sessions that have ended.

mod accounting;
mod answers;
mod apply;
mod load;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use weir_bng::{Record, Subscriber};

use self::apply::Tables;
use super::error::StoreError;
use super::frame::Group;
use super::log::Folder;

/// Entry i changes the schema from version i to i + 1 (`PRAGMA user_version`).
const MIGRATIONS: [&str; 9] = [
    include_str!("database/schema.sql"),
    include_str!("database/pppoe.sql"),
    include_str!("database/groups.sql"),
    include_str!("database/prefixes.sql"),
    include_str!("database/accounting.sql"),
    include_str!("database/answers.sql"),
    include_str!("database/interims.sql"),
    include_str!("database/routes.sql"),
    include_str!("database/seats.sql"),
];
/// `PRAGMA application_id` of these files: "wbng".
const APPLICATION_ID: i64 = 0x7762_6e67;
/// How long a write waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than there are statements.
const STATEMENTS: usize = 64;

/// The database, open for writing.
#[derive(Debug)]
pub(super) struct Database {
    db: Connection,
    path: PathBuf,
    filled: u64,
}

impl Database {
    /// Opens the database of a folder, and makes it where missing.
    pub(super) fn open(folder: &Folder) -> Result<Database, StoreError> {
        let path = folder.join("bng.db");
        weir_disk::check_plain(&path).map_err(StoreError::io(&path))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).map_err(StoreError::database(&path))?;
        let mut database = Database { db, path, filled: 0 };
        database.prepare()?;
        let filled = database.db.query_row("SELECT revision FROM filled", (), |row| row.get::<_, i64>(0));
        database.filled = filled.map_err(StoreError::database(&database.path))?.unsigned_abs();
        Ok(database)
    }

    fn prepare(&mut self) -> Result<(), StoreError> {
        let error = StoreError::database;
        self.db.busy_timeout(BUSY_TIMEOUT).map_err(error(&self.path))?;
        self.db.set_prepared_statement_cache_capacity(STATEMENTS);
        let (found, known) = (self.pragma("user_version")?, MIGRATIONS.len() as i64);
        let tables = self.db.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get::<_, i64>(0));
        if tables.map_err(error(&self.path))? > 0 && self.pragma("application_id")? != APPLICATION_ID {
            return Err(StoreError::Foreign { path: self.path.clone() });
        }
        if found > known {
            return Err(StoreError::Newer { path: self.path.clone(), found, known });
        }
        // secure_delete: a password that was readable is overwritten when it is encrypted.
        // FULL: what the tables contain is on disk before its records are deleted from the log.
        let modes = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON";
        self.db.execute_batch(modes).map_err(error(&self.path))?;
        self.migrate(found).map_err(error(&self.path))
    }

    fn pragma(&self, name: &str) -> Result<i64, StoreError> {
        let value = self.db.pragma_query_value(None, name, |row| row.get(0));
        value.map_err(StoreError::database(&self.path))
    }

    /// Brings the schema up to date.
    fn migrate(&mut self, from: i64) -> rusqlite::Result<()> {
        let steps = MIGRATIONS.iter().skip(from as usize);
        if steps.len() == 0 {
            return Ok(());
        }
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in steps {
            change.execute_batch(step)?;
        }
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
        change.commit()
    }

    /// Revision of the last record that the tables contain.
    pub(super) fn filled(&self) -> u64 {
        self.filled
    }

    /// Takes in groups of the log, all or none; records that the tables contain are passed over.
    pub(super) fn fill(&mut self, groups: &[Group]) -> Result<(), StoreError> {
        let last = groups.iter().rev().find_map(|group| group.records.last());
        let Some(last) = last.map(|record| record.revision).filter(|last| *last > self.filled) else {
            return Ok(());
        };
        self.fill_up_to(groups, last).map_err(StoreError::database(&self.path))?;
        self.filled = last;
        Ok(())
    }

    fn fill_up_to(&mut self, groups: &[Group], last: u64) -> rusqlite::Result<()> {
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut tables = Tables::of(&change);
        for group in groups {
            for record in group.records.iter().filter(|record| record.revision > self.filled) {
                tables.apply(record, group.at_s)?;
            }
        }
        tables.finish(last)?;
        change.commit()
    }

    /// Replaces passwords of subscribers; nothing of those before is left in the files.
    pub(super) fn replace_passwords(&mut self, subscribers: &[Subscriber]) -> Result<(), StoreError> {
        if subscribers.is_empty() {
            return Ok(());
        }
        let replaced = self.db.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|change| {
            for subscriber in subscribers {
                let sql = "UPDATE subscribers SET password = ?2 WHERE name = ?1";
                change.execute(sql, (subscriber.name.as_str(), subscriber.password_word()))?;
            }
            change.commit()
        });
        replaced.map_err(StoreError::database(&self.path))?;
        let done = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        done.map_err(StoreError::database(&self.path))
    }

    /// Brings what the tables contain from SQLite's log into the file itself. Readers may keep it from that.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        let done = self.db.query_row("PRAGMA wal_checkpoint(FULL)", (), |_| Ok(()));
        done.map_err(StoreError::database(&self.path))
    }

    /// The state as records, in an order in which each finds what it refers to; all of them have the revision of the last one.
    pub(super) fn records(&self) -> Result<Vec<Record>, StoreError> {
        load::records(&self.db, self.filled).map_err(|error| error.of(&self.path))
    }
}
