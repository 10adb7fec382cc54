//! Facts about the machine that decide what its numbers mean. All come from /proc, /sys and /etc; what a
//! kernel does not show is not a fact and is left out.

use std::fs;
use std::path::{Path, PathBuf};

use weir_record::record::Machine;

/// Settings of the kernel that change how fast it handles frames. An entry that ends in `*` takes all that
/// begin so. Those below `net` are of the network namespace that reads them.
const SYSCTLS: [&str; 21] = [
    "kernel/bpf_stats_enabled",
    "kernel/nmi_watchdog",
    "kernel/numa_balancing",
    "kernel/sched_*",
    "kernel/timer_migration",
    "kernel/unprivileged_bpf_disabled",
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
    "net/core/busy_poll",
    "net/core/default_qdisc",
    "net/core/dev_weight",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/netdev_max_backlog",
    "net/core/rmem_max",
    "net/core/rps_sock_flow_entries",
    "net/core/wmem_max",
    "net/ipv4/ip_early_demux",
    "net/ipv4/tcp_congestion_control",
    "net/netfilter/nf_conntrack_buckets",
    "net/netfilter/nf_conntrack_max",
];

/// Boot options that change what a CPU does beside the measurement.
const BOOT_OPTIONS: [&str; 12] = [
    "idle",
    "intel_idle.max_cstate",
    "irqaffinity",
    "isolcpus",
    "mitigations",
    "nohz_full",
    "nosmt",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "skew_tick",
    "tsc",
];

/// The facts about this machine.
pub fn gather() -> Machine {
    gather_below(Path::new("/"))
}

/// The facts about the machine whose `/proc`, `/sys` and `/etc` are below `root`.
pub fn gather_below(root: &Path) -> Machine {
    let tree = Tree { root };
    let cpuinfo = tree.read("proc/cpuinfo").unwrap_or_default();
    let release = tree.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let build = tree.read("proc/sys/kernel/version").unwrap_or_default();
    let online = tree.read("sys/devices/system/cpu/online").and_then(|list| list_length(&list));
    let mut facts = Facts::default();
    cpu_facts(&tree, &cpuinfo, &mut facts);
    kernel_facts(&tree, &release, &build, &mut facts);
    mitigation_facts(&tree, &mut facts);
    sysctl_facts(&tree, &mut facts);
    nic_facts(&tree, &mut facts);
    Machine {
        host: tree.read("proc/sys/kernel/hostname").unwrap_or_default(),
        cpu: cpu_name(&cpuinfo)
            .or_else(|| tree.read("proc/device-tree/model"))
            .unwrap_or("unknown".to_string()),
        cpus: online.unwrap_or_else(|| cpuinfo.lines().filter(|line| line.starts_with("processor")).count()),
        kernel: format!("{release} {build}").trim().to_string(),
        os: tree.read("etc/os-release").and_then(|text| os_name(&text)).unwrap_or("unknown".to_string()),
        memory_bytes: tree.read("proc/meminfo").and_then(|text| memory_bytes(&text)).unwrap_or(0),
        facts: facts.0,
    }
}

fn cpu_facts(tree: &Tree<'_>, cpuinfo: &str, facts: &mut Facts) {
    let cpu = "sys/devices/system/cpu";
    facts.add("cpu_mhz", field(cpuinfo, "cpu MHz"));
    facts.add("tsc_hz", tsc_hz(cpuinfo).map(|hz| format!("{hz:.0}")));
    facts.add("cpu_microcode", field(cpuinfo, "microcode"));
    facts.add("cpus_online", tree.read(&format!("{cpu}/online")));
    facts.add("cpus_isolated", tree.read(&format!("{cpu}/isolated")));
    facts.add("smt", tree.read(&format!("{cpu}/smt/active")).as_deref().map(on_off));
    let nodes = tree.read("sys/devices/system/node/online").and_then(|list| list_length(&list));
    facts.add("numa_nodes", nodes.map(|nodes| nodes.to_string()));
    facts.add("governor", tree.read(&format!("{cpu}/cpu0/cpufreq/scaling_governor")));
    facts.add("frequency_driver", tree.read(&format!("{cpu}/cpu0/cpufreq/scaling_driver")));
    facts.add("idle_driver", tree.read(&format!("{cpu}/cpuidle/current_driver")));
    let intel = tree
        .read(&format!("{cpu}/intel_pstate/no_turbo"))
        .map(|off| on_off(if off == "1" { "0" } else { "1" }));
    let turbo = intel.or_else(|| tree.read(&format!("{cpu}/cpufreq/boost")).as_deref().map(on_off));
    facts.add("turbo", turbo);
    facts.add("hypervisor", hypervisor(tree, cpuinfo));
}

/// The hypervisor of this machine; `None` on bare metal, as far as it can be detected.
fn hypervisor(tree: &Tree<'_>, cpuinfo: &str) -> Option<String> {
    let guest =
        field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let dmi = |name: &str| tree.read(&format!("sys/class/dmi/id/{name}"));
    let maker: Vec<_> = [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect();
    let kind = tree.read("sys/hypervisor/type");
    match (guest || kind.is_some(), kind, maker.is_empty()) {
        (false, ..) => None,
        (true, _, false) => Some(maker.join(" ")),
        (true, kind, true) => Some(kind.unwrap_or("yes, of unknown kind".to_string())),
    }
}

fn kernel_facts(tree: &Tree<'_>, release: &str, build: &str, facts: &mut Facts) {
    facts.add("clocksource", tree.read("sys/devices/system/clocksource/clocksource0/current_clocksource"));
    let live = tree.read("sys/kernel/debug/sched/preempt").and_then(|text| chosen(&text));
    facts.add("preemption", live.or_else(|| preemption(build)));
    let config = tree.read(&format!("boot/config-{release}"));
    facts.add("timer_hz", config.and_then(|text| config_value(&text, "CONFIG_HZ")));
    facts.add("boot_options", tree.read("proc/cmdline").and_then(|text| boot_options(&text)));
    facts.add("btf", Some(if tree.exists("sys/kernel/btf/vmlinux") { "yes" } else { "no" }.to_string()));
    facts.add(
        "irqbalance",
        tree.runs("irqbalance").map(|runs| if runs { "runs" } else { "does not run" }.to_string()),
    );
}

fn mitigation_facts(tree: &Tree<'_>, facts: &mut Facts) {
    let folder = "sys/devices/system/cpu/vulnerabilities";
    for name in tree.names(folder) {
        let state = tree.read(&format!("{folder}/{name}"));
        facts.add(&format!("mitigation {name}"), state.filter(|state| state != "Not affected"));
    }
}

fn sysctl_facts(tree: &Tree<'_>, facts: &mut Facts) {
    let mut add = |path: &str| {
        let value = tree.read(&format!("proc/sys/{path}"));
        let value = value.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "));
        facts.add(&format!("sysctl {}", path.replace('/', ".")), value);
    };
    for path in SYSCTLS {
        match path.strip_suffix('*').and_then(|start| start.rsplit_once('/')) {
            None => add(path),
            Some((folder, start)) => {
                let names = tree.names(&format!("proc/sys/{folder}"));
                names
                    .iter()
                    .filter(|name| name.starts_with(start))
                    .for_each(|name| add(&format!("{folder}/{name}")));
            }
        }
    }
}

/// Interfaces with a device behind them; virtual ones are the test bed's business.
fn nic_facts(tree: &Tree<'_>, facts: &mut Facts) {
    for name in tree.names("sys/class/net") {
        let nic = format!("sys/class/net/{name}");
        let Some(driver) = tree.link_name(&format!("{nic}/device/driver")) else { continue };
        let queues = tree.names(&format!("{nic}/queues"));
        let count = |kind: &str| queues.iter().filter(|queue| queue.starts_with(kind)).count();
        let speed = tree.read(&format!("{nic}/speed")).filter(|speed| !speed.starts_with('-'));
        let speed = speed.map_or(String::new(), |speed| format!(", {speed} Mbit/s"));
        let text = format!("{driver}{speed}, {} receive and {} transmit queues", count("rx-"), count("tx-"));
        facts.add(&format!("nic {name}"), Some(text));
    }
}

/// Rate of the time-stamp counter in Hz, from the text of /proc/cpuinfo. An estimate, to 10 kHz: Linux sets
/// bogomips to twice the rate in MHz where the counter is constant; `None` elsewhere.
pub fn tsc_hz(cpuinfo: &str) -> Option<f64> {
    let flags = field(cpuinfo, "flags")?;
    let bogomips: f64 = field(cpuinfo, "bogomips")?.parse().ok()?;
    flags.split(' ').any(|flag| flag == "constant_tsc").then_some(bogomips / 2.0 * 1e6)
}

fn cpu_name(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu model", "cpu"].iter().find_map(|name| field(cpuinfo, name))
}

/// The first `name : value` of a text in the style of /proc/cpuinfo.
fn field(text: &str, name: &str) -> Option<String> {
    let value =
        text.lines().find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name))?.1.trim();
    (!value.is_empty()).then(|| value.to_string())
}

fn os_name(os_release: &str) -> Option<String> {
    config_value(os_release, "PRETTY_NAME").map(|name| name.trim_matches('"').to_string())
}

/// The value of a line `name=value`.
fn config_value(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_string)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Length of a list such as `0-3,8`.
fn list_length(list: &str) -> Option<usize> {
    list.trim()
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            (last + 1).checked_sub(first)
        })
        .sum()
}

/// What is in parentheses: `none voluntary (full)` is `full`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('(')?.1.split_once(')')?.0.to_string())
}

/// Preemption as the kernel's build string tells it.
fn preemption(build: &str) -> Option<String> {
    let word = build.split_whitespace().find(|word| word.starts_with("PREEMPT"))?;
    Some(match word {
        "PREEMPT_RT" => "full, real-time".to_string(),
        "PREEMPT_DYNAMIC" => "chosen at boot".to_string(),
        _ => "full".to_string(),
    })
}

fn boot_options(cmdline: &str) -> Option<String> {
    let matters = |word: &&str| BOOT_OPTIONS.contains(&word.split('=').next().unwrap_or(word));
    let words: Vec<_> = cmdline.split_whitespace().filter(matters).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn on_off(flag: &str) -> String {
    if flag == "0" { "off" } else { "on" }.to_string()
}

/// Facts in order; those without a value are left out.
#[derive(Default)]
struct Facts(Vec<(String, String)>);

impl Facts {
    fn add(&mut self, name: &str, value: Option<String>) {
        self.0.extend(value.filter(|value| !value.is_empty()).map(|value| (name.to_string(), value)));
    }
}

/// A file tree, read leniently: what is missing or forbidden is `None`.
struct Tree<'a> {
    root: &'a Path,
}

impl Tree<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    fn read(&self, path: &str) -> Option<String> {
        let text = fs::read(self.path(path)).ok()?;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_string())
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        target.file_name()?.to_str().map(str::to_string)
    }

    /// Does a process of this name run? `None` if no process can be seen.
    fn runs(&self, name: &str) -> Option<bool> {
        let mut processes =
            self.names("proc").into_iter().filter(|entry| entry.parse::<u32>().is_ok()).peekable();
        processes.peek()?;
        Some(processes.any(|process| self.read(&format!("proc/{process}/comm")).as_deref() == Some(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: AMD EPYC 9654\ncpu MHz\t\t: 2599.996\n\
        flags\t\t: fpu tsc constant_tsc hypervisor lm\nbogomips\t: 5199.99\n\nprocessor\t: 1\nmodel name\t: other\n";

    /// A machine made of files.
    struct Sample(weir_testkit::Folder);

    impl Sample {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = weir_testkit::Folder::new();
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Sample(root)
        }
    }

    #[test]
    fn a_guest_is_described() {
        let sample = Sample::new(&[
            ("proc/cpuinfo", CPUINFO),
            ("proc/meminfo", "MemTotal:        8126424 kB\nMemFree: 1 kB\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1\n"),
            ("proc/sys/kernel/sched_rr_timeslice_ms", "100\n"),
            ("proc/sys/net/core/netdev_budget", "300\n"),
            ("proc/cmdline", "root=/dev/vda1 quiet isolcpus=1 mitigations=off\n"),
            ("proc/1/comm", "systemd\n"),
            ("proc/77/comm", "irqbalance\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("boot/config-6.1.0-9-amd64", "CONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
            ("sys/devices/system/cpu/vulnerabilities/retbleed", "Mitigation: untrained return thunk\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/net/eth0/queues/rx-0/x", ""),
            ("sys/class/net/eth0/queues/tx-0/x", ""),
            ("sys/class/net/eth0/queues/tx-1/x", ""),
            ("sys/class/net/eth0/speed", "10000\n"),
            ("sys/class/net/eth0/device/x", ""),
            ("sys/class/net/veth0/speed", "10000\n"),
        ]);
        std::os::unix::fs::symlink(
            "/sys/bus/drivers/ixgbe",
            sample.0.join("sys/class/net/eth0/device/driver"),
        )
        .unwrap();
        let machine = gather_below(&sample.0);
        assert_eq!(machine.cpu, "AMD EPYC 9654");
        assert_eq!(machine.cpus, 2);
        assert_eq!(machine.kernel, "6.1.0-9-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1");
        assert_eq!(machine.os, "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(machine.memory_bytes, 8_126_424 * 1024);
        let facts: Vec<_> = machine.facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            facts,
            [
                "cpu_mhz: 2599.996",
                "tsc_hz: 2599995000",
                "cpus_online: 0-1",
                "smt: off",
                "turbo: off",
                "hypervisor: QEMU",
                "preemption: chosen at boot",
                "timer_hz: 250",
                "boot_options: isolcpus=1 mitigations=off",
                "btf: no",
                "irqbalance: runs",
                "mitigation retbleed: Mitigation: untrained return thunk",
                "sysctl kernel.sched_rr_timeslice_ms: 100",
                "sysctl net.core.netdev_budget: 300",
                "nic eth0: ixgbe, 10000 Mbit/s, 1 receive and 2 transmit queues",
            ]
        );
    }

    #[test]
    fn what_is_missing_is_no_fact() {
        let sample = Sample::new(&[("proc/cpuinfo", "processor : 0\nBogoMIPS : 50.00\n")]);
        let machine = gather_below(&sample.0);
        assert_eq!((machine.cpu.as_str(), machine.cpus, machine.memory_bytes), ("unknown", 1, 0));
        assert_eq!(machine.facts, [("btf".to_string(), "no".to_string())]);
    }

    #[test]
    fn this_machine_is_described() {
        let machine = gather();
        assert!(machine.cpus >= 1 && machine.memory_bytes > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }

    #[test]
    fn lists_are_counted() {
        for (list, length) in
            [("0", Some(1)), ("0-3", Some(4)), ("0-3,8,10-11", Some(7)), ("", None), ("3-1", None)]
        {
            assert_eq!(list_length(list), length, "{list}");
        }
    }

    #[test]
    fn preemption_is_read_from_both_places() {
        assert_eq!(chosen("none voluntary (full) lazy").as_deref(), Some("full"));
        for (build, model) in [
            ("#1 SMP PREEMPT_RT x", Some("full, real-time")),
            ("#1 SMP PREEMPT x", Some("full")),
            ("#1 SMP x", None),
        ] {
            assert_eq!(preemption(build).as_deref(), model, "{build}");
        }
    }
}
