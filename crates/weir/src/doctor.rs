//! `weir doctor`: what this machine can measure, and what is in the way. What can be tried is tried, in
//! namespaces that vanish at once.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weir_lab::machine;
use weir_lab::record::Machine;
use weir_load::counts::{Load, Traffic};
use weir_load::xdp::{IdleLoopback, Interface};
use weir_load::{Control, Tester, TesterKind};
use weir_packet::flow::{self, Direction, FlowOrder, FlowSpec};
use weir_packet::frame::{Ends, Transport};
use weir_packet::size::FrameSizes;
use weir_port::bpf::Mode;
use weir_testbed::bed::{Bed, BedSpec};
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::{self, Journal};

use crate::{Outcome, cli, privilege, records};

/// The first kernel whose BPF_PROG_RUN sends live frames.
const OLDEST_KERNEL: (u32, u32) = (5, 18);
/// Frames of a trial run of a tester.
const FRAMES: u64 = 100;

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
    /// What was found and, unless it is ok, what to do.
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
    let findings = examine(arguments);
    // Only what no run can do without is ever `missing`.
    let fit = findings.iter().all(|finding| finding.state != State::Missing);
    if arguments.json {
        let line = |f: &Finding| json!({ "name": f.name, "state": f.state.name(), "text": f.text });
        let lines: Vec<_> = findings.iter().map(line).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&json!({ "can_run": fit, "findings": lines }))?)?;
    } else {
        for Finding { name, state, text } in &findings {
            writeln!(out, "{:8} {name:20} {text}", state.name())?;
        }
        let verdict =
            if fit { "`weir run quick` can run here" } else { "`weir run quick` cannot run here yet" };
        writeln!(out, "{verdict}")?;
    }
    Ok(if fit { Outcome::Done } else { Outcome::Unfit })
}

fn examine(arguments: &cli::Doctor) -> Vec<Finding> {
    let mut findings = Findings::default();
    // Before anything starts a thread: without root, this enters a user namespace.
    findings.privileges();
    let machine = machine::gather();
    findings.kernel(&machine);
    findings.cpus(&machine);
    findings.test_bed();
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

    /// Ok with one text, or what went wrong in another state.
    fn add_result(&mut self, name: &'static str, result: Result<()>, good: &str, bad: (State, &str)) {
        match result {
            Ok(()) => self.add(name, State::Ok, good),
            Err(error) => self.add(name, bad.0, format!("{error:#}{}", bad.1)),
        }
    }

    fn privileges(&mut self) {
        match privilege::obtain(cli::TesterKind::Auto) {
            Ok(means) if means.limits.is_empty() => self.add("privileges", State::Ok, "root, or as good"),
            Ok(means) => self.add("privileges", State::Weaker, means.limits.join(" ")),
            Err(error) => self.add("privileges", State::Missing, format!("{error:#}")),
        }
    }

    fn kernel(&mut self, machine: &Machine) {
        let (major, minor) = OLDEST_KERNEL;
        match version(&machine.kernel) {
            Some(version) if version < OLDEST_KERNEL => {
                let text = format!("{}: the XDP tester needs {major}.{minor} or newer", machine.kernel);
                self.add("kernel", State::Weaker, text);
            }
            _ => self.add("kernel", State::Ok, machine.kernel.clone()),
        }
        match fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default().trim() {
            "0" => self.add("bpf jit", State::Weaker, "off: sysctl -w net.core.bpf_jit_enable=1"),
            _ => self.add("bpf jit", State::Ok, "on"),
        }
        match fact(machine, "btf") {
            Some("yes") => self.add("btf", State::Ok, "the kernel describes its types"),
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
                "one CPU: tester and DUT share it, and results are lower bounds; use a machine with two",
            ),
            Ok(CpuPlan { tester, dut, .. }) => {
                self.add("cpus", State::Ok, format!("{}: tester on {tester:?}, DUT on {dut:?}", machine.cpus))
            }
            Err(error) => self.add("cpus", State::Missing, error.to_string()),
        }
    }

    fn test_bed(&mut self) {
        let slower = (State::Weaker, ": packet sockets instead, several times slower");
        let works = "eBPF, live frames and native XDP on a veth work";
        self.add_result("xdp tester", trial(TesterKind::Xdp), works, slower);
        let works = "packet sockets work in a namespace";
        self.add_result("packet tester", trial(TesterKind::Packet), works, (State::Missing, ""));
        match bed(DutKind::KernelStateful) {
            Ok(bed) if bed.notes().is_empty() => {
                self.add("filter and conntrack", State::Ok, "nft works; receive threads are placed on CPUs");
            }
            Ok(bed) => self.add("filter and conntrack", State::Weaker, bed.notes().join(" ")),
            Err(error) => self.add("filter and conntrack", State::Missing, format!("{error:#}")),
        }
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

    /// Who else may be on this machine.
    fn neighbours(&mut self, machine: &Machine) {
        match fact(machine, "hypervisor") {
            None => self.add("hypervisor", State::Ok, "none seen"),
            Some(name) => self.add(
                "hypervisor",
                State::Weaker,
                format!("a guest ({name}): others may disturb; use bare metal for tight limits"),
            ),
        }
        match steal() {
            Some(share) if share > 0.01 => {
                let percent = share * 100.0;
                let text = "since boot: the host gives this guest's time to others; use dedicated CPUs";
                self.add("steal", State::Weaker, format!("{percent:.1} % {text}"));
            }
            Some(share) => self.add("steal", State::Ok, format!("{:.2} % since boot", share * 100.0)),
            None => self.add("steal", State::Weaker, "unknown: /proc/stat has none"),
        }
    }

    fn peers(&mut self) {
        let names = ["trafgen", "tcpreplay", "iperf3", "xdp-trafficgen", "tcpdump", "dumpcap", "netsniff-ng"];
        let (here, gone): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| installed(name));
        let state = if gone.is_empty() { State::Ok } else { State::Weaker };
        let (here, gone) = (list(&here), list(&gone));
        self.add(
            "peers",
            state,
            format!("installed: {here}; not installed, and skipped in comparisons: {gone}"),
        );
    }

    fn records(&mut self, store: &cli::Store) {
        match records::open(store).and_then(|store| Ok(store.runs()?.len())) {
            Ok(runs) => self.add("records", State::Ok, format!("the file can be written; {runs} runs in it")),
            Err(error) => self.add("records", State::Missing, format!("{error:#}")),
        }
    }
}

fn fact<'a>(machine: &'a Machine, name: &str) -> Option<&'a str> {
    machine.facts.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Major and minor number of a kernel release such as `6.1.0-9-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn bed(dut: DutKind) -> Result<Bed> {
    let dut_cpus = CpuPlan::choose(DutCpus::Count(1))?.dut;
    let spec = BedSpec { rules: 1, ..BedSpec::plain(dut, dut_cpus) };
    Ok(Bed::build(&spec, &mut Journal::in_dir(&journal::default_dir()))?)
}

/// Sends some frames through a wire.
fn trial(kind: TesterKind) -> Result<()> {
    let bed = bed(DutKind::Wire)?;
    let ports = bed.ports();
    let ends = |from: usize| Ends::v4(ports[from].mac, ports[from].next_hop_mac);
    let flows = FlowSpec {
        count: 1,
        order: FlowOrder::Sequential,
        groups: 1,
        hosts: flow::HOSTS,
        networks: 1,
        src: 0xc612_8000,
        dst: 0xc613_8000,
        seed: 1,
    };
    let traffic = Traffic {
        sizes: FrameSizes::Fixed(64),
        transport: Transport::Udp,
        direction: Direction::Forward,
        flows,
        ends: [ends(0), ends(1)],
        seed: 1,
    };
    let interfaces =
        [0, 1].map(|i: usize| Interface { ifindex: ports[i].ifindex, mode: Mode::Native, pass: false });
    let load = Load { max_frames: Some(FRAMES), ..Load::steady(10_000.0, Duration::from_secs(1)) };
    let received = bed.tester().run(|| -> Result<u64> {
        let mut tester = Tester::new(kind, interfaces, traffic, Some(IdleLoopback(1)))?;
        let counts = tester.trial(&load, &Control::new(&AtomicBool::new(false), &|_, _| {}))?;
        Ok(counts.streams[0].received())
    });
    let received = received.context("trying it on a wire")?;
    ensure!(received == FRAMES, "{received} of {FRAMES} frames arrived on a wire");
    Ok(())
}

/// Share of CPU time since boot that the host took; proc_stat(5), the line `cpu`.
fn steal() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
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
    fn kernels_are_compared_by_number() {
        for (release, expected) in [
            ("6.1.0-9-amd64 #1 SMP", Some((6, 1))),
            ("5.18-rc1", Some((5, 18))),
            ("5.4.0", Some((5, 4))),
            ("unknown", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
        assert!(version("5.4.0") < Some(OLDEST_KERNEL) && version("6.1.0") > Some(OLDEST_KERNEL));
    }
}
