-- Subscribers that dial in by PPPoE, and their sessions.

ALTER TABLE subscribers ADD COLUMN password TEXT;   -- of its login: a text, or 0x and digits; for the owner of the file alone
ALTER TABLE sessions ADD COLUMN ppp TEXT;           -- PPPoE session id/largest MRU/MRU of the client/magic numbers of both sides
