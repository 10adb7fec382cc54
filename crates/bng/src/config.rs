//! What an operator configures: ports, pools, plans, times, limits. Subscribers are data, and come by commands.

mod aaa;
mod text;
mod tls;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

pub use aaa::{Aaa, BrownOut, DhcpRadius, Renewals};
pub(crate) use aaa::{Chap, KnownDevices, Source};
pub use tls::Tls;
use weir_config::Mistakes;

use crate::account::Limits;
use crate::limit::Limit;
use crate::line::PortName;
use crate::mac::Mac;
use crate::name::Name;
use crate::places::SessionLimits;
use crate::plan::{Plan, Rates};
use crate::pool::{Pool, is_assignable};
use crate::ppp::auth::Method;
use crate::ppp::negotiation;
use crate::pppoe::concentrator;
use crate::prefix::PrefixPool;
use crate::radius::accounting::InputIs;
use crate::radius::client::{Secret, Server, Transport};
use crate::radius::dynauth;
use crate::radius::packet::Require;
use crate::subscriber::{Key, Subscriber};

/// The configuration of a BNG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Ports of the node on the subscriber side.
    pub ports: BTreeMap<PortName, Port>,
    /// Addresses to assign, from the first pool on.
    pub pools: Vec<Pool>,
    /// Prefixes of IPv6 to assign, one for each session, from the first pool on.
    pub prefix_pools: Vec<PrefixPool>,
    /// Plans by name.
    pub plans: BTreeMap<Name, Rates>,
    /// Limits of the sessions of plans, by name.
    pub plan_limits: BTreeMap<Name, Limits>,
    /// What becomes of a session that has reached a limit.
    pub at_limit: AtLimit,
    /// Name servers of the clients (option 6), in order.
    pub dns: Vec<Ipv4Addr>,
    /// Name servers of IPv6, which router advertisements have (RFC 8106).
    pub dns6: Vec<Ipv6Addr>,
    /// Times of router advertisements.
    pub advertise: AdvertiseTimes,
    /// The page of the portal, where walled subscribers learn why they are (RFC 8908).
    pub portal: Option<String>,
    /// The URI of the captive-portal API, for clients (RFC 8910).
    pub captive: Option<String>,
    /// Times of a lease.
    pub lease: LeaseTimes,
    /// How long an address is kept for a client that it was offered to.
    pub offer: Duration,
    /// How long an address is not assigned after a client found it in use.
    pub quarantine: Duration,
    /// How long sessions stay whose port has lost its link.
    pub grace: Duration,
    /// What becomes of the session of a subscriber that asks with another device or from another line.
    pub moves: Moves,
    /// Messages from devices of one line that are of no subscriber.
    pub line_limit: Limit,
    /// Messages from one subscriber on one line.
    pub subscriber_limit: Limit,
    /// Sessions of a MAC address, a line, a VLAN and the node.
    pub session_limits: SessionLimits,
    /// Sessions over PPPoE; `None`: there are none.
    pub pppoe: Option<Pppoe>,
    /// RADIUS servers, in the order in which they are asked for logins without a password here.
    pub radius: Vec<RadiusServer>,
    /// Who is asked for a login, and how.
    pub aaa: Aaa,
    /// What servers are told of sessions.
    pub accounting: Accounting,
    /// Where CoA and Disconnect are taken; `None`: nowhere.
    pub dynauth: Option<Dynauth>,
}

/// What servers are told of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounting {
    /// Interval between interim updates of a session of whose interval no Accept says anything; `None`: there are none.
    pub interim_s: Option<u32>,
    /// Least interval between interim updates.
    pub least_interim_s: u32,
    /// Which counter is Acct-Input.
    pub input: InputIs,
}

impl Default for Accounting {
    /// No interim updates but those that an Accept asks for, and not more often than every 600 s (RFC 2869, section 5.16).
    fn default() -> Accounting {
        Accounting { interim_s: None, least_interim_s: 600, input: InputIs::default() }
    }
}

/// Where CoA and Disconnect are taken (RFC 5176), and from whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dynauth {
    /// The address and port that are listened at.
    pub address: SocketAddr,
    /// Servers that may ask, and the files of their secrets.
    pub clients: Vec<(IpAddr, PathBuf)>,
    /// Whether a request must have a Message-Authenticator.
    pub require: Require,
    /// How far an Event-Timestamp may be off, and how long answers are kept.
    pub window: Duration,
}

impl Dynauth {
    /// The options of the server; clients without a secret are left out.
    pub fn options(&self, sources: BTreeMap<IpAddr, Secret>) -> dynauth::Options {
        let (require, window) = (self.require, self.window);
        dynauth::Options { sources, require, window, ..dynauth::Options::default() }
    }
}

/// A RADIUS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RadiusServer {
    /// Its name, unique.
    pub name: Name,
    /// Where it answers.
    pub address: SocketAddr,
    /// The file that has the secret; `None`: that of RFC 6614, section 2.3.
    pub secret_file: Option<PathBuf>,
    /// TLS over TCP; `None`: UDP.
    pub tls: Option<Tls>,
    /// Realms that it serves; empty: those of no other server.
    pub realms: Vec<String>,
    /// Source ports, or connections of TLS.
    pub ports: u16,
    /// Whether an answer must have a Message-Authenticator.
    pub require: Require,
    /// Whether it answers Status-Server.
    pub has_status: bool,
    /// How long it is not asked when it is dead, or the interval between Status-Server packets; `None`: 60 s, or 10 s.
    pub dead_time: Option<Duration>,
    /// Plan of a subscriber of whose plan the answer says nothing.
    pub plan: Option<Name>,
    /// The port that takes accounting; `None`: it takes none.
    pub accounting: Option<u16>,
}

impl RadiusServer {
    /// The server with its secret, as the client takes it.
    pub fn with_secret(&self, secret: Secret) -> Server {
        let RadiusServer { name, realms, ports, require, has_status, dead_time, .. } = self.clone();
        let dead_time = dead_time.unwrap_or(Duration::from_secs(if has_status { 10 } else { 60 }));
        let most_open = usize::from(ports) * 256;
        let transport = if self.tls.is_some() { Transport::Stream } else { Transport::Datagrams };
        let usual = Server { transport, ..Server::new(name.as_str(), secret) };
        Server { realms, ports, require, has_status, dead_time, most_open, ..usual }
    }

    /// The same at the port that takes accounting, if it has one.
    pub fn of_accounting(&self) -> Option<RadiusServer> {
        let address = SocketAddr::new(self.address.ip(), self.accounting?);
        Some(RadiusServer { address, ..self.clone() })
    }
}

/// Sessions over PPPoE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pppoe {
    /// Discovery.
    pub discovery: concentrator::Options,
    /// How a device shows who it is, the first method first; not empty.
    pub methods: Vec<Method>,
    /// Timers and counters of PPP.
    pub timers: negotiation::Timers,
}

impl Default for Pppoe {
    /// CHAP with MD5, then MS-CHAPv2. PAP shows the password to everyone on the line.
    fn default() -> Pppoe {
        Pppoe {
            discovery: concentrator::Options::default(),
            methods: vec![Method::ChapMd5, Method::MsChapV2],
            timers: negotiation::Timers::default(),
        }
    }
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Port {
    /// Its MAC address; `None`: it is not known yet, and no frame of the port is answered.
    pub mac: Option<Mac>,
    /// Whether the circuit-id that comes in by it is written by an access node (RFC 3046, section 2.1).
    pub is_trusted: bool,
    /// Relays that may ask by it.
    pub relays: Vec<Ipv4Addr>,
}

/// Times of a lease, s: renewal before rebinding before its end (RFC 2131, section 4.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long it is.
    pub lease_s: u32,
    /// When the client renews it (T1).
    pub renewal_s: u32,
    /// When the client asks any server to prolong it (T2).
    pub rebinding_s: u32,
}

impl LeaseTimes {
    /// A lease of so many seconds, with the times of RFC 2131, section 4.4.5: a half and seven eighths.
    pub fn of(lease_s: u32) -> LeaseTimes {
        LeaseTimes { lease_s, renewal_s: lease_s / 2, rebinding_s: lease_s - lease_s / 8 }
    }
}

/// Times of router advertisements (RFC 4861, section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvertiseTimes {
    /// Most time between two that no device has asked for.
    pub interval: Duration,
    /// How long the node is the default router of a device after each, s.
    pub router_s: u16,
    /// How long a device may use its addresses after each, s.
    pub valid_s: u32,
    /// How long it uses them for new connections, s.
    pub preferred_s: u32,
}

impl Default for AdvertiseTimes {
    /// Those of a host with a prefix of its own (RFC 8273, section 5).
    fn default() -> AdvertiseTimes {
        let interval = Duration::from_secs(300);
        AdvertiseTimes { interval, router_s: 3600, valid_s: 3600, preferred_s: 1800 }
    }
}

/// What becomes of a session when its subscriber asks with another device or from another line. There are never two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moves {
    /// It ends when the new device takes an address: a customer can replace a router, and a device with a forged key can end a session.
    Replace,
    /// It goes on, and the new device is not answered until it has ended.
    Refuse,
}

/// What becomes of a session whose session timeout has passed, or whose quota is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AtLimit {
    /// It ends, and its device may begin another one.
    #[default]
    End,
    /// It goes on, and reaches the walled garden alone.
    Walled,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ports: BTreeMap::new(),
            pools: Vec::new(),
            prefix_pools: Vec::new(),
            plans: BTreeMap::new(),
            plan_limits: BTreeMap::new(),
            at_limit: AtLimit::default(),
            dns: Vec::new(),
            dns6: Vec::new(),
            advertise: AdvertiseTimes::default(),
            portal: None,
            captive: None,
            lease: LeaseTimes::of(3600),
            offer: Duration::from_secs(30),
            quarantine: Duration::from_secs(600),
            grace: Duration::from_secs(60),
            moves: Moves::Replace,
            line_limit: Limit { per_s: 100, burst: 200 },
            subscriber_limit: Limit { per_s: 5, burst: 20 },
            session_limits: SessionLimits::default(),
            pppoe: None,
            radius: Vec::new(),
            accounting: Accounting::default(),
            dynauth: None,
            aaa: Aaa::default(),
        }
    }
}

/// The item `bng(...)` of a node's file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Item {
    /// What is configured.
    pub config: Config,
    /// The folder of the records; `None`: the file does not say.
    pub store: Option<PathBuf>,
    /// The file of the key that encrypts secrets on disk; `None`: they are readable for the owner of their files.
    pub key: Option<PathBuf>,
    /// The socket of the REST server; `None`: the file does not say.
    pub socket: Option<PathBuf>,
    /// Where the captive-portal API answers; `None`: nowhere.
    pub captive_at: Option<SocketAddr>,
    /// Subscribers, in the texts of tests alone.
    subscribers: Vec<Subscriber>,
}

/// What a configuration names of its node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Its ports.
    pub ports: Vec<PortName>,
    /// Addresses that it has towards subscribers.
    pub gateways: Vec<IpAddr>,
}

impl Item {
    /// Reads the item of which the text between the parentheses stands at `within`, in a file with this text and name.
    ///
    /// # Errors
    /// All mistakes, each with its line; what the node does not have is one.
    pub fn read(file: &str, text: &str, within: Range<usize>, node: &NodeFacts) -> Result<Item, Mistakes> {
        text::read(file, text, within, Some(node))
    }
}

impl Config {
    /// Reads a configuration, and the subscribers that stand beside it; see `config/text.rs`. `file` is its name in mistakes.
    ///
    /// # Errors
    /// All mistakes, each with its line.
    pub fn read(file: &str, text: &str) -> Result<(Config, Vec<Subscriber>), Mistakes> {
        let item = text::read(file, text, 0..text.len(), None)?;
        Ok((item.config, item.subscribers))
    }

    /// The rates of a plan; `None`: there is no such plan.
    pub fn rates(&self, plan: &Plan) -> Option<Rates> {
        match plan {
            Plan::Own(rates) => Some(*rates),
            Plan::Named(name) => self.plans.get(name).copied(),
        }
    }

    /// Names of a subscriber that are also in the configuration take no memory of their own.
    pub(crate) fn share_names(&self, subscriber: &mut Subscriber) {
        if let Plan::Named(name) = &mut subscriber.plan
            && let Some((shared, _)) = self.plans.get_key_value(name)
        {
            *name = shared.clone();
        }
        if let Key::Line(line) = &mut subscriber.key {
            self.share_port(&mut line.port);
        }
    }

    /// The same of a port.
    pub(crate) fn share_port(&self, port: &mut PortName) {
        if let Some((shared, _)) = self.ports.get_key_value(port) {
            *port = shared.clone();
        }
    }

    /// What contradicts itself, each with what to do about it.
    pub fn contradictions(&self) -> Vec<String> {
        let LeaseTimes { lease_s, renewal_s, rebinding_s } = self.lease;
        let mut found = Vec::new();
        if !(0 < renewal_s && renewal_s < rebinding_s && rebinding_s < lease_s) {
            found.push(format!(
                "a lease of {lease_s} s is renewed after {renewal_s} s and rebound after {rebinding_s} s: \
                 use times that grow in this order"
            ));
        }
        if self.aaa.dhcp.is_some() && self.radius.is_empty() {
            found.push("`dhcp-radius` asks RADIUS servers, and there is none: add `radius NAME ADDRESS:PORT secret-file FILE`".into());
        }
        let AdvertiseTimes { interval, router_s, valid_s, preferred_s } = self.advertise;
        let least_s = u32::from(router_s).min(preferred_s);
        if u64::from(least_s) < interval.as_secs() || preferred_s > valid_s {
            found.push(format!(
                "router advertisements every {} s say {router_s} s for the router, {preferred_s} s preferred and {valid_s} s valid: \
                 use times that are not below the interval, and preferred not above valid",
                interval.as_secs()
            ));
        }
        for pool in &self.pools {
            found.extend(pool_contradictions(pool));
        }
        found.extend(prefix_contradictions(&self.prefix_pools));
        let ranges = self.pools.iter().flat_map(|pool| pool.ranges.iter().map(|range| (&pool.name, *range)));
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_by_key(|(_, range)| *range);
        for pair in ranges.windows(2) {
            if let [(one, (_, last)), (other, (first, _))] = pair
                && first <= last
            {
                found.push(format!("{first} is both in pool {one} and in pool {other}: use it once"));
            }
        }
        found
    }
}

fn prefix_contradictions(pools: &[PrefixPool]) -> Vec<String> {
    let mut found: Vec<String> = pools.iter().flat_map(PrefixPool::contradictions).collect();
    for (at, pool) in pools.iter().enumerate() {
        let others = pools.iter().take(at).filter(|other| other.overlaps(pool));
        found.extend(others.map(|other| {
            format!("pools {} and {} have prefixes in common: use each once", other.name, pool.name)
        }));
    }
    found
}

fn pool_contradictions(pool: &Pool) -> Vec<String> {
    let Pool { name, router, .. } = pool;
    let prefix = |address: Ipv4Addr| u32::from(address) & u32::from(pool.mask());
    let mut found = Vec::new();
    for (first, last) in &pool.ranges {
        if first > last {
            found
                .push(format!("pool {name} has a range from {first} to {last}: write the smaller one first"));
        }
        if let Some(address) = [first, last].into_iter().find(|address| !is_assignable(**address)) {
            found.push(format!("no host can have the address {address} of pool {name}: leave it out"));
        }
        if pool.prefix_len >= 31 {
            continue;
        }
        let host = |address: Ipv4Addr| u32::from(address) & !u32::from(pool.mask());
        let outside = [first, last].into_iter().find(|address| prefix(**address) != prefix(*router));
        if let Some(address) = outside {
            let len = pool.prefix_len;
            found.push(format!(
                "{address} of pool {name} is not in {router}/{len}: use a shorter prefix, or /32"
            ));
        } else if host(*first) == 0 || host(*last) == !u32::from(pool.mask()) {
            let address = if host(*first) == 0 { first } else { last };
            found.push(format!(
                "{address} of pool {name} is the network or broadcast address of its prefix: leave it out, or use /32"
            ));
        }
    }
    found
}
