//! The concentrator of weir: `weir node run` and `weir bng run`, with a subscriber for each device of the plan.
//!
//! ```text
//!  [devices] a ---- b [access > route] d ---- c [far]        bngd between the node's socket and the store
//! ```

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_cpe::Mac;
use weir_lab::error::RunError;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{LOOK, Process};
use weir_linux::Error;
use weir_linux::namespace::Namespace;
use weir_testbed::journal::Journal;
use weir_testbed::memory::resident_bytes;

use super::plan::Concentrators;
use super::street::{ACCESS, FAR, HOSTS};

/// The program that controls subscribers, beside that of weir.
const CONTROL: &str = "weir-bngd";
/// The device of the subscriber with a plan of 20 Mbit/s.
pub(super) const SLOW_MAC: Mac = Mac([2, 0, 0x77, 0, 0, 1]);
/// Files in the folder of a concentrator.
const TEXT: &str = "isp.node";
const SUBSCRIBERS: &str = "subscribers";
const SOCKET: &str = "bng.sock";
const NODE_SOCKET: &str = "node.sock";
/// Time limit to become ready: as many subscribers are read as a plan has devices.
const PATIENCE: Duration = Duration::from_secs(60);

/// It runs.
pub(super) struct Weir {
    folder: Folder,
    node: Option<Process>,
    control: Option<Process>,
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
        namespace: &Namespace,
        cpus: Vec<usize>,
        journal: &mut Journal,
    ) -> Result<Weir, RunError> {
        let folder = Folder::new(&std::env::temp_dir()).map_err(|error| failed("make a folder", error))?;
        let mut weir = Weir { folder, node: None, control: None, cpus };
        weir.write(TEXT, &text(plan))?;
        weir.write(SUBSCRIBERS, &subscribers(plan))?;
        let words = ["node", "run", TEXT, "--socket", NODE_SOCKET];
        let node = weir.process("node", &words, namespace, journal)?;
        weir.node = Some(node);
        weir.start_control(namespace, journal)?;
        weir.ask(&["subscriber", "add", "--from", SUBSCRIBERS])?;
        Ok(weir)
    }

    /// Starts the control program, and waits until it is ready.
    fn start_control(&mut self, namespace: &Namespace, journal: &mut Journal) -> Result<(), RunError> {
        let sockets = ["--socket", SOCKET, "--node-socket", NODE_SOCKET];
        let words = [&["bng", "run", TEXT][..], &sockets, &["--store", "store"]].concat();
        self.control = Some(self.process("bngd", &words, namespace, journal)?);
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = self.ask(&["status"]) {
            if Instant::now() > deadline {
                let last = |process: &Option<Process>| process.as_ref().map(Process::last_words);
                let words = [last(&self.node), last(&self.control)].map(Option::unwrap_or_default);
                return Err(failed(
                    "weir bng was not ready in time",
                    format!("{error}; {}", words.join("; ")),
                ));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Kills the control program, and starts it again; the time until it was ready.
    pub(super) fn restart_control(
        &mut self,
        namespace: &Namespace,
        journal: &mut Journal,
    ) -> Result<Duration, RunError> {
        let begin = Instant::now();
        if let Some(control) = self.control.take() {
            // What it says when it is killed does not matter.
            let _ = control.end(Some(libc::SIGKILL), journal)?;
        }
        self.start_control(namespace, journal)?;
        Ok(begin.elapsed())
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
        Ok(())
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

    /// Has `weir bng` do something.
    fn ask(&self, words: &[&str]) -> Result<(), RunError> {
        let mut command = self.command(&[&["bng"], words, &["--socket", SOCKET]].concat());
        let output =
            command.stdin(Stdio::null()).output().map_err(|error| failed("start weir bng", error))?;
        if output.status.success() {
            return Ok(());
        }
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        Err(failed(&format!("weir bng {}", words.join(" ")), said.trim()))
    }
}

/// The node, and the control plane beside it. The plan is above all that is offered.
fn text(plan: &Concentrators) -> String {
    let lines = plan.lines.to_string();
    let vlan = if lines == "untagged" { String::new() } else { format!("vlan {lines}, ") };
    format!(
        "node access1({vlan}access, on {ACCESS})\n  > access(gateway 100.64.0.1/10)\n  > route(default via 198.18.0.2)\n  \
         > wan(198.18.0.1/24, on {FAR}) hosts(198.18.2.1/24, on {HOSTS})\nlimits(punt-dhcp4 1000000)\nrun(host none)\n\
         bng(pool main 100.64.0.2-100.127.255.254 router 100.64.0.1/10,\n  plan fast down 10Gbit up 10Gbit, plan slow down 20Mbit up 5Mbit,\n  \
         limit line 1000000 burst 1000000, limit subscriber 1000 burst 1000)\n"
    )
}

fn subscribers(plan: &Concentrators) -> String {
    let options = weir_cpe::Options::new(plan.most_devices());
    let mut text = format!("slow mac {SLOW_MAC} plan slow\n");
    for number in 0..plan.most_devices() {
        let _ = writeln!(text, "s{number} mac {} plan fast", options.mac(number));
    }
    text
}
