-- What waits for servers of accounting beside Starts and Stops; the NAT profile of a subscriber.

ALTER TABLE subscribers ADD COLUMN nat TEXT;        -- `none`, `block`, `deterministic`, `one-to-one ADDRESS`; NULL: configured

-- The newest interim update of a session that no server has answered.
CREATE TABLE interims (
    session     INTEGER PRIMARY KEY,
    at_s        INTEGER NOT NULL,          -- when it was due
    down_frames INTEGER NOT NULL,
    down_bytes  INTEGER NOT NULL,
    up_frames   INTEGER NOT NULL,
    up_bytes    INTEGER NOT NULL
) STRICT;

-- One row while no server has answered Accounting-On.
CREATE TABLE accounting_on (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    at_s INTEGER NOT NULL                  -- when all sessions were lost
) STRICT;
