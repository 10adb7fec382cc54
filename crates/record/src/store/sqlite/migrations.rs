//! The schema of a file of records, as the steps that make it: a new file takes all of them, an older one those that it lacks.

/// Entry i changes the schema from format i to i + 1 (`PRAGMA user_version`).
pub(super) const MIGRATIONS: [&str; 5] = [
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
    // Runs got a UUID in `rest`: see the last step, which gives one to each run that has none.
    "",
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
    // Points and trials are found by the UUID of their run and their places, which are the same in every archive; numbers stay for
    // people. Two runs had one UUID where shards were merged into the file of the first.
    "
    ALTER TABLE runs ADD COLUMN uuid TEXT;
    UPDATE runs SET uuid = lower(rest ->> '$.uuid'), rest = json_remove(rest, '$.uuid') WHERE json_valid(rest);
    UPDATE runs SET uuid = lower(printf('%s-%s-4%s-%s%s-%s',
            hex(randomblob(4)), hex(randomblob(2)), substr(hex(randomblob(2)), 2),
            substr('89AB', 1 + (random() & 3), 1), substr(hex(randomblob(2)), 2), hex(randomblob(6))))
        WHERE uuid IS NULL OR uuid NOT GLOB replace('xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx', 'x', '[0-9a-f]')
            OR EXISTS (SELECT 1 FROM runs AS earlier WHERE earlier.id < runs.id AND earlier.uuid = runs.uuid);
    CREATE TABLE new_runs (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        uuid     TEXT NOT NULL UNIQUE,
        plan     TEXT NOT NULL,
        question TEXT NOT NULL,
        started  TEXT NOT NULL,
        finished TEXT,
        state    TEXT NOT NULL,
        version  TEXT NOT NULL,
        rest     TEXT NOT NULL
    ) STRICT;
    CREATE TABLE new_points (
        id               INTEGER PRIMARY KEY AUTOINCREMENT,
        run_uuid         TEXT NOT NULL REFERENCES runs (uuid),
        idx              INTEGER NOT NULL,
        dut              TEXT NOT NULL,
        frame            TEXT,
        frame_bytes_mean REAL,
        line_fps         REAL,
        result           TEXT,
        rest             TEXT NOT NULL,
        UNIQUE (run_uuid, idx),
        CHECK ((frame IS NULL) = (frame_bytes_mean IS NULL))
    ) STRICT;
    CREATE TABLE new_trials (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        run_uuid    TEXT NOT NULL,
        point_idx   INTEGER NOT NULL,
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
        UNIQUE (run_uuid, point_idx, idx),
        FOREIGN KEY (run_uuid, point_idx) REFERENCES points (run_uuid, idx),
        CHECK ((offered_fps IS NULL) + (offered IS NULL) + (sent IS NULL) + (received IS NULL) + (lost IS NULL)
            + (unexplained IS NULL) IN (0, 6))
    ) STRICT;
    INSERT INTO new_runs SELECT id, uuid, plan, question, started, finished, state, version, rest FROM runs;
    INSERT INTO new_points SELECT p.id, r.uuid, p.idx, p.dut, p.frame, p.frame_bytes_mean, p.line_fps, p.result, p.rest
        FROM points p JOIN runs r ON r.id = p.run_id;
    INSERT INTO new_trials SELECT t.id, p.run_uuid, p.idx, t.idx, t.purpose, t.started, t.duration_s, t.offered_fps, t.offered,
            t.sent, t.received, t.lost, t.unexplained, t.verdict, t.rest
        FROM trials t JOIN new_points p ON p.id = t.point_id;
    DROP TABLE trials;
    DROP TABLE points;
    DROP TABLE runs;
    ALTER TABLE new_runs RENAME TO runs;
    ALTER TABLE new_points RENAME TO points;
    ALTER TABLE new_trials RENAME TO trials;
",
];

#[cfg(test)]
mod tests;
