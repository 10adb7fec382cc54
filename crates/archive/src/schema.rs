//! The tables of an archive, as the steps that make them, and who may read and write them.
//!
//! ```text
//! weir.format   one row: how many steps were taken
//! weir.runs  <  weir.points  <  weir.trials
//! ```
//! Columns that the file of a run log has are the same here; `rest` has all other fields of a record. `host` is the name of the machine
//! that measured the run, or, for runs of versions that did not record it, of the one that pushed it first.

use tokio_postgres::error::SqlState;
use weir_record::store::StoreError;

use crate::server::Server;

/// Entry i changes the tables from format i to i + 1.
const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE weir.runs (
        id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        uuid       uuid NOT NULL UNIQUE,
        plan       text NOT NULL,
        question   text NOT NULL,
        started    text NOT NULL,
        finished   text,
        state      text NOT NULL,
        version    text NOT NULL,
        rest       json NOT NULL,
        started_at timestamptz NOT NULL,
        host       text NOT NULL,
        kernel     text GENERATED ALWAYS AS (split_part(rest -> 'machine' ->> 'kernel', ' ', 1)) STORED,
        cpu        text GENERATED ALWAYS AS (rest -> 'machine' ->> 'cpu') STORED
    );
    CREATE INDEX runs_of_plan ON weir.runs (plan, id);
    CREATE INDEX runs_by_time ON weir.runs (started_at);
    CREATE INDEX runs_of_host ON weir.runs (host, id);
    CREATE TABLE weir.points (
        id               bigint GENERATED ALWAYS AS IDENTITY,
        run_id           bigint NOT NULL REFERENCES weir.runs ON DELETE CASCADE,
        idx              bigint NOT NULL,
        dut              text NOT NULL,
        frame            text,
        frame_bytes_mean double precision,
        line_fps         double precision,
        result           json,
        rest             json NOT NULL,
        PRIMARY KEY (run_id, idx),
        CHECK ((frame IS NULL) = (frame_bytes_mean IS NULL))
    );
    CREATE TABLE weir.trials (
        id          bigint GENERATED ALWAYS AS IDENTITY,
        run_id      bigint NOT NULL,
        point_idx   bigint NOT NULL,
        idx         bigint NOT NULL,
        purpose     text NOT NULL,
        started     text NOT NULL,
        duration_s  double precision NOT NULL,
        offered_fps double precision,
        offered     bigint,
        sent        bigint,
        received    bigint,
        lost        bigint,
        unexplained bigint,
        verdict     text NOT NULL,
        rest        json NOT NULL,
        PRIMARY KEY (run_id, point_idx, idx),
        FOREIGN KEY (run_id, point_idx) REFERENCES weir.points (run_id, idx) ON DELETE CASCADE,
        CHECK (num_nulls(offered_fps, offered, sent, received, lost, unexplained) IN (0, 6))
    );
",
    // The filters of the pages, and their values.
    "
    CREATE INDEX runs_of_kernel ON weir.runs (kernel, id);
    CREATE INDEX runs_of_version ON weir.runs (version, id);
",
];

/// The lock of those who change tables: any number, the same for all.
const LOCK: i64 = 0x7765_6972;

/// Roles of the server that get rights to an archive.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// May push runs, and read; may not delete.
    pub writers: Vec<String>,
    /// May read.
    pub readers: Vec<String>,
}

/// Makes the tables, or brings them up to date, and gives rights to roles. Needs the owner of the database or of the tables.
///
/// # Errors
/// The server cannot be reached or refuses; the tables are of a newer weir.
pub fn set_up(server: &Server, rights: &Rights) -> Result<(), StoreError> {
    migrate(server)?;
    let client = server.connection()?;
    let quoted = |role: &String| format!("\"{}\"", role.replace('"', "\"\""));
    let grant = |role: &String, is_writer: bool| {
        let role = quoted(role);
        let mut sql = format!(
            "GRANT USAGE ON SCHEMA weir TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA weir TO {role};"
        );
        if is_writer {
            sql += &format!(
                "GRANT INSERT ON weir.runs, weir.points, weir.trials TO {role};
                 GRANT UPDATE (finished, state, rest) ON weir.runs TO {role}; GRANT UPDATE (result) ON weir.points TO {role};"
            );
        }
        sql
    };
    let writers = rights.writers.iter().map(|role| grant(role, true));
    let sql: String = writers.chain(rights.readers.iter().map(|role| grant(role, false))).collect();
    // Several statements in one text are one transaction.
    server.wait(client.batch_execute(&sql)).map_err(|error| server.error(&error))
}

/// Checks that the tables are those that this program knows.
pub(crate) fn check(server: &Server) -> Result<(), StoreError> {
    match format(server)? {
        Some(found) if found == MIGRATIONS.len() => Ok(()),
        Some(found) if found > MIGRATIONS.len() => Err(newer(server, found)),
        Some(_) => Err(server
            .says("its tables are of an older weir: bring them up to date with `weir archive setup`".into())),
        None => {
            Err(server.says("there are no tables yet: `weir push` or `weir archive setup` makes them".into()))
        }
    }
}

/// The same for a writer, who makes the tables and brings them up to date if it may.
pub(crate) fn migrate(server: &Server) -> Result<(), StoreError> {
    match format(server)? {
        Some(found) if found == MIGRATIONS.len() => return Ok(()),
        Some(found) if found > MIGRATIONS.len() => return Err(newer(server, found)),
        _ => {}
    }
    let mut client = server.connection()?;
    let change = async {
        let change = client.transaction().await?;
        change.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
        change
            .batch_execute(
                "CREATE SCHEMA IF NOT EXISTS weir;
                 CREATE TABLE IF NOT EXISTS weir.format (format bigint NOT NULL);
                 INSERT INTO weir.format SELECT 0 WHERE NOT EXISTS (SELECT FROM weir.format)",
            )
            .await?;
        // Read under the lock: another client may have been faster.
        let from: i64 = change.query_one("SELECT format FROM weir.format", &[]).await?.try_get(0)?;
        for step in MIGRATIONS.iter().skip(from as usize) {
            change.batch_execute(step).await?;
        }
        change
            .execute("UPDATE weir.format SET format = $1 WHERE format < $1", &[&(MIGRATIONS.len() as i64)])
            .await?;
        change.commit().await
    };
    server.wait(change).map_err(|error| server.error(&error))
}

fn newer(server: &Server, found: usize) -> StoreError {
    let known = MIGRATIONS.len();
    server.says(format!(
        "its tables have format {found}, this weir supports formats up to {known}: use a newer weir"
    ))
}

/// The format of the tables; `None`: there are none.
fn format(server: &Server) -> Result<Option<usize>, StoreError> {
    let client = server.connection()?;
    // One round trip: the statement is not prepared, and that the table is missing is an answer, too.
    match server.wait(client.query_typed_opt("SELECT format FROM weir.format", &[])) {
        Ok(row) => {
            let format = row.map(|row| row.try_get::<_, i64>(0)).transpose();
            format.map(|format| format.map(|format| format as usize)).map_err(|error| server.error(&error))
        }
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(server.error(&error)),
    }
}
