//! The node: what runs it, and what asks and changes one that runs.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};

/// `weir node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Report all mistakes in the file of a node, each with its line and remedy
    #[command(after_help = "Example:\n  weir node check home.node")]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Run a node until Ctrl-C; then frames in the node leave, and where all frames went is printed
    Run(NodeRun),
    /// Ask a node that runs
    Show(NodeShow),
    /// Change a node that runs to what a file says: between two batches, no session or frame is lost
    ///
    /// Rules, pools, routes, filters and NATs may differ; a stage that stays keeps what it knows. Ports, and how the node is run,
    /// change only when it begins anew.
    Apply(NodeApply),
    /// Print the subscriber of a deterministic port (RFC 7422), or the ports of a subscriber
    #[command(
        after_help = "Examples:\n  weir node owner carrier.node 192.0.2.1:2001\n  weir node owner carrier.node 100.64.0.7"
    )]
    Owner {
        /// The file of the node
        file: PathBuf,
        /// A public address with a port, or the address of a host
        asked: String,
    },
    /// Print a unit of systemd that runs a node
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

A file is the node's text and, where the defaults are not right, how it is run:
  node lan(192.168.0.1/24, on eth0) > route(default via 198.18.0.1) > wan(198.18.0.2/24, on eth1)
  run(io packet, cpu 2-3, wait poll, host tap0)

A port is on an interface: eth0, or by name xdp:eth0 (the default, AF_XDP), packet:eth0 (AF_PACKET); or on tap:tap0 or
pcapng:IN:OUT. No offload need be switched off: checksums and segments that a sender leaves to its network card are done by the node.
In tunnels (VXLAN, GRE) AF_XDP sees neither, AF_PACKET no segments: there `ethtool -K IF tx off tso off gso off` at the
sender, if that is on this host.
A thread on each CPU has its own queue of each port and its own sessions; a frame that arrives at another is handed over.
Packets for the node itself go to the stack of the machine. Root becomes nobody once all is open.")]
pub(crate) struct NodeRun {
    /// The file of the node
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) socket: NodeSocket,
    /// A thread on each of these CPUs, in place of what the file says: 2, 2-5, 2-5,7
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// Answer HTTP requests for /metrics here, in Prometheus' text format
    #[arg(long, value_name = "ADDR:PORT", value_parser = super::host::end)]
    pub(crate) prometheus: Option<SocketAddr>,
    /// Append the log of the NATs to this file, one JSON object per line (names of RFC 8158): who had which ports when; SIGHUP
    /// opens the file again after it was renamed
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Keep the assignment of port blocks in this file, and restore it at the start: after a crash hosts have their blocks
    /// again, and no block is given to another host before its hold time has passed (RFC 6888 REQ-8). FILE.spare is used
    /// while FILE is rewritten
    #[arg(long, value_name = "FILE")]
    pub(crate) blocks: Option<PathBuf>,
    /// While the file of --blocks cannot be written: `refuse`: hosts keep the blocks that they have, and get no further one;
    /// `give`: they get blocks of which the file does not know
    #[arg(long, value_name = "WHAT", default_value = "refuse", requires = "blocks")]
    pub(crate) blocks_failure: BlocksFailure,
    /// Keep all privileges. Without this root becomes who called sudo, or nobody, once the ports are open
    #[arg(long)]
    pub(crate) keep_privileges: bool,
    /// Write where all frames went as one JSON object, at the end
    #[arg(long)]
    pub(crate) json: bool,
}

/// What becomes of hosts without a block of ports while blocks cannot be noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlocksFailure {
    /// They get none.
    Refuse,
    /// They get one.
    Give,
}

/// `weir node show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir node show
  weir node show drops --json")]
pub(crate) struct NodeShow {
    /// What to show
    #[arg(default_value = "counters")]
    pub(crate) what: Shown,
    #[command(flatten)]
    pub(crate) socket: NodeSocket,
    /// As one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a node can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// Where all frames are, and those of each port
    Counters,
    /// Dropped frames, by reason
    Drops,
    /// Sessions of NAT and filter
    Sessions,
    /// Routes as the file says them
    Routes,
    /// Rules of the filters, and how many frames each matched
    Rules,
    /// Queues: rate, what waits, what was sent, marked and dropped
    Queues,
    /// Policers: by profile its rate, the subscribers that are known, what passed and what was dropped
    Police,
    /// Frames that rules have logged since this was last shown
    Log,
    /// Flows that XDP programs pass on, their frames, and why others came to the node: see `run(fast on)`
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

/// Where a node answers.
#[derive(Debug, Args)]
pub(crate) struct NodeSocket {
    /// Socket of the node [default: weir/node.sock in the XDG runtime folder, or in /run; that of a unit that runs is
    /// found by itself]
    #[arg(long, value_name = "FILE", env = "WEIR_NODE_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
}

/// Where the sockets of the system's services are.
const SYSTEM: &str = "/run";
const SOCKET: &str = "weir/node.sock";

impl NodeSocket {
    /// Its path.
    pub(crate) fn path(&self) -> PathBuf {
        let folder = || std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| SYSTEM.into(), PathBuf::from);
        self.socket.clone().unwrap_or_else(|| folder().join(SOCKET))
    }

    /// The path where a node answers: root may ask the one that the system runs, whatever folder its login has.
    ///
    /// # Errors
    /// The system runs several, and none was named.
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
                bail!("several nodes run here: say which one, --socket {}", list.join(" or "))
            }
        }
    }
}

/// Whether somebody is there: a node that was killed leaves its socket behind.
fn answers(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Sockets of nodes below a folder: that of one started by hand, and those of units, which have a folder each.
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
