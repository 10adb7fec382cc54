-- Several sessions of a subscriber, each with its number; sessions without an address of IPv4.

CREATE TABLE sessions_with_seats (
    id          INTEGER PRIMARY KEY,
    subscriber  TEXT NOT NULL,
    seat        INTEGER NOT NULL,          -- which of the sessions of its subscriber, from 0 on
    line        TEXT NOT NULL,
    mac         TEXT NOT NULL,
    relay       TEXT,
    address     TEXT UNIQUE,               -- NULL: it has IPv6 alone
    client_id   BLOB,
    start_s     INTEGER NOT NULL,
    granted_s   INTEGER NOT NULL,          -- when the lease was granted or last renewed
    lease_s     INTEGER NOT NULL,
    down_frames INTEGER NOT NULL,
    down_bytes  INTEGER NOT NULL,
    up_frames   INTEGER NOT NULL,
    up_bytes    INTEGER NOT NULL,
    revision    INTEGER NOT NULL,          -- the record of the lease
    ppp         TEXT,                      -- PPPoE session id/largest MRU/MRU of the client/magic numbers of both sides
    prefix      TEXT,
    account     TEXT,                      -- Acct-Session-Id, `waits` or `started`, and what AAA said; NULL: nothing
    UNIQUE (subscriber, seat)
) STRICT;
INSERT INTO sessions_with_seats
    SELECT id, subscriber, 0, line, mac, relay, address, client_id, start_s, granted_s, lease_s, down_frames, down_bytes,
        up_frames, up_bytes, revision, ppp, prefix, account
    FROM sessions;
DROP TABLE sessions;
ALTER TABLE sessions_with_seats RENAME TO sessions;
CREATE UNIQUE INDEX sessions_of_prefix ON sessions (prefix) WHERE prefix IS NOT NULL;
