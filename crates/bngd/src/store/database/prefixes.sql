-- Prefixes of IPv6: that of a session's link, and those that a subscriber alone gets, or had last.

ALTER TABLE subscribers ADD COLUMN fixed_prefix TEXT;
ALTER TABLE subscribers ADD COLUMN last_prefix TEXT;
ALTER TABLE sessions ADD COLUMN prefix TEXT;
ALTER TABLE ended_sessions ADD COLUMN prefix TEXT;
CREATE UNIQUE INDEX sessions_of_prefix ON sessions (prefix) WHERE prefix IS NOT NULL;
CREATE INDEX ended_sessions_of_prefix ON ended_sessions (prefix) WHERE prefix IS NOT NULL;
