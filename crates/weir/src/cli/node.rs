//! `weir node`: run a node, query and change a running one.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use super::Log;

/// `weir node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Report all mistakes in a node file, each with its line and remedy
    #[command(after_help = "Example:\n  weir node check home.node")]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Run a node until Ctrl-C; then send the held frames, and account for all frames
    Run(NodeRun),
    /// Show counters, sessions, routes or logs of a running node
    Show(NodeShow),
    /// Apply a changed file to a running node, without loss of frames or sessions
    ///
    /// The change happens between two batches. Rules, pools, routes, filters and NATs may change; an unchanged stage keeps its
    /// state. Ports and run(...) change only with a restart of the node.
    Apply(NodeApply),
    /// Print the subscriber of a public port, or the ports of a subscriber (deterministic NAT, RFC 7422)
    #[command(
        after_help = "Examples:\n  weir node owner carrier.node 192.0.2.1:2001\n  weir node owner carrier.node 100.64.0.7"
    )]
    Owner {
        /// The file of the node
        file: PathBuf,
        /// Public address with port, or inside address of a subscriber
        asked: String,
    },
    /// Print a systemd unit that runs a node
    #[command(
        after_help = "Example:\n  weir node unit /etc/weir/home.node > /etc/systemd/system/weir-node.service"
    )]
    Unit {
        /// The file of the node
        file: PathBuf,
    },
}

/// `weir node run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir node run home.node
  weir node run home.node --prometheus 127.0.0.1:9105 --json
  weir node run carrier.node --cpus 2-5
  weir node run carrier.node --events nat.jsonl --blocks nat.blocks

A file describes the node; run(...) overrides the defaults of how it is run:
  node lan(192.168.0.1/24, on eth0) > route(default via 198.18.0.1) > wan(198.18.0.2/24, on eth1)
  run(io packet, cpu 2-3, wait poll, host tap0)

A port uses an interface: eth0 or xdp:eth0 (AF_XDP, the default) or packet:eth0 (AF_PACKET); or tap:tap0; or pcapng:IN:OUT. \
Offloads may stay on: the node completes checksums and segments that a sender leaves to its network card. Exception: tunnels \
(VXLAN, GRE) from this host. There AF_XDP cannot complete checksums and segments, and AF_PACKET cannot complete segments: run \
`ethtool -K IF tx off tso off gso off` on the sending interface.
Each thread runs on one CPU, with its own queue of each port and its own sessions; a frame that arrives at the wrong thread is \
handed over. Packets for the node itself go to the network stack of the machine. Root changes to nobody after the ports are open.")]
pub(crate) struct NodeRun {
    /// The file of the node
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) socket: NodeSocket,
    /// Mode of the control socket, in octal digits; who may write to it may query and change the node [default: 0600, or 0660 with
    /// --socket-group]
    #[arg(long, value_name = "MODE", value_parser = weir_control::socket::mode)]
    pub(crate) socket_mode: Option<u32>,
    /// Group of the control socket: its members may query and change the node
    #[arg(long, value_name = "NAME")]
    pub(crate) socket_group: Option<String>,
    /// Run one thread on each of these CPUs (overrides the file): 2, 2-5, 2-5,7
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// Serve /metrics over HTTP at this address, in Prometheus text format
    #[arg(long, value_name = "ADDR:PORT", value_parser = super::host::end)]
    pub(crate) prometheus: Option<SocketAddr>,
    /// Append the NAT log to this file, one JSON object per line (names of RFC 8158): which subscriber had which ports and when.
    /// SIGHUP reopens the file, for log rotation
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Keep the assignment of port blocks in this file, and restore it at the start: after a crash hosts get their blocks
    /// back, and no other host gets a block before its hold time has passed (RFC 6888 REQ-8). FILE.spare is used while FILE
    /// is rewritten
    #[arg(long, value_name = "FILE")]
    pub(crate) blocks: Option<PathBuf>,
    /// While the file of --blocks cannot be written: `refuse`: no new port blocks are assigned; `give`: new blocks are assigned
    /// but not recorded
    #[arg(long, value_name = "WHAT", default_value = "refuse", requires = "blocks")]
    pub(crate) blocks_failure: BlocksFailure,
    /// Keep all privileges. By default root changes to the user who called sudo, or nobody, after the ports are open
    #[arg(long)]
    pub(crate) keep_privileges: bool,
    #[command(flatten)]
    pub(crate) log: Log,
    /// At the end, write the accounting of all frames as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// New port blocks while the file of --blocks cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlocksFailure {
    /// No new port blocks are assigned.
    Refuse,
    /// New blocks are assigned but not recorded.
    Give,
}

/// `weir node show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir node show
  weir node show drops --json
  weir node show subscribers 100.64.0.7
  weir node show subscribers --top delay")]
pub(crate) struct NodeShow {
    /// Table to show
    #[arg(default_value = "counters")]
    pub(crate) what: Shown,
    /// Subscribers with this address, session number, Ethernet address, line (PORT or PORT:TAGS), plan or group
    #[arg(value_name = "WHICH")]
    pub(crate) which: Option<String>,
    /// Show the subscribers with the highest rate within a second, or most drops, or longest delay (p99), in this order
    #[arg(long, value_name = "FIGURE")]
    pub(crate) top: Option<Top>,
    #[command(flatten)]
    pub(crate) socket: NodeSocket,
    /// List at most so many records of a table [default: 10000 sessions, 10 with --top, all of the others]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<usize>,
    /// Write one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the order of subscribers follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Top {
    /// Bits/s from and to it, within a second.
    Rate,
    /// Frames from and to it that were dropped.
    Drops,
    /// Delay of its frames (p99), the larger one of both directions.
    Delay,
}

/// A table of a running node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// Frame accounting: total and per port
    Counters,
    /// Dropped frames, by reason
    Drops,
    /// Ports, and where they stand
    Ports,
    /// Sessions of NATs and filters
    Sessions,
    /// Hosts on the links of the ports, and their Ethernet addresses
    Neighbours,
    /// Sessions of subscribers, and what they have sent and received
    Subscribers,
    /// Frames and bytes of subscribers, by plan and group, family and class
    Plans,
    /// Access ports and groups of subscribers: rates, backlog, delay, and frames marked and dropped
    Groups,
    /// Port forwards
    Forwards,
    /// One-to-one addresses
    OneToOne,
    /// Configured routes
    Routes,
    /// Filter rules, and how many frames each matched
    Rules,
    /// Queues: rate, backlog, and frames sent, marked and dropped
    Queues,
    /// Policers: rate, known subscribers, and frames passed and dropped per profile
    Police,
    /// Frames that rules logged since the last `show log`
    Log,
    /// Fast path (`run(fast on)`): flows, frames, and why frames went to the node instead
    Fast,
}

/// `weir node apply`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir node apply home.node")]
pub(crate) struct NodeApply {
    /// The file
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) socket: NodeSocket,
}

/// The control socket of a node.
#[derive(Debug, Args)]
pub(crate) struct NodeSocket {
    /// Control socket of the node [default: weir/node.sock in the XDG runtime folder, or in /run; the socket of a running
    /// systemd unit is found automatically]
    #[arg(long, value_name = "FILE", env = "WEIR_NODE_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
}

/// Folder of the sockets of system services.
const SYSTEM: &str = "/run";
const SOCKET: &str = "weir/node.sock";

impl NodeSocket {
    /// Its path.
    pub(crate) fn path(&self) -> PathBuf {
        let folder = || std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| SYSTEM.into(), PathBuf::from);
        self.socket.clone().unwrap_or_else(|| folder().join(SOCKET))
    }

    /// The path of a socket that accepts connections: also that of a system service, whatever XDG folder the login of root has.
    ///
    /// # Errors
    /// Several system services run, and --socket is not given.
    pub(crate) fn found(&self) -> Result<PathBuf> {
        let own = self.path();
        if self.socket.is_some() || answers(&own) {
            return Ok(own);
        }
        match &answering(Path::new(SYSTEM))[..] {
            [] => Ok(own),
            [one] => Ok(one.clone()),
            several => {
                let list: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
                bail!("several nodes run here: choose one with --socket {}", list.join(" or "))
            }
        }
    }
}

/// Whether a node accepts connections: a killed one leaves its socket behind.
fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Sockets of running nodes below a folder: of one started by hand, and of systemd units, in a folder each.
fn answering(folder: &Path) -> Vec<PathBuf> {
    let by_hand = folder.join(SOCKET);
    let name = by_hand.file_name().expect("it has one").to_os_string();
    let units = std::fs::read_dir(by_hand.parent().expect("it is in a folder"));
    let units = units.into_iter().flatten().flatten().map(|unit| unit.path().join(&name));
    let mut all: Vec<PathBuf> = units.chain([by_hand]).filter(|path| answers(path)).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn nodes_of_units_are_found_beside_one_started_by_hand() {
        let folder = weir_testkit::Folder::new();
        let [hand, home, other] =
            ["weir/node.sock", "weir/home/node.sock", "weir/other/node.sock"].map(|path| folder.join(path));
        assert!(answering(&folder).is_empty());
        let mut open = Vec::new();
        for (made, expected) in
            [(&home, vec![&home]), (&hand, vec![&home, &hand]), (&other, vec![&home, &hand, &other])]
        {
            std::fs::create_dir_all(made.parent().expect("it is in a folder")).expect("room");
            open.push(UnixListener::bind(made).expect("room"));
            assert_eq!(answering(&folder).iter().collect::<Vec<_>>(), expected);
        }
        drop(open);
        assert!(home.exists() && answering(&folder).is_empty(), "they have been killed");
    }
}
