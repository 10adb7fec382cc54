//! Linux, with nftables or iptables: a script for a root shell.
//!
//! Sources: ip(8), nft(8), iptables-restore(8), iptables-extensions(8) (CT), ethtool(8),
//! Documentation/networking/{ip-sysctl,scaling,nf_conntrack-sysctl}.rst of the kernel.

use std::fmt::Write as _;

use weir_packet::flow::IpVersion;

use super::{Mode, Os, Setup, advice};
use crate::rules::others::{Other, others};
use crate::rules::test_network;

pub(super) fn text(setup: &Setup) -> String {
    let system = if setup.os == Os::LinuxNft { "Linux with nftables" } else { "Linux with iptables" };
    let mut text = setup.heading(system, "Paste it into a root shell, or: ssh root@box sh -e < this");
    text += &interfaces(setup);
    text += &match setup.os {
        Os::LinuxNft => nftables(setup),
        _ => iptables(setup),
    };
    text + &tuning(setup)
}

/// Addresses, routes, forwarding.
fn interfaces(setup: &Setup) -> String {
    let mut text = String::from("\n# The tester is reached through the second address of each side.\n");
    if setup.ip == IpVersion::V4 {
        // A box with one port would tell the tester of a shorter way, and a filter on the source would drop.
        for name in ["all", "default"].into_iter().chain(setup.ports()) {
            for option in ["rp_filter", "send_redirects"] {
                writeln!(text, "sysctl -q -w net/ipv4/conf/{name}/{option}=0").expect("a String takes all");
            }
        }
    }
    for (side, name) in setup.sides() {
        let nodad = if setup.ip == IpVersion::V6 { " nodad" } else { "" };
        let (address, network, gateway) = (setup.address(side), setup.network(side), side.tester(setup.ip));
        writeln!(
            text,
            "ip link set {name} up\nip address replace {address} dev {name}{nodad}\n\
             ip route replace {network} via {gateway} dev {name}"
        )
        .expect("a String takes all");
    }
    text + match setup.ip {
        IpVersion::V4 => "sysctl -q -w net/ipv4/ip_forward=1\n",
        IpVersion::V6 => "sysctl -q -w net/ipv6/conf/all/forwarding=1\n",
    }
}

fn nftables(setup: &Setup) -> String {
    let family = if setup.ip == IpVersion::V4 { "ip" } else { "ip6" };
    // Adding before deleting makes the deletion right whether the table is there or not.
    let mut text = format!("\nnft -f - <<'END'\nadd table {family} weir\ndelete table {family} weir\n");
    if !setup.filters() && !setup.nat {
        return text + "END\n";
    }
    text += &format!("table {family} weir {{\n");
    if setup.mode == Mode::Stateless {
        let names: Vec<String> = setup.ports().iter().map(|name| format!("\"{name}\"")).collect();
        text += &format!(
            " chain untracked {{\n  type filter hook prerouting priority raw; policy accept;\n  iifname {{ {} }} \
             notrack\n }}\n",
            names.join(", ")
        );
    }
    if setup.filters() {
        text += " chain forwarding {\n  type filter hook forward priority filter; policy drop;\n";
        for Other { source, destination, protocol, source_port, destination_port } in
            others(setup.ip, setup.rules - 1)
        {
            writeln!(
                text,
                "  {family} saddr {source} {family} daddr {destination} {protocol} sport {source_port} \
                 {protocol} dport {destination_port} counter accept"
            )
            .expect("a String takes all");
        }
        let net = test_network(setup.ip);
        let state = if setup.mode == Mode::Stateful { "ct state new,established,related " } else { "" };
        text += &format!("  {family} saddr {net} {family} daddr {net} {state}counter accept\n }}\n");
    }
    if setup.nat {
        let (side, name) = setup.sides()[1];
        text += &format!(
            " chain source_nat {{\n  type nat hook postrouting priority srcnat; policy accept;\n  oifname \
             \"{name}\" {family} daddr {} masquerade\n }}\n",
            setup.network(side)
        );
    }
    text + "}\nEND\n"
}

/// In chains of its own, so that the rules of the box's owner stay: a jump per frame more than in the chain itself.
fn iptables(setup: &Setup) -> String {
    let program = if setup.ip == IpVersion::V4 { "iptables" } else { "ip6tables" };
    let mut text = String::from("\n");
    for (table, chain) in [("raw", "PREROUTING"), ("filter", "FORWARD"), ("nat", "POSTROUTING")] {
        writeln!(text, "{program} -t {table} -D {chain} -j weir 2>/dev/null || true")
            .expect("a String takes all");
    }
    text += &format!("{program}-restore --noflush <<'END'\n");
    let mut table = |name: &str, chain: &str, rules: Vec<String>| {
        // Declared, the chain is emptied; without rules it is not entered.
        let enter = if rules.is_empty() { String::new() } else { format!("-I {chain} 1 -j weir\n") };
        let rules: String = rules.iter().map(|rule| format!("-A weir {rule}\n")).collect();
        text += &format!("*{name}\n:weir - [0:0]\n{rules}{enter}COMMIT\n");
    };
    let untracked = setup.ports().iter().map(|name| format!("-i {name} -j CT --notrack")).collect();
    table("raw", "PREROUTING", if setup.mode == Mode::Stateless { untracked } else { Vec::new() });
    table("filter", "FORWARD", if setup.filters() { iptables_rules(setup) } else { Vec::new() });
    let (side, name) = setup.sides()[1];
    let masquerade = format!("-o {name} -d {} -j MASQUERADE", setup.network(side));
    table("nat", "POSTROUTING", if setup.nat { vec![masquerade] } else { Vec::new() });
    text + "END\n"
}

fn iptables_rules(setup: &Setup) -> Vec<String> {
    let mut rules: Vec<String> = others(setup.ip, setup.rules - 1)
        .map(|Other { source, destination, protocol, source_port, destination_port }| {
            format!(
                "-s {source} -d {destination} -p {protocol} --sport {source_port} --dport {destination_port} -j ACCEPT"
            )
        })
        .collect();
    let net = test_network(setup.ip);
    let state =
        if setup.mode == Mode::Stateful { "-m conntrack --ctstate NEW,ESTABLISHED,RELATED " } else { "" };
    rules.push(format!("-s {net} -d {net} {state}-j ACCEPT"));
    rules.push("-j DROP".into());
    rules
}

/// Why and how a Linux box is tuned.
fn tuning(setup: &Setup) -> String {
    let mut lines = Vec::new();
    for name in setup.ports() {
        lines.extend([
            (format!("ethtool -G {name} rx 4096 tx 4096"), "longer rings hold frames while no CPU receives"),
            (format!("ethtool -K {name} gro off lro off gso off tso off"), "forward each frame unchanged"),
            (
                format!("ethtool -A {name} autoneg off rx off tx off"),
                "flow control would slow the tester down instead of showing loss",
            ),
            (
                format!("ethtool -L {name} combined 2"),
                "8 queues -> 2: one for each CPU, no more interrupts than CPUs",
            ),
            (
                format!("ip link set {name} txqueuelen 10000"),
                "room for bursts when the transmit ring is full",
            ),
            (format!("grep {name} /proc/interrupts"), "check first: often one CPU handles all interrupts"),
            (
                format!("echo 3 > /sys/class/net/{name}/queues/rx-0/rps_cpus"),
                "if the NIC has fewer queues than the machine has CPUs (mask: CPUs 0 and 1)",
            ),
        ]);
    }
    lines.extend([
        ("systemctl stop irqbalance".into(), "it would move interrupts during a run"),
        (
            "echo 1 > /proc/irq/N/smp_affinity".into(),
            "a CPU of its own for each queue's interrupt N (mask: CPU 0)",
        ),
        ("sysctl -w net.core.netdev_max_backlog=10000".into(), "the queue that RPS fills"),
        ("sysctl -w net.core.netdev_budget=600".into(), "more frames in each round of polling"),
        (
            "maxcpus=1 on the kernel's command line".into(),
            "the same device with one CPU, to see how it scales",
        ),
    ]);
    if setup.mode == Mode::Stateful || setup.nat {
        lines.extend([
            ("sysctl -w net.netfilter.nf_conntrack_max=2000000".into(), "a full table refuses new flows"),
            (
                "echo 2000000 > /sys/module/nf_conntrack/parameters/hashsize".into(),
                "short chains: as many buckets as flows",
            ),
        ]);
    }
    format!(
        "\n# Tuning: the right values depend on the NIC; remove the # of those that you want.\n{}",
        advice(&lines)
    )
}
