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
use weir_load::counts::{Load, Traffic};
use weir_load::xdp::{IdleLoopback, Interface};
use weir_load::{Control, Tester, TesterKind};
use weir_packet::flow::{Direction, FlowOrder, FlowSpec, IpVersion};
use weir_packet::frame::Ends;
use weir_packet::size::FrameSizes;
use weir_port::bpf::Mode;
use weir_testbed::bed::{Bed, BedSpec};
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::{self, Journal};

use crate::{Outcome, cli, privilege, records};

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
    let mut findings = Vec::new();
    let mut add = |name, state, text: String| findings.push(Finding { name, state, text });
    // Before anything starts a thread: without root, this enters a user namespace.
    let means = privilege::obtain(cli::TesterKind::Auto);
    match &means {
        Ok(means) if means.limits.is_empty() => add("privileges", State::Ok, "root, or as good".into()),
        Ok(means) => add("privileges", State::Weaker, means.limits.join(" ")),
        Err(error) => add("privileges", State::Missing, format!("{error:#}")),
    }
    let machine = machine::gather();
    add("kernel", State::Ok, machine.kernel.clone());
    let cpus = CpuPlan::choose(DutCpus::Count(1));
    match &cpus {
        Ok(plan) if plan.shared => {
            let text =
                "one CPU: tester and DUT share it, and results are lower bounds; use a machine with two";
            add("cpus", State::Weaker, text.into());
        }
        Ok(plan) => {
            add(
                "cpus",
                State::Ok,
                format!("{}: tester on {:?}, DUT on {:?}", machine.cpus, plan.tester, plan.dut),
            );
        }
        Err(error) => add("cpus", State::Missing, error.to_string()),
    }
    match trial(TesterKind::Xdp) {
        Ok(()) => add("xdp tester", State::Ok, "eBPF, live frames and native XDP on a veth work".into()),
        Err(error) => {
            add(
                "xdp tester",
                State::Weaker,
                format!("{error:#}: packet sockets instead, several times slower"),
            );
        }
    }
    match trial(TesterKind::Packet) {
        Ok(()) => add("packet tester", State::Ok, "packet sockets work in a namespace".into()),
        Err(error) => add("packet tester", State::Missing, format!("{error:#}")),
    }
    match bed(DutKind::KernelStateful) {
        Ok(bed) if bed.notes().is_empty() => {
            add("filter and conntrack", State::Ok, "nft works; receive threads are placed on CPUs".into());
        }
        Ok(bed) => add("filter and conntrack", State::Weaker, bed.notes().join(" ")),
        Err(error) => add("filter and conntrack", State::Missing, format!("{error:#}")),
    }
    let jit = fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or_default();
    match jit.trim() {
        "0" => add("bpf jit", State::Weaker, "off: sysctl -w net.core.bpf_jit_enable=1".into()),
        _ => add("bpf jit", State::Ok, "on".into()),
    }
    let fact =
        |name: &str| machine.facts.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    match fact("clocksource") {
        Some(source @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            add("clock", State::Ok, source.into());
        }
        Some(source) => {
            add("clock", State::Weaker, format!("{source} is slow to read: boot with clocksource=tsc"))
        }
        None => add("clock", State::Weaker, "source unknown: /sys shows none".into()),
    }
    match fact("btf") {
        Some("yes") => add("btf", State::Ok, "the kernel describes its types".into()),
        _ => add(
            "btf",
            State::Weaker,
            "no /sys/kernel/btf/vmlinux: use a kernel with CONFIG_DEBUG_INFO_BTF".into(),
        ),
    }
    match fact("hypervisor") {
        None => add("hypervisor", State::Ok, "none seen".into()),
        Some(name) => {
            add(
                "hypervisor",
                State::Weaker,
                format!("a guest ({name}): others may disturb; use bare metal for tight limits"),
            );
        }
    }
    match steal() {
        Some(share) if share > 0.01 => {
            let text =
                format!("{:.1} % since boot: the host gives this guest's time to others", share * 100.0);
            add("steal", State::Weaker, text + "; use dedicated CPUs");
        }
        Some(share) => add("steal", State::Ok, format!("{:.2} % since boot", share * 100.0)),
        None => add("steal", State::Weaker, "unknown: /proc/stat has none".into()),
    }
    let (here, gone): (Vec<_>, Vec<_>) =
        ["trafgen", "tcpreplay", "iperf3", "xdp-trafficgen"].into_iter().partition(|name| installed(name));
    let text =
        format!("installed: {}; not installed, and skipped in comparisons: {}", list(&here), list(&gone));
    add("peers", if gone.is_empty() { State::Ok } else { State::Weaker }, text);
    match records::open(&arguments.store).and_then(|store| Ok(store.runs()?.len())) {
        Ok(runs) => add("records", State::Ok, format!("the file can be written; {runs} runs in it")),
        Err(error) => add("records", State::Missing, format!("{error:#}: name another file with --store")),
    }
    findings
}

fn bed(dut: DutKind) -> Result<Bed> {
    let dut_cpus = CpuPlan::choose(DutCpus::Count(1))?.dut;
    let spec = BedSpec { dut, rules: 1, ip: IpVersion::V4, mtu: 1500, dut_cpus, rx_queues: 1, publish: None };
    Ok(Bed::build(&spec, &mut Journal::in_dir(&journal::default_dir()))?)
}

/// Sends some frames through a wire.
fn trial(kind: TesterKind) -> Result<()> {
    let bed = bed(DutKind::Wire)?;
    let ports = bed.ports();
    let prefix = [0; 12];
    let ends = |from: usize| Ends {
        ip: IpVersion::V4,
        src_mac: ports[from].mac,
        dst_mac: ports[from].next_hop_mac,
        src_prefix: prefix,
        dst_prefix: prefix,
    };
    let flows = FlowSpec {
        count: 1,
        order: FlowOrder::Sequential,
        groups: 1,
        src: 0xc612_8000,
        dst: 0xc613_8000,
        seed: 1,
    };
    let traffic = Traffic {
        sizes: FrameSizes::Fixed(64),
        direction: Direction::Forward,
        flows,
        ends: [ends(0), ends(1)],
        seed: 1,
    };
    let interfaces = [0, 1].map(|i: usize| Interface { ifindex: ports[i].ifindex, mode: Mode::Native });
    let load = Load { fps: Some(10_000.0), duration: Duration::from_secs(1), max_frames: Some(FRAMES) };
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
