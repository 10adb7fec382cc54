//! The table of the last answers of RADIUS servers.

use weir_bng::LastAnswer;

use super::apply::{Tables, number};

/// How long an answer is kept, s: longer than any limit of its age.
const KEPT_S: u64 = 366 * 86_400;

impl Tables<'_> {
    pub(super) fn answer(&self, login: &str, answer: &LastAnswer, revision: u64) -> rusqlite::Result<bool> {
        self.run(
            "INSERT INTO answers (login, answer, at_s, revision) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET answer = ?2, at_s = ?3, revision = ?4",
            (login, answer.to_string(), number(self.at_s()), number(revision)),
        )?;
        Ok(true)
    }

    /// The login of a subscriber that is removed.
    pub(super) fn remove_answer(&self, subscriber: &str) -> rusqlite::Result<()> {
        self.run(
            "DELETE FROM answers WHERE 'login ' || login = (SELECT key FROM subscribers WHERE name = ?1)",
            [subscriber],
        )?;
        Ok(())
    }

    pub(super) fn forget_old_answers(&self) -> rusqlite::Result<()> {
        self.run("DELETE FROM answers WHERE at_s < ?1", [number(self.at_s().saturating_sub(KEPT_S))])?;
        Ok(())
    }
}
