//! Records: what must be on disk before a client is answered, one line each.
//!
//! ```text
//! 1 8 lease 8 anna access1 02:00:00:00:00:01 100.64.0.2 start 1790000000 granted 1790000000 for 3600 counted 0 0 0 0
//! 1 9 end 8 anna 100.64.0.2 released counted 9 4000 7 900      a lease with a prefix of IPv6: 100.64.0.2 prefix 2001:db8:1::/64
//! | |     session
//! | revision            others: declined 100.64.0.2 anna until 1790000600, counters 8 counted 9 4000 7 900,
//! version               subscriber anna mac 02:00:00:00:00:01 plan basic, last anna 100.64.0.2, removed anna
//! ```
//! A lease is written whole each time that it is granted, so that the last record about a session says all of it, and a record
//! that was lost is made good by the next. Later records take precedence: a lease ends whatever held its address, or was of its
//! subscriber (with several sessions: had this number, `seat`), before. So every prefix of a log describes a state in which no address is assigned twice.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::account::Account;
use crate::answer::LastAnswer;
use crate::hex;
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::prefix::LinkPrefix;
use crate::session::{Counters, Device, EndCause, Lease, SessionId};
use crate::subscriber::Subscriber;
use crate::words::Words;

/// Version of the form of a line.
const VERSION: u32 = 1;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number: 1 more than that of the record before.
    pub revision: u64,
    /// What has changed.
    pub change: Change,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A lease was granted or renewed.
    Lease {
        /// The session.
        session: SessionId,
        /// Its subscriber.
        subscriber: Name,
        /// When the session began, s since 1970.
        start_s: u64,
        /// What it counted so far.
        counters: Counters,
        /// The device and its address.
        lease: Lease,
    },
    /// A session has ended.
    End {
        /// Which.
        session: SessionId,
        /// Its subscriber.
        subscriber: Name,
        /// The address that it had; its subscriber gets it again if it is free.
        address: Ipv4Addr,
        /// Why.
        cause: EndCause,
        /// When, s since 1970; `None`: no Stop follows.
        ended_s: Option<u64>,
        /// What it counted.
        counters: Counters,
    },
    /// A message about a session was answered by a server: it is not sent again.
    Accounted {
        /// The session.
        session: SessionId,
        /// Which message.
        what: Answered,
    },
    /// An interim update of a session is due; it waits for a server.
    Interim {
        /// The session.
        session: SessionId,
        /// When it was due, s since 1970.
        at_s: u64,
        /// What the session had counted then.
        counters: Counters,
    },
    /// This concentrator has lost all sessions that servers may know: Accounting-On waits for a server.
    LostAll {
        /// When it began anew, s since 1970.
        at_s: u64,
    },
    /// A session has ended, and its Stop was not answered; written when a log is made short, in place of the records of the session.
    Unaccounted(Box<Unaccounted>),
    /// An address is in quarantine, because a client found it in use.
    Declined {
        /// Which.
        address: Ipv4Addr,
        /// The subscriber of that client.
        subscriber: Name,
        /// Until when, s since 1970.
        until_s: u64,
    },
    /// A session goes on counting.
    Counted {
        /// Which.
        session: SessionId,
        /// What it counted.
        counters: Counters,
    },
    /// A subscriber was added or changed.
    Subscriber(Subscriber),
    /// The address that a subscriber had last; written when a log is made short, in place of the records of its sessions.
    LastAddress {
        /// The subscriber.
        subscriber: Name,
        /// Which.
        address: Ipv4Addr,
    },
    /// A RADIUS server has accepted a login, or has rejected it.
    Answer {
        /// The login.
        login: Name,
        /// What it has answered.
        answer: Box<LastAnswer>,
    },
    /// The same of a prefix of IPv6.
    LastPrefix {
        /// The subscriber.
        subscriber: Name,
        /// Which.
        prefix: LinkPrefix,
    },
    /// A subscriber was removed.
    SubscriberRemoved(Name),
}

/// A message of accounting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answered {
    /// Of the begin; for session 0, Accounting-On.
    Start,
    /// The newest interim update.
    Interim,
    /// Of the end: nothing more is sent of the session.
    Stop,
}

impl Answered {
    const ALL: [Answered; 3] = [Answered::Start, Answered::Interim, Answered::Stop];

    const fn name(self) -> &'static str {
        match self {
            Answered::Start => "start",
            Answered::Interim => "interim",
            Answered::Stop => "stop",
        }
    }
}

/// A session that has ended, and whose Stop was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unaccounted {
    /// Its number.
    pub session: SessionId,
    /// Its subscriber.
    pub subscriber: Name,
    /// Its line.
    pub line: Line,
    /// The device.
    pub mac: Mac,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its prefix of IPv6.
    pub prefix: Option<LinkPrefix>,
    /// Its access was PPPoE.
    pub is_ppp: bool,
    /// Its account.
    pub account: Account,
    /// When it began, s since 1970.
    pub start_s: u64,
    /// When it ended, s since 1970.
    pub end_s: u64,
    /// Why.
    pub cause: EndCause,
    /// What it counted.
    pub counters: Counters,
}

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is of another version of weir.
    #[error(
        "the record has version {0}, this program reads version {VERSION}: use the program that wrote it, or a newer one"
    )]
    Version(u32),
    /// It does not say what a record says.
    #[error("the record is damaged: {0}")]
    Damaged(String),
}

impl fmt::Display for Record {
    /// The line without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION} {} {}", self.revision, self.change)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Lease { session, subscriber, start_s, counters, lease } => {
                let Device { line, mac, relay } = &lease.device;
                write!(f, "lease {session} {subscriber}")?;
                if lease.seat > 0 {
                    write!(f, " seat {}", lease.seat)?;
                }
                write!(f, " {line} {mac} {}", lease.address)?;
                if let Some(prefix) = lease.prefix {
                    write!(f, " prefix {prefix}")?;
                }
                if let Some(relay) = relay {
                    write!(f, " relay {relay}")?;
                }
                if let Some(id) = &lease.client_id {
                    write!(f, " id {}", hex::Word(id))?;
                }
                if let Some(ppp) = lease.ppp {
                    write!(f, " ppp {ppp}")?;
                }
                if let Some(account) = &lease.account {
                    write!(f, " acct {account}")?;
                }
                write!(f, " start {start_s} granted {} for {}", lease.granted_s, lease.lease_s)?;
                counted(f, *counters)
            }
            Change::End { session, subscriber, address, cause, ended_s, counters } => {
                write!(f, "end {session} {subscriber} {address} {cause}")?;
                if let Some(ended_s) = ended_s {
                    write!(f, " at {ended_s}")?;
                }
                counted(f, *counters)
            }
            Change::Accounted { session, what } => write!(f, "accounted {session} {}", what.name()),
            Change::Interim { session, at_s, counters } => {
                write!(f, "interim {session} at {at_s}")?;
                counted(f, *counters)
            }
            Change::LostAll { at_s } => write!(f, "lost-all at {at_s}"),
            Change::Unaccounted(of) => {
                let Unaccounted { session, subscriber, line, mac, address, account, .. } = &**of;
                let Unaccounted { start_s, end_s, cause, counters, is_ppp, prefix, .. } = **of;
                let access = if is_ppp { "pppoe" } else { "ipoe" };
                write!(f, "unaccounted {session} {subscriber} {line} {mac} {address}")?;
                if let Some(prefix) = prefix {
                    write!(f, " prefix {prefix}")?;
                }
                write!(f, " {access} acct {account}")?;
                write!(f, " start {start_s} end {end_s} {cause}")?;
                counted(f, counters)
            }
            Change::Declined { address, subscriber, until_s } => {
                write!(f, "declined {address} {subscriber} until {until_s}")
            }
            Change::Counted { session, counters } => {
                write!(f, "counters {session}")?;
                counted(f, *counters)
            }
            Change::Subscriber(subscriber) => write!(f, "subscriber {subscriber}"),
            Change::LastAddress { subscriber, address } => write!(f, "last {subscriber} {address}"),
            Change::LastPrefix { subscriber, prefix } => write!(f, "last-prefix {subscriber} {prefix}"),
            Change::Answer { login, answer } => write!(f, "answer {login} {answer}"),
            Change::SubscriberRemoved(name) => write!(f, "removed {name}"),
        }
    }
}

fn counted(f: &mut fmt::Formatter<'_>, counters: Counters) -> fmt::Result {
    let Counters { down_frames, down_bytes, up_frames, up_bytes } = counters;
    write!(f, " counted {down_frames} {down_bytes} {up_frames} {up_bytes}")
}

impl FromStr for Record {
    type Err = RecordError;

    fn from_str(line: &str) -> Result<Record, RecordError> {
        let mut words = Words::new(line);
        let version: u32 = words.number("version").map_err(RecordError::Damaged)?;
        match version {
            VERSION => read(&mut words).map_err(RecordError::Damaged),
            other => Err(RecordError::Version(other)),
        }
    }
}

fn read(words: &mut Words<'_>) -> Result<Record, String> {
    let revision = words.number("revision")?;
    let change = match words.word("what has changed")? {
        "lease" => lease(words)?,
        "end" => Change::End {
            session: session(words)?,
            subscriber: words.value("a subscriber")?,
            address: words.number("IPv4 address")?,
            cause: words.value("a cause")?,
            ended_s: if words.takes("at") { Some(words.number("time")?) } else { None },
            counters: counters(words)?,
        },
        "accounted" => {
            let session = session(words)?;
            let word = words.word("`start`, `interim` or `stop`")?;
            let what = Answered::ALL.into_iter().find(|what| what.name() == word);
            let what = what.ok_or_else(|| format!("`{word}` should be start, interim or stop"))?;
            Change::Accounted { session, what }
        }
        "interim" => {
            let session = session(words)?;
            words.expect("at")?;
            Change::Interim { session, at_s: words.number("time")?, counters: counters(words)? }
        }
        "lost-all" => {
            words.expect("at")?;
            Change::LostAll { at_s: words.number("time")? }
        }
        "unaccounted" => Change::Unaccounted(Box::new(unaccounted(words)?)),
        "declined" => {
            let (address, subscriber) = (words.number("IPv4 address")?, words.value("a subscriber")?);
            words.expect("until")?;
            Change::Declined { address, subscriber, until_s: words.number("time")? }
        }
        "counters" => Change::Counted { session: session(words)?, counters: counters(words)? },
        "subscriber" => Change::Subscriber(Subscriber::read(words)?),
        "last" => {
            let subscriber = words.value("a subscriber")?;
            Change::LastAddress { subscriber, address: words.number("IPv4 address")? }
        }
        "answer" => {
            let login = words.value("a login")?;
            Change::Answer { login, answer: Box::new(LastAnswer::read(words)?) }
        }
        "last-prefix" => {
            let subscriber = words.value("a subscriber")?;
            Change::LastPrefix { subscriber, prefix: words.value("a prefix")? }
        }
        "removed" => Change::SubscriberRemoved(words.value("a subscriber")?),
        other => return Err(format!("`{other}` is no change that a record has")),
    };
    words.end()?;
    Ok(Record { revision, change })
}

fn lease(words: &mut Words<'_>) -> Result<Change, String> {
    let (session, subscriber) = (session(words)?, words.value("a subscriber")?);
    let seat = if words.takes("seat") { words.number("number of a seat")? } else { 0 };
    let (line, mac) = (words.value("a line")?, words.value("a MAC address")?);
    let address = words.number("IPv4 address")?;
    let prefix = if words.takes("prefix") { Some(words.value("a prefix")?) } else { None };
    let relay = if words.takes("relay") { Some(words.number("IPv4 address")?) } else { None };
    let client_id = if words.takes("id") { Some(client_id(words)?) } else { None };
    let ppp = if words.takes("ppp") { Some(words.value("a link")?) } else { None };
    let account = if words.takes("acct") { Some(Account::read(words)?) } else { None };
    words.expect("start")?;
    let start_s = words.number("time")?;
    words.expect("granted")?;
    let granted_s = words.number("time")?;
    words.expect("for")?;
    let lease_s = words.number("number of seconds")?;
    let device = Device { line, mac, relay };
    let lease = Lease { device, seat, address, prefix, client_id, granted_s, lease_s, ppp, account };
    Ok(Change::Lease { session, subscriber, start_s, counters: counters(words)?, lease })
}

fn unaccounted(words: &mut Words<'_>) -> Result<Unaccounted, String> {
    let (session, subscriber) = (session(words)?, words.value("a subscriber")?);
    let (line, mac) = (words.value("a line")?, words.value("a MAC address")?);
    let address = words.number("IPv4 address")?;
    let prefix = if words.takes("prefix") { Some(words.value("a prefix")?) } else { None };
    let is_ppp = words.takes("pppoe");
    if !is_ppp {
        words.expect("ipoe")?;
    }
    words.expect("acct")?;
    let account = Account::read(words)?;
    words.expect("start")?;
    let start_s = words.number("time")?;
    words.expect("end")?;
    let (end_s, cause) = (words.number("time")?, words.value("a cause")?);
    let counters = counters(words)?;
    Ok(Unaccounted {
        session,
        subscriber,
        line,
        mac,
        address,
        prefix,
        is_ppp,
        account,
        start_s,
        end_s,
        cause,
        counters,
    })
}

fn session(words: &mut Words<'_>) -> Result<SessionId, String> {
    words.number("number of a session").map(SessionId)
}

fn client_id(words: &mut Words<'_>) -> Result<Box<[u8]>, String> {
    let word = words.word("a client identifier")?;
    hex::bytes(word).map(Box::from).ok_or_else(|| format!("`{word}` is no client identifier"))
}

fn counters(words: &mut Words<'_>) -> Result<Counters, String> {
    words.expect("counted")?;
    let mut number = || words.number("counter");
    Ok(Counters { down_frames: number()?, down_bytes: number()?, up_frames: number()?, up_bytes: number()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        for line in [
            "1 8 lease 8 anna access1:100.7 02:00:00:00:00:01 100.64.0.2 start 7 granted 9 for 3600 counted 1 2 3 4",
            "1 8 lease 8 anna access1 02:00:00:00:00:01 100.64.0.2 relay 192.0.2.1 id 0x0102 start 7 granted 9 for 1 counted 0 0 0 0",
            "1 8 lease 8 anna access1 02:00:00:00:00:01 100.64.0.2 ppp 7/1500/1492/4294967295/0 start 7 granted 9 for 0 counted 0 0 0 0",
            "1 8 lease 8 anna access1 02:00:00:00:00:01 100.64.0.2 ppp 7/1500/1492/1/0 acct 00000000000000ff waits class a \
             timeout 9 start 7 granted 9 for 0 counted 0 0 0 0",
            "1 8 lease 8 anna seat 2 access1 02:00:00:00:00:01 100.64.0.2 start 7 granted 9 for 1 counted 0 0 0 0",
            "1 9 end 8 anna 100.64.0.2 released counted 0 18446744073709551615 0 0",
            "1 9 end 8 anna 100.64.0.2 released at 1790000000 counted 0 0 0 0",
            "1 9 accounted 8 start",
            "1 9 accounted 8 interim",
            "1 9 accounted 8 stop",
            "1 9 interim 8 at 1790000600 counted 1 2 3 4",
            "1 1 lost-all at 1790000000",
            "1 9 unaccounted 8 anna access1:7 02:00:00:00:00:01 100.64.0.2 ipoe acct 00000000000000ff started start 7 end 9 lost \
             counted 1 2 3 4",
            "1 9 unaccounted 8 anna access1 02:00:00:00:00:01 100.64.0.2 prefix 2001:db8:0:7::/64 pppoe acct 00000000000000ff waits idle 7 start 7 end 9 \
             lost counted 1 2 3 4",
            "1 10 declined 100.64.0.2 anna until 1790000600",
            "1 11 counters 8 counted 1 2 3 4",
            "1 12 subscriber anna mac 02:00:00:00:00:01 plan basic address 100.64.0.9 blocked",
            "1 13 last anna 100.64.0.2",
            "1 14 removed anna",
            "1 15 answer anna@isp at 1790000000 line access1 mac 02:00:00:00:00:01 attributes 0x080664400009",
        ] {
            assert_eq!(line.parse::<Record>().map(|record| record.to_string()).as_deref(), Ok(line));
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let lines = [
            "",
            "2 8 removed anna",
            "1 x removed anna",
            "1 8",
            "1 8 moved anna",
            "1 8 removed anna again",
            "1 8 end 8 anna 100.64.0.2 tired counted 0 0 0 0",
            "1 8 lease 8 anna access1 02:00:00:00:00:01 100.64.0.2 start 7 granted 9 for 4294967296 counted 0 0 0 0",
            "1 8 counters 8 counted 1 2 3",
            "1 8 accounted 8 on",
            "1 8 interim 8 counted 1 2 3 4",
            "1 8 unaccounted 8 anna access1 02:00:00:00:00:01 100.64.0.2 l2tp acct 00000000000000ff waits",
            "1 8 lease 8 anna access1 02:00:00:00:00:01 100.64.0.2 ppp 7/1500/1492/1 start 7 granted 9 for 0 counted 0 0 0 0",
        ];
        weir_testkit::golden!(
            "src/mistakes-record.txt",
            &weir_testkit::mistakes(&lines, str::parse::<Record>)
        );
    }
}
