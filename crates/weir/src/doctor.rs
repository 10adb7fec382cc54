//! `weir doctor`: what this machine can measure, and what prevents the rest. Each method is tried in a temporary
//! namespace.

mod load;

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde_json::json;
use weir_lab::frames::PointSpec;
use weir_lab::frames::preflight;
use weir_lab::machine;
use weir_load::TesterKind;
use weir_port::bpf::{self, Program, congestion, object};
use weir_port::capture::{self, Method};
use weir_record::record::Machine;
use weir_report::view::format::wrapped;
use weir_rigs::PLANS;
use weir_testbed::bed::{Bed, BedSpec};
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::{self, Journal};

use crate::outcome::{Outcome, with_causes};
use crate::{cli, generate, privilege, records};
use weir_service::say;

/// Columns before the text of a finding.
const TEXT_COLUMN: usize = 30;

/// How good a finding is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Weaker,
    Missing,
}

/// One line of the diagnosis.
struct Finding {
    name: &'static str,
    state: State,
    /// The result and, unless it is ok, the remedy.
    text: String,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Weaker => "weaker",
            State::Missing => "missing",
        }
    }
}

pub(crate) fn run(arguments: &cli::Doctor, out: &mut impl Write) -> Result<Outcome> {
    if arguments.undo {
        return load::undo(out);
    }
    if let Some(role) = arguments.role {
        return load::run(role, arguments, out);
    }
    let findings = examine(arguments);
    // A finding is `missing` only if `weir run quick` needs it.
    let fit = findings.iter().all(|finding| finding.state != State::Missing);
    if arguments.json {
        let line = |f: &Finding| json!({ "name": f.name, "state": f.state.name(), "text": f.text });
        let lines: Vec<_> = findings.iter().map(line).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&json!({ "can_run": fit, "findings": lines }))?)?;
    } else {
        findings.iter().try_for_each(|finding| write!(out, "{}", shown(finding, say::columns())))?;
        let verdict =
            if fit { "`weir run quick` can run here" } else { "`weir run quick` cannot run here yet" };
        writeln!(out, "{verdict}")?;
    }
    Ok(if fit { Outcome::Done } else { Outcome::Unfit })
}

/// A finding in lines of so many columns, its text below itself.
fn shown(Finding { name, state, text }: &Finding, columns: usize) -> String {
    let text = wrapped(text, columns.saturating_sub(TEXT_COLUMN));
    let text = text.trim_end().replace('\n', &format!("\n{:TEXT_COLUMN$}", ""));
    format!("{:8} {name:20} {text}\n", state.name())
}

fn examine(arguments: &cli::Doctor) -> Vec<Finding> {
    let mut findings = Findings::default();
    // Before the first thread starts: without root, this enters a user namespace.
    let tester = findings.privileges();
    let machine = machine::gather();
    findings.kernel(&machine);
    findings.cpus(&machine);
    findings.programs();
    findings.testers();
    findings.receive_threads();
    findings.node();
    findings.capture();
    findings.quick(tester);
    findings.clock(&machine);
    findings.neighbours(&machine);
    findings.peers();
    findings.records(&arguments.store);
    findings.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, name: &'static str, state: State, text: impl Into<String>) {
        self.0.push(Finding { name, state, text: text.into() });
    }

    /// Ok with one text, or the error with another state.
    fn add_result(&mut self, name: &'static str, result: Result<()>, good: &str, bad: (State, &str)) {
        match result {
            Ok(()) => self.add(name, State::Ok, good),
            Err(error) => self.add(name, bad.0, format!("{}{}", with_causes(&error), bad.1)),
        }
    }

    /// The method that a run would use to send frames.
    fn privileges(&mut self) -> TesterKind {
        match privilege::obtain(cli::TesterKind::Auto) {
            Ok(means) => {
                if means.limits.is_empty() {
                    self.add("privileges", State::Ok, "root, or all needed capabilities");
                } else {
                    self.add("privileges", State::Weaker, means.limits.join(" "));
                }
                means.tester
            }
            Err(error) => {
                self.add("privileges", State::Missing, with_causes(&error));
                TesterKind::Packet
            }
        }
    }

    fn kernel(&mut self, machine: &Machine) {
        self.add("kernel", State::Ok, machine.kernel.clone());
        match weir_disk::kernel_text("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default().trim() {
            "0" => self.add("bpf jit", State::Weaker, "off: sysctl -w net.core.bpf_jit_enable=1"),
            _ => self.add("bpf jit", State::Ok, "on"),
        }
        match fact(machine, "btf") {
            Some("yes") => self.add("btf", State::Ok, "the kernel has type information"),
            _ => self.add(
                "btf",
                State::Weaker,
                "no /sys/kernel/btf/vmlinux: use a kernel with CONFIG_DEBUG_INFO_BTF",
            ),
        }
    }

    fn cpus(&mut self, machine: &Machine) {
        match CpuPlan::choose(DutCpus::Count(1)) {
            Ok(plan) if plan.shared => self.add(
                "cpus",
                State::Weaker,
                "one CPU: tester and DUT share it, and results are lower bounds; use a machine with two or more",
            ),
            Ok(CpuPlan { tester, dut, .. }) => {
                self.add("cpus", State::Ok, format!("{}: tester on {tester:?}, DUT on {dut:?}", machine.cpus))
            }
            Err(error) => self.add("cpus", State::Missing, error.to_string()),
        }
    }

    /// Loads each program, and tries live frames.
    fn programs(&mut self) {
        let load = |(what, object)| Program::load(what, object, &[]).err();
        let refused: Vec<String> =
            object::ALL.into_iter().filter_map(load).map(|error| error.to_string()).collect();
        match &refused[..] {
            [] => self.add("ebpf programs", State::Ok, format!("all {} load", object::ALL.len())),
            some => self.add("ebpf programs", State::Weaker, some.join("; ")),
        }
        let brought = congestion::try_all().map_err(Into::into);
        let loads = "dctcp, bbr2 and bbr3 can be loaded while flows use them";
        self.add_result("congestion controls", brought, loads, (State::Weaker, ""));
        let live = bpf::try_live_frames().map_err(Into::into);
        self.add_result("live frames", live, "XDP programs can send frames", (State::Weaker, ""));
    }

    /// Frames through a wire.
    fn testers(&mut self) {
        let wire = |kind| through(DutKind::WIRE, kind);
        let slower = (State::Weaker, ": packet sockets instead, several times slower");
        let works = "eBPF, live frames and native XDP on a veth work";
        self.add_result("xdp tester", wire(TesterKind::Xdp), works, slower);
        let works = "packet sockets work in a namespace";
        self.add_result("packet tester", wire(TesterKind::Packet), works, (State::Missing, ""));
    }

    /// Whether the DUT can have its own CPUs.
    fn receive_threads(&mut self) {
        match bed(DutKind::KERNEL_FORWARD) {
            Ok(bed) if bed.notes().is_empty() => {
                self.add("receive threads", State::Ok, "receive threads are placed on CPUs");
            }
            Ok(bed) => self.add("receive threads", State::Weaker, bed.notes().join(" ")),
            Err(error) => self.add("receive threads", State::Missing, with_causes(&error)),
        }
    }

    /// Frames through weir's own node.
    fn node(&mut self) {
        let [xdp, packet] =
            [DutKind::NODE_FORWARD, DutKind::NODE_FORWARD_PACKET].map(|dut| through(dut, TesterKind::Packet));
        match (xdp, packet) {
            (Ok(()), Ok(())) => self.add("node", State::Ok, "forwards by AF_XDP and by AF_PACKET"),
            (Err(error), Ok(())) => {
                let text = "forwards by AF_PACKET (`io packet`), not by AF_XDP";
                self.add("node", State::Weaker, format!("{text}: {}", with_causes(&error)));
            }
            (_, Err(error)) => self.add("node", State::Weaker, with_causes(&error)),
        }
    }

    /// Opens each capture method on a virtual wire.
    fn capture(&mut self) {
        let opened = |bed: &Bed| {
            let name = &bed.ports()[1].ifname;
            let one =
                |method: Method| match bed.tester().run(|| method.open(name, &capture::Options::default())) {
                    Ok(_) => Ok(method.to_string()),
                    Err(error) => Err(format!("{method}: {error}")),
                };
            Method::all().map(one).partition::<Vec<_>, _>(Result::is_ok)
        };
        match bed(DutKind::WIRE).map(|bed| opened(&bed)) {
            Ok((open, refused)) => {
                let open = open.into_iter().flatten().collect::<Vec<_>>().join(", ");
                match &refused.into_iter().filter_map(Result::err).collect::<Vec<_>>()[..] {
                    [] => self.add("capture", State::Ok, format!("by {open}")),
                    some => self.add(
                        "capture",
                        State::Weaker,
                        format!("by {open}; not by {}", some.join("; not by ")),
                    ),
                }
            }
            Err(error) => self.add("capture", State::Weaker, with_causes(&error)),
        }
    }

    /// The checks of `weir run quick` before its first trial.
    fn quick(&mut self, tester: TesterKind) {
        let plan = PLANS.load("quick", &[]).expect("a shipped plan is valid");
        let fit = plan.experiment.preflight(tester).map_err(Into::into);
        let works =
            format!("each device of the plan passes frames, sent by the {} tester", generate::name(tester));
        self.add_result("plan quick", fit, &works, (State::Missing, ""));
    }

    fn clock(&mut self, machine: &Machine) {
        match fact(machine, "clocksource") {
            Some(source @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
                self.add("clock", State::Ok, source);
            }
            Some(source) => self.add(
                "clock",
                State::Weaker,
                format!("{source} is slow to read: boot with clocksource=tsc"),
            ),
            None => self.add("clock", State::Weaker, "source unknown: /sys shows none"),
        }
    }

    /// Other load on this machine.
    fn neighbours(&mut self, machine: &Machine) {
        match fact(machine, "hypervisor") {
            None => self.add("hypervisor", State::Ok, "none seen"),
            Some(name) => self.add(
                "hypervisor",
                State::Weaker,
                format!(
                    "a guest ({name}): other guests may disturb measurements; use bare metal for tight limits"
                ),
            ),
        }
        match steal() {
            Some(share) if share > 0.01 => {
                let percent = share * 100.0;
                let text = "since boot: the host runs other guests on these CPUs; use dedicated CPUs";
                self.add("steal", State::Weaker, format!("{percent:.1} % {text}"));
            }
            Some(share) => self.add("steal", State::Ok, format!("{:.2} % since boot", share * 100.0)),
            None => self.add("steal", State::Weaker, "unknown: /proc/stat has none"),
        }
    }

    fn peers(&mut self) {
        let names = weir_rigs::all().flat_map(|rig| rig.programs().names());
        let (here, gone): (Vec<_>, Vec<_>) = names.partition(|name| installed(name));
        let state = if gone.is_empty() { State::Ok } else { State::Weaker };
        let (here, gone) = (list(&here), list(&gone));
        self.add(
            "peers",
            state,
            format!("installed: {here}; not installed, and skipped in comparisons: {gone}"),
        );
    }

    fn records(&mut self, store: &cli::Store) {
        match records::open(store).and_then(|log| Ok(log.archive().runs()?.len())) {
            Ok(runs) => self.add("records", State::Ok, format!("the file can be written; {runs} runs in it")),
            Err(error) => self.add("records", State::Missing, with_causes(&error)),
        }
    }
}

fn fact<'a>(machine: &'a Machine, name: &str) -> Option<&'a str> {
    machine.facts.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn bed(dut: DutKind) -> Result<Bed> {
    let dut_cpus = CpuPlan::choose(DutCpus::Count(1))?.dut;
    let spec = BedSpec { rules: 1, ..BedSpec::plain(dut, dut_cpus) };
    Ok(Bed::build(&spec, &mut Journal::in_dir(&journal::default_dir()))?)
}

/// Sends some frames through a device.
fn through(dut: DutKind, tester: TesterKind) -> Result<()> {
    Ok(preflight::device(&PointSpec::plain(dut, 64, 1), tester)?)
}

/// Share of CPU time since boot that the host took; proc_stat(5), the line `cpu`.
fn steal() -> Option<f64> {
    let text = weir_disk::kernel_text("/proc/stat").ok()?;
    let fields = text.lines().next()?.split_ascii_whitespace().skip(1);
    let times: Vec<f64> = fields.take(8).filter_map(|time| time.parse().ok()).collect();
    Some(*times.get(7)? / times.iter().sum::<f64>())
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).into()));
    folders.into_iter().any(|folder| folder.join(program).is_file())
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_edge_of_the_terminal() {
        let text = "some words that go on ".repeat(12);
        let finding = Finding { name: "peers", state: State::Weaker, text: text.clone() };
        let lines = shown(&finding, 80);
        assert!(lines.lines().all(|line| line.len() <= 80) && lines.lines().count() > 4, "{lines}");
        assert!(lines.starts_with("weaker   peers                some words"), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with(&" ".repeat(TEXT_COLUMN))), "{lines}");
        assert_eq!(lines.split_whitespace().skip(2).collect::<Vec<_>>().join(" "), text.trim_end());
        assert_eq!(shown(&finding, 400).lines().count(), 1);
    }
}
