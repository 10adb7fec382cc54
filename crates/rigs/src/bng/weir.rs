//! The concentrator of weir: `weir node run` and `weir bng run`, with a subscriber for each device of the plan.
//!
//! ```text
//!  [devices] a ---- b [access > route] d ---- c [far]        bngd between the node's socket and the store
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_cpe::Mac;
use weir_cpe::radius::Accounted;
use weir_lab::error::RunError;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{LOOK, Process};
use weir_linux::Error;
use weir_linux::namespace::Namespace;
use weir_testbed::journal::Journal;
use weir_testbed::memory::resident_bytes;

use super::aaa::{self, PASSWORD, SLOW_LOGIN, Server};
use super::churned::NodeCounts;
use super::device::{Program, RestartTimes};
use super::many::{MANY_LOGIN, MANY_MAC, MOST as MANY, PLAN};
use super::plan::{Aaa, Access, Concentrators, Entry, Kind};
use super::street::{ACCESS, FAR, HOSTS};

/// The program that controls subscribers, beside that of weir.
const CONTROL: &str = "weir-bngd";
/// The device of the subscriber with a plan of 20 Mbit/s.
pub(super) const SLOW_MAC: Mac = Mac([2, 0, 0x77, 0, 0, 1]);
/// Names of devices that dial in.
pub(super) const LOGIN: &str = "user{n}@isp";
/// The far end, a neighbour of the node.
pub(super) const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x200, 0, 0, 0, 0, 2);
/// Files in the folder of a concentrator.
const TEXT: &str = "isp.node";
const SUBSCRIBERS: &str = "subscribers";
const SOCKET: &str = "bng.sock";
const NODE_SOCKET: &str = "node.sock";
/// Time limit to become ready: as many subscribers are read as a plan has devices.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit for what has arrived to be worked off.
const WORKED_OFF: Duration = Duration::from_secs(15);
/// PADI and PADR per second that the node gives to the control program where devices flood it: enough for 6,000 set-ups/s.
const DISCOVERY_PER_S: u32 = 12_000;

/// It runs.
pub(super) struct Weir {
    folder: Folder,
    node: Option<Process>,
    control: Option<Process>,
    server: Option<Server>,
    cpus: Vec<usize>,
}

/// Why it cannot run here.
pub(super) fn obstacle() -> Option<String> {
    if let Some(why) = weir_lab::run::programs::not_weir() {
        return Some(format!("weir is left out: {why}"));
    }
    let own = program().with_file_name(CONTROL);
    (!own.exists()).then(|| {
        format!(
            "weir is left out: there is no {}: build it with `cargo build --release -p {CONTROL}`",
            own.display()
        )
    })
}

/// Counts of an object.
fn by_reason(object: &Value) -> BTreeMap<String, u64> {
    let all = object.as_object().into_iter().flatten();
    all.filter_map(|(reason, frames)| Some((reason.clone(), frames.as_u64()?))).collect()
}

/// Of this program.
pub(super) fn program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "weir".into())
}

fn failed(what: &str, why: impl std::fmt::Display) -> RunError {
    RunError::Linux(Error::Input(format!("{what}: {why}")))
}

impl Weir {
    /// Starts node and control program in the BNG's namespace on these CPUs, and adds the subscribers.
    pub(super) fn start(
        plan: &Concentrators,
        entry: Entry,
        namespace: &Namespace,
        cpus: Vec<usize>,
        journal: &mut Journal,
    ) -> Result<Weir, RunError> {
        let folder = Folder::new(&std::env::temp_dir()).map_err(|error| failed("make a folder", error))?;
        let server = Server::start(entry.aaa, plan, folder.path(), namespace, journal)?;
        let mut weir = Weir { folder, node: None, control: None, server, cpus };
        weir.write(TEXT, &text(plan, entry))?;
        weir.write(SUBSCRIBERS, &subscribers(plan, entry))?;
        weir.start_node(namespace, journal)?;
        weir.start_control(namespace, journal)?;
        if entry.aaa == Aaa::Local {
            weir.ask(&["bng", "subscriber", "add", "--from", SUBSCRIBERS], SOCKET)?;
        }
        Ok(weir)
    }

    /// Starts the control program, and waits until it is ready.
    fn start_control(&mut self, namespace: &Namespace, journal: &mut Journal) -> Result<(), RunError> {
        let sockets = ["--socket", SOCKET, "--node-socket", NODE_SOCKET];
        let words = [&["bng", "run", TEXT][..], &sockets, &["--store", "store"]].concat();
        self.control = Some(self.process("bngd", &words, namespace, journal)?);
        self.await_ready(Instant::now() + PATIENCE, |weir| weir.ask(&["bng", "status"], SOCKET).map(|_| true))
    }

    /// Looks again and again until it is so.
    fn await_ready(
        &self,
        deadline: Instant,
        is_ready: impl Fn(&Weir) -> Result<bool, RunError>,
    ) -> Result<(), RunError> {
        loop {
            let found = is_ready(self);
            if matches!(found, Ok(true)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let last = |process: &Option<Process>| process.as_ref().map(Process::last_words);
                let words = [last(&self.node), last(&self.control)].map(Option::unwrap_or_default);
                let why = found.err().map_or_else(String::new, |error| error.to_string());
                return Err(failed("weir was not ready in time", format!("{why}; {}", words.join("; "))));
            }
            thread::sleep(LOOK);
        }
    }

    /// Starts the node.
    fn start_node(&mut self, namespace: &Namespace, journal: &mut Journal) -> Result<(), RunError> {
        let words = ["node", "run", TEXT, "--socket", NODE_SOCKET];
        self.node = Some(self.process("node", &words, namespace, journal)?);
        Ok(())
    }

    /// Kills a program, and starts it again.
    pub(super) fn restart(
        &mut self,
        what: Program,
        namespace: &Namespace,
        journal: &mut Journal,
    ) -> Result<RestartTimes, RunError> {
        let before = self.sessions()?;
        let begin = Instant::now();
        let program = match what {
            Program::Control => self.control.take(),
            Program::Node => self.node.take(),
        };
        if let Some(program) = program {
            // What it says when it is killed does not matter.
            let _ = program.end(Some(libc::SIGKILL), journal)?;
        }
        match what {
            Program::Control => self.start_control(namespace, journal)?,
            Program::Node => {
                self.start_node(namespace, journal)?;
                self.await_ready(Instant::now() + PATIENCE, |weir| {
                    weir.ask(&["node", "show"], NODE_SOCKET).map(|_| true)
                })?;
                // The program attaches to it and adds all sessions.
                self.await_ready(Instant::now() + PATIENCE, |weir| Ok(weir.node_sessions()? >= before))?;
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(RestartTimes { seconds, sessions: [before, self.sessions()?] })
    }

    /// CPU time of both programs so far.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        let of = |process: &Option<Process>| Some(Duration::from_nanos(process.as_ref()?.time().run_ns));
        Some(of(&self.node)? + of(&self.control)?)
    }

    /// Sessions of the control program.
    fn sessions(&self) -> Result<u64, RunError> {
        let status = self.ask(&["bng", "status", "--json"], SOCKET)?;
        Ok(status["sessions"].as_u64().unwrap_or(0))
    }

    /// The same some time after all devices have released theirs: what has arrived is worked off.
    pub(super) fn sessions_after_release(&self) -> Result<u64, RunError> {
        let deadline = Instant::now() + WORKED_OFF;
        loop {
            let sessions = self.sessions()?;
            if sessions == 0 || Instant::now() > deadline {
                return Ok(sessions);
            }
            thread::sleep(LOOK);
        }
    }

    /// What the RADIUS server was told by accounting so far.
    pub(super) fn accounted(&self) -> Option<Accounted> {
        self.server.as_ref()?.accounted()
    }

    /// The same when each session that began has a Stop, or some time later.
    pub(super) fn accounted_after_release(&self) -> Option<Accounted> {
        let deadline = Instant::now() + WORKED_OFF;
        loop {
            let accounted = self.accounted()?;
            if accounted.starts == accounted.stops || Instant::now() > deadline {
                return Some(accounted);
            }
            thread::sleep(LOOK);
        }
    }

    /// What the node has counted from and to subscribers, also of sessions that have ended.
    pub(super) fn forwarded(&self) -> Result<NodeCounts, RunError> {
        let plans = self.ask(&["node", "show", "plans", "--json"], NODE_SOCKET)?;
        let plans = plans["plans"].as_array().cloned().unwrap_or_default();
        let classes = plans.iter().flat_map(|plan| plan["classes"].as_array().cloned().unwrap_or_default());
        let mut counts = NodeCounts::default();
        for class in classes {
            let of = if class["direction"] == "to" { &mut counts.to } else { &mut counts.from };
            let number = |name: &str| class[name].as_u64().unwrap_or(0);
            let family = if class["ip"] == 6 { &mut of.v6 } else { &mut of.v4 };
            family[0] += number("frames");
            family[1] += number("bytes");
        }
        Ok(counts)
    }

    /// Sessions of the node with this plan, and what they have counted.
    pub(super) fn subscribers(&self, plan: &str) -> Result<Value, RunError> {
        self.ask(&["node", "show", "subscribers", plan, "--json"], NODE_SOCKET)
    }

    /// Sessions of the node.
    fn node_sessions(&self) -> Result<u64, RunError> {
        let plans = self.ask(&["node", "show", "plans", "--json"], NODE_SOCKET)?;
        let plans = plans["plans"].as_array().cloned().unwrap_or_default();
        Ok(plans.iter().filter_map(|plan| plan["sessions"].as_u64()).sum())
    }

    /// Frames that the node has dropped, by reason.
    pub(super) fn drops(&self) -> Result<BTreeMap<String, u64>, RunError> {
        Ok(by_reason(&self.ask(&["node", "show", "drops", "--json"], NODE_SOCKET)?))
    }

    /// Frames that the control program has dropped, by reason.
    pub(super) fn control_drops(&self) -> Result<BTreeMap<String, u64>, RunError> {
        Ok(by_reason(&self.ask(&["bng", "status", "--json"], SOCKET)?["frames"]["drops"]))
    }

    /// Resident memory of node and control program, bytes.
    pub(super) fn memory(&self) -> Option<[u64; 2]> {
        let of = |process: &Option<Process>| resident_bytes(process.as_ref()?.pid());
        Some([of(&self.node)?, of(&self.control)?])
    }

    /// Ends both.
    pub(super) fn end(mut self, journal: &mut Journal) -> Result<(), RunError> {
        for process in [self.control.take(), self.node.take()].into_iter().flatten() {
            let _ = process.end(Some(libc::SIGTERM), journal)?;
        }
        self.server.take().map_or(Ok(()), |server| server.end(journal))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        fs::write(self.folder.path().join(name), text).map_err(|error| failed("write a file of a BNG", error))
    }

    fn process(
        &self,
        name: &str,
        words: &[&str],
        namespace: &Namespace,
        journal: &mut Journal,
    ) -> Result<Process, RunError> {
        let said = self.folder.path().join(format!("{name}.log"));
        let mut command = self.command(words);
        namespace.run(|| Process::start(&mut command, &self.cpus, &said, journal))
    }

    /// This program in the folder, since the path of a socket has at most 107 bytes.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).current_dir(self.folder.path());
        command
    }

    /// Has weir do something by a socket; what it says, if that is JSON.
    fn ask(&self, words: &[&str], socket: &str) -> Result<Value, RunError> {
        let mut command = self.command(&[words, &["--socket", socket]].concat());
        let output = command.stdin(Stdio::null()).output().map_err(|error| failed("start weir", error))?;
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout).unwrap_or_default());
        }
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        Err(failed(&format!("weir {}", words.join(" ")), said.trim()))
    }
}

/// The node, and the control plane beside it. The plan and all limits are above all that is offered.
fn text(plan: &Concentrators, entry: Entry) -> String {
    let lines = plan.lines.to_string();
    let vlan = if lines == "untagged" { String::new() } else { format!("vlan {lines}, ") };
    let discovery_per_s = if plan.trials.contains(&Kind::Storm) { DISCOVERY_PER_S } else { 1_000_000 };
    let pppoe = match entry.access {
        Access::Dhcp => String::new(),
        Access::Pppoe | Access::PppoeIpv4 => {
            let limits = "padi mac 1000 burst 1000 padi line 1000000 burst 1000000";
            format!(",\n  pppoe auth chap-md5 {limits}{}", aaa::items(entry.aaa))
        }
    };
    let (gateway, wan, six) = match entry.access {
        Access::Pppoe => (
            ", gateway 2001:db8:100::1/40",
            ", 2001:db8:200::1/64",
            "pool six 2001:db8:100::/42 router 2001:db8:100::1/40,\n  ",
        ),
        Access::Dhcp | Access::PppoeIpv4 => ("", "", ""),
    };
    format!(
        "node access1({vlan}access, on {ACCESS})\n  > access(gateway 100.64.0.1/10{gateway})\n  > route(default via 198.18.0.2)\n  \
         > wan(198.18.0.1/24{wan}, on {FAR}) hosts(198.18.2.1/24, on {HOSTS})\n\
         limits(punt-dhcp4 1000000, punt-pppoe-discovery {discovery_per_s}, punt-ppp-control 1000000, punt-nd 1000000)\nrun(host none)\n\
         bng(pool main 100.64.0.2-100.127.255.254 router 100.64.0.1/10,\n  {six}plan fast down 10Gbit up 10Gbit, plan slow down 20Mbit up 5Mbit, plan {PLAN} down 1Mbit up 1Mbit,\n  \
         limit line 1000000 burst 1000000, limit subscriber 1000 burst 1000{pppoe})\n"
    )
}

/// Subscribers of all devices; none if a server knows them.
fn subscribers(plan: &Concentrators, entry: Entry) -> String {
    if entry.aaa != Aaa::Local {
        return String::new();
    }
    let options = weir_cpe::Options::new(plan.most_devices());
    let mut text = match entry.access {
        Access::Dhcp => format!("slow mac {SLOW_MAC} plan slow\n"),
        Access::Pppoe | Access::PppoeIpv4 => {
            format!("slow login {SLOW_LOGIN} plan slow password {PASSWORD}\n")
        }
    };
    let many = weir_cpe::Options { first_mac: MANY_MAC, ..weir_cpe::Options::new(MANY) };
    for number in (0..MANY).filter(|_| plan.trials.contains(&Kind::Many)) {
        let _ = match entry.access {
            Access::Dhcp => writeln!(text, "many{number} mac {} plan {PLAN}", many.mac(number)),
            Access::Pppoe | Access::PppoeIpv4 => {
                let login = MANY_LOGIN.replace("{n}", &number.to_string());
                writeln!(text, "many{number} login {login} plan {PLAN} password {PASSWORD}")
            }
        };
    }
    for number in 0..plan.most_devices() {
        let _ = match entry.access {
            Access::Dhcp => writeln!(text, "s{number} mac {} plan fast", options.mac(number)),
            Access::Pppoe | Access::PppoeIpv4 => {
                writeln!(text, "s{number} login {} plan fast password {PASSWORD}", login(number))
            }
        };
    }
    text
}

/// The name by which a device dials in.
fn login(number: u32) -> String {
    LOGIN.replace("{n}", &number.to_string())
}
