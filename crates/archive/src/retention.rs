//! How long runs are kept: the owner of an archive deletes those that began before a day.

use weir_record::store::StoreError;

use crate::schema;
use crate::server::Server;

/// Runs that are deleted in one transaction, so that none takes long.
const AT_ONCE: i64 = 100;

/// Which runs are old.
#[derive(Debug, Clone)]
pub struct Old {
    /// They began more days ago than this.
    pub days: u32,
    /// Only runs of this plan.
    pub plan: Option<String>,
}

const WHICH: &str =
    "FROM weir.runs WHERE started_at < now() - make_interval(days => $1) AND ($2::text IS NULL OR plan = $2)";

/// The number of old runs.
///
/// # Errors
/// The server cannot be reached or refuses.
pub fn count_old(server: &Server, old: &Old) -> Result<u64, StoreError> {
    schema::check(server)?;
    let client = server.connection()?;
    let days = i32::try_from(old.days).unwrap_or(i32::MAX);
    let sql = format!("SELECT count(*) {WHICH}");
    let counted = server.wait(client.query_one(&sql, &[&days, &old.plan]));
    let counted = counted.and_then(|row| row.try_get::<_, i64>(0));
    counted.map(|runs| runs as u64).map_err(|error| server.error(&error))
}

/// Deletes old runs with all that belongs to them, and returns their number. Those that were deleted before an error stay deleted.
///
/// # Errors
/// The server cannot be reached or refuses: only the owner of the tables may delete.
pub fn delete_old(server: &Server, old: &Old) -> Result<u64, StoreError> {
    schema::check(server)?;
    let client = server.connection()?;
    let days = i32::try_from(old.days).unwrap_or(i32::MAX);
    let sql = format!("DELETE FROM weir.runs WHERE id IN (SELECT id {WHICH} ORDER BY id LIMIT {AT_ONCE})");
    let mut deleted = 0;
    loop {
        match server.wait(client.execute(&sql, &[&days, &old.plan])).map_err(|error| server.error(&error))? {
            0 => return Ok(deleted),
            runs => deleted += runs,
        }
    }
}
