//! What a record changes in the tables. As `weir_bng::Bng` adopts records: later ones take precedence, so that an address has at most one
//! session, and a subscriber, too.

use rusqlite::{OptionalExtension, Params, Transaction, params};
use weir_bng::{Change, Counters, EndCause, Lease, NO_ADDRESS, Name, Nat, Record, SessionId, Subscriber};

/// Ended sessions that are kept, at most.
const MOST_ENDED: i64 = 1_000_000;
/// How long ended sessions are kept, s.
const ENDED_KEPT_S: u64 = 30 * 86_400;
/// Rows of old sessions that a transaction deletes, at most.
const MOST_DELETED: i64 = 50_000;
/// Quarantines that are kept for a subscriber, at most; as many as `weir_bng::Bng` keeps.
const MOST_QUARANTINES: i64 = 3;

/// The tables within a transaction.
pub(super) struct Tables<'a> {
    change: &'a Transaction<'a>,
    /// The last time of a group.
    at_s: u64,
    skipped: u64,
}

/// How a session leaves the table of those online.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaves {
    /// It has ended; `None`: when its record was written.
    Ended { cause: EndCause, at_s: Option<u64>, counters: Counters },
    /// Its lease is renewed.
    Renewed,
}

impl Leaves {
    /// It has ended, and no record of its own says so.
    fn of(cause: EndCause) -> Leaves {
        Leaves::Ended { cause, at_s: None, counters: Counters::default() }
    }
}

/// As SQLite has integers. What is larger than they can be does not occur.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl<'a> Tables<'a> {
    pub(super) fn of(change: &'a Transaction<'a>) -> Tables<'a> {
        Tables { change, at_s: 0, skipped: 0 }
    }

    /// When the record was written, s since 1970.
    pub(super) fn at_s(&self) -> u64 {
        self.at_s
    }

    pub(super) fn change(&self) -> &Transaction<'a> {
        self.change
    }

    pub(super) fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.change.prepare_cached(sql)?.execute(params)
    }

    /// Applies a record that was written at a time.
    pub(super) fn apply(&mut self, record: &Record, at_s: u64) -> rusqlite::Result<()> {
        self.at_s = at_s;
        let revision = record.revision;
        let is_known = match &record.change {
            Change::Subscriber(subscriber) => self.subscriber(subscriber, revision)?,
            Change::Answer { login, answer } => self.answer(login.as_str(), answer, revision)?,
            Change::SubscriberRemoved(name) => self.remove_subscriber(name.as_str())?,
            Change::LastAddress { subscriber, address } => {
                self.set_last_address(subscriber.as_str(), &address.to_string())?
            }
            Change::LastPrefix { subscriber, prefix } => {
                let sql = "UPDATE subscribers SET last_prefix = ?2 WHERE name = ?1";
                self.run(sql, (subscriber.as_str(), prefix.to_string()))? > 0
            }
            Change::Lease { session, subscriber, start_s, counters, lease } => {
                let lease =
                    Row { session: *session, start_s: *start_s, counters: *counters, lease, revision };
                self.has_subscriber(subscriber.as_str())? && self.lease(subscriber.as_str(), &lease)?
            }
            Change::End { session, subscriber, address, cause, ended_s, counters } => {
                let subscriber = subscriber.as_str();
                let seat = self.seat_of(subscriber, number(session.0))?;
                if seat.is_some() {
                    let leaves = Leaves::Ended { cause: *cause, at_s: *ended_s, counters: *counters };
                    self.leave(number(session.0), leaves)?;
                }
                match seat {
                    Some(1..) => true,
                    _ if *address == NO_ADDRESS => self.has_subscriber(subscriber)?,
                    _ => self.set_last_address(subscriber, &address.to_string())?,
                }
            }
            Change::Declined { address, subscriber, until_s } => {
                let subscriber = subscriber.as_str();
                self.has_subscriber(subscriber)?
                    && self.decline(&address.to_string(), subscriber, *until_s, revision)?
            }
            Change::Counted { session, counters } => self.counted(*session, *counters)?,
            Change::Accounted { session, what } => self.answered(*session, *what)?,
            Change::Unaccounted(of) => self.unaccounted(of)?,
            Change::LostAll { at_s } => self.lost_all(*at_s)?,
            Change::Interim { session, at_s, counters } => self.interim(*session, *at_s, *counters)?,
        };
        self.skipped += u64::from(!is_known);
        Ok(())
    }

    /// The tables contain the records up to this one.
    pub(super) fn finish(&self, revision: u64) -> rusqlite::Result<()> {
        self.run(
            "UPDATE filled SET revision = ?1, skipped = skipped + ?2",
            (number(revision), number(self.skipped)),
        )?;
        self.run(
            "DELETE FROM ended_sessions WHERE number <= (SELECT max(number) FROM ended_sessions) - ?1",
            [MOST_ENDED],
        )?;
        self.forget_old_answers()?;
        // Rows are in the order of their ends.
        self.run(
            "DELETE FROM ended_sessions WHERE end_s < ?1
             AND number < (SELECT min(number) FROM ended_sessions) + ?2",
            (number(self.at_s.saturating_sub(ENDED_KEPT_S)), MOST_DELETED),
        )?;
        Ok(())
    }

    fn has_subscriber(&self, name: &str) -> rusqlite::Result<bool> {
        self.change.prepare_cached("SELECT 1 FROM subscribers WHERE name = ?1")?.exists([name])
    }

    /// Which of the sessions of a subscriber this one is.
    fn seat_of(&self, subscriber: &str, session: i64) -> rusqlite::Result<Option<u16>> {
        let sql = "SELECT seat FROM sessions WHERE id = ?2 AND subscriber = ?1";
        self.change.prepare_cached(sql)?.query_row((subscriber, session), |row| row.get(0)).optional()
    }

    fn sessions_of(&self, subscriber: &str) -> rusqlite::Result<Vec<i64>> {
        let mut statement = self.change.prepare_cached("SELECT id FROM sessions WHERE subscriber = ?1")?;
        let sessions = statement.query_map([subscriber], |row| row.get(0))?;
        sessions.collect()
    }

    fn subscriber(&self, subscriber: &Subscriber, revision: u64) -> rusqlite::Result<bool> {
        let routes: Vec<String> = subscriber.routes.iter().map(|route| format!("route {route}")).collect();
        let routes = routes.join(" ");
        self.run(
            "INSERT INTO subscribers (name, key, plan, fixed_address, status, revision, password, group_name, fixed_prefix, nat,
                routes, pool, prefix_pool)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT DO UPDATE SET key = ?2, plan = ?3, fixed_address = ?4, status = ?5, revision = ?6,
             password = ?7, group_name = ?8, fixed_prefix = ?9, nat = ?10, routes = ?11, pool = ?12, prefix_pool = ?13",
            (
                subscriber.name.as_str(),
                subscriber.key.to_string(),
                subscriber.plan.to_string(),
                subscriber.fixed_address.map(|address| address.to_string()),
                subscriber.status.name(),
                number(revision),
                subscriber.password_word(),
                subscriber.group.as_ref().map(Name::as_str),
                subscriber.fixed_prefix.map(|prefix| prefix.to_string()),
                Some(subscriber.nat).filter(|nat| *nat != Nat::Configured).map(|nat| nat.to_string()),
                Some(routes).filter(|routes| !routes.is_empty()),
                subscriber.pool.as_ref().map(Name::as_str),
                subscriber.prefix_pool.as_ref().map(Name::as_str),
            ),
        )?;
        Ok(true)
    }

    /// Its record may never have been written.
    fn remove_subscriber(&self, name: &str) -> rusqlite::Result<bool> {
        for session in self.sessions_of(name)? {
            self.leave(session, Leaves::of(EndCause::SubscriberChanged))?;
        }
        self.run("DELETE FROM quarantines WHERE subscriber = ?1", [name])?;
        self.remove_answer(name)?;
        self.run("DELETE FROM subscribers WHERE name = ?1", [name])?;
        Ok(true)
    }

    /// Whether there is such a subscriber.
    fn set_last_address(&self, subscriber: &str, address: &str) -> rusqlite::Result<bool> {
        let sql = "UPDATE subscribers SET last_address = ?2 WHERE name = ?1";
        Ok(self.run(sql, (subscriber, address))? > 0)
    }

    /// Whatever held the address or the prefix ends, and the session that the subscriber had in this seat.
    fn lease(&self, subscriber: &str, row: &Row<'_>) -> rusqlite::Result<bool> {
        let address = Some(row.lease.address).filter(|address| *address != NO_ADDRESS);
        let address = address.map(|address| address.to_string());
        let id = number(row.session.0);
        let prefix = row.lease.prefix.map(|prefix| prefix.to_string());
        let sql = "SELECT id FROM sessions
            WHERE id = ?5 OR (subscriber = ?1 AND seat = ?4) OR address = ?2 OR prefix = ?3";
        let mut statement = self.change.prepare_cached(sql)?;
        let params = (subscriber, &address, &prefix, row.lease.seat, id);
        let others = statement.query_map(params, |row| row.get(0))?;
        for other in others.collect::<rusqlite::Result<Vec<i64>>>()? {
            let leaves = match other == id {
                true => Leaves::Renewed,
                false => Leaves::of(EndCause::Replaced),
            };
            self.leave(other, leaves)?;
        }
        self.run("DELETE FROM quarantines WHERE address = ?1", [&address])?;
        let device = &row.lease.device;
        self.run(
            "INSERT INTO sessions (id, subscriber, line, mac, relay, address, client_id, start_s, granted_s, lease_s,
                down_frames, down_bytes, up_frames, up_bytes, revision, ppp, prefix, account, seat)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
            params![
                id,
                subscriber,
                device.line.to_string(),
                device.mac.to_string(),
                device.relay.map(|relay| relay.to_string()),
                &address,
                row.lease.client_id.as_deref(),
                number(row.start_s),
                number(row.lease.granted_s),
                row.lease.lease_s,
                number(row.counters.down_frames),
                number(row.counters.down_bytes),
                number(row.counters.up_frames),
                number(row.counters.up_bytes),
                number(row.revision),
                row.lease.ppp.map(|ppp| ppp.to_string()),
                prefix,
                row.lease.account.as_ref().map(ToString::to_string),
                row.lease.seat,
            ],
        )?;
        Ok(true)
    }

    /// Takes a session out of the table of those online.
    pub(super) fn leave(&self, session: i64, leaves: Leaves) -> rusqlite::Result<()> {
        if let Leaves::Ended { cause, at_s, counters } = leaves {
            self.begin_stop(session, at_s.unwrap_or(self.at_s), cause, counters)?;
            self.run("DELETE FROM interims WHERE session = ?1", [session])?;
            self.run(
                "INSERT INTO ended_sessions (session, subscriber, line, mac, address, start_s, end_s, cause,
                    down_frames, down_bytes, up_frames, up_bytes, prefix)
                 SELECT id, subscriber, line, mac, coalesce(address, '0.0.0.0'), start_s, ?2, ?3,
                    max(down_frames, ?4), max(down_bytes, ?5), max(up_frames, ?6), max(up_bytes, ?7), prefix
                 FROM sessions WHERE id = ?1",
                (
                    session,
                    number(self.at_s),
                    cause.name(),
                    number(counters.down_frames),
                    number(counters.down_bytes),
                    number(counters.up_frames),
                    number(counters.up_bytes),
                ),
            )?;
        }
        self.run(
            "UPDATE subscribers SET last_address = coalesce(left.address, last_address),
                last_prefix = coalesce(left.prefix, last_prefix)
             FROM (SELECT subscriber, address, prefix FROM sessions WHERE id = ?1 AND seat = 0) AS left
             WHERE name = left.subscriber
                AND (last_address IS NOT coalesce(left.address, last_address) OR last_prefix IS NOT coalesce(left.prefix, last_prefix))",
            [session],
        )?;
        self.run("DELETE FROM sessions WHERE id = ?1", [session])?;
        Ok(())
    }

    fn decline(
        &self,
        address: &str,
        subscriber: &str,
        until_s: u64,
        revision: u64,
    ) -> rusqlite::Result<bool> {
        let sql = "SELECT id FROM sessions WHERE address = ?1 AND subscriber = ?2";
        let own = self.change.prepare_cached(sql)?;
        let own = { own }.query_row((address, subscriber), |row| row.get(0)).optional()?;
        if let Some(session) = own {
            self.leave(session, Leaves::of(EndCause::Declined))?;
        }
        if self.change.prepare_cached("SELECT 1 FROM sessions WHERE address = ?1")?.exists([address])? {
            return Ok(true);
        }
        self.run(
            "INSERT OR REPLACE INTO quarantines (address, subscriber, until_s, revision) VALUES (?1, ?2, ?3, ?4)",
            (address, subscriber, number(until_s), number(revision)),
        )?;
        self.run(
            "UPDATE subscribers SET last_address = NULL WHERE name = ?1 AND last_address = ?2",
            (subscriber, address),
        )?;
        self.run(
            "DELETE FROM quarantines WHERE subscriber = ?1 AND revision NOT IN
                (SELECT revision FROM quarantines WHERE subscriber = ?1 ORDER BY revision DESC LIMIT ?2)",
            (subscriber, MOST_QUARANTINES),
        )?;
        Ok(true)
    }

    /// Whether there is such a session.
    pub(super) fn counted(&self, session: SessionId, counters: Counters) -> rusqlite::Result<bool> {
        let changed = self.run(
            "UPDATE sessions SET down_frames = max(down_frames, ?2), down_bytes = max(down_bytes, ?3),
                up_frames = max(up_frames, ?4), up_bytes = max(up_bytes, ?5) WHERE id = ?1",
            (
                number(session.0),
                number(counters.down_frames),
                number(counters.down_bytes),
                number(counters.up_frames),
                number(counters.up_bytes),
            ),
        )?;
        Ok(changed > 0 || self.counted_after_end(number(session.0), counters)?)
    }

    pub(super) fn is_online(&self, session: i64) -> rusqlite::Result<bool> {
        self.change.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")?.exists([session])
    }
}

/// A session to be inserted.
#[derive(Debug)]
struct Row<'a> {
    session: SessionId,
    start_s: u64,
    counters: Counters,
    lease: &'a Lease,
    revision: u64,
}
