-- The last Access-Accept of each login, for the time without RADIUS servers (brown-out).
CREATE TABLE answers (
    login TEXT PRIMARY KEY,
    answer TEXT NOT NULL,       -- time (s since 1970), line, MAC address, hash of the password, attributes
    at_s INTEGER NOT NULL,      -- the time of the record
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
