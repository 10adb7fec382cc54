-- The state of a BNG up to a record, as tables. Times are in s since 1970; frames and bytes as in `weir_bng::Counters`.

-- One row.
CREATE TABLE filled (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL,             -- the last record that the tables contain
    skipped  INTEGER NOT NULL              -- records that changed nothing, because their subscriber or session is unknown
) STRICT;
INSERT INTO filled VALUES (1, 0, 0);

CREATE TABLE subscribers (
    name          TEXT PRIMARY KEY,
    key           TEXT NOT NULL,           -- mac 02:00:00:00:00:01, line access1:100.7, circuit eth0/1
    plan          TEXT NOT NULL,           -- name of a plan, or: down 20Mbit/s up 5Mbit/s
    fixed_address TEXT,
    status        TEXT NOT NULL,           -- active, blocked
    last_address  TEXT,                    -- the address of its last session that has ended
    revision      INTEGER NOT NULL         -- the record of the other columns
) STRICT, WITHOUT ROWID;

-- Subscribers that are online.
CREATE TABLE sessions (
    id          INTEGER PRIMARY KEY,
    subscriber  TEXT NOT NULL UNIQUE,
    line        TEXT NOT NULL,
    mac         TEXT NOT NULL,
    relay       TEXT,
    address     TEXT NOT NULL UNIQUE,
    client_id   BLOB,
    start_s     INTEGER NOT NULL,
    granted_s   INTEGER NOT NULL,          -- when the lease was granted or last renewed
    lease_s     INTEGER NOT NULL,
    down_frames INTEGER NOT NULL,
    down_bytes  INTEGER NOT NULL,
    up_frames   INTEGER NOT NULL,
    up_bytes    INTEGER NOT NULL,
    revision    INTEGER NOT NULL           -- the record of the lease
) STRICT;

-- Sessions that have ended: those of 30 days, at most 1,000,000.
CREATE TABLE ended_sessions (
    number      INTEGER PRIMARY KEY,
    session     INTEGER NOT NULL,
    subscriber  TEXT NOT NULL,
    line        TEXT NOT NULL,
    mac         TEXT NOT NULL,
    address     TEXT NOT NULL,
    start_s     INTEGER NOT NULL,
    end_s       INTEGER NOT NULL,          -- when the end was written into the log
    cause       TEXT NOT NULL,
    down_frames INTEGER NOT NULL,
    down_bytes  INTEGER NOT NULL,
    up_frames   INTEGER NOT NULL,
    up_bytes    INTEGER NOT NULL
) STRICT;
CREATE INDEX ended_sessions_of_subscriber ON ended_sessions (subscriber);
CREATE INDEX ended_sessions_of_address ON ended_sessions (address);

-- Addresses that a client found in use.
CREATE TABLE quarantines (
    address    TEXT PRIMARY KEY,
    subscriber TEXT NOT NULL,
    until_s    INTEGER NOT NULL,
    revision   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX quarantines_of_subscriber ON quarantines (subscriber);
