//! Programs that capture: how each is called, its words when it is ready, and its own count in the end.

use std::path::Path;
use std::process::Command;

use weir_port::capture::Method;

use super::Job;
use crate::peers::contest::command;

/// Bytes kept of a frame that is only counted: the Ethernet header.
const LEAST: u32 = 14;
/// Bytes kept of a whole frame.
const WHOLE: u32 = 65_535;

/// A program that captures until it gets SIGINT.
#[derive(Debug)]
pub(super) struct Program {
    /// Name in plans and records, and in the file system.
    pub(super) name: &'static str,
    arguments: &'static str,
    /// Further arguments for jobs that write frames.
    writing: &'static str,
    /// Its words when frames arrive at it.
    pub(super) ready: &'static str,
    /// So long it may hold the last frames back, ms: the time after which the kernel hands over a block that is not full.
    pub(super) holds_back_ms: u64,
    /// It writes blocks of the kernel's ring to a folder: it knows only [`Job::File`]. After SIGINT it ends only with the next
    /// frame, so that it has to be killed; its last count comes before that.
    pub(super) writes_blocks: bool,
    /// Reads its count from its output; `None` if it is not there.
    pub(super) statement: fn(&str) -> Option<Statement>,
}

const WEIR: Program = Program {
    name: "weir",
    arguments: "capture -i {device} --method {method} --threads 1 --snap {snap} --buffer {mib}MiB",
    writing: "-w {file}",
    ready: "all is open",
    holds_back_ms: 20,
    writes_blocks: false,
    statement: weir,
};

const TCPDUMP: Program = Program {
    name: "tcpdump",
    // -Z root: the file need not be another user's.
    arguments: "-i {device} -n -Z root -s {snap} -B {kib} -w {file}",
    writing: "",
    ready: "listening on",
    // It waits a second, and counts them in the end.
    holds_back_ms: 20,
    writes_blocks: false,
    statement: |said| {
        let captured = before(said, " packets captured")?;
        let dropped = before(said, " packets dropped by kernel")?;
        let received = before(said, " packets received by filter")?;
        Some(Statement { captured, dropped, left: received.saturating_sub(captured + dropped) })
    },
};

const DUMPCAP: Program = Program {
    name: "dumpcap",
    arguments: "-i {device} -q -s {snap} -B {mib} -w {file}",
    writing: "",
    ready: "File: ",
    holds_back_ms: 260,
    writes_blocks: false,
    statement: |said| {
        let captured = after(said, "Packets captured: ")?;
        let line = said.lines().find(|line| line.starts_with("Packets received/dropped"))?;
        let dropped = line.split_once(": ")?.1.split_once('/')?.1;
        Some(Statement { captured, dropped: leading(dropped)?, left: 0 })
    },
};

const NETSNIFF_NG: Program = Program {
    name: "netsniff-ng",
    // It cannot cut frames. No change of sysctls, interrupts and time stamps of the machine.
    arguments: "--in {device} -s -A -Q -N -V -S {mib}MiB",
    writing: "--out {file}",
    ready: "Running!",
    holds_back_ms: 110,
    writes_blocks: false,
    statement: |said| {
        let captured = before(said, " packets passed filter")?;
        let dropped = before(said, " packets failed filter (out of space)")?;
        // Those that it has not read, dropped ones among them.
        let unread = leading(said.split_once("packets incoming (")?.1)?;
        Some(Statement { captured, dropped, left: unread.saturating_sub(dropped) })
    },
};

/// The writing part of stenographer.
pub(super) const STENOTYPE: Program = Program {
    name: "stenotype",
    // Blocks of 1 MiB. One that is not full is written after a second; it counts its frames with each block, and only with -v.
    arguments: "--iface={device} --dir={file} --blocks={mib} --aiops={aiops} --no_index --threads=1 --blockage_sec=1 \
                --stats_blocks=1 --seccomp=none --uid=root --gid=root -v",
    writing: "",
    ready: "starting to process packets",
    holds_back_ms: 2100,
    writes_blocks: true,
    statement: |said| {
        let last = said.lines().rfind(|line| line.contains(" stats: "))?;
        Some(Statement { captured: after(last, " packets=")?, dropped: after(last, " drops=")?, left: 0 })
    },
};

/// Those of other projects.
pub(super) const PEERS: [&Program; 4] = [&TCPDUMP, &DUMPCAP, &NETSNIFF_NG, &STENOTYPE];

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        self.name == other.name
    }
}

impl Program {
    /// Does it have a way to do nothing but this?
    pub(super) fn does(&self, job: Job) -> bool {
        !self.writes_blocks || job == Job::File
    }
}

/// A program with the method by which it captures, if it has several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    pub(super) program: &'static Program,
    method: Option<Method>,
}

/// The job of a program, and where it does it.
pub(super) struct Order<'a> {
    pub(super) job: Job,
    /// The interface.
    pub(super) device: &'a str,
    /// Memory of the kernel's buffer.
    pub(super) buffer_mib: u64,
    /// For [`Job::File`].
    pub(super) file: &'a Path,
}

/// The count of a program in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Statement {
    /// Frames that it took.
    pub(super) captured: u64,
    /// Frames that found no room in its buffer.
    pub(super) dropped: u64,
    /// Frames that were in its buffer when it was asked to end.
    pub(super) left: u64,
}

impl Tool {
    /// `weir capture` by this method.
    pub(super) fn weir(method: Method) -> Tool {
        Tool { program: &WEIR, method: Some(method) }
    }

    /// A program of another project.
    pub(super) fn peer(program: &'static Program) -> Tool {
        Tool { program, method: None }
    }

    /// Its name in records and reports.
    pub(super) fn name(self) -> String {
        let method = self.method.map_or_else(String::new, |method| format!(" {method}"));
        format!("{}{method}", self.program.name)
    }

    /// Its command line.
    pub(super) fn command(self, order: &Order<'_>) -> Command {
        let mib = order.buffer_mib;
        let (snap, file) = match order.job {
            Job::Count => (LEAST, Path::new("/dev/null")),
            Job::Headers => (Job::HEADERS, Path::new("/dev/null")),
            Job::File => (WHOLE, order.file),
        };
        let Program { name, arguments, writing, .. } = self.program;
        let writing = if order.job == Job::Count { "" } else { writing };
        let values = [
            ("{device}", order.device),
            ("{method}", &self.method.map_or_else(String::new, |method| method.to_string())),
            ("{snap}", &snap.to_string()),
            ("{mib}", &mib.to_string()),
            ("{kib}", &(mib << 10).to_string()),
            ("{aiops}", &mib.min(128).to_string()),
            ("{file}", &file.to_string_lossy()),
        ];
        command(name, &format!("{arguments} {writing}"), &values)
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

    fn line(tool: Tool, job: Job) -> String {
        let order = Order { job, device: "t1", buffer_mib: 64, file: Path::new("/shm/x") };
        let command = tool.command(&order);
        let arguments: Vec<_> = command.get_args().map(|one| one.to_string_lossy().into_owned()).collect();
        arguments.join(" ")
    }

    #[test]
    fn all_get_the_same_work_and_memory() {
        let [tcpdump, dumpcap, netsniff, stenotype] = PEERS.map(Tool::peer);
        for (tool, job, expected) in [
            (
                Tool::weir(Method::Xdp),
                Job::Count,
                "capture -i t1 --method xdp --threads 1 --snap 14 --buffer 64MiB",
            ),
            (
                Tool::weir(Method::Ring),
                Job::Headers,
                "capture -i t1 --method ring --threads 1 --snap 96 --buffer 64MiB -w /dev/null",
            ),
            (
                Tool::weir(Method::Ring),
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
        let [tcpdump, dumpcap, netsniff, stenotype] = PEERS.map(Tool::peer);
        let weir = Tool::weir(Method::Ring);
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
                "all is open; going on as user 65534, without privileges\n\
                 v1        offered 1098 to 1100, captured 1005\n                    90 ring full\n\
                 \x20                    3 no free chunk\n                     0 unexplained\n\
                 file      1001 packets, 93.1 kB in a file\n                     4 disk too slow\n",
                (1001, 97, 0),
            ),
        ] {
            let (captured, dropped, left) = numbers;
            let name = tool.name();
            assert_eq!((tool.program.statement)(said), Some(Statement { captured, dropped, left }), "{name}");
            assert_eq!((tool.program.statement)("it was killed"), None, "{name}");
        }
    }
}
