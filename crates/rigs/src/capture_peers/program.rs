//! The command line of each capture program, its sign of readiness, and its final statistics.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_port::capture::Method;

use crate::capture_peers::plan::{CapturePeer, Job};

/// Bytes to capture of a frame if only counts are needed: the Ethernet header.
const LEAST: u32 = 14;
/// Bytes kept of a frame where all are wanted.
const WHOLE: u32 = 65_535;

/// A program that captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaptureTool {
    /// `weir capture` by this method.
    Weir(Method),
    /// Another one.
    Peer(CapturePeer),
}

/// What it is to do, and where.
pub(super) struct Order<'a> {
    pub(super) job: Job,
    /// The interface.
    pub(super) device: &'a str,
    /// Memory of the kernel's buffer.
    pub(super) buffer_mib: u64,
    /// For [`Job::File`].
    pub(super) file: &'a Path,
}

/// What a program says in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Statement {
    /// Frames that it took.
    pub(super) captured: u64,
    /// Frames that found no room in its buffer.
    pub(super) dropped: u64,
    /// Frames that were in its buffer when it was asked to end.
    pub(super) left: u64,
}

impl CaptureTool {
    /// Its name in records and reports.
    pub(super) fn name(self) -> String {
        match self {
            CaptureTool::Weir(method) => format!("weir {method}"),
            CaptureTool::Peer(peer) => peer.name().into(),
        }
    }

    /// Its program.
    pub(super) fn program(self) -> PathBuf {
        match self {
            CaptureTool::Weir(_) => std::env::current_exe().unwrap_or_else(|_| "weir".into()),
            CaptureTool::Peer(peer) => peer.name().into(),
        }
    }

    /// Does it have a way to do nothing but this?
    pub(super) fn does(self, job: Job) -> bool {
        matches!(self, CaptureTool::Weir(_)) || matches!(self, CaptureTool::Peer(peer) if peer.does(job))
    }

    /// Its command line: it captures until it gets SIGINT.
    pub(super) fn command(self, order: &Order<'_>) -> Command {
        let mut command = Command::new(self.program());
        let (mib, null) = (order.buffer_mib, Path::new("/dev/null"));
        let (snap, file) = match order.job {
            Job::Count => (LEAST, null),
            Job::Headers => (Job::HEADERS, null),
            Job::File => (WHOLE, order.file),
        };
        let snap = snap.to_string();
        match self {
            CaptureTool::Weir(method) => {
                command.args([
                    "capture",
                    "-i",
                    order.device,
                    "--method",
                    &method.to_string(),
                    "--threads",
                    "1",
                ]);
                command.args(["--snap", &snap, "--buffer", &format!("{mib}MiB")]);
                if order.job != Job::Count {
                    command.arg("-w").arg(file);
                }
            }
            // -Z root: the file need not be another user's.
            CaptureTool::Peer(CapturePeer::Tcpdump) => {
                let kib = (mib << 10).to_string();
                command
                    .args(["-i", order.device, "-n", "-Z", "root", "-s", &snap, "-B", &kib, "-w"])
                    .arg(file);
            }
            CaptureTool::Peer(CapturePeer::Dumpcap) => {
                command.args(["-i", order.device, "-q", "-s", &snap, "-B", &mib.to_string(), "-w"]).arg(file);
            }
            // It cannot cut frames. No change of sysctls, interrupts and time stamps of the machine.
            CaptureTool::Peer(CapturePeer::NetsniffNg) => {
                command.args([
                    "--in",
                    order.device,
                    "-s",
                    "-A",
                    "-Q",
                    "-N",
                    "-V",
                    "-S",
                    &format!("{mib}MiB"),
                ]);
                if order.job != Job::Count {
                    command.arg("--out").arg(file);
                }
            }
            // Blocks of 1 MiB. One that is not full is written after a second; what it has captured it says with each block,
            // and only with -v.
            CaptureTool::Peer(CapturePeer::Stenotype) => {
                let (iface, dir) = (format!("--iface={}", order.device), format!("--dir={}", file.display()));
                let blocks = [format!("--blocks={mib}"), format!("--aiops={}", mib.min(128))];
                command.args([iface, dir]).args(blocks).args([
                    "--no_index",
                    "--threads=1",
                    "--blockage_sec=1",
                    "--stats_blocks=1",
                    "--seccomp=none",
                    "--uid=root",
                    "--gid=root",
                    "-v",
                ]);
            }
        }
        command
    }

    /// The line that it prints once it captures frames.
    pub(super) fn ready(self) -> &'static str {
        match self {
            CaptureTool::Weir(_) => "all is open",
            CaptureTool::Peer(CapturePeer::Tcpdump) => "listening on",
            CaptureTool::Peer(CapturePeer::Dumpcap) => "File: ",
            CaptureTool::Peer(CapturePeer::NetsniffNg) => "Running!",
            CaptureTool::Peer(CapturePeer::Stenotype) => "starting to process packets",
        }
    }

    /// So long it may hold the last frames back: the time after which the kernel hands over a block that is not full.
    /// tcpdump waits a second, and says in the end how many there were.
    pub(super) fn holds_back(self) -> Duration {
        Duration::from_millis(match self {
            CaptureTool::Weir(_) => 20,
            CaptureTool::Peer(CapturePeer::Tcpdump) => 20,
            CaptureTool::Peer(CapturePeer::Dumpcap) => 260,
            CaptureTool::Peer(CapturePeer::NetsniffNg) => 110,
            CaptureTool::Peer(CapturePeer::Stenotype) => 2100,
        })
    }

    /// Would it end with the next frame only, so that it has to be killed? Whatever it has to say it says before.
    pub(super) fn ends_late(self) -> bool {
        self == CaptureTool::Peer(CapturePeer::Stenotype)
    }

    /// Reads what it said in the end; `None` if it did not.
    pub(super) fn statement(self, said: &str) -> Option<Statement> {
        match self {
            CaptureTool::Weir(_) => weir(said),
            CaptureTool::Peer(CapturePeer::Tcpdump) => {
                let captured = before(said, " packets captured")?;
                let dropped = before(said, " packets dropped by kernel")?;
                let received = before(said, " packets received by filter")?;
                Some(Statement { captured, dropped, left: received.saturating_sub(captured + dropped) })
            }
            CaptureTool::Peer(CapturePeer::Dumpcap) => {
                let captured = after(said, "Packets captured: ")?;
                let line = said.lines().find(|line| line.starts_with("Packets received/dropped"))?;
                let dropped = line.split_once(": ")?.1.split_once('/')?.1;
                Some(Statement { captured, dropped: leading(dropped)?, left: 0 })
            }
            CaptureTool::Peer(CapturePeer::NetsniffNg) => {
                let captured = before(said, " packets passed filter")?;
                let dropped = before(said, " packets failed filter (out of space)")?;
                // Those that it has not read, dropped ones among them.
                let unread = leading(said.split_once("packets incoming (")?.1)?;
                Some(Statement { captured, dropped, left: unread.saturating_sub(dropped) })
            }
            CaptureTool::Peer(CapturePeer::Stenotype) => {
                let last = said.lines().rfind(|line| line.contains(" stats: "))?;
                Some(Statement {
                    captured: after(last, " packets=")?,
                    dropped: after(last, " drops=")?,
                    left: 0,
                })
            }
        }
    }
}

/// The accounting of `weir capture`, of one interface: what it took, and what became of that if it went to a file.
fn weir(said: &str) -> Option<Statement> {
    let mut lines = said.lines().skip_while(|line| !line.contains(" offered "));
    let taken = after(lines.next()?, ", captured ")?;
    // Each further line is a number and where these frames were lost, but for the last of the interface.
    let (rest, file): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with(' '));
    let drops = rest.iter().filter(|line| !line.contains("unexplained")).map(|line| line.trim_start());
    let written = file.iter().find_map(|line| leading(line.strip_prefix("file")?.trim_start()));
    Some(Statement { captured: written.unwrap_or(taken), dropped: drops.filter_map(leading).sum(), left: 0 })
}

/// The number that follows these words.
fn after(text: &str, words: &str) -> Option<u64> {
    leading(text.split_once(words)?.1)
}

/// The number before these words.
fn before(text: &str, words: &str) -> Option<u64> {
    text.split_once(words)?.0.rsplit(|c: char| c.is_whitespace()).find(|word| !word.is_empty())?.parse().ok()
}

/// The number at the beginning.
fn leading(text: &str) -> Option<u64> {
    text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tool: CaptureTool, job: Job) -> String {
        let order = Order { job, device: "t1", buffer_mib: 64, file: Path::new("/shm/x") };
        let command = tool.command(&order);
        let arguments: Vec<_> = command.get_args().map(|one| one.to_string_lossy().into_owned()).collect();
        arguments.join(" ")
    }

    #[test]
    fn all_get_the_same_work_and_memory() {
        let [tcpdump, dumpcap, netsniff, stenotype] =
            CapturePeer::ALL.map(|(peer, _)| CaptureTool::Peer(peer));
        for (tool, job, expected) in [
            (
                CaptureTool::Weir(Method::Xdp),
                Job::Count,
                "capture -i t1 --method xdp --threads 1 --snap 14 --buffer 64MiB",
            ),
            (
                CaptureTool::Weir(Method::Ring),
                Job::Headers,
                "capture -i t1 --method ring --threads 1 --snap 96 --buffer 64MiB -w /dev/null",
            ),
            (
                CaptureTool::Weir(Method::Ring),
                Job::File,
                "capture -i t1 --method ring --threads 1 --snap 65535 --buffer 64MiB -w /shm/x",
            ),
            (tcpdump, Job::Count, "-i t1 -n -Z root -s 14 -B 65536 -w /dev/null"),
            (tcpdump, Job::File, "-i t1 -n -Z root -s 65535 -B 65536 -w /shm/x"),
            (dumpcap, Job::Headers, "-i t1 -q -s 96 -B 64 -w /dev/null"),
            (netsniff, Job::Count, "--in t1 -s -A -Q -N -V -S 64MiB"),
            (netsniff, Job::File, "--in t1 -s -A -Q -N -V -S 64MiB --out /shm/x"),
            (
                stenotype,
                Job::File,
                "--iface=t1 --dir=/shm/x --blocks=64 --aiops=64 --no_index --threads=1 --blockage_sec=1 \
                 --stats_blocks=1 --seccomp=none --uid=root --gid=root -v",
            ),
        ] {
            assert_eq!(line(tool, job), expected);
        }
    }

    #[test]
    fn statements_are_read_as_the_programs_make_them() {
        let [tcpdump, dumpcap, netsniff, stenotype] =
            CapturePeer::ALL.map(|(peer, _)| CaptureTool::Peer(peer));
        let weir = CaptureTool::Weir(Method::Ring);
        for (tool, said, numbers) in [
            (
                tcpdump,
                "tcpdump: listening on v1, link-type EN10MB (Ethernet), snapshot length 96 bytes\n\
                 1891556 packets captured\n2393056 packets received by filter\n500852 packets dropped by kernel\n",
                (1_891_556, 500_852, 648),
            ),
            (
                dumpcap,
                "Capturing on 'v1'\nFile: x\n\rPackets captured: 1010\nPackets received/dropped on interface 'v1': \
                 1010/7 (pcap:7/dumpcap:0/flushed:0/ps_ifdrop:0) (99.3%)\n",
                (1010, 7, 0),
            ),
            (
                netsniff,
                "Running! Hang up with ^C!\n\n\r        1015  packets incoming (5 unread on exit)\n\
                 \r        1010  packets passed filter\n\r           2  packets failed filter (out of space)\n",
                (1010, 2, 3),
            ),
            (
                stenotype,
                "2026-11-22T09:50:48Z T:1f [stenotype.cc:537] Thread 0 stats: MB=8 secs=2.2 MBps=3.5 packets=448 \
                 blocks=8 polls=8 drops=0 drop%=0\n\
                 2026-11-22T09:50:50Z T:1f [stenotype.cc:537] Thread 0 stats: MB=10 secs=3.9 MBps=2.5 packets=500 \
                 blocks=10 polls=11 drops=7 drop%=1.4\n2026-11-22T09:50:51Z T:e7 [stenotype.cc:437] Got signal 2\n",
                (500, 7, 0),
            ),
            (
                weir,
                "all is open; running as user 65534 without privileges\n\
                 v1        offered 1098 to 1100, captured 1005\n                    90 ring full\n\
                 \x20                    3 no free chunk\n                     0 unexplained\n\
                 file      1001 packets, 93.1 kB in a file\n                     4 disk too slow\n",
                (1001, 97, 0),
            ),
        ] {
            let (captured, dropped, left) = numbers;
            let name = tool.name();
            assert_eq!(tool.statement(said), Some(Statement { captured, dropped, left }), "{name}");
            assert_eq!(tool.statement("it was killed"), None, "{name}");
        }
    }
}
