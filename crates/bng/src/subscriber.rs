//! Customers: permanent, whether they are online or not.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::hex;
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::nat::Nat;
use crate::plan::{Plan, Rates, bits_per_s};
use crate::ppp::auth::Password;
use crate::prefix::LinkPrefix;
use crate::route::{MOST_ROUTES, Route};
use crate::words::Words;

/// A customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// Unique.
    pub name: Name,
    /// By what it is identified; no two subscribers have the same.
    pub key: Key,
    /// Its rates.
    pub plan: Plan,
    /// The address that it alone gets, always; `None`: one of a pool.
    pub fixed_address: Option<Ipv4Addr>,
    /// The prefix of IPv6 that it alone gets, always; `None`: one of a pool.
    pub fixed_prefix: Option<LinkPrefix>,
    /// Networks behind it that are routed to it.
    pub routes: Vec<Route>,
    /// The pool of its addresses; `None`: any.
    pub pool: Option<Name>,
    /// The pool of its prefixes of IPv6; `None`: any.
    pub prefix_pool: Option<Name>,
    /// The group that rules of filters and metrics of the node name.
    pub group: Option<Name>,
    /// What the NAT of the node does with its packets.
    pub nat: Nat,
    /// Whether it may be online.
    pub status: Status,
    /// The password of a subscriber with a login; `None`: none is right.
    pub password: Option<Password>,
}

/// What the node needs of a subscriber, beside where it is. It may change while the session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its rates.
    pub rates: Rates,
    /// Active or walled; a blocked one has no session.
    pub status: Status,
    /// The name of its plan; `None`: it has rates of its own.
    pub plan: Option<Name>,
    /// Its group.
    pub group: Option<Name>,
    /// Its NAT profile.
    pub nat: Nat,
    /// Networks behind it.
    pub routes: Vec<Route>,
}

impl Service {
    /// Of an active subscriber with these rates.
    pub fn of_rates(rates: Rates) -> Service {
        Service {
            rates,
            status: Status::Active,
            plan: None,
            group: None,
            nat: Nat::Configured,
            routes: Vec::new(),
        }
    }
}

/// What identifies a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The MAC address of its device.
    Mac(Mac),
    /// Its line.
    Line(Line),
    /// The circuit-id that its access node writes (RFC 3046, section 3.1), 1 to 255 bytes; believed of trusted ports only.
    Circuit(Box<[u8]>),
    /// The name that its device gives by PPP (User-Name).
    Login(Name),
}

/// Whether a subscriber may be online.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Status {
    /// It may.
    #[default]
    Active,
    /// It may, and reaches the walled garden of the node alone.
    Walled,
    /// Its requests are refused, and it has no session.
    Blocked,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 3] = [Status::Active, Status::Walled, Status::Blocked];

    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Walled => "walled",
            Status::Blocked => "blocked",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Status, String> {
        let found = Status::ALL.into_iter().find(|status| status.name() == text);
        found.ok_or_else(|| format!("`{text}` is no state of a subscriber: use active, walled or blocked"))
    }
}

impl fmt::Display for Key {
    /// `mac 02:00:00:00:00:01`, `line access1:100.7`, `circuit eth0/1:100`, `login anna@isp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Mac(mac) => write!(f, "mac {mac}"),
            Key::Line(line) => write!(f, "line {line}"),
            Key::Circuit(id) => write!(f, "circuit {}", hex::Word(id)),
            Key::Login(name) => write!(f, "login {name}"),
        }
    }
}

impl fmt::Display for Subscriber {
    /// Writes what [`FromStr`] reads, with the password: for records alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} plan {}", self.name, self.key, self.plan)?;
        if let Some(address) = self.fixed_address {
            write!(f, " address {address}")?;
        }
        if let Some(prefix) = self.fixed_prefix {
            write!(f, " prefix {prefix}")?;
        }
        for (word, pool) in [("pool", &self.pool), ("prefix-pool", &self.prefix_pool)] {
            if let Some(pool) = pool {
                write!(f, " {word} {pool}")?;
            }
        }
        self.routes.iter().try_for_each(|route| write!(f, " route {route}"))?;
        if let Some(password) = self.password_word() {
            write!(f, " password {password}")?;
        }
        if let Some(group) = &self.group {
            write!(f, " group {group}")?;
        }
        if self.nat != Nat::Configured {
            write!(f, " nat {}", self.nat)?;
        }
        if self.status == Status::Active { Ok(()) } else { write!(f, " {}", self.status) }
    }
}

impl FromStr for Subscriber {
    type Err = String;

    /// Reads `anna mac 02:00:00:00:00:01 plan down 20Mbit up 5Mbit`, with `address 100.64.0.9`, `prefix 2001:db8:1::/64`,
    /// `pool main`, `prefix-pool six`, `route 203.0.113.0/28`, `password secret`, `group west`, `nat none` and `walled` or `blocked` behind it.
    fn from_str(text: &str) -> Result<Subscriber, String> {
        let mut words = Words::new(text);
        let subscriber = Subscriber::read(&mut words)?;
        words.end()?;
        Ok(subscriber)
    }
}

impl Subscriber {
    /// The password as it is written, for records alone.
    pub fn password_word(&self) -> Option<String> {
        self.password.as_ref().map(|password| password_word(password.bytes()))
    }

    /// Reads as far as the words are of a subscriber.
    pub(crate) fn read(words: &mut Words<'_>) -> Result<Subscriber, String> {
        let name = words.value("the name of the subscriber")?;
        let key = Key::read(words)?;
        words.expect("plan")?;
        let plan = Plan::read(words)?;
        let mut subscriber = Subscriber {
            name,
            key,
            plan,
            fixed_address: None,
            fixed_prefix: None,
            routes: Vec::new(),
            pool: None,
            prefix_pool: None,
            password: None,
            group: None,
            nat: Nat::Configured,
            status: Status::Active,
        };
        if words.takes("address") {
            subscriber.fixed_address = Some(words.number("IPv4 address")?);
        }
        if words.takes("prefix") {
            subscriber.fixed_prefix = Some(words.value("a prefix")?);
        }
        if words.takes("pool") {
            subscriber.pool = Some(words.value("the name of a pool")?);
        }
        if words.takes("prefix-pool") {
            subscriber.prefix_pool = Some(words.value("the name of a pool")?);
        }
        while words.takes("route") {
            if subscriber.routes.len() == MOST_ROUTES {
                return Err(format!("a subscriber has at most {MOST_ROUTES} routes: write larger networks"));
            }
            subscriber.routes.push(words.value("a network")?);
        }
        if words.takes("password") {
            subscriber.password = Some(password_of_record(words.word("a password")?)?);
        }
        if words.takes("group") {
            subscriber.group = Some(words.value("the name of a group")?);
        }
        if words.takes("nat") {
            subscriber.nat = Nat::read(words)?;
        }
        for status in [Status::Walled, Status::Blocked] {
            if words.takes(status.name()) {
                subscriber.status = status;
                break;
            }
        }
        Ok(subscriber)
    }
}

impl Key {
    pub(crate) fn read(words: &mut Words<'_>) -> Result<Key, String> {
        match words.word("`mac`, `line`, `circuit` or `login`")? {
            "mac" => Ok(Key::Mac(words.value("a MAC address")?)),
            "line" => Ok(Key::Line(words.value("a line")?)),
            "circuit" => Key::circuit(words.word("a circuit-id")?),
            "login" => Ok(Key::Login(words.value("a login")?)),
            other => Err(format!("`{other}` identifies no subscriber: use mac, line, circuit or login")),
        }
    }
}

impl Key {
    /// Reads a circuit-id.
    pub(crate) fn circuit(word: &str) -> Result<Key, String> {
        let id = hex::bytes(word).filter(|id| (1..=255).contains(&id.len()));
        let wrong = || format!("`{word}` is no circuit-id: use 1 to 255 bytes as text, or as 0x0104");
        Ok(Key::Circuit(id.ok_or_else(wrong)?.into()))
    }
}

/// A password as a text or an API has it.
pub fn password_word(bytes: &[u8]) -> String {
    hex::Word(bytes).to_string()
}

/// What an encrypted password begins with; the program's store alone writes such.
pub const SEALED: &[u8] = b"\0weir\x01";
/// Most bytes of a password.
const MOST_PASSWORD_BYTES: usize = 128;
/// Most bytes that its encryption adds.
const SEAL_BYTES: usize = 64;

/// Reads a password. The message does not show it.
pub(crate) fn password(word: &str) -> Result<Password, String> {
    let bytes = hex::bytes(word).filter(|bytes| (1..=MOST_PASSWORD_BYTES).contains(&bytes.len()));
    let bytes = bytes.filter(|bytes| !bytes.starts_with(SEALED));
    let wrong =
        || "the password is none: use 1 to 128 bytes as a text without blanks, or as 0x0104".to_string();
    Ok(Password::new(&bytes.ok_or_else(wrong)?))
}

/// The same of a record, where it may be encrypted.
fn password_of_record(word: &str) -> Result<Password, String> {
    let most = MOST_PASSWORD_BYTES + SEAL_BYTES;
    match hex::bytes(word).filter(|bytes| bytes.starts_with(SEALED) && bytes.len() <= most) {
        Some(sealed) => Ok(Password::new(&sealed)),
        None => password(word),
    }
}

impl Plan {
    fn read(words: &mut Words<'_>) -> Result<Plan, String> {
        if words.peek() == Some("down") {
            Ok(Plan::Own(Rates::read(words)?))
        } else {
            Ok(Plan::Named(words.value("the name of a plan")?))
        }
    }
}

impl Rates {
    /// Reads `down 20Mbit up 5Mbit`.
    pub(crate) fn read(words: &mut Words<'_>) -> Result<Rates, String> {
        words.expect("down")?;
        let down_bits_per_s = bits_per_s(words.word("a rate")?)?;
        words.expect("up")?;
        Ok(Rates { down_bits_per_s, up_bits_per_s: bits_per_s(words.word("a rate")?)? })
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
            "carl circuit eth0/1:100 plan basic blocked",
            "dora circuit 0x0104 plan basic address 100.64.0.9 blocked",
            "emil login emil@isp plan basic address 100.64.0.9 password secret blocked",
            "frida login frida plan basic password 0x0104",
            "emil line access1 plan basic address 100.64.0.9 group west walled",
            "emil line access1 plan basic group west nat none walled",
            "emil line access1 plan basic nat one-to-one 192.0.2.9",
            "gina login gina plan basic prefix 2001:db8:1:2::/64 password secret",
            "hans login hans plan basic pool main prefix-pool six route 203.0.113.0/28 route 2001:db8:9::/56 password secret",
        ] {
            assert_eq!(text.parse::<Subscriber>().map(|read| read.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let texts = [
            "",
            "a(b",
            "anna",
            "anna mac",
            "anna mac 02",
            "anna port 7",
            "anna line a:9999 plan x",
            "anna circuit 0x1 plan x",
            "anna mac 02:00:00:00:00:01 plan",
            "anna mac 02:00:00:00:00:01 plan down 20 up 5Mbit",
            "anna mac 02:00:00:00:00:01 plan x address 9",
            "anna mac 02:00:00:00:00:01 plan x blocked now",
            "anna line a plan x prefix 2001:db8::/48",
            "anna login a(b plan x",
            "anna login anna plan x password 0x1",
            "anna login anna plan x route 203.0.113.1/28",
        ];
        weir_testkit::golden!(
            "src/mistakes-subscriber.txt",
            &weir_testkit::mistakes(&texts, str::parse::<Subscriber>)
        );
    }
}
