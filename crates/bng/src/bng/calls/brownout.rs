//! Brown-out: logins while no RADIUS server answers.
//!
//! ```text
//! Accept > kept with its line, its MAC address and the hash of its password > record
//! no server answers > the last Accept, not too old > PAP: the hash | CHAP: the same line and MAC address, by option > as after an Accept
//! Reject of the same device or password > the last Accept is not used any more
//! ```
//! - Hashes take milliseconds: another thread makes and checks them, and no other login waits meanwhile.
//! - A password that was checked once since the start is known by a keyed hash in memory, which takes no time.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::time::Duration;

use super::login::Login;
use super::{Bng, CallId, Outputs};
use crate::answer::LastAnswer;
use crate::bng::accepted::{Refusal, login_of};
use crate::config::{BrownOut, Chap, KnownDevices};
use crate::drops::DropReason;
use crate::io::{Checked, Output};
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::ppp::auth::{Attempt, Credential, Password, is_equal};
use crate::radius::attribute::Attributes;
use crate::random::{Random, mac_sha256};
use crate::record::Change;
use crate::session::Session;
use crate::subscriber::Key;

/// A record is written again when this part of the age limit has passed since the last one.
const REFRESHES: u32 = 10;

/// What tells one password of a login from another one, in memory alone.
type Mark = [u8; 16];

/// The last answers.
#[derive(Debug)]
pub(super) struct Answers {
    known: HashMap<Name, Known>,
    /// Key of the marks.
    key: [u8; 32],
    /// Logins that came online by a last answer.
    logins: u64,
}

#[derive(Debug)]
struct Known {
    answer: LastAnswer,
    /// The time that its record says.
    stored_s: u64,
    /// The password of the hash; `None`: it was not seen since the start.
    mark: Option<Mark>,
    /// The password whose hash is being made.
    hashing: Option<Mark>,
}

impl Answers {
    pub(super) fn new(random: &mut Random) -> Answers {
        Answers { known: HashMap::new(), key: random.bytes(), logins: 0 }
    }

    fn mark(&self, login: &Name, password: &Password) -> Mark {
        let hash = mac_sha256(&self.key, &[login.as_str().as_bytes(), &[0], password.bytes()]);
        let (mark, _) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
        *mark
    }
}

/// A login, where its device is, and what it shows.
pub(in crate::bng) struct Shown<'a> {
    pub(in crate::bng) login: Name,
    pub(in crate::bng) line: Line,
    pub(in crate::bng) mac: Mac,
    /// `None`: the server alone can check it, or there is none.
    pub(in crate::bng) password: Option<&'a Password>,
}

/// The password that an attempt shows.
fn password_of(attempt: &Attempt) -> Option<&Password> {
    match &attempt.credential {
        Credential::Pap(password) => Some(password),
        Credential::ChapMd5 { .. } | Credential::MsChapV2 { .. } => None,
    }
}

impl Bng {
    /// Logins that came online without a RADIUS server.
    pub fn brown_out_logins(&self) -> u64 {
        self.calls.answers.logins
    }

    /// Whether a session began without a RADIUS server.
    pub fn is_brown_out(&self, session: &Session) -> bool {
        let subscriber = self.subscriber(&session.subscriber).map(|(subscriber, _)| &subscriber.key);
        let Some(Key::Login(login)) = subscriber else { return false };
        self.calls.answers.known.get(login).is_some_and(|known| known.answer.is_used)
    }

    /// The last answers of all logins.
    pub(in crate::bng) fn last_answers(&self) -> impl Iterator<Item = Change> {
        self.calls.answers.known.iter().map(|(login, known)| Change::Answer {
            login: login.clone(),
            answer: Box::new(known.answer.clone()),
        })
    }

    /// An answer of the records.
    pub(in crate::bng) fn adopt_answer(&mut self, login: Name, answer: LastAnswer) {
        let stored_s = answer.at_s;
        self.calls.answers.known.insert(login, Known { answer, stored_s, mark: None, hashing: None });
    }

    /// A subscriber is no customer any more.
    pub(in crate::bng) fn forget_answer(&mut self, key: &Key) {
        if let Key::Login(login) = key {
            self.calls.answers.known.remove(login);
        }
    }

    /// The login of a call.
    fn shown<'a>(&self, id: CallId, attempt: &'a Attempt) -> Option<Shown<'a>> {
        let (login, call) = (login_of(&attempt.name)?, self.calls.calls.get(&id)?);
        Some(Shown { login, line: call.key.line.clone(), mac: call.mac, password: password_of(attempt) })
    }

    /// A server has accepted the login of a call.
    pub(super) fn remember_attempt(
        &mut self,
        id: CallId,
        attempt: &Attempt,
        attributes: &Attributes,
        out: &mut Outputs,
    ) {
        if let Some(shown) = self.shown(id, attempt) {
            self.remember(shown, attributes, out);
        }
    }

    /// A server has accepted a login.
    pub(in crate::bng) fn remember(&mut self, shown: Shown<'_>, attributes: &Attributes, out: &mut Outputs) {
        let Some(brown_out) = self.config.aaa.brown_out else { return };
        let Shown { login, line, mac, password } = shown;
        let (at_s, attributes) = (self.now.wall_s, LastAnswer::kept(attributes));
        let mut answer = LastAnswer { at_s, line, mac, hash: None, is_used: false, attributes };
        let answers = &mut self.calls.answers;
        let mark = password.map(|password| answers.mark(&login, password));
        let before = answers.known.remove(&login);
        let is_same = before.as_ref().is_some_and(|before| before.mark.is_some() && before.mark == mark);
        let is_hashing =
            before.as_ref().is_some_and(|before| before.hashing.is_some() && before.hashing == mark);
        answer.hash = before.as_ref().filter(|_| is_same).and_then(|before| before.answer.hash.clone());
        let needs_hash = mark.is_some() && answer.hash.is_none();
        let is_due = before.as_ref().is_none_or(|before| {
            let expected = LastAnswer { at_s: before.answer.at_s, ..answer.clone() };
            before.answer != expected || refresh(brown_out, before.stored_s) <= at_s
        });
        let stored_s = before.as_ref().map_or(0, |before| before.stored_s);
        let known =
            Known { answer, stored_s, mark: mark.filter(|_| is_same), hashing: mark.filter(|_| needs_hash) };
        answers.known.insert(login.clone(), known);
        match (needs_hash, password, mark) {
            (true, _, _) if is_hashing => {}
            (true, Some(password), Some(mark)) => {
                out.push(Output::HashPassword { login, mark, password: password.clone() });
            }
            _ if is_due => self.store_answer(&login, out),
            _ => {}
        }
    }

    fn store_answer(&mut self, login: &Name, out: &mut Outputs) {
        if let Some(known) = self.calls.answers.known.get_mut(login) {
            known.stored_s = known.answer.at_s;
            let answer = Box::new(known.answer.clone());
            self.store(Change::Answer { login: login.clone(), answer }, out);
        }
    }

    /// The hash of a password.
    pub(in crate::bng) fn password_hashed(
        &mut self,
        login: &Name,
        mark: Mark,
        hash: &str,
        out: &mut Outputs,
    ) {
        let known = self.calls.answers.known.get_mut(login).filter(|known| known.hashing == Some(mark));
        if let Some(known) = known {
            known.answer.hash = Some(hash.into());
            (known.mark, known.hashing) = (Some(mark), None);
            self.store_answer(login, out);
        }
    }

    /// A server has rejected the login of a call.
    pub(super) fn attempt_rejected(&mut self, id: CallId, attempt: &Attempt, out: &mut Outputs) {
        if let Some(shown) = self.shown(id, attempt) {
            self.rejected(&shown, out);
        }
    }

    /// A server has rejected a login: a customer that is blocked does not come online by the last answer.
    pub(in crate::bng) fn rejected(&mut self, shown: &Shown<'_>, out: &mut Outputs) {
        let Shown { login, line, mac, password } = shown;
        let mark = password.map(|password| self.calls.answers.mark(login, password));
        let Some(known) = self.calls.answers.known.get_mut(login) else { return };
        let answer = &mut known.answer;
        let is_own =
            (&answer.line, &answer.mac) == (line, mac) || (known.mark.is_some() && known.mark == mark);
        if is_own && answer.at_s > 0 {
            (answer.at_s, answer.hash) = (0, None);
            (known.mark, known.hashing) = (None, None);
            self.store_answer(login, out);
        }
    }

    /// No server has answered. `Ok(None)`: the password is being checked.
    pub(super) fn brown_out(
        &mut self,
        id: CallId,
        attempt: &Attempt,
        out: &mut Outputs,
    ) -> Result<Option<Login>, Refusal> {
        let brown_out = self.config.aaa.brown_out.ok_or(DropReason::RadiusNoAnswer)?;
        let login = login_of(&attempt.name).ok_or(DropReason::RadiusNoAnswer)?;
        let call = self.calls.calls.get(&id).ok_or(DropReason::RadiusNoAnswer)?;
        let (answers, known) = (&self.calls.answers, self.recent_answer(&login, brown_out)?);
        let answer = &known.answer;
        match &attempt.credential {
            Credential::Pap(password) => {
                let mark = answers.mark(&login, password);
                if known.mark.is_some_and(|known| is_equal(&known, &mark)) {
                    return self.use_answer(id, &login, out).map(Some);
                }
                let hash = answer.hash.clone().ok_or(DropReason::BrownOutPassword)?;
                let password = password.clone();
                out.push(Output::CheckPassword { id: id.0, password, hash });
                Ok(None)
            }
            Credential::ChapMd5 { .. } => {
                let is_same = (&answer.line, answer.mac) == (&call.key.line, call.mac);
                match brown_out.chap {
                    Chap::SameDevice if is_same => self.use_answer(id, &login, out).map(Some),
                    _ => Err(DropReason::BrownOutChap.into()),
                }
            }
            Credential::MsChapV2 { .. } => Err(DropReason::BrownOutMsChap.into()),
        }
    }

    /// The last Accept of a login, which is not older than it may be.
    fn recent_answer(&self, login: &Name, brown_out: BrownOut) -> Result<&Known, DropReason> {
        let known = self.calls.answers.known.get(login).ok_or(DropReason::RadiusNoAnswer)?;
        match Duration::from_secs(self.now.wall_s.saturating_sub(known.answer.at_s)) > brown_out.age {
            true => Err(DropReason::BrownOutAge),
            false => Ok(known),
        }
    }

    /// The last Accept for a DHCP client that a server has accepted on the same line or with the same MAC address.
    pub(in crate::bng) fn answer_of_device(&self, shown: &Shown<'_>) -> Result<Attributes, DropReason> {
        let brown_out = self.config.aaa.brown_out.filter(|of| of.dhcp == KnownDevices::Accepted);
        let known = self.recent_answer(&shown.login, brown_out.ok_or(DropReason::RadiusNoAnswer)?)?;
        match known.answer.line == shown.line || known.answer.mac == shown.mac {
            true => Ok(known.answer.attributes.clone()),
            false => Err(DropReason::BrownOutDevice),
        }
    }

    /// What came of the check of a password.
    pub(in crate::bng) fn password_checked(&mut self, id: u64, checked: Checked, out: &mut Outputs) {
        let id = CallId(id);
        let Some(attempt) = self.calls.calls.get_mut(&id).and_then(|call| call.asks.take()) else { return };
        let login = match (checked, login_of(&attempt.name)) {
            (Checked::Right, Some(login)) => {
                let mark = password_of(&attempt).map(|password| self.calls.answers.mark(&login, password));
                if let Some(known) = self.calls.answers.known.get_mut(&login) {
                    known.mark = mark;
                }
                self.use_answer(id, &login, out)
            }
            (Checked::Wrong, _) => Err(DropReason::BrownOutPassword.into()),
            (Checked::Right, None) | (Checked::Busy, _) => Err(DropReason::RadiusNoAnswer.into()),
        };
        self.counts.accepted += u64::from(login.is_ok());
        self.answer_login(id, login, out);
    }

    /// A login comes online with the last answer.
    fn use_answer(&mut self, id: CallId, login: &Name, out: &mut Outputs) -> Result<Login, Refusal> {
        let known = self.calls.answers.known.get(login).ok_or(DropReason::RadiusNoAnswer)?;
        let attributes = known.answer.attributes.clone();
        let accepted = self.radius_accept(id, login.as_str().as_bytes(), &attributes, out)?;
        self.answer_is_used(login, out);
        Ok(accepted)
    }

    /// A login has come online with the last answer.
    pub(in crate::bng) fn answer_is_used(&mut self, login: &Name, out: &mut Outputs) {
        self.calls.answers.logins += 1;
        let first = self.calls.answers.known.get_mut(login).filter(|known| !known.answer.is_used);
        if let Some(known) = first {
            known.answer.is_used = true;
            self.store_answer(login, out);
        }
    }
}

/// When the record of an answer is to be written again.
fn refresh(brown_out: BrownOut, stored_s: u64) -> u64 {
    stored_s.saturating_add((brown_out.age / REFRESHES).as_secs())
}
