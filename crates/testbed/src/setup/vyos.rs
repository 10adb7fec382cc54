//! VyOS 1.4 or newer: commands for its configuration mode.
//!
//! Sources: docs.vyos.io, configuration: firewall/ipv4 and ipv6 (forward filter), system/conntrack (ignore), nat44
//! and nat66 (masquerade), interfaces/ethernet (ring-buffer, offload), protocols/static; automation/command-
//! scripting (script-template). Not run here.

use std::fmt::Write as _;

use weir_packet::flow::IpVersion;

use super::{Mode, Setup, advice};
use crate::rules::others::{Other, others};
use crate::rules::test_network;

/// Numbers of the rules of this set-up begin here, so that a rule of the box's owner is not changed.
const FIRST_RULE: u32 = 10_000;

pub(super) fn text(setup: &Setup) -> String {
    let mut text =
        setup.heading("VyOS", "Paste it into a shell of a VyOS user, or: ssh vyos@box /bin/vbash -s < this");
    text += "\nsource /opt/vyatta/etc/functions/script-template\nconfigure\n";
    text += &interfaces(setup);
    text += &firewall(setup);
    text += "commit\nsave\nexit\n";
    text + &tuning(setup)
}

fn interfaces(setup: &Setup) -> String {
    let route = if setup.ip == IpVersion::V4 { "route" } else { "route6" };
    let mut text = String::from("\n# The tester is reached through the second address of each side.\n");
    for (side, name) in setup.sides() {
        let (address, network, gateway) = (setup.address(side), setup.network(side), side.tester(setup.ip));
        writeln!(
            text,
            "set interfaces ethernet {name} address '{address}'\n\
             set protocols static {route} {network} next-hop {gateway}"
        )
        .expect("a String takes all");
    }
    text
}

/// Forwarding is on by default. Only what an earlier set-up of this kind left is deleted: all of the forward filter.
fn firewall(setup: &Setup) -> String {
    let (ip, nat) = if setup.ip == IpVersion::V4 { ("ipv4", "nat") } else { ("ipv6", "nat66") };
    let mut text = format!(
        "\ndelete firewall {ip} forward filter\ndelete system conntrack ignore {ip} rule {FIRST_RULE}\n\
         delete {nat} source rule {FIRST_RULE}\n"
    );
    if setup.mode == Mode::Stateless {
        text += &format!(
            "# From 1.5 on also: set firewall {ip} prerouting raw rule {FIRST_RULE} action 'notrack', with the same addresses.\n"
        );
    }
    let mut set = |line: &str| writeln!(text, "set {line}").expect("a String takes all");
    let net = test_network(setup.ip);
    if setup.mode == Mode::Stateless {
        for direction in ["source", "destination"] {
            set(&format!("system conntrack ignore {ip} rule {FIRST_RULE} {direction} address '{net}'"));
        }
    }
    if setup.filters() {
        set(&format!("firewall {ip} forward filter default-action 'drop'"));
        let mut rule = |index: u32, lines: &[String]| {
            for line in [String::from("action 'accept'")].iter().chain(lines) {
                set(&format!("firewall {ip} forward filter rule {} {line}", FIRST_RULE + index));
            }
        };
        for (index, other) in (0..).zip(others(setup.ip, setup.rules - 1)) {
            let Other { source, destination, protocol, source_port, destination_port } = other;
            rule(
                index,
                &[
                    format!("protocol '{protocol}'"),
                    format!("source address '{source}'"),
                    format!("source port '{source_port}'"),
                    format!("destination address '{destination}'"),
                    format!("destination port '{destination_port}'"),
                ],
            );
        }
        let mut last = vec![format!("source address '{net}'"), format!("destination address '{net}'")];
        if setup.mode == Mode::Stateful {
            last.extend(["new", "established", "related"].map(|state| format!("state '{state}'")));
        }
        rule(setup.rules - 1, &last);
    }
    if setup.nat {
        let (side, name) = setup.sides()[1];
        let to = if setup.ip == IpVersion::V4 { "address" } else { "prefix" };
        let network = setup.network(side);
        set(&format!("{nat} source rule {FIRST_RULE} outbound-interface name '{name}'"));
        set(&format!("{nat} source rule {FIRST_RULE} destination {to} '{network}'"));
        set(&format!("{nat} source rule {FIRST_RULE} translation address 'masquerade'"));
    }
    text
}

fn tuning(setup: &Setup) -> String {
    let mut lines = Vec::new();
    for name in setup.ports() {
        lines.extend([
            (
                format!("set interfaces ethernet {name} ring-buffer rx 4096"),
                "longer rings hold frames while no CPU receives (tx likewise)",
            ),
            (
                format!("delete interfaces ethernet {name} offload"),
                "forward each frame unchanged (gro, gso, lro, tso)",
            ),
            (
                format!("set interfaces ethernet {name} disable-flow-control"),
                "flow control would slow the tester down instead of showing loss",
            ),
            (
                format!("set interfaces ethernet {name} offload rps"),
                "spreads the frames over CPUs where the NIC has few queues; like rps_cpus on Linux",
            ),
            (format!("sudo ethtool -L {name} combined 2"), "8 queues -> 2: one for each CPU"),
            (
                format!("sudo ip link set {name} txqueuelen 10000"),
                "room for bursts when the transmit ring is full",
            ),
        ]);
    }
    lines.extend([
        ("grep eth /proc/interrupts".into(), "check first: often one CPU handles all interrupts"),
        (
            "echo 1 | sudo tee /proc/irq/N/smp_affinity".into(),
            "a CPU of its own for each queue's interrupt N",
        ),
        ("set system option performance 'network-throughput'".into(), "the profile for routers (tuned)"),
    ]);
    if setup.mode == Mode::Stateful || setup.nat {
        lines.extend([
            ("set system conntrack table-size '2000000'".into(), "a full table refuses new flows"),
            ("set system conntrack hash-size '2000000'".into(), "short chains: as many buckets as flows"),
        ]);
    }
    format!("\n# Tuning: remove the # of those that you want.\n{}", advice(&lines))
}
