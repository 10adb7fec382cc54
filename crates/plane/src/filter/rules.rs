//! The language of rules: one a line, the first that decides about a frame wins.
//!
//! ```text
//! policy drop                                        # what no rule decides; this is the policy without a line, too
//! connections 1000000                                # so many are remembered at a time; 4194304 without a line
//! accept state established,related
//! count web     tcp to any port 80,443               # counts under a name, and goes on
//! log 1/1000    udp to any port 53                   # every thousandth is written down, and all go on
//! accept in lan tcp from 192.168.0.0/16 to any port 80,443,8000-8100 state new
//! accept        icmp type echo-request
//! drop          tcp flags syn,fin/syn,fin            # of the flags behind the slash those before it are set
//! reject inward ip6 to 2001:db8:1::/48               # TCP gets a reset, all else an error of ICMP
//! ```
//!
//! | words | meaning |
//! |---|---|
//! | `accept`, `drop`, `reject`, `count NAME`, `log 1/N` | what is done; one of them begins a rule |
//! | `in PORT` | came in by this port |
//! | `outward`, `inward` | passes the node from left to right, from right to left |
//! | `ip`, `ip6` | IPv4, IPv6 |
//! | `tcp`, `udp`, `sctp`, `icmp`, `icmp6`, `gre`, `esp`, `ah`, `proto N` | protocol; several with commas between |
//! | `from A`, `to A` | addresses and prefixes, several with commas between, or `any` |
//! | `port P` behind `from` or `to` | ports and ranges (`1024-65535`) of TCP, UDP, SCTP; several with commas between |
//! | `flags F/M` | flags of TCP: of those in M exactly F are set; `none` for no flag |
//! | `type T` | types of ICMP by name or number, `T/CODE` with a code; several with commas between |
//! | `state S` | of its connection: `new`, `established`, `related`, `invalid`; several with commas between |
//! | `plan NAME`, `group NAME` | of a subscriber with this plan, in this group; to one on the way to subscribers |
//! | `state S` | the state of that subscriber: `active`, `blocked`, `walled`; several with commas between |
//! | `arp`, `pppoe`, `lldp`, `llc`, `ethertype N` | frames that are no packets of IP, by their EtherType (`0x88cc`); several with commas between; `llc`: those with a length in its place |
//! | `class N` | what `accept` accepts is of this class from there on, 0 to 7: see `police/`, which limits classes |
//!
//! Where a frame will leave is found out behind all stages, so that no rule can ask for it: say `outward`, `inward`, or
//! `to` and the networks there. A later fragment has no ports, flags, types and state, and follows its first one, see
//! `fragments.rs`; where that is not possible, no rule that asks for them holds for it.

use std::ops::Range;
use std::sync::Arc;

use weir_config::{Mistakes, Notes, did_you_mean};
use weir_packet::headers::{ICMP, ICMP6, SCTP, TCP, UDP};

use super::who::Who;
use crate::access::{self, AccessState};
use crate::dir::Dir;
use crate::frame::PortId;
use crate::port::Port;
use crate::prefix::Prefix;
use crate::text::MARK;

/// The rules of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// In the order of the file.
    pub(crate) rules: Vec<Rule>,
    /// What becomes of frames that no rule decides about.
    pub(crate) policy: Action,
    /// Connections that are remembered at a time.
    pub(crate) connections: u32,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// As it was written.
    pub(crate) text: String,
    /// Its line, from 1.
    pub(crate) line: usize,
    pub(crate) action: Action,
    pub(crate) port: Option<PortId>,
    pub(crate) dir: Option<Dir>,
    pub(crate) version: Option<Version>,
    /// Any, where there is none.
    pub(crate) protos: Vec<u8>,
    /// EtherTypes as ranges: it is for frames that are no packets of IP.
    pub(crate) ether_types: Vec<(u16, u16)>,
    pub(crate) from: EndMatch,
    pub(crate) to: EndMatch,
    /// Flags that are set, of those that count.
    pub(crate) flags: Option<(u8, u8)>,
    /// Types and codes of ICMP as ranges of a word: the type is its higher byte.
    pub(crate) types: Vec<(u16, u16)>,
    /// Bits of the states; 0 where none is named.
    pub(crate) states: u8,
    /// The class that frames get which it accepts.
    pub(crate) class: Option<u8>,
    /// What it asks of their subscriber.
    pub(super) who: Who,
}

impl Rule {
    /// Whether it asks for what only the first fragment of a packet has.
    pub(crate) fn asks_first_piece(&self) -> bool {
        let has_ports = !self.from.ports.is_empty() || !self.to.ports.is_empty();
        has_ports || !self.types.is_empty() || self.flags.is_some() || self.states != 0
    }

    /// Whether it asks for anything that a packet of IP says.
    pub(crate) fn asks_ip(&self) -> bool {
        let asks_ends = self.from != EndMatch::default() || self.to != EndMatch::default();
        let asks_ends = asks_ends || self.who.asks();
        self.version.is_some() || !self.protos.is_empty() || asks_ends || self.asks_first_piece()
    }

    /// Whether it decides about each packet of IP that gets to it.
    pub(crate) fn ends_all(&self) -> bool {
        let asks_nothing =
            self.port.is_none() && self.dir.is_none() && self.ether_types.is_empty() && !self.asks_ip();
        asks_nothing && !matches!(self.action, Action::Count(_) | Action::Log(_))
    }
}

/// What is done with a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Accept,
    Drop,
    Reject,
    /// Counts, and goes on.
    Count(String),
    /// Writes one of so many down, and goes on.
    Log(u64),
}

/// Version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

/// What a rule asks of one end of a connection; where a list is empty, any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EndMatch {
    pub(crate) networks: Vec<Prefix>,
    pub(crate) ports: Vec<(u16, u16)>,
}

const PROTOS: &[(&str, u8)] = &[
    ("tcp", TCP),
    ("udp", UDP),
    ("sctp", SCTP),
    ("icmp", ICMP),
    ("icmp6", ICMP6),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
];
/// Frames that are no packets of IP; `llc`: a length stands in the place of an EtherType (IEEE 802.3, section 3.2.6).
const ETHER_TYPES: &[(&str, (u16, u16))] = &[
    ("arp", (0x0806, 0x0806)),
    ("pppoe", (0x8863, 0x8864)),
    ("lldp", (0x88cc, 0x88cc)),
    ("llc", (0, 0x05ff)),
];
const FLAGS: &[(&str, u8)] = &[
    ("fin", 0x01),
    ("syn", 0x02),
    ("rst", 0x04),
    ("psh", 0x08),
    ("ack", 0x10),
    ("urg", 0x20),
    ("ece", 0x40),
    ("cwr", 0x80),
    ("none", 0),
];
const TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];
const TYPES6: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbour-solicitation", 135),
    ("neighbour-advertisement", 136),
    ("redirect", 137),
];
/// States of a connection, in the order of their bits.
pub(crate) const STATES: &[&str] = &["new", "established", "related", "invalid"];
/// What a line begins with.
pub(crate) const BEGINNINGS: &[&str] = &["accept", "drop", "reject", "count", "log", "policy", "connections"];
/// Classes of frames, from 0.
pub(crate) const CLASSES: u8 = 8;
/// Connections that are remembered, if nothing is said, and the most that may be.
const CONNECTIONS: u32 = 1 << 22;
const MOST_CONNECTIONS: u32 = 100_000_000;
const WORDS: &[&str] = &[
    "in",
    "outward",
    "inward",
    "ip",
    "ip6",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "gre",
    "esp",
    "ah",
    "proto",
    "from",
    "to",
    "port",
    "flags",
    "type",
    "state",
    "class",
    "plan",
    "group",
    "arp",
    "pppoe",
    "lldp",
    "llc",
    "ethertype",
];

/// Reads the rules that the user calls `file`, for a node with these ports.
///
/// # Errors
/// All mistakes, each with its line and what to do about it.
pub(crate) fn read(file: &str, text: &str, ports: &[Port]) -> Result<Rules, Mistakes> {
    let notes = Notes::new("rules", text);
    let mut rules = Rules { rules: Vec::new(), policy: Action::Drop, connections: CONNECTIONS };
    let (mut at, mut policies) = (0, 0);
    for (n, line) in text.split('\n').enumerate() {
        let code = line.split('#').next().unwrap_or_default().trim_start_matches(MARK);
        let mut words = words(code, at);
        at += line.len() + 1;
        let Some(first) = words.first().cloned() else { continue };
        let read = if first.text == "policy" {
            policies += 1;
            policy(&words, policies).map(|policy| rules.policy = policy)
        } else if first.text == "connections" {
            connections(&words).map(|most| rules.connections = most)
        } else {
            words.reverse();
            let mut reading = Reading { words, ports, last: first.span.clone() };
            let rule = Rule {
                text: code.trim().to_string(),
                line: n + 1,
                action: Action::Drop,
                port: None,
                dir: None,
                version: None,
                protos: Vec::new(),
                ether_types: Vec::new(),
                from: EndMatch::default(),
                to: EndMatch::default(),
                flags: None,
                types: Vec::new(),
                states: 0,
                class: None,
                who: Who::default(),
            };
            reading.rule(rule).map(|rule| rules.rules.push(rule))
        };
        if let Err(Wrong { span, text }) = read {
            notes.add(Some(span), "", text);
        }
    }
    if notes.is_empty() { Ok(rules) } else { Err(notes.to_mistakes(file)) }
}

#[derive(Debug, Clone)]
struct Word<'a> {
    text: &'a str,
    span: Range<usize>,
}

/// A mistake and where it is.
struct Wrong {
    span: Range<usize>,
    text: String,
}

fn words(line: &str, at: usize) -> Vec<Word<'_>> {
    let word = |text: &'_ str| text.as_ptr() as usize - line.as_ptr() as usize;
    let span = |text: &str| at + word(text)..at + word(text) + text.len();
    line.split_whitespace().map(|text| Word { text, span: span(text) }).collect()
}

fn policy(words: &[Word<'_>], policies: usize) -> Result<Action, Wrong> {
    let wrong = |text: &str| Err(Wrong { span: words[0].span.clone(), text: text.to_string() });
    if policies > 1 {
        return wrong("there is a policy already: write one");
    }
    match words.iter().map(|word| word.text).collect::<Vec<_>>()[..] {
        [_, "accept"] => Ok(Action::Accept),
        [_, "drop"] => Ok(Action::Drop),
        [_, "reject"] => Ok(Action::Reject),
        _ => wrong("a policy is `policy accept`, `policy drop` or `policy reject`"),
    }
}

fn connections(words: &[Word<'_>]) -> Result<u32, Wrong> {
    let most = match words {
        [_, most] => most.text.parse().ok().filter(|most| (1..=MOST_CONNECTIONS).contains(most)),
        _ => None,
    };
    most.ok_or_else(|| Wrong {
        span: words[0].span.clone(),
        text: format!(
            "write how many connections are remembered, from 1 to {MOST_CONNECTIONS}: connections 1000000"
        ),
    })
}

/// A rule on its way: the words that are left, the next one last.
struct Reading<'a> {
    words: Vec<Word<'a>>,
    ports: &'a [Port],
    last: Range<usize>,
}

impl<'a> Reading<'a> {
    fn rule(&mut self, mut rule: Rule) -> Result<Rule, Wrong> {
        rule.action = self.action()?;
        // Which side `port` is of.
        let mut side = None;
        let mut seen: Vec<&str> = Vec::new();
        while let Some(word) = self.words.pop() {
            self.last = word.span;
            let kind = match word.text {
                text if ether_type(first_of(text)).is_some() => "ethertype",
                text if proto(text).is_some() || text.contains(',') => "proto",
                "inward" => "outward",
                "ip6" => "ip",
                "port" if side == Some("to") => "to port",
                "state" if self.words.last().is_some_and(|next| is_access_state(next.text)) => "access state",
                text => text,
            };
            if seen.contains(&kind) {
                return self.wrong(format!("`{}` is said already in this rule", word.text));
            }
            seen.push(kind);
            match word.text {
                "in" => rule.port = Some(self.port()?),
                "outward" => rule.dir = Some(Dir::Outward),
                "inward" => rule.dir = Some(Dir::Inward),
                "ip" => rule.version = Some(Version::V4),
                "ip6" => rule.version = Some(Version::V6),
                "proto" => rule.protos = vec![self.number()?],
                "ethertype" => rule.ether_types = self.list("EtherTypes, as in 0x88cc", numbered)?,
                "from" | "to" => {
                    side = Some(word.text);
                    // `to port 80` is `to any port 80`.
                    if self.words.last().is_none_or(|next| next.text != "port") {
                        let networks = self.networks()?;
                        if word.text == "from" {
                            rule.from.networks = networks
                        } else {
                            rule.to.networks = networks
                        }
                    }
                }
                "port" => {
                    let ports = self.list("ports", port_range)?;
                    match side {
                        Some("from") => rule.from.ports = ports,
                        Some(_) => rule.to.ports = ports,
                        None => {
                            return self
                                .wrong("`port` stands behind `from` or `to`: write `to port 80`".into());
                        }
                    }
                }
                "flags" => rule.flags = Some(self.flags()?),
                "type" => rule.types = self.types(&rule)?,
                "state" if kind == "access state" => rule.who.states = self.list("states", str::parse)?,
                "plan" => rule.who.plan = Some(self.name("plan")?),
                "group" => rule.who.group = Some(self.name("group")?),
                "state" => {
                    let states = self.list("states", |text| bit(text, STATES))?;
                    rule.states = states.into_iter().fold(0, |all, bit| all | bit);
                }
                "class" => rule.class = Some(self.class()?),
                text if kind == "proto" => rule.protos = self.protos(text)?,
                text if kind == "ethertype" => rule.ether_types = self.ether_types(text)?,
                "out" => {
                    let text = "where a frame leaves is found out behind all stages: say `outward` or `inward`, or `to` \
                                and the networks there";
                    return self.wrong(text.into());
                }
                text => {
                    return self
                        .wrong(format!("`{text}` is no word of a rule: {}", did_you_mean(text, WORDS)));
                }
            }
        }
        self.check(&rule)?;
        Ok(rule)
    }

    fn action(&mut self) -> Result<Action, Wrong> {
        let word = self.words.pop().expect("a rule has a word");
        match word.text {
            "accept" => Ok(Action::Accept),
            "drop" => Ok(Action::Drop),
            "reject" => Ok(Action::Reject),
            "count" => {
                let name = self.next("a name, as in `count web`")?;
                let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
                if fits && !WORDS.contains(&name) {
                    Ok(Action::Count(name.to_string()))
                } else {
                    self.wrong(format!("`{name}` is no name of a counter: use letters, digits, - and _"))
                }
            }
            "log" => {
                let share = self.next("a share, as in `log 1/1000`")?;
                let every =
                    share.strip_prefix("1/").and_then(|every| every.parse().ok()).filter(|&every| every > 0);
                match every {
                    Some(every) => Ok(Action::Log(every)),
                    None => self.wrong(format!("`{share}` is no share: write 1/1000 for each thousandth")),
                }
            }
            text => self.wrong(format!(
                "a rule begins with what is done, not with `{text}`: {}",
                did_you_mean(text, BEGINNINGS)
            )),
        }
    }

    /// What the words say together.
    fn check(&self, rule: &Rule) -> Result<(), Wrong> {
        let only =
            |protos: &[u8]| !rule.protos.is_empty() && rule.protos.iter().all(|proto| protos.contains(proto));
        if rule.class.is_some() && rule.action != Action::Accept {
            return self
                .wrong("only what is accepted has a class: write it into a rule with `accept`".into());
        }
        if !rule.ether_types.is_empty() && rule.asks_ip() {
            return self.wrong(
                "frames that are no packets of IP have an EtherType, and nothing of IP: write two rules"
                    .into(),
            );
        }
        if !rule.ether_types.is_empty() && rule.action == Action::Reject {
            return self
                .wrong("the sender of a frame that is no packet of IP cannot be informed: drop it".into());
        }
        let has_ports = !rule.from.ports.is_empty() || !rule.to.ports.is_empty();
        if has_ports && !only(&[TCP, UDP, SCTP]) {
            return self.wrong("ports are those of tcp, udp or sctp: name one of them in front".into());
        }
        if rule.flags.is_some() && !only(&[TCP]) {
            return self.wrong("flags are those of tcp: name it in front".into());
        }
        let all = || rule.from.networks.iter().chain(&rule.to.networks);
        let is_v4 = |network: &Prefix| network.address.is_ipv4();
        let v4_alone = rule.version == Some(Version::V4) || rule.protos == [ICMP];
        let v6_alone = rule.version == Some(Version::V6) || rule.protos == [ICMP6];
        let (from, to) = (&rule.from.networks, &rule.to.networks);
        let meet = |v4: bool| {
            (from.is_empty() || from.iter().any(|n| is_v4(n) == v4))
                && (to.is_empty() || to.iter().any(|n| is_v4(n) == v4))
        };
        let split = v4_alone && all().any(|n| !is_v4(n)) || v6_alone && all().any(is_v4);
        if v4_alone && v6_alone || split {
            return self.wrong("what it says of IPv4 and what of IPv6 never meet: write two rules".into());
        }
        if meet(true) || meet(false) {
            Ok(())
        } else {
            self.wrong("`from` and `to` are of two versions of IP: no frame is of both".into())
        }
    }

    fn wrong<T>(&self, text: String) -> Result<T, Wrong> {
        Err(Wrong { span: self.last.clone(), text })
    }

    fn next(&mut self, what: &str) -> Result<&'a str, Wrong> {
        match self.words.pop() {
            Some(word) => {
                self.last = word.span;
                Ok(word.text)
            }
            None => self.wrong(format!("the rule ends where it needs {what}")),
        }
    }

    fn number(&mut self) -> Result<u8, Wrong> {
        let text = self.next("a protocol number")?;
        match text.parse() {
            Ok(number) if number < u8::MAX => Ok(number),
            _ => self.wrong(format!("`{text}` is no protocol number: use 0 to 254")),
        }
    }

    fn name(&mut self, what: &str) -> Result<Arc<str>, Wrong> {
        let text = self.next(&format!("the name of a {what}"))?;
        access::name(text).or_else(|text| self.wrong(text))
    }

    fn class(&mut self) -> Result<u8, Wrong> {
        let text = self.next("a class of 0 to 7")?;
        class(text).or_else(|text| self.wrong(text))
    }

    fn port(&mut self) -> Result<PortId, Wrong> {
        let name = self.next("a port of the node")?;
        match self.ports.iter().position(|port| port.name == name) {
            Some(n) => Ok(PortId(n as u16)),
            None => {
                let names: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
                self.wrong(format!("`{name}` is no port of the node: {}", did_you_mean(name, &names)))
            }
        }
    }

    /// The parts of the next word between commas.
    fn list<T>(&mut self, what: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Wrong> {
        let text = self.next(what)?;
        text.split(',').map(read).collect::<Result<_, _>>().or_else(|text| self.wrong(text))
    }

    fn networks(&mut self) -> Result<Vec<Prefix>, Wrong> {
        let read = |text: &str| {
            let network: Prefix = text.parse()?;
            if network.network() == network {
                Ok(Some(network))
            } else {
                Err(format!("`{text}` has bits behind its length: write {}", network.network()))
            }
        };
        let read_any = |text: &str| if text == "any" { Ok(None) } else { read(text) };
        let networks = self.list("addresses, or any", read_any)?;
        // With `any` among them the others do not matter.
        Ok(networks.into_iter().collect::<Option<Vec<_>>>().unwrap_or_default())
    }

    fn protos(&self, text: &str) -> Result<Vec<u8>, Wrong> {
        let names: Vec<&str> = PROTOS.iter().map(|(name, _)| *name).collect();
        let read = |name: &str| {
            proto(name).ok_or_else(|| format!("`{name}` is no protocol: {}", did_you_mean(name, &names)))
        };
        text.split(',').map(read).collect::<Result<_, _>>().or_else(|text| self.wrong(text))
    }

    fn ether_types(&self, text: &str) -> Result<Vec<(u16, u16)>, Wrong> {
        let names: Vec<&str> = ETHER_TYPES.iter().map(|(name, _)| *name).collect();
        let read = |name: &str| {
            ether_type(name)
                .ok_or_else(|| format!("`{name}` is no EtherType: {}", did_you_mean(name, &names)))
        };
        text.split(',').map(read).collect::<Result<_, _>>().or_else(|text| self.wrong(text))
    }

    fn flags(&mut self) -> Result<(u8, u8), Wrong> {
        let text = self.next("flags, as in `flags syn/syn,ack`")?;
        let (set, of) = text.split_once('/').unwrap_or((text, text));
        let names: Vec<&str> = FLAGS.iter().map(|(name, _)| *name).collect();
        let bits = |list: &str| -> Result<u8, String> {
            list.split(',').try_fold(0, |all, name| match FLAGS.iter().find(|(flag, _)| *flag == name) {
                Some((_, bit)) => Ok(all | bit),
                None => Err(format!("`{name}` is no flag of TCP: {}", did_you_mean(name, &names))),
            })
        };
        match (bits(set), bits(of)) {
            (Ok(set), Ok(of)) if set & !of == 0 && of != 0 => Ok((set, of)),
            (Ok(_), Ok(_)) => self.wrong(format!(
                "`{text}`: the flags that are set stand behind the slash, too: flags syn/syn,ack"
            )),
            (Err(text), _) | (_, Err(text)) => self.wrong(text),
        }
    }

    fn types(&mut self, rule: &Rule) -> Result<Vec<(u16, u16)>, Wrong> {
        let names = match rule.protos[..] {
            [ICMP] => TYPES,
            [ICMP6] => TYPES6,
            _ => return self.wrong("types are those of icmp or icmp6: name one of them in front".into()),
        };
        self.list("types", |text| {
            let (kind, code) = text.split_once('/').map_or((text, None), |(kind, code)| (kind, Some(code)));
            let named = names.iter().find(|(name, _)| *name == kind).map(|(_, number)| *number);
            let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let number = named.or_else(|| kind.parse().ok());
            let number =
                number.ok_or_else(|| format!("`{kind}` is no type: {}", did_you_mean(kind, &all)))?;
            let first = u16::from(number) << 8;
            match code.map(str::parse::<u8>) {
                None => Ok((first, first | 0xff)),
                Some(Ok(code)) => Ok((first | u16::from(code), first | u16::from(code))),
                Some(Err(_)) => Err(format!("`{text}` has no code of 0 to 255 behind the slash")),
            }
        })
    }
}

/// A class of frames.
///
/// # Errors
/// There is no such class.
pub(crate) fn class(text: &str) -> Result<u8, String> {
    let class = text.parse().ok().filter(|class| (0..CLASSES).contains(class));
    class.ok_or_else(|| format!("`{text}` is no class: use 0 to {}", CLASSES - 1))
}

/// Whether a list is one of states of subscribers.
fn is_access_state(text: &str) -> bool {
    first_of(text).parse::<AccessState>().is_ok()
}

fn proto(name: &str) -> Option<u8> {
    PROTOS.iter().find(|(proto, _)| *proto == name).map(|(_, number)| *number)
}

/// The first of several with commas between.
fn first_of(text: &str) -> &str {
    text.split(',').next().unwrap_or(text)
}

/// An EtherType with a name.
fn ether_type(name: &str) -> Option<(u16, u16)> {
    ETHER_TYPES.iter().find(|(known, _)| *known == name).map(|(_, range)| *range)
}

/// An EtherType as a number.
fn numbered(text: &str) -> Result<(u16, u16), String> {
    let number = text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok());
    match number {
        Some(0x0800) => Err("packets of IPv4 are `ip`, not `ethertype`".into()),
        Some(0x86dd) => Err("packets of IPv6 are `ip6`, not `ethertype`".into()),
        Some(0x8100 | 0x88a8) => Err("tags are those of a port: write `vlan` there".into()),
        Some(number) if number >= 0x0600 => Ok((number, number)),
        _ => Err(format!("`{text}` is no EtherType: write four digits in hexadecimal, 0x0600 to 0xffff")),
    }
}

fn bit(text: &str, names: &[&str]) -> Result<u8, String> {
    let n = names.iter().position(|name| *name == text);
    n.map(|n| 1 << n).ok_or_else(|| format!("`{text}` is no state: {}", did_you_mean(text, names)))
}

fn port_range(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        (Ok(first), Ok(last)) => Err(format!("`{text}` ends before it begins: write {last}-{first}")),
        _ => Err(format!("`{text}` is no port: use 0 to 65535, or a range as in 8000-8100")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports() -> Vec<Port> {
        vec![Port::plain("lan"), Port::plain("wan")]
    }

    #[test]
    fn rules_say_what_they_mean() {
        let text = "policy reject # else\nconnections 7\n\
                    accept in lan tcp,udp from 192.168.0.0/16,10.0.0.1 port 1024-65535 to any port 80,443 state new\n\
                    drop tcp flags syn/syn,ack inward\n\
                    count pings icmp type echo-request,3/1\n\
                    log 1/1000 ip6 to port 53 udp\n";
        let rules = read("r", text, &ports()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!((rules.policy, rules.connections), (Action::Reject, 7));
        let [first, second, third, fourth] = &rules.rules[..] else { panic!("four rules") };
        assert_eq!((first.line, first.port, first.protos.as_slice()), (3, Some(PortId(0)), &[TCP, UDP][..]));
        assert_eq!((first.from.networks.len(), first.from.ports.as_slice()), (2, &[(1024, 65535)][..]));
        assert_eq!((first.to.networks.len(), first.to.ports.len(), first.states), (0, 2, 1));
        assert_eq!((second.flags, second.dir), (Some((2, 0x12)), Some(Dir::Inward)));
        assert_eq!(
            (&third.action, &third.types[..]),
            (&Action::Count("pings".into()), &[(0x800, 0x8ff), (0x301, 0x301)][..])
        );
        assert_eq!((&fourth.action, fourth.version), (&Action::Log(1000), Some(Version::V6)));
        let none = read("r", "", &ports()).expect("no rules");
        assert_eq!((none.policy, none.connections), (Action::Drop, 1 << 22));
    }

    #[test]
    fn all_mistakes_are_reported_with_their_remedy() {
        for (line, remedy) in [
            ("acept tcp", "a rule begins with what is done, not with `acept`: did you mean `accept`?"),
            ("accept tcpp", "`tcpp` is no word of a rule: did you mean `tcp`?"),
            ("accept tcp,udpp", "`udpp` is no protocol: did you mean `udp`?"),
            ("accept from 10.0.0.1/8", "`10.0.0.1/8` has bits behind its length: write 10.0.0.0/8"),
            ("accept from 10.0.0.0/33", "`10.0.0.0/33` has no length of 0 to 32 behind the slash"),
            ("accept to port 80", "ports are those of tcp, udp or sctp: name one of them in front"),
            ("accept tcp port 80", "`port` stands behind `from` or `to`: write `to port 80`"),
            ("accept tcp to port 80-70", "`80-70` ends before it begins: write 70-80"),
            ("accept tcp to any port", "the rule ends where it needs ports"),
            ("accept in lann", "`lann` is no port of the node: did you mean `lan`?"),
            ("accept udp flags syn", "flags are those of tcp: name it in front"),
            (
                "accept tcp flags syn/ack",
                "`syn/ack`: the flags that are set stand behind the slash, too: flags syn/syn,ack",
            ),
            ("accept type echo-request", "types are those of icmp or icmp6: name one of them in front"),
            ("accept icmp type echo-requst", "`echo-requst` is no type: did you mean `echo-request`?"),
            (
                "accept ethertype 88cc",
                "`88cc` is no EtherType: write four digits in hexadecimal, 0x0600 to 0xffff",
            ),
            ("accept ethertype 0x0800", "packets of IPv4 are `ip`, not `ethertype`"),
            ("accept ethertype 0x8100", "tags are those of a port: write `vlan` there"),
            ("accept arp,lldpp", "`lldpp` is no EtherType: did you mean `lldp`?"),
            (
                "accept pppoe state new",
                "frames that are no packets of IP have an EtherType, and nothing of IP: write two rules",
            ),
            ("reject arp", "the sender of a frame that is no packet of IP cannot be informed: drop it"),
            ("accept arp lldp", "`lldp` is said already in this rule"),
            ("accept udp class 8", "`8` is no class: use 0 to 7"),
            ("accept udp class", "the rule ends where it needs a class of 0 to 7"),
            ("drop udp class 1", "only what is accepted has a class: write it into a rule with `accept`"),
            ("accept state walled,new", "`new` is no state of a subscriber: use active, blocked or walled"),
            (
                "accept plan a(b",
                "`a(b` is no name of a plan or group: use up to 64 letters, digits, _, -, ., @, / and +",
            ),
            ("accept plan", "the rule ends where it needs the name of a plan"),
            (
                "accept group west arp",
                "frames that are no packets of IP have an EtherType, and nothing of IP: write two rules",
            ),
            ("accept state newish", "`newish` is no state: did you mean `new`?"),
            ("accept tcp from any tcp", "`tcp` is said already in this rule"),
            ("accept from 10.0.0.1 to ::1", "`from` and `to` are of two versions of IP: no frame is of both"),
            ("accept ip6 from 10.0.0.1", "what it says of IPv4 and what of IPv6 never meet: write two rules"),
            ("log 2/3 tcp", "`2/3` is no share: write 1/1000 for each thousandth"),
            ("count tcp", "`tcp` is no name of a counter: use letters, digits, - and _"),
            ("accept proto 255", "`255` is no protocol number: use 0 to 254"),
            (
                "connections 0",
                "write how many connections are remembered, from 1 to 100000000: connections 1000000",
            ),
            (
                "accept out wan",
                "where a frame leaves is found out behind all stages: say `outward` or `inward`, or `to` and the \
                 networks there",
            ),
            ("policy allow", "a policy is `policy accept`, `policy drop` or `policy reject`"),
        ] {
            let text = format!("# first\n{line}\n");
            let mistakes = read("r", &text, &ports()).expect_err(line).to_string();
            assert_eq!(mistakes, format!("r:2: {remedy}"), "{line}");
        }
        let two = read("r", "accept tcpp\ndrop\naccept in x\n", &ports()).expect_err("two mistakes");
        assert_eq!(two.list.len(), 2, "{two}");
    }
}
