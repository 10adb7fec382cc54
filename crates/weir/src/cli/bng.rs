//! `weir bng`: control the subscribers of a node.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use weir_bng::{Line, LinkPrefix, Mac, Name, Route, Status};

use super::Log;

/// `weir bng`.
#[derive(Debug, Subcommand)]
pub(crate) enum BngCommand {
    /// Report all mistakes of `bng(...)` in a node file, each with its line and remedy
    #[command(after_help = "Example:\n  weir bng check isp.node")]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Control the subscribers of a node until Ctrl-C; sessions stay in the node
    Run(BngRun),
    /// Show whether subscribers can go online, and how many are
    #[command(after_help = "Example:\n  weir bng status")]
    Status {
        #[command(flatten)]
        socket: BngSocket,
        /// Write one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Add, list, change, block and remove subscribers
    #[command(subcommand)]
    Subscriber(SubscriberCommand),
    /// List and end sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Show RADIUS servers, what waits for accounting, and requests of CoA
    #[command(after_help = "Example:\n  weir bng radius")]
    Radius {
        #[command(flatten)]
        socket: BngSocket,
        /// Write one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say why a device has no session, and write its last frames to a file
    Why(Why),
    /// Follow a device: one line for each frame that it sends or gets, until Ctrl-C
    Trace(Trace),
}

/// `weir bng run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir bng run isp.node
  weir bng run isp.node --store /var/lib/weir/bng --socket-group weir

It waits for the node, and connects again after a restart of the node. SIGHUP reads the file again. This command starts the program \
weir-bngd, which is in the folder of this program.")]
pub(crate) struct BngRun {
    /// The file of the node
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) socket: BngSocket,
    /// Mode of the socket, in octal digits; who may write to it may change subscribers [default: 0600, or 0660 with
    /// --socket-group]
    #[arg(long, value_name = "MODE")]
    pub(crate) socket_mode: Option<String>,
    /// Group of the socket: its members may change subscribers
    #[arg(long, value_name = "NAME")]
    pub(crate) socket_group: Option<String>,
    /// Control socket of the node [default: weir/node.sock in the XDG runtime folder, or in /run]
    #[arg(long, value_name = "FILE", env = "WEIR_NODE_SOCKET")]
    pub(crate) node_socket: Option<PathBuf>,
    /// Folder of subscribers and sessions (overrides the file) [default: weir/bng in the XDG state folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) store: Option<PathBuf>,
    /// Serve /metrics over HTTP at this address, in Prometheus text format
    #[arg(long, value_name = "ADDR:PORT", value_parser = super::host::end)]
    pub(crate) prometheus: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// `weir bng subscriber`.
#[derive(Debug, Subcommand)]
pub(crate) enum SubscriberCommand {
    /// Add a subscriber, or many from a file
    Add(NewSubscriber),
    /// List the subscribers in the order of their names
    #[command(after_help = "Example:\n  weir bng subscriber list")]
    List {
        #[command(flatten)]
        listing: Listing,
    },
    /// Show a subscriber and its session
    #[command(after_help = "Example:\n  weir bng subscriber show anna")]
    Show {
        /// Its name
        name: Name,
        #[command(flatten)]
        socket: BngSocket,
        /// Write one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a subscriber: what is not said stays
    Change(SubscriberChange),
    /// Remove a subscriber; its session ends
    #[command(after_help = "Example:\n  weir bng subscriber remove anna")]
    Remove {
        /// Its name
        name: Name,
        #[command(flatten)]
        socket: BngSocket,
    },
    /// Block a subscriber; its session ends
    #[command(after_help = "Example:\n  weir bng subscriber block anna")]
    Block {
        /// Its name
        name: Name,
        #[command(flatten)]
        socket: BngSocket,
    },
    /// Set the state or the NAT profile of a subscriber; its session goes on, that of a walled one reaches the walled garden alone
    #[command(
        after_help = "Examples:\n  weir bng subscriber set anna --state walled\n  weir bng subscriber set anna --nat one-to-one 192.0.2.9"
    )]
    Set {
        /// Its name
        name: Name,
        /// active, walled or blocked
        #[arg(long, value_name = "STATE", required_unless_present = "nat")]
        state: Option<Status>,
        /// What the NAT of the node does: configured, block, deterministic, none, or `one-to-one ADDRESS`
        #[arg(long, value_name = "PROFILE", num_args = 1..=2)]
        nat: Vec<String>,
        #[command(flatten)]
        socket: BngSocket,
    },
    /// Let a blocked subscriber in again
    #[command(after_help = "Example:\n  weir bng subscriber unblock anna")]
    Unblock {
        /// Its name
        name: Name,
        #[command(flatten)]
        socket: BngSocket,
    },
}

/// `weir bng subscriber add`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir bng subscriber add anna --mac 02:00:00:00:00:01 --plan down 20Mbit up 5Mbit
  weir bng subscriber add ben --line access2:100.7 --plan basic --address 100.64.0.9
  weir bng subscriber add dora --login dora@isp --password-file dora.password --plan basic
  weir bng subscriber add --from subscribers.txt

A file has one subscriber per line; `#` begins a comment:
  anna mac 02:00:00:00:00:01 plan down 20Mbit up 5Mbit
  ben line access2:100.7 plan basic address 100.64.0.9
  carl circuit eth0/1:100 plan basic blocked
  dora login dora@isp plan basic prefix 2001:db8:100:9::/64 route 203.0.113.0/28 password secret")]
pub(crate) struct NewSubscriber {
    /// Its name: up to 64 letters, digits, _, -, ., :, @, / and +
    #[arg(required_unless_present = "from")]
    pub(crate) name: Option<Name>,
    #[command(flatten)]
    pub(crate) said: Said,
    /// Add the subscribers of this file
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["name", "mac", "line", "circuit", "login", "plan", "address", "prefix", "route", "pool", "prefix_pool", "group", "password_file"]
    )]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: BngSocket,
}

/// `weir bng subscriber change`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir bng subscriber change anna --plan down 50Mbit up 10Mbit")]
pub(crate) struct SubscriberChange {
    /// Its name
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) said: Said,
    /// An address of a pool in place of one of its own
    #[arg(long, conflicts_with = "address")]
    pub(crate) no_address: bool,
    /// A prefix of a pool in place of one of its own
    #[arg(long, conflicts_with = "prefix")]
    pub(crate) no_prefix: bool,
    /// No network behind it any more
    #[arg(long, conflicts_with = "route")]
    pub(crate) no_route: bool,
    /// Addresses and prefixes of any pool
    #[arg(long, conflicts_with_all = ["pool", "prefix_pool"])]
    pub(crate) no_pool: bool,
    #[command(flatten)]
    pub(crate) socket: BngSocket,
}

/// What is said of a subscriber.
#[derive(Debug, Args)]
pub(crate) struct Said {
    /// Identify it by the MAC address of its device
    #[arg(long, value_name = "MAC", conflicts_with_all = ["line", "circuit", "login"])]
    pub(crate) mac: Option<Mac>,
    /// Identify it by its line: access1, access1:7, access1:100.7
    #[arg(long, value_name = "LINE", conflicts_with_all = ["circuit", "login"])]
    pub(crate) line: Option<Line>,
    /// Identify it by the circuit-id that its access node adds (option 82): a text, or 0x0104
    #[arg(long, value_name = "ID", conflicts_with = "login")]
    pub(crate) circuit: Option<String>,
    /// Identify it by the name that its device gives by PPP
    #[arg(long, value_name = "LOGIN")]
    pub(crate) login: Option<Name>,
    /// File of the password of its login; - reads standard input. A password is no argument, since other users see those of
    /// programs
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Its plan, behind the name of the subscriber: a plan of the file, or `down RATE up RATE`
    #[arg(long, value_name = "PLAN", num_args = 1..=4)]
    pub(crate) plan: Vec<String>,
    /// The address that it always gets
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<Ipv4Addr>,
    /// The prefix of IPv6 that it always gets, a /64
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<LinkPrefix>,
    /// A network behind it that is routed to it, which a gateway of the node has; several times
    #[arg(long, value_name = "NETWORK")]
    pub(crate) route: Vec<Route>,
    /// The pool that its addresses are of
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: Option<Name>,
    /// The pool that its prefixes of IPv6 are of
    #[arg(long, value_name = "POOL")]
    pub(crate) prefix_pool: Option<Name>,
    /// Its group, which rules of filters and metrics name
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<Name>,
}

/// `weir bng session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions: subscriber, access type, line, MAC and IP address, time online, bytes
    #[command(after_help = "Example:\n  weir bng session list")]
    List {
        #[command(flatten)]
        listing: Listing,
    },
    /// Show a session
    #[command(after_help = "Example:\n  weir bng session show anna")]
    Show {
        /// Its subscriber, or its number
        session: String,
        #[command(flatten)]
        socket: BngSocket,
        /// Write one JSON object
        #[arg(long)]
        json: bool,
    },
    /// End a session; its device may begin another one
    #[command(
        after_help = "Examples:\n  weir bng session disconnect anna\n  weir bng session disconnect --all"
    )]
    Disconnect {
        /// Its subscriber, or its number
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        session: Option<String>,
        /// End all sessions, with the cause Admin-Reboot
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        socket: BngSocket,
    },
}

/// How a list is written.
#[derive(Debug, Args)]
pub(crate) struct Listing {
    #[command(flatten)]
    pub(crate) socket: BngSocket,
    /// List at most so many [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<usize>,
    /// Write one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir bng why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir bng why anna@isp
  weir bng why 02:00:00:00:00:02
  weir bng why access2:100.7 --pcap line.pcapng

Passwords and responses of CHAP are overwritten in the frames.")]
pub(crate) struct Why {
    /// The login or the MAC address of the device, or its line: access1, access1:7, access1:100.7
    pub(crate) device: String,
    /// File of its last frames, pcapng [default: why.pcapng, none with --json]
    #[arg(long, value_name = "FILE", alias = "write")]
    pub(crate) pcap: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: BngSocket,
    /// Write one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir bng trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir bng trace anna@isp
  weir bng trace 02:00:00:00:00:02 --pcap anna.pcapng
  weir bng trace access2:100.7 --count 20 --json

The frames are those of discovery, PPP, DHCP and router discovery: packets of a session that is up stay in the node. Passwords and \
responses of CHAP are overwritten. A login is known from the frame on in which the device gives it; the frames before follow then.")]
pub(crate) struct Trace {
    /// The login or the MAC address of the device, or its line: access1, access1:7, access1:100.7
    pub(crate) device: String,
    /// End after so many frames
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
    /// Write the frames to this file, too, pcapng
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) socket: BngSocket,
    /// Write one JSON object for each frame
    #[arg(long)]
    pub(crate) json: bool,
}

/// The socket of the REST API.
#[derive(Debug, Args)]
pub(crate) struct BngSocket {
    /// Socket of the REST API [default: weir/bng.sock in the XDG runtime folder, or in /run]
    #[arg(long, value_name = "FILE", env = "WEIR_BNG_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
}

impl BngSocket {
    /// The path of the socket of a program that runs: also that of a system service, whatever XDG folder the login of root has.
    pub(crate) fn found(&self) -> PathBuf {
        const SOCKET: &str = "weir/bng.sock";
        let system = || Path::new("/run").join(SOCKET);
        if let Some(path) = &self.socket {
            return path.clone();
        }
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join(SOCKET));
        own.filter(|path| UnixStream::connect(path).is_ok()).unwrap_or_else(system)
    }
}
