//! What goes into a BNG and what comes out of it: plain data.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::config::Config;
use crate::line::{Line, PortName, Tags};
use crate::mac::Mac;
use crate::name::Name;
use crate::nat::Nat;
pub use crate::now::Now;
use crate::plan::Plan;
use crate::ppp::auth::Password;
use crate::prefix::LinkPrefix;
use crate::radius::Service as RadiusService;
use crate::radius::client::{LinkChange, Server};
use crate::radius::dynauth;
use crate::radius::packet::Distrust;
use crate::record::Record;
use crate::route::Route;
use crate::session::{Counters, EndCause, PppLink, SessionId};
use crate::subscriber::{Key, Service, Status, Subscriber};
use crate::watch::Whom;

/// What happens.
#[derive(Debug)]
pub enum Input<'a> {
    /// A frame that the node did not forward.
    Punt(Punt<'a>),
    /// All records up to this one are on disk.
    Stored {
        /// Number of the last one.
        revision: u64,
    },
    /// The disk failed: none of the records that were not reported by [`Input::Stored`] is written, nor will be.
    StoreFailed,
    /// The time of the last [`Output::Wake`] has come.
    Timer,
    /// An operator wants something.
    Command {
        /// Number by which [`Output::Done`] names it.
        id: u64,
        /// What.
        command: Command,
    },
    /// A record that was on disk when the program began; in their order, before anything else.
    Adopt(Record),
    /// All sessions that the node has, after either program began anew: differences are sent.
    NodeTable(&'a [AddSession]),
    /// The node does not take a session, or a change of it. A session that it has never had ends; another one has the grace for a node
    /// that takes it.
    NodeRefused {
        /// Which.
        session: SessionId,
        /// What is missing in the node.
        lacks: Lacks,
        /// What the node says.
        why: &'a str,
    },
    /// The device of a session does not answer the node any more, or its line is down.
    SessionLost {
        /// Which.
        session: SessionId,
    },
    /// The node has ended a session, since its port had no link for the grace.
    EndedByNode {
        /// Which.
        session: SessionId,
        /// What it had counted.
        counters: Counters,
    },
    /// The RADIUS servers of the configuration with their secrets, those without one left out.
    RadiusServers(Vec<Server>),
    /// The same for accounting.
    AccountingServers(Vec<Server>),
    /// Servers that may ask for CoA and Disconnect, with their secrets.
    DynauthOptions(dynauth::Options),
    /// A datagram for the server of CoA and Disconnect.
    Dynauth {
        /// Where it came from.
        from: SocketAddr,
        /// The datagram.
        bytes: &'a [u8],
    },
    /// The node has removed a session, or has been lost.
    Removed {
        /// Which.
        session: SessionId,
        /// What it counted at last; `None`: the node did not say.
        counters: Option<Counters>,
    },
    /// A datagram of a RADIUS server.
    Radius {
        /// What it is about.
        service: RadiusService,
        /// Name of the server.
        server: &'a str,
        /// The source port that it answers to, from 0 on.
        port: u16,
        /// The datagram.
        bytes: &'a [u8],
    },
    /// A connection to a RADIUS server is there, or has ended.
    RadiusLink {
        /// What it is about.
        service: RadiusService,
        /// Name of the server.
        server: &'a str,
        /// Which of its connections, from 0 on.
        port: u16,
        /// What has become of it.
        change: LinkChange,
    },
    /// The hash of a password, see [`Output::HashPassword`].
    PasswordHashed {
        /// Whose.
        login: &'a Name,
        /// Which one.
        mark: [u8; 16],
        /// The hash.
        hash: &'a str,
    },
    /// A password was checked, see [`Output::CheckPassword`].
    PasswordChecked {
        /// Number of the check.
        id: u64,
        /// What came of it.
        checked: Checked,
    },
    /// What the node has counted of a session.
    Counted {
        /// Which.
        session: SessionId,
        /// Its counters.
        counters: Counters,
    },
    /// A port has lost its link, or has it again.
    PortLink {
        /// Which.
        port: PortName,
        /// How its link is now.
        link: LinkState,
    },
}

/// Why a node does not take a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lacks {
    /// It has no such port.
    Port,
    /// Its table has no place for it: it is full, or another session is in the way.
    Place,
}

/// What came of the check of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checked {
    /// It is right.
    Right,
    /// It is wrong.
    Wrong,
    /// Too many checks wait.
    Busy,
}

/// Whether a port has a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It has.
    Up,
    /// It has not.
    Down,
}

/// A frame that the node did not forward, and where it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Punt<'a> {
    /// The port.
    pub port: PortName,
    /// The tags that it had.
    pub tags: Tags,
    /// The Ethernet frame without tags.
    pub bytes: &'a [u8],
}

/// What an operator can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A new subscriber.
    AddSubscriber(Subscriber),
    /// Another key, plan, address or status for the subscriber of this name. Its session ends if it would not begin so now.
    ChangeSubscriber(Subscriber),
    /// Blocks a subscriber, which ends its session, walls it, or lets it in again.
    SetStatus(Name, Status),
    /// Changes what is said, and nothing else.
    PatchSubscriber(Name, SubscriberPatch),
    /// The subscriber is no customer any more. Its session ends.
    RemoveSubscriber(Name),
    /// Ends a session; its client may begin another one.
    Disconnect(SessionId),
    /// Keeps the frames of a client from now on, for who follows it; repeated while it is followed.
    Watch(Whom),
    /// Ends all sessions; their clients may begin others.
    DisconnectAll,
    /// Another configuration. Sessions go on, with the rates that their plans have now.
    Configure(Box<Config>),
}

/// What is to change of a subscriber; `None`: it stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubscriberPatch {
    /// Its state.
    pub status: Option<Status>,
    /// Its plan.
    pub plan: Option<Plan>,
    /// Its group; `Some(None)`: it has none any more.
    pub group: Option<Option<Name>>,
    /// Its NAT profile.
    pub nat: Option<Nat>,
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The name is taken.
    #[error("there is a subscriber {0} already: use another name, or change that one")]
    SubscriberExists(Name),
    /// The name is not known.
    #[error("there is no subscriber {0}: list subscribers to see their names")]
    SubscriberUnknown(Name),
    /// Another subscriber has the same key.
    #[error("{0} identifies subscriber {1} already: use another key, or remove that subscriber")]
    KeyInUse(Key, Name),
    /// Another subscriber has the address.
    #[error("{0} is assigned to subscriber {1}: use another address, or disconnect that subscriber first")]
    AddressInUse(Ipv4Addr, Name),
    /// Another subscriber has the public address by its NAT profile.
    #[error(
        "{0} is the public address of subscriber {1} (nat one-to-one): use another address, or change that subscriber first"
    )]
    PublicAddressInUse(Ipv4Addr, Name),
    /// Another subscriber has the network, or a part of it.
    #[error("{0} overlaps with {1} of subscriber {2}: use another route, or change that subscriber first")]
    RouteInUse(Route, Route, Name),
    /// Two networks of the subscriber overlap.
    #[error("{0} overlaps with {1}: leave one of them out")]
    RouteTwice(Route, Route),
    /// The network has addresses of a pool.
    #[error("{0} has addresses of pool {1}: use another route")]
    RouteOfPool(Route, Name),
    /// The address of the node is in the network.
    #[error("{0} has the address {1} of the node: use another route")]
    RouteOfNode(Route, IpAddr),
    /// There is no such pool.
    #[error("there is no pool {0}: add it to the configuration, or leave it out")]
    PoolUnknown(Name),
    /// Another subscriber has the prefix.
    #[error("{0} is assigned to subscriber {1}: use another prefix, or disconnect that subscriber first")]
    PrefixInUse(LinkPrefix, Name),
    /// The address of the node is in the prefix.
    #[error("the address of the router is in {0}: use another prefix")]
    PrefixOfRouter(LinkPrefix),
    /// No host can have the address.
    #[error("no host can have the address {0}: use another one")]
    AddressUnusable(Ipv4Addr),
    /// The address is that of the node.
    #[error("{0} is the address of the router: use another one")]
    AddressOfRouter(Ipv4Addr),
    /// There is no such plan.
    #[error("there is no plan {0}: add it to the configuration, or use `down RATE up RATE`")]
    PlanUnknown(Name),
    /// A plan that is gone from a new configuration.
    #[error(
        "subscriber {1} has plan {0}, which the new configuration lacks: add it, or change the subscriber first"
    )]
    PlanInUse(Name, Name),
    /// It has ended, or never was.
    #[error("there is no session {0}: list sessions to see their numbers")]
    SessionUnknown(SessionId),
    /// The configuration contradicts itself.
    #[error("the configuration was refused: {0}")]
    Configuration(String),
    /// It is in effect, but not on disk.
    #[error(
        "the change is in effect, but it was not written to disk and is lost with a restart: free space on the disk, and repeat it"
    )]
    NotStored,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Write a record, then say [`Input::Stored`].
    Store(Record),
    /// Send a frame.
    Send {
        /// The port that it leaves by.
        port: PortName,
        /// The tags to put on it.
        tags: Tags,
        /// The Ethernet frame without tags.
        frame: Vec<u8>,
    },
    /// Send a datagram to a RADIUS server.
    Radius {
        /// What it is about.
        service: RadiusService,
        /// Name of the server.
        server: String,
        /// Number of the source port, from 0 on.
        port: u16,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// Answer a request of CoA or Disconnect.
    Dynauth {
        /// Who has asked.
        to: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// End a connection to a RADIUS server, and begin another one.
    RadiusReconnect {
        /// What it is about.
        service: RadiusService,
        /// Name of the server.
        server: String,
        /// Which of its connections, from 0 on.
        port: u16,
    },
    /// Make the hash of a password; say [`Input::PasswordHashed`], or nothing.
    HashPassword {
        /// Whose.
        login: Name,
        /// Which one.
        mark: [u8; 16],
        /// The password.
        password: Password,
    },
    /// Check a password against a hash; say [`Input::PasswordChecked`].
    CheckPassword {
        /// Number of the check.
        id: u64,
        /// The password.
        password: Password,
        /// The hash.
        hash: Box<str>,
    },
    /// Tell the node.
    Node(NodeCommand),
    /// Tell the observers.
    Event(Event),
    /// A command was carried out, and its record is on disk; or it was refused.
    Done {
        /// Its number.
        id: u64,
        /// What came of it.
        result: Result<(), CommandError>,
    },
    /// Say [`Input::Timer`] at this time, in place of any said before.
    Wake(Duration),
}

/// A change of the node's table of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCommand {
    /// Adds a session, or replaces the one of this number.
    AddSession(AddSession),
    /// Removes a session.
    RemoveSession {
        /// Which.
        session: SessionId,
    },
}

/// What the node needs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddSession {
    /// Its number.
    pub session: SessionId,
    /// Its subscriber.
    pub subscriber: Name,
    /// Where it is.
    pub line: Line,
    /// The device.
    pub mac: Mac,
    /// Its address; [`crate::NO_ADDRESS`]: it has IPv6 alone.
    pub address: Ipv4Addr,
    /// The prefix of IPv6 of its link, if it has one.
    pub prefix: Option<LinkPrefix>,
    /// The relay by which it is reached; `None`: it is on the line itself.
    pub relay: Option<Ipv4Addr>,
    /// Its link, if its access is PPPoE.
    pub ppp: Option<PppLink>,
    /// What it is sold.
    pub service: Service,
}

/// What observers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session began.
    SessionStarted {
        /// Its number.
        session: SessionId,
        /// Its subscriber.
        subscriber: Name,
        /// Its address.
        address: Ipv4Addr,
    },
    /// A session ended.
    SessionEnded {
        /// Its number.
        session: SessionId,
        /// Its subscriber.
        subscriber: Name,
        /// Its address.
        address: Ipv4Addr,
        /// Why.
        cause: EndCause,
        /// What it counted.
        counters: Counters,
    },
    /// A client found its address in use.
    AddressDeclined {
        /// The subscriber of that client.
        subscriber: Name,
        /// Which address.
        address: Ipv4Addr,
    },
    /// There is no free address. Said again after there was one.
    PoolExhausted {
        /// Which pools, and how large they are.
        what: String,
    },
    /// A DHCP server answers on the subscriber side; at most once a minute for each port.
    ServerSeen {
        /// Where.
        line: Line,
        /// The server's MAC address.
        mac: Mac,
    },
    /// A RADIUS server does not answer, or answers again.
    RadiusServer {
        /// Its name.
        server: String,
        /// Whether it answers.
        is_alive: bool,
    },
    /// An answer of a RADIUS server was dropped; at most once a minute for each server.
    RadiusDistrusted {
        /// Its name.
        server: String,
        /// Why.
        why: Distrust,
    },
    /// A port has lost its link, or has it again.
    PortLink {
        /// Which.
        port: PortName,
        /// How its link is now.
        link: LinkState,
        /// Its sessions.
        sessions: usize,
    },
    /// A record that was adopted changed nothing.
    RecordSkipped {
        /// Its number.
        revision: u64,
        /// Why.
        why: String,
    },
}
