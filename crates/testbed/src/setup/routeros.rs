//! MikroTik RouterOS 7: commands for its terminal.
//!
//! Sources: help.mikrotik.com, pages "Filter", "NAT", "RAW" (notrack), "Connection tracking", "IP Settings" (allow-
//! fast-path), "Ethernet" (flow control), "IRQ" (system/resource/irq/rps). Not run here.

use std::fmt::Write as _;

use weir_packet::flow::IpVersion;

use super::{Mode, Setup, advice};
use crate::rules::others::{Other, others};
use crate::rules::test_network;

pub(super) fn text(setup: &Setup) -> String {
    let mut text = setup.heading(
        "RouterOS 7",
        "Paste it into its terminal, or copy it there as weir.rsc and: /import weir.rsc",
    );
    text += &interfaces(setup);
    text += &firewall(setup);
    text + &tuning(setup)
}

fn menu(setup: &Setup) -> &'static str {
    if setup.ip == IpVersion::V4 { "/ip" } else { "/ipv6" }
}

fn interfaces(setup: &Setup) -> String {
    let menu = menu(setup);
    let mut text = String::from("\n# The tester is reached through the second address of each side.\n");
    for list in ["address", "route"] {
        writeln!(text, "{menu}/{list} remove [find comment=\"weir\"]").expect("a String takes all");
    }
    for (side, name) in setup.sides() {
        let (address, network, gateway) = (setup.address(side), setup.network(side), side.tester(setup.ip));
        let advertise = if setup.ip == IpVersion::V6 { " advertise=no no-dad=yes" } else { "" };
        writeln!(
            text,
            "{menu}/address add address={address} interface={name}{advertise} comment=\"weir\"\n\
             {menu}/route add dst-address={network} gateway={gateway} comment=\"weir\""
        )
        .expect("a String takes all");
    }
    text + match setup.ip {
        IpVersion::V4 => "/ip/settings set ip-forward=yes send-redirects=no rp-filter=no\n",
        IpVersion::V6 => "/ipv6/settings set forward=yes\n",
    }
}

fn firewall(setup: &Setup) -> String {
    let menu = menu(setup);
    let mut text = String::from("\n");
    for list in ["raw", "filter", "nat"] {
        writeln!(text, "{menu}/firewall/{list} remove [find comment=\"weir\"]").expect("a String takes all");
    }
    let mut add = |list: &str, rule: &str| {
        writeln!(text, "{menu}/firewall/{list} add {rule} comment=\"weir\"").expect("a String takes all");
    };
    if setup.mode == Mode::Stateless {
        for name in setup.ports() {
            add("raw", &format!("chain=prerouting in-interface={name} action=notrack"));
        }
    }
    if setup.filters() {
        for Other { source, destination, protocol, source_port, destination_port } in
            others(setup.ip, setup.rules - 1)
        {
            add(
                "filter",
                &format!(
                    "chain=forward action=accept protocol={protocol} src-address={source} dst-address={destination} \
                     src-port={source_port} dst-port={destination_port}"
                ),
            );
        }
        let net = test_network(setup.ip);
        let state =
            if setup.mode == Mode::Stateful { " connection-state=new,established,related" } else { "" };
        add("filter", &format!("chain=forward action=accept src-address={net} dst-address={net}{state}"));
        for name in setup.ports() {
            add("filter", &format!("chain=forward action=drop in-interface={name}"));
        }
    }
    if setup.nat {
        let (side, name) = setup.sides()[1];
        let network = setup.network(side);
        add("nat", &format!("chain=srcnat action=masquerade out-interface={name} dst-address={network}"));
    }
    text
}

fn tuning(setup: &Setup) -> String {
    let mut lines = Vec::new();
    for name in setup.ports() {
        lines.extend([
            (
                format!("/interface/ethernet set {name} rx-flow-control=off tx-flow-control=off"),
                "flow control would slow the tester down instead of showing loss",
            ),
            (
                format!("/system/resource/irq/rps set [find name={name}] disabled=no"),
                "spreads the frames over CPUs; like rps_cpus on Linux",
            ),
        ]);
    }
    lines.extend([
        ("/system/resource/irq print".into(), "check first: often one CPU handles all interrupts"),
        (
            "/system/resource/irq set [find] cpu=auto".into(),
            "or a CPU for each interrupt (smp_affinity on Linux)",
        ),
        (
            "/ip/settings set allow-fast-path=no".into(),
            "use the slow path: measure with and without, and report which",
        ),
        (
            "/ip/firewall/filter disable [find action=fasttrack-connection]".into(),
            "the default configuration has such a rule: its frames bypass the other rules",
        ),
        (
            "/queue/interface set [find] queue=only-hardware-queue".into(),
            "only the queue of the port; the driver sets ring sizes and offloads",
        ),
    ]);
    format!("\n# Tuning: remove the # of those that you want.\n{}", advice(&lines))
}
