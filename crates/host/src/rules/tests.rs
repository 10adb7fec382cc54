use std::fs;

use weir_linux::ethtool::Rings;
use weir_testkit::Folder;

use crate::{Ceiling, Effect, Fix, Host, Load, Nic, Role, examine};

/// A folder that looks like a machine.
struct Machine(Folder);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Machine {
        let machine = Machine(Folder::new());
        files.iter().for_each(|(path, text)| machine.write(path, text));
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn host(&self) -> Host {
        Host::at(&self.0, [])
    }
}

const LOAD: Load =
    Load { connections: 10_000, flows: 1_000_000, frames_per_s: 1e6, bits_per_s: 1e9, rtt_s: 0.1 };

fn found<'a>(all: &'a [Ceiling], setting: &str) -> &'a Ceiling {
    all.iter().find(|one| one.setting == setting).unwrap_or_else(|| panic!("no {setting} in {all:#?}"))
}

fn sysctl(ceiling: &Ceiling) -> Vec<String> {
    ceiling.fixes.iter().map(Fix::command).collect()
}

#[test]
fn an_empty_machine_has_no_ceilings() {
    let machine = Machine::new(&[]);
    for role in Role::ALL {
        assert_eq!(examine(&machine.host(), role, &LOAD), [], "{role:?}");
    }
}

#[test]
fn the_worst_stands_first() {
    let files = [
        ("/proc/sys/net/ipv4/ip_forward", "0\n"),
        ("/proc/sys/net/netfilter/nf_conntrack_max", "250000\n"),
        ("/proc/sys/net/netfilter/nf_conntrack_buckets", "65536\n"),
        ("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established", "432000\n"),
        ("/proc/sys/net/core/netdev_max_backlog", "10000\n"),
    ];
    let all = examine(&Machine::new(&files).host(), Role::Nat, &LOAD);
    let list: Vec<_> = all.iter().map(|one| (one.setting.as_str(), one.effect.name())).collect();
    let expected = [
        ("net.ipv4.ip_forward", "stops"),
        ("net.netfilter.nf_conntrack_max", "loses"),
        ("net.netfilter.nf_conntrack_buckets", "slows"),
        ("net.netfilter.nf_conntrack_tcp_timeout_established", "slows"),
        ("net.core.netdev_max_backlog", "fits"),
    ];
    assert_eq!(list, expected);
}

/// The figures follow from the kernel's documents: 1.25 M entries for 1 M flows, and a power of two of buckets.
#[test]
fn tracked_connections() {
    let files = [
        ("/proc/sys/net/netfilter/nf_conntrack_max", "262144"),
        ("/proc/sys/net/netfilter/nf_conntrack_buckets", "65536"),
        ("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established", "432000"),
        ("/sys/kernel/slab/nf_conntrack/slab_size", "256"),
    ];
    let all = examine(&Machine::new(&files).host(), Role::Nat, &LOAD);
    let room = found(&all, "net.netfilter.nf_conntrack_max");
    assert_eq!(sysctl(room), ["sysctl -w net.netfilter.nf_conntrack_max='1250000'"]);
    assert!((room.fits - 0.2097).abs() < 1e-3, "{}", room.fits);
    assert!(room.cost.starts_with("305 MiB"), "{}", room.cost);
    let chains = found(&all, "net.netfilter.nf_conntrack_buckets");
    assert_eq!(sysctl(chains), ["echo '1048576' > /sys/module/nf_conntrack/parameters/hashsize"]);
    assert_eq!(
        chains.why,
        "With 1000000 flows a look-up reads 30.5 entries on average, each in another cache line."
    );
    let timeout = found(&all, "net.netfilter.nf_conntrack_tcp_timeout_established");
    assert_eq!(
        timeout.why,
        "A connection that neither end closes stays 5.0 days: 0.6 such connections/s keep the table full."
    );
}

/// 1 Gbit/s at 100 ms are 12.5 MB of window; half of a buffer is window.
#[test]
fn windows_against_the_path() {
    let files = [
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t33554432\n"),
        ("/proc/sys/net/ipv4/tcp_sack", "0\n"),
        ("/proc/sys/net/ipv4/tcp_timestamps", "1\n"),
    ];
    let all = examine(&Machine::new(&files).host(), Role::Tcp, &LOAD);
    let receive = found(&all, "net.ipv4.tcp_rmem");
    assert_eq!(
        receive.why,
        "One connection reaches at most 252 Mbit/s at 100 ms: 3.0 MiB of it are window, and one window is \
         sent per round trip."
    );
    assert_eq!(sysctl(receive), ["sysctl -w net.ipv4.tcp_rmem='4096 131072 25000000'"]);
    assert_eq!(found(&all, "net.ipv4.tcp_wmem").effect, Effect::Fits);
    assert_eq!(sysctl(found(&all, "net.ipv4.tcp_sack")), ["sysctl -w net.ipv4.tcp_sack='1'"]);
    assert!(all.iter().all(|one| one.setting != "net.ipv4.tcp_timestamps"), "what is on needs no word");
}

#[test]
fn servers_of_many_connections() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                  Max open files            1024                 524288               files\n";
    let files = [
        ("/proc/self/limits", limits),
        ("/proc/sys/fs/nr_open", "1048576"),
        ("/proc/sys/fs/file-max", "9223372036854775807"),
        ("/proc/sys/kernel/pid_max", "4096"),
        ("/proc/sys/vm/max_map_count", "65530"),
        ("/sys/fs/cgroup/pids.max", "max\n"),
        ("/proc/sys/net/core/somaxconn", "4096"),
        ("/proc/sys/net/ipv4/tcp_max_syn_backlog", "65535"),
        ("/proc/sys/net/ipv4/tcp_syncookies", "1"),
        ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999"),
        ("/proc/sys/net/ipv4/tcp_max_tw_buckets", "8192"),
    ];
    let all = examine(&Machine::new(&files).host(), Role::Servers, &LOAD);
    let files = found(&all, "open files of a process");
    assert_eq!((files.now.as_str(), files.wanted.as_deref(), files.fixes.len()), ("1024", Some("10064"), 0));
    assert_eq!(
        files.cost,
        "No cost until they are used. In the shell: ulimit -n 10064; for a service: LimitNOFILE=10064."
    );
    assert_eq!(all[0].setting, "open files of a process", "a tenth fits: the worst of all");
    let tasks = found(&all, "kernel.pid_max");
    assert!((tasks.fits - 0.4096).abs() < 1e-6, "{tasks:?}");
    assert_eq!(sysctl(tasks), ["sysctl -w kernel.pid_max='14096'"]);
    assert_eq!(sysctl(found(&all, "net.core.somaxconn")), ["sysctl -w net.core.somaxconn='10000'"]);
    let fitting =
        ["fs.nr_open", "fs.file-max", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.ip_local_port_range"];
    fitting.iter().for_each(|name| assert_eq!(found(&all, name).effect, Effect::Fits, "{name}"));
    assert_eq!(
        found(&all, "net.ipv4.ip_local_port_range").why,
        "28232 concurrent connections from one address to one address and port. A port stays 60 s \
         in TIME_WAIT if this side closes first: 471 new connections/s, less the open ones."
    );
    assert_eq!(found(&all, "net.ipv4.tcp_max_tw_buckets").effect, Effect::Loses);
}

#[test]
fn interfaces_of_hardware() {
    let files = [
        ("/sys/class/net/eth0/device/numa_node", "-1"),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
        ("/sys/class/net/eth1/device/msi_irqs/40", "msix"),
        ("/sys/class/net/eth1/device/msi_irqs/41", "msix"),
        ("/proc/irq/40/smp_affinity_list", "0-1"),
        ("/proc/irq/40/effective_affinity_list", "0"),
        ("/proc/irq/41/smp_affinity_list", "0"),
        ("/sys/class/net/veth0/queues/rx-0/rps_cpus", "0"),
        ("/sys/class/net/lo/queues/rx-0/rps_cpus", "0"),
        ("/sys/class/net/other0/device/numa_node", "-1"),
        ("/sys/class/net/other0/queues/rx-0/rps_cpus", "0"),
        ("/proc/net/dev", "Inter-|\n face |\n  eth0: 1 2\n  eth1: 1 2\nveth0: 1 2\n    lo: 1 2\n"),
        ("/sys/devices/system/cpu/online", "0-1"),
    ];
    let machine = Machine::new(&files);
    let rings = Rings { receive: 256, transmit: 256, receive_most: 4096, transmit_most: 4096 };
    let nic = Nic {
        rings: Some(rings),
        queues: Some((1, 8)),
        pauses: Some(true),
        lro: Some(false),
        ..Nic::default()
    };
    let host = Host::at(&machine.0, [("eth0".to_string(), nic)]);
    let all = examine(&host, Role::Router, &LOAD);
    let ring = found(&all, "eth0 receive ring");
    assert_eq!(
        ring.why,
        "At 1000000 frames/s the ring is full after 0.26 ms without a CPU that reads it; then the NIC drops \
         frames (rx_missed)."
    );
    assert_eq!(sysctl(ring), ["ethtool -G eth0 rx 4096 tx 4096"]);
    assert_eq!(found(&all, "eth0 queues").wanted.as_deref(), Some("2"));
    assert_eq!(sysctl(found(&all, "eth0 RPS")), ["echo '3' > /sys/class/net/eth0/queues/rx-0/rps_cpus"]);
    assert_eq!(found(&all, "eth0 flow control").effect, Effect::Slows);
    let expected = ["echo '0' > /proc/irq/40/smp_affinity_list", "echo '1' > /proc/irq/41/smp_affinity_list"];
    assert_eq!(sysctl(found(&all, "eth1 interrupts")), expected);
    for other in ["veth0", "lo", "other0"] {
        assert!(all.iter().all(|one| !one.setting.starts_with(other)), "{all:#?}");
    }
}

/// The way out: 1,000 frames are 1 ms at 1 Mpps; two queues behind one fq_codel, and none of them is a CPU's own.
#[test]
fn queues_of_the_way_out() {
    let files = [
        ("/sys/class/net/eth0/device/numa_node", "-1"),
        ("/sys/class/net/eth0/tx_queue_len", "1000"),
        ("/sys/class/net/eth1/device/numa_node", "-1"),
        ("/sys/class/net/eth1/queues/tx-0/xps_cpus", "00"),
        ("/sys/class/net/eth1/queues/tx-1/xps_cpus", "00"),
        ("/sys/class/net/veth0/tx_queue_len", "1000"),
        ("/sys/devices/system/cpu/online", "0-3"),
        ("/proc/sys/net/ipv4/tcp_congestion_control", "bbr"),
    ];
    let machine = Machine::new(&files);
    let one =
        Nic { root_queue: Some("pfifo_fast".into()), gro: Some(true), tso: Some(true), ..Nic::default() };
    let two =
        Nic { root_queue: Some("fq_codel".into()), gro: Some(false), tso: Some(false), ..Nic::default() };
    let host = |nics: [&Nic; 2]| {
        Host::at(&machine.0, ["eth0", "eth1"].map(String::from).into_iter().zip(nics.map(Nic::clone)))
    };
    let all = examine(&host([&one, &two]), Role::Router, &LOAD);
    let length = found(&all, "eth0 txqueuelen");
    assert_eq!((length.effect, length.fits), (Effect::Loses, 0.5));
    assert_eq!(sysctl(length), ["echo '2000' > /sys/class/net/eth0/tx_queue_len"]);
    let lock = found(&all, "eth1 qdisc");
    assert_eq!((lock.fits, lock.wanted.as_deref()), (0.5, Some("mq")));
    let expected = [
        "echo '5' > /sys/class/net/eth1/queues/tx-0/xps_cpus",
        "echo 'a' > /sys/class/net/eth1/queues/tx-1/xps_cpus",
    ];
    assert_eq!(sysctl(found(&all, "eth1 XPS")), expected);
    assert_eq!(found(&all, "eth1 GRO").effect, Effect::Slows);
    let absent = |all: &[Ceiling], name: &str| assert!(all.iter().all(|one| one.setting != name), "{all:#?}");
    ["eth0 qdisc", "eth0 XPS", "eth0 GRO", "eth1 txqueuelen", "veth0 txqueuelen", "eth1 TSO"]
        .iter()
        .for_each(|name| absent(&all, name));

    let all = examine(&host([&one, &two]), Role::Tcp, &LOAD);
    assert_eq!(found(&all, "eth0 qdisc for bbr").wanted.as_deref(), Some("fq"));
    assert_eq!(found(&all, "eth1 TSO").effect, Effect::Slows);
    absent(&all, "eth0 txqueuelen");
    machine.write("/sys/class/net/eth1/queues/tx-1/xps_cpus", "0a");
    let all = examine(&host([&one, &Nic { root_queue: Some("mq".into()), ..two.clone() }]), Role::Tcp, &LOAD);
    assert_eq!(
        (found(&all, "eth1 qdisc").effect, found(&all, "eth1 XPS").effect),
        (Effect::Fits, Effect::Fits)
    );
    absent(&all, "eth1 qdisc for bbr");
}

/// A network of /20 has 4094 hosts, one of /30 two; the default route leads to a gateway.
#[test]
fn neighbours_of_attached_networks() {
    let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t010012C6\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  eth0\t000012C6\t00000000\t0001\t0\t0\t0\t00F0FFFF\t0\t0\t0\n\
                  eth1\t000013C6\t00000000\t0001\t0\t0\t0\tFCFFFFFF\t0\t0\t0\n";
    let files = [("/proc/net/route", routes), ("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024")];
    let all = examine(&Machine::new(&files).host(), Role::Router, &LOAD);
    let neighbours = found(&all, "net.ipv4.neigh.default.gc_thresh3");
    assert_eq!(sysctl(neighbours), ["sysctl -w net.ipv4.neigh.default.gc_thresh3='4096'"]);
}

#[test]
fn cpus_that_wait_and_sleep() {
    let files = [
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "133"),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "0"),
        ("/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines"),
        ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected"),
        ("/sys/devices/system/cpu/smt/active", "1"),
    ];
    let all = examine(&Machine::new(&files).host(), Role::Capture, &LOAD);
    let governor = sysctl(found(&all, "CPU governor"));
    assert_eq!(governor, ["echo 'performance' > /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"]);
    let sleep = sysctl(found(&all, "CPU idle states"));
    assert_eq!(sleep, ["echo '1' > /sys/devices/system/cpu/cpu0/cpuidle/state3/disable"]);
    assert!(found(&all, "CPU mitigations").fixes.is_empty(), "never weir's to change");
    assert!(found(&all, "hyper-threads").fixes.is_empty());
    let short: Vec<_> = all.iter().filter(|one| one.is_short()).map(|one| one.setting.as_str()).collect();
    assert_eq!(short, ["CPU governor", "CPU idle states"], "a choice of the owner is no fault");
}
