//! What accounting knows of a session: its Acct-Session-Id, whether its Start was answered, and what AAA said of it.
//!
//! ```text
//! 5f02c1d2e3f40516 waits user 0x616e6e61 class gold cui c7 circuit eth0/1 remote 0x0102 timeout 3600 idle 600 interim 900
//! Acct-Session-Id  off | waits | started
//! ```
//! It is a part of the record of the session, so that a session is on disk with its account or not at all.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::hex;
use crate::route::Route;
use crate::words::Words;

/// Acct-Session-Id: random, so that it is unique over restarts and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AccountId(pub u64);

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for AccountId {
    type Err = String;

    fn from_str(text: &str) -> Result<AccountId, String> {
        let id = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
        id.map(AccountId).ok_or_else(|| format!("`{text}` is no Acct-Session-Id: 16 hexadecimal digits are"))
    }
}

/// How far accounting of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AccountState {
    /// There was no accounting server when it began.
    #[default]
    Off,
    /// Its Start was not answered yet.
    Waits,
    /// Its Start was answered: the server expects a Stop.
    Started,
}

impl AccountState {
    const ALL: [AccountState; 3] = [AccountState::Off, AccountState::Waits, AccountState::Started];

    /// Its name in records and answers.
    pub const fn name(self) -> &'static str {
        match self {
            AccountState::Off => "off",
            AccountState::Waits => "waits",
            AccountState::Started => "started",
        }
    }
}

/// Limits of a session, as AAA gives them; `None`: it has none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Limits {
    /// When it ends, s after its begin.
    pub session_timeout_s: Option<u32>,
    /// When it ends without a packet from its subscriber, s.
    pub idle_timeout_s: Option<u32>,
    /// Interval between interim updates, s.
    pub interim_s: Option<u32>,
    /// Bytes to the subscriber after which it has used its quota.
    pub down_bytes: Option<u64>,
    /// The same from the subscriber.
    pub up_bytes: Option<u64>,
    /// The same in both directions together.
    pub total_bytes: Option<u64>,
}

/// What AAA and the access node say of a session, beside its address and plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Facts {
    /// User-Name of accounting; `None`: the login or the name of the subscriber.
    pub name: Option<Box<[u8]>>,
    /// Class, as often as the Accept has it.
    pub classes: Vec<Box<[u8]>>,
    /// Chargeable-User-Identity.
    pub chargeable: Option<Box<[u8]>>,
    /// The circuit-id of the access node.
    pub circuit_id: Option<Box<[u8]>>,
    /// The remote-id of the access node.
    pub remote_id: Option<Box<[u8]>>,
    /// RADIUS has accepted it.
    pub is_remote: bool,
    /// Networks behind the subscriber.
    pub routes: Vec<Route>,
    /// Its limits.
    pub limits: Limits,
}

/// The account of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Account {
    /// Acct-Session-Id.
    pub id: AccountId,
    /// How far accounting is.
    pub state: AccountState,
    /// A limit was reached, or AAA has said so: the session reaches the walled garden alone.
    pub is_walled: bool,
    /// What does not change by itself.
    pub facts: Arc<Facts>,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { name, classes, chargeable, circuit_id, remote_id, is_remote, routes, limits } =
            &*self.facts;
        write!(f, "{} {}", self.id, self.state.name())?;
        if self.is_walled {
            f.write_str(" walled")?;
        }
        if *is_remote {
            f.write_str(" remote-aaa")?;
        }
        let texts = [("user", name), ("cui", chargeable), ("circuit", circuit_id), ("remote", remote_id)];
        for (word, value) in texts {
            if let Some(value) = value {
                write!(f, " {word} {}", hex::Word(value))?;
            }
        }
        classes.iter().try_for_each(|class| write!(f, " class {}", hex::Word(class)))?;
        routes.iter().try_for_each(|route| write!(f, " route {route}"))?;
        for (word, value) in limits.words() {
            if let Some(value) = value {
                write!(f, " {word} {value}")?;
            }
        }
        Ok(())
    }
}

impl Limits {
    /// Words of records, with their values.
    fn words(self) -> [(&'static str, Option<u64>); 6] {
        [
            ("timeout", self.session_timeout_s.map(u64::from)),
            ("idle", self.idle_timeout_s.map(u64::from)),
            ("interim", self.interim_s.map(u64::from)),
            ("quota-down", self.down_bytes),
            ("quota-up", self.up_bytes),
            ("quota", self.total_bytes),
        ]
    }
}

impl FromStr for Account {
    type Err = String;

    fn from_str(text: &str) -> Result<Account, String> {
        let mut words = Words::new(text);
        let account = Account::read(&mut words)?;
        words.end()?;
        Ok(account)
    }
}

impl Account {
    /// Reads as far as the words are of an account.
    pub(crate) fn read(words: &mut Words<'_>) -> Result<Account, String> {
        let id = words.value("an Acct-Session-Id")?;
        let word = words.word("`off`, `waits` or `started`")?;
        let state = AccountState::ALL.into_iter().find(|state| state.name() == word);
        let state = state.ok_or_else(|| format!("`{word}` should be off, waits or started"))?;
        let is_walled = words.takes("walled");
        let mut facts = Facts::default();
        while let Some(word) = words.peek() {
            if !facts.take(word, words)? {
                break;
            }
        }
        Ok(Account { id, state, is_walled, facts: Arc::new(facts) })
    }
}

impl Facts {
    /// Takes the next words, if they are of an account.
    fn take(&mut self, word: &str, words: &mut Words<'_>) -> Result<bool, String> {
        let Limits { session_timeout_s, idle_timeout_s, interim_s, down_bytes, up_bytes, total_bytes } =
            &mut self.limits;
        match word {
            "remote-aaa" => {
                words.next();
                self.is_remote = true;
            }
            "user" => self.name = Some(bytes(words)?),
            "cui" => self.chargeable = Some(bytes(words)?),
            "circuit" => self.circuit_id = Some(bytes(words)?),
            "remote" => self.remote_id = Some(bytes(words)?),
            "class" => self.classes.push(bytes(words)?),
            "route" => {
                words.next();
                self.routes.push(words.value("a network")?);
            }
            "timeout" => *session_timeout_s = Some(number(words)?),
            "idle" => *idle_timeout_s = Some(number(words)?),
            "interim" => *interim_s = Some(number(words)?),
            "quota-down" => *down_bytes = Some(number(words)?),
            "quota-up" => *up_bytes = Some(number(words)?),
            "quota" => *total_bytes = Some(number(words)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The value behind the next word.
fn bytes(words: &mut Words<'_>) -> Result<Box<[u8]>, String> {
    words.next();
    let word = words.word("a value of the account")?;
    hex::bytes(word).map(Box::from).ok_or_else(|| format!("`{word}` has no whole bytes"))
}

fn number<T: FromStr<Err = std::num::ParseIntError>>(words: &mut Words<'_>) -> Result<T, String> {
    words.next();
    words.number("number of the account")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_as_they_are_written() {
        for text in [
            "00000000000000ff off",
            "00000000000000ff started walled idle 7",
            "5f02c1d2e3f40516 waits remote-aaa user anna@isp cui 0x00 circuit eth0/1 remote 0x0102 class a class 0x00 route 203.0.113.0/28 \
             route 2001:db8:9::/56 timeout 3600 \
             idle 600 interim 900 quota-down 1 quota-up 2 quota 18446744073709551615",
        ] {
            assert_eq!(text.parse::<Account>().map(|read| read.to_string()).as_deref(), Ok(text));
        }
        for text in
            ["", "ff off", "00000000000000ff", "00000000000000ff begun", "00000000000000ff off idle x"]
        {
            assert!(text.parse::<Account>().is_err(), "{text}");
        }
    }
}
