//! The documents of the REST API, as plain data: the program that controls the subscribers writes them, its clients read them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::bng::DynauthCounts;
use crate::hex;
use crate::io;
use crate::name::Name;
use crate::nat::Nat;
use crate::plan::{self, Rates};
use crate::radius::client;
use crate::route::{MOST_ROUTES, Route};
use crate::session;
use crate::subscriber::{self, Key, Status};

/// A subscriber. One of `mac`, `line`, `circuit` and `login` identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscriber {
    /// Unique.
    pub name: String,
    /// The MAC address of its device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its line: `access1`, `access1:100.7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Its circuit-id: a text, or `0x0104`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<String>,
    /// The name that its device gives by PPP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// The password of its login. It is never in an answer: a change without it keeps the one that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Its rates.
    pub plan: Plan,
    /// The address that it alone gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// The prefix of IPv6 that it alone gets: `2001:db8:1:2::/64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Networks behind it that are routed to it: `203.0.113.0/28`, `2001:db8:9::/56`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// The pool of its addresses; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The pool of its prefixes of IPv6; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_pool: Option<String>,
    /// The group that rules of filters and metrics of the node name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its NAT profile: `none`, `block`, `deterministic`, `one-to-one 192.0.2.9`; absent: `configured`, what the text of the node says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<String>,
    /// `active`, `walled` or `blocked`.
    #[serde(default = "active")]
    pub state: String,
}

fn no_address() -> Ipv4Addr {
    session::NO_ADDRESS
}

fn active() -> String {
    Status::Active.to_string()
}

/// A plan: the name of one of the configuration, or rates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Plan {
    /// One of the configuration.
    Named(String),
    /// Rates of this subscriber alone.
    Own(OwnRates),
}

/// Rates in bit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnRates {
    /// To the subscriber.
    pub down_bits_per_s: u64,
    /// From the subscriber.
    pub up_bits_per_s: u64,
}

/// A subscriber and its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberState {
    /// The subscriber.
    #[serde(flatten)]
    pub subscriber: Subscriber,
    /// Its session, if it is online.
    pub session: Option<Session>,
}

/// A change of a subscriber: fields that are absent keep their values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriberPatch {
    /// `active`, `walled` or `blocked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Its group; empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its NAT profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<String>,
}

/// What a device learns of its network (RFC 8908, section 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Captive {
    /// Whether it must visit the portal.
    pub captive: bool,
    /// The page to visit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_portal_url: Option<String>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its number.
    pub session: u64,
    /// Its subscriber.
    pub subscriber: String,
    /// Its access type: `ipoe`.
    pub access: String,
    /// Its line.
    pub line: String,
    /// The MAC address of the device.
    pub mac: String,
    /// Its address; absent: it has IPv6 alone.
    #[serde(default = "no_address", skip_serializing_if = "Ipv4Addr::is_unspecified")]
    pub address: Ipv4Addr,
    /// The prefix of IPv6 of its link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Networks behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// The relay by which it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Ipv4Addr>,
    /// Its Acct-Session-Id; none: it is not accounted for, and RADIUS does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acct_session_id: Option<String>,
    /// `waits`: no server has answered its Start; `started`; `off`: there was no accounting server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<String>,
    /// A limit was reached, or RADIUS has said so: it reaches the walled garden alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub walled: bool,
    /// Its port has no link: it ends after the grace, unless the link is up again.
    #[serde(default)]
    pub grace: bool,
    /// It began without a RADIUS server, with the last Accept.
    #[serde(default)]
    pub brown_out: bool,
    /// When it began, s since 1970.
    pub start_s: u64,
    /// When its lease was granted or last renewed, s since 1970.
    pub granted_s: u64,
    /// For how long, s.
    pub lease_s: u32,
    /// Frames to the subscriber.
    pub down_frames: u64,
    /// Their bytes.
    pub down_bytes: u64,
    /// Frames from the subscriber.
    pub up_frames: u64,
    /// Their bytes.
    pub up_bytes: u64,
}

/// A page of subscribers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribers {
    /// How many there are.
    pub total: usize,
    /// Those of this page, in the order of their names.
    pub subscribers: Vec<SubscriberState>,
    /// `after` of the next page; none: this is the last one.
    pub next: Option<String>,
}

/// A page of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// How many there are.
    pub total: usize,
    /// Those of this page, in the order in which they began.
    pub sessions: Vec<Session>,
    /// `after` of the next page; none: this is the last one.
    pub next: Option<u64>,
}

/// Why a device has no session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The subscriber, if there is one.
    pub subscriber: Option<String>,
    /// How far the device came.
    pub step: Option<String>,
    /// What came of it.
    pub reason: String,
    /// The MAC address of the device that was heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The name that it gave by PPP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// When that came of it, ns since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// Frames of it that were not answered or were refused, by reason.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Its last frames, oldest first.
    pub frames: Vec<Frame>,
}

/// Frames of a client that is followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Frames behind the number that was asked for, oldest first.
    pub frames: Vec<TracedFrame>,
    /// The number to ask for next.
    pub next: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedFrame {
    /// Its number.
    pub number: u64,
    /// The line.
    pub line: String,
    /// The MAC address of the device.
    pub mac: String,
    /// The frame.
    #[serde(flatten)]
    pub frame: Frame,
}

/// A frame of a device or for it, without tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// When, ns since 1970.
    pub at_ns: u64,
    /// From the subscriber; otherwise to it.
    pub from_subscriber: bool,
    /// The frame in hexadecimal digits, without passwords.
    pub bytes: String,
    /// What it says.
    #[serde(default)]
    pub text: String,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name.
    pub pool: String,
    /// The address of the node.
    pub router: String,
    /// Addresses that it has, or prefixes of IPv6.
    pub size: u64,
    /// Those of sessions.
    pub used: u64,
}

/// The pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// In the order in which they are used.
    pub pools: Vec<Pool>,
}

/// RADIUS: its servers, accounting, CoA and Disconnect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Radius {
    /// Servers of logins, then those of accounting, in the order in which they are asked.
    pub servers: Vec<RadiusServer>,
    /// What servers were told of sessions.
    pub accounting: Accounting,
    /// Requests of CoA and Disconnect.
    pub dynamic_authorization: DynauthCounts,
}

/// What was sent to a server, and came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RadiusServer {
    /// Its name.
    pub server: String,
    /// `access` or `accounting`.
    pub service: String,
    /// Whether it answers.
    pub alive: bool,
    /// What was counted for it.
    #[serde(flatten)]
    pub counts: client::Counts,
}

/// What servers were told of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// Messages that no server has answered.
    pub waiting: usize,
    /// Sessions that have ended, and whose Stop no server has answered.
    pub ended_sessions: usize,
    /// Start messages that were answered.
    pub starts: u64,
    /// Interim updates that were answered.
    pub interims: u64,
    /// Stop messages that were answered.
    pub stops: u64,
    /// Sessions whose messages were dropped, because too many waited.
    pub dropped: u64,
}

/// How the program is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its version of weir.
    pub weir: String,
    /// Whether it can take in subscribers: the node answers, and records can be written.
    pub ready: bool,
    /// What it waits for, and what to do about it; empty: nothing.
    pub waits_for: Vec<String>,
    /// Number of the last record.
    pub revision: u64,
    /// Subscribers.
    pub subscribers: usize,
    /// Sessions.
    pub sessions: usize,
    /// Frames of clients, by what became of them.
    pub frames: Frames,
}

/// Frames of clients, by what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// All.
    pub received: u64,
    /// Answered.
    pub answered: u64,
    /// Taken in, and want no answer.
    pub accepted: u64,
    /// Not answered, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// What came of many subscribers that were added by one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// How many were added.
    pub added: usize,
    /// How many were refused.
    pub refused: usize,
    /// The first of these, with the reasons.
    pub errors: Vec<Refused>,
}

/// A subscriber that was not added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its place in the request, from 0.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Why, and what to do about it.
    pub detail: String,
}

/// An error (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The status of HTTP in words.
    pub title: String,
    /// The status of HTTP.
    pub status: u16,
    /// What is wrong, and what to do about it.
    pub detail: String,
}

impl Subscriber {
    /// The subscriber.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn read(self) -> Result<subscriber::Subscriber, String> {
        let key = match (self.mac, self.line, self.circuit, self.login) {
            (Some(mac), None, None, None) => Key::Mac(mac.parse()?),
            (None, Some(line), None, None) => Key::Line(line.parse()?),
            (None, None, Some(circuit), None) => Key::circuit(&circuit)?,
            (None, None, None, Some(login)) => Key::Login(login.parse()?),
            _ => {
                return Err(format!(
                    "one key identifies subscriber {}: write mac, line, circuit or login",
                    self.name
                ));
            }
        };
        Ok(subscriber::Subscriber {
            key,
            plan: self.plan.read(&self.name)?,
            fixed_address: self.address,
            fixed_prefix: self.prefix.as_deref().map(str::parse).transpose()?,
            routes: routes(&self.routes)?,
            pool: self.pool.map(|pool| pool.parse()).transpose()?,
            prefix_pool: self.prefix_pool.map(|pool| pool.parse()).transpose()?,
            group: self.group.map(|group| group.parse()).transpose()?,
            nat: self.nat.map(|nat| nat.parse()).transpose()?.unwrap_or_default(),
            status: self.state.parse()?,
            password: self.password.as_deref().map(subscriber::password).transpose()?,
            name: self.name.parse()?,
        })
    }
}

fn routes(texts: &[String]) -> Result<Vec<Route>, String> {
    if texts.len() > MOST_ROUTES {
        return Err(format!("a subscriber has at most {MOST_ROUTES} routes: write larger networks"));
    }
    texts.iter().map(|text| text.parse()).collect()
}

impl Plan {
    fn read(self, subscriber: &str) -> Result<plan::Plan, String> {
        match self {
            Plan::Named(name) => Ok(plan::Plan::Named(name.parse()?)),
            Plan::Own(OwnRates { down_bits_per_s: 0, .. } | OwnRates { up_bits_per_s: 0, .. }) => {
                Err(format!("the plan of subscriber {subscriber} has a rate of 0: use 1 bit/s or more"))
            }
            Plan::Own(OwnRates { down_bits_per_s, up_bits_per_s }) => {
                Ok(plan::Plan::Own(Rates { down_bits_per_s, up_bits_per_s }))
            }
        }
    }
}

impl SubscriberPatch {
    /// What is to change of the subscriber of this name.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn read(self, subscriber: &Name) -> Result<io::SubscriberPatch, String> {
        let group = |group: String| if group.is_empty() { Ok(None) } else { group.parse().map(Some) };
        Ok(io::SubscriberPatch {
            status: self.state.map(|state| state.parse()).transpose()?,
            plan: self.plan.map(|plan| plan.read(subscriber.as_str())).transpose()?,
            group: self.group.map(group).transpose()?,
            nat: self.nat.map(|nat| nat.parse()).transpose()?,
        })
    }
}

impl Subscriber {
    /// The subscriber with its password, for a request.
    pub fn with_password(subscriber: &subscriber::Subscriber) -> Subscriber {
        Subscriber { password: subscriber.password_word(), ..Subscriber::from(subscriber) }
    }
}

impl From<&subscriber::Subscriber> for Subscriber {
    fn from(subscriber: &subscriber::Subscriber) -> Subscriber {
        let subscriber::Subscriber {
            name,
            key,
            plan,
            fixed_address,
            fixed_prefix,
            routes,
            pool,
            prefix_pool,
            group,
            nat,
            status,
            password: _,
        } = subscriber;
        let (mut mac, mut line, mut circuit, mut login) = (None, None, None, None);
        match key {
            Key::Mac(of) => mac = Some(of.to_string()),
            Key::Line(of) => line = Some(of.to_string()),
            Key::Circuit(of) => circuit = Some(hex::Word(of).to_string()),
            Key::Login(of) => login = Some(of.to_string()),
        }
        let plan = match plan {
            plan::Plan::Named(name) => Plan::Named(name.to_string()),
            plan::Plan::Own(Rates { down_bits_per_s, up_bits_per_s }) => {
                Plan::Own(OwnRates { down_bits_per_s: *down_bits_per_s, up_bits_per_s: *up_bits_per_s })
            }
        };
        let (name, state) = (name.to_string(), status.to_string());
        let group = group.as_ref().map(ToString::to_string);
        let (password, prefix) = (None, fixed_prefix.map(|prefix| prefix.to_string()));
        let address = *fixed_address;
        let nat = Some(nat).filter(|nat| **nat != Nat::Configured).map(ToString::to_string);
        let routes = routes.iter().map(ToString::to_string).collect();
        let [pool, prefix_pool] = [pool, prefix_pool].map(|pool| pool.as_ref().map(ToString::to_string));
        Subscriber {
            name,
            mac,
            line,
            circuit,
            login,
            password,
            plan,
            address,
            prefix,
            routes,
            pool,
            prefix_pool,
            group,
            nat,
            state,
        }
    }
}

impl From<&session::Session> for Session {
    fn from(session: &session::Session) -> Session {
        let session::Session { id, subscriber, lease, start_s, counters, grace_until, .. } = session;
        let account = lease.account.as_ref();
        Session {
            session: id.0,
            subscriber: subscriber.to_string(),
            access: if lease.ppp.is_some() { "pppoe" } else { "ipoe" }.into(),
            line: lease.device.line.to_string(),
            mac: lease.device.mac.to_string(),
            address: lease.address,
            prefix: lease.prefix.map(|prefix| prefix.to_string()),
            routes: account
                .map_or(Vec::new(), |account| account.facts.routes.iter().map(ToString::to_string).collect()),
            relay: lease.device.relay,
            acct_session_id: account.map(|account| account.id.to_string()),
            accounting: account.map(|account| account.state.name().into()),
            walled: account.is_some_and(|account| account.is_walled),
            grace: grace_until.is_some(),
            brown_out: false,
            start_s: *start_s,
            granted_s: lease.granted_s,
            lease_s: lease.lease_s,
            down_frames: counters.down_frames,
            down_bytes: counters.down_bytes,
            up_frames: counters.up_frames,
            up_bytes: counters.up_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_read_as_they_are_written() {
        for text in [
            "anna mac 02:00:00:00:00:01 plan down 20Mbit/s up 5Mbit/s",
            "ben@isp line access1:100.7 plan basic address 100.64.0.9",
            "dora circuit 0x0104 plan basic blocked",
            "emil login emil@isp plan basic",
            "emil line access1 plan basic group west walled",
            "emil line access1 plan basic nat one-to-one 192.0.2.9",
            "hans line access1 plan basic pool main prefix-pool six route 203.0.113.0/28 group west",
        ] {
            let subscriber: subscriber::Subscriber = text.parse().unwrap();
            let json = serde_json::to_string(&Subscriber::from(&subscriber)).unwrap();
            let read: Subscriber = serde_json::from_str(&json).unwrap();
            assert_eq!(read.read().as_ref(), Ok(&subscriber), "{json}");
        }
    }

    #[test]
    fn passwords_are_in_requests_and_in_no_answer() {
        let subscriber: subscriber::Subscriber =
            "emil login emil@isp plan basic password secret".parse().unwrap();
        let answer = serde_json::to_string(&Subscriber::from(&subscriber)).unwrap();
        assert!(!answer.contains("secret") && !answer.contains("password"), "{answer}");
        assert!(!format!("{subscriber:?}").contains("secret"));
        let request = serde_json::to_string(&Subscriber::with_password(&subscriber)).unwrap();
        let read: Subscriber = serde_json::from_str(&request).unwrap();
        assert_eq!(read.read(), Ok(subscriber));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (json, says) in [
            (
                r#"{"name": "anna", "plan": "basic"}"#,
                "one key identifies subscriber anna: write mac, line, circuit or login",
            ),
            (r#"{"name": "a(b", "mac": "02:00:00:00:00:01", "plan": "basic"}"#, "`a(b` is no name"),
            (
                r#"{"name": "anna", "mac": "02:00:00:00:00:01", "plan": "basic", "state": "walld"}"#,
                "`walld` is no state of a subscriber: use active, walled or blocked",
            ),
            (r#"{"name": "anna", "mac": "02", "plan": "basic"}"#, "`02` is no MAC address"),
            (
                r#"{"name": "anna", "circuit": "x", "plan": {"down_bits_per_s": 0, "up_bits_per_s": 1}}"#,
                "has a rate of 0",
            ),
        ] {
            let read: Subscriber = serde_json::from_str(json).unwrap();
            let error = read.read().unwrap_err();
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}
