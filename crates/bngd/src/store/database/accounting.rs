//! What records of accounting change in the tables.
//!
//! The word behind the Acct-Session-Id of an account says how far its Start is, see `weir_bng::Account`.

use rusqlite::OptionalExtension;
use weir_bng::{Answered, Counters, EndCause, SessionId, Unaccounted};

use super::apply::{Leaves, Tables, number};

impl Tables<'_> {
    /// A session that leaves the table of those online is not accounted for yet, if servers were or will be told of its begin.
    pub(super) fn begin_stop(
        &self,
        session: i64,
        end_s: u64,
        cause: EndCause,
        counters: Counters,
    ) -> rusqlite::Result<()> {
        self.run(
            "INSERT OR REPLACE INTO unaccounted (session, subscriber, line, mac, address, access, account, start_s, end_s, cause,
                down_frames, down_bytes, up_frames, up_bytes, prefix)
             SELECT id, subscriber, line, mac, coalesce(address, '0.0.0.0'), iif(ppp IS NULL, 'ipoe', 'pppoe'), account, start_s, ?2, ?3,
                max(down_frames, ?4), max(down_bytes, ?5), max(up_frames, ?6), max(up_bytes, ?7), prefix
             FROM sessions WHERE id = ?1 AND substr(account, 18, 3) <> 'off'",
            (
                session,
                number(end_s),
                cause.name(),
                number(counters.down_frames),
                number(counters.down_bytes),
                number(counters.up_frames),
                number(counters.up_bytes),
            ),
        )?;
        Ok(())
    }

    /// A server has answered a message; whether there is such a session.
    pub(super) fn answered(&self, session: SessionId, what: Answered) -> rusqlite::Result<bool> {
        let number_of = number(session.0);
        let session = [number_of];
        let deleted = match what {
            Answered::Stop => Some("DELETE FROM unaccounted WHERE session = ?1"),
            Answered::Interim => Some("DELETE FROM interims WHERE session = ?1"),
            Answered::Start if number_of == 0 => Some("DELETE FROM accounting_on WHERE id = 1 + ?1"),
            Answered::Start => None,
        };
        if let Some(sql) = deleted {
            return Ok(self.run(sql, session)? > 0);
        }
        let start = "account = substr(account, 1, 17) || 'started' || substr(account, 23)";
        let waits = "substr(account, 18, 5) = 'waits'";
        let online = self.run(&format!("UPDATE sessions SET {start} WHERE id = ?1 AND {waits}"), session)?;
        if online > 0 || self.is_online(number_of)? {
            return Ok(true);
        }
        let ended = format!("UPDATE unaccounted SET {start} WHERE session = ?1 AND {waits}");
        Ok(self.run(&ended, session)? > 0)
    }

    /// All sessions of before were lost.
    pub(super) fn lost_all(&self, at_s: u64) -> rusqlite::Result<bool> {
        self.run("INSERT OR REPLACE INTO accounting_on (id, at_s) VALUES (1, ?1)", [number(at_s)])?;
        Ok(true)
    }

    /// An interim update waits; whether there is such a session.
    pub(super) fn interim(
        &self,
        session: SessionId,
        at_s: u64,
        counters: Counters,
    ) -> rusqlite::Result<bool> {
        if !self.is_online(number(session.0))? {
            return Ok(false);
        }
        self.run(
            "INSERT OR REPLACE INTO interims (session, at_s, down_frames, down_bytes, up_frames, up_bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                number(session.0),
                number(at_s),
                number(counters.down_frames),
                number(counters.down_bytes),
                number(counters.up_frames),
                number(counters.up_bytes),
            ),
        )?;
        self.counted(session, counters)
    }

    /// A session that has ended, from a log that was made short.
    pub(super) fn unaccounted(&self, of: &Unaccounted) -> rusqlite::Result<bool> {
        let id = number(of.session.0);
        if self.is_online(id)? {
            self.leave(id, Leaves::Ended { cause: of.cause, at_s: Some(of.end_s), counters: of.counters })?;
        }
        self.run(
            "INSERT OR REPLACE INTO unaccounted (session, subscriber, line, mac, address, access, account, start_s, end_s, cause,
                down_frames, down_bytes, up_frames, up_bytes, prefix)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            (
                id,
                of.subscriber.as_str(),
                of.line.to_string(),
                of.mac.to_string(),
                of.address.to_string(),
                if of.is_ppp { "pppoe" } else { "ipoe" },
                of.account.to_string(),
                number(of.start_s),
                number(of.end_s),
                of.cause.name(),
                number(of.counters.down_frames),
                number(of.counters.down_bytes),
                number(of.counters.up_frames),
                number(of.counters.up_bytes),
                of.prefix.map(|prefix| prefix.to_string()),
            ),
        )?;
        Ok(true)
    }

    /// More was counted of a session that has ended; whether there is one.
    pub(super) fn counted_after_end(&self, session: i64, counters: Counters) -> rusqlite::Result<bool> {
        let of = "SELECT subscriber FROM unaccounted WHERE session = ?1";
        let subscriber: Option<String> = {
            let mut statement = self.change().prepare_cached(of)?;
            statement.query_row([session], |row| row.get(0)).optional()?
        };
        let Some(subscriber) = subscriber else { return Ok(false) };
        let set = "SET down_frames = max(down_frames, ?3), down_bytes = max(down_bytes, ?4), up_frames = max(up_frames, ?5),
            up_bytes = max(up_bytes, ?6) WHERE session = ?1 AND subscriber = ?2";
        for table in ["unaccounted", "ended_sessions"] {
            self.run(
                &format!("UPDATE {table} {set}"),
                (
                    session,
                    &subscriber,
                    number(counters.down_frames),
                    number(counters.down_bytes),
                    number(counters.up_frames),
                    number(counters.up_bytes),
                ),
            )?;
        }
        Ok(true)
    }
}
