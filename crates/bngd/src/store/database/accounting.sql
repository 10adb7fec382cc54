-- Accounting: what is told of a session, and sessions that have ended whose Stop no server has answered.

ALTER TABLE sessions ADD COLUMN account TEXT;   -- Acct-Session-Id, `waits` or `started`, and what AAA said; NULL: nothing

CREATE TABLE unaccounted (
    session     INTEGER PRIMARY KEY,
    subscriber  TEXT NOT NULL,
    line        TEXT NOT NULL,
    mac         TEXT NOT NULL,
    address     TEXT NOT NULL,
    prefix      TEXT,
    access      TEXT NOT NULL,             -- ipoe, pppoe
    account     TEXT NOT NULL,
    start_s     INTEGER NOT NULL,
    end_s       INTEGER NOT NULL,
    cause       TEXT NOT NULL,
    down_frames INTEGER NOT NULL,
    down_bytes  INTEGER NOT NULL,
    up_frames   INTEGER NOT NULL,
    up_bytes    INTEGER NOT NULL
) STRICT;
