//! FreeBSD 12 or newer, with pf or ipfw: a script for a root shell.
//!
//! Sources: ifconfig(8), route(8), pfctl(8), pf.conf(5), ipfw(8) (check-state, keep-state, IN-KERNEL NAT), ipfw(4)
//! (net.inet.ip.fw.default_to_accept), iflib(4) (override_*), em(4), netisr(9), "Router performance" in the FreeBSD
//! wiki. Not run here.

use std::fmt::Write as _;

use weir_packet::flow::IpVersion;

use super::{Mode, Os, Setup, advice, pf};
use crate::rules::others::{Other, others};
use crate::rules::test_network;

pub(super) fn text(setup: &Setup) -> String {
    let system = if setup.os == Os::FreebsdPf { "FreeBSD with pf" } else { "FreeBSD with ipfw" };
    let mut text = setup.heading(system, "Paste it into a root shell (sh), or: ssh root@box sh < this");
    text += &interfaces(setup);
    text += &match setup.os {
        Os::FreebsdPf => pf_conf(setup),
        _ => ipfw(setup),
    };
    text + &tuning(setup)
}

fn interfaces(setup: &Setup) -> String {
    let family = if setup.ip == IpVersion::V4 { "inet" } else { "inet6" };
    let mut text = String::from("\n# The tester is reached through the second address of each side.\n");
    for (side, name) in setup.sides() {
        let (address, network, gateway) = (setup.address(side), setup.network(side), side.tester(setup.ip));
        let alias = if setup.ip == IpVersion::V6 { " no_dad" } else { "" };
        writeln!(
            text,
            "ifconfig {name} {family} {address}{alias} alias up\n\
             route -q delete -{family} {network} 2>/dev/null; route -q add -{family} {network} {gateway}"
        )
        .expect("a String takes all");
    }
    text + match setup.ip {
        IpVersion::V4 => {
            "sysctl net.inet.ip.forwarding=1\nsysctl net.inet.ip.redirect=0   # with it, the fast path is not taken\n"
        }
        IpVersion::V6 => {
            "sysctl net.inet6.ip6.forwarding=1\nsysctl net.inet6.ip6.redirect=0 # with it, the fast path is not taken\n"
        }
    }
}

fn pf_conf(setup: &Setup) -> String {
    if !setup.filters() && !setup.nat {
        return "\npfctl -q -d 2>/dev/null || true   # plain forwarding: no filter\n".into();
    }
    // Translation comes before filtering in this pf, and its nat rule keeps state by itself.
    let nat = if setup.nat {
        let [(a, _), (b, name)] = setup.sides();
        let family = if setup.ip == IpVersion::V4 { "inet" } else { "inet6" };
        format!(
            "nat on {name} {family} from {} to {} -> {}\n",
            setup.network(a),
            setup.network(b),
            b.dut(setup.ip)
        )
    } else {
        String::new()
    };
    format!(
        "\nkldload -n pf\ncat > /etc/pf.weir.conf <<'END'\n{}{nat}{}END\npfctl -q -f /etc/pf.weir.conf\n\
         pfctl -q -e 2>/dev/null || true\n",
        pf::options(),
        pf::rules(setup)
    )
}

/// Rules look at frames that come in through the test interfaces; all others pass.
fn ipfw(setup: &Setup) -> String {
    let mut text = String::from(
        "\n# By default ipfw denies all traffic without a rule, also this connection: change the default before it is loaded.\n\
         kenv -q net.inet.ip.fw.default_to_accept=1\nkldload -n ipfw\n\
         ipfw -q delete set 25 2>/dev/null || true   # remove an earlier set-up\n",
    );
    if setup.nat {
        text += "kldload -n ipfw_nat\nipfw -q nat 1 delete 2>/dev/null || true\n";
    }
    let mut number = 1000;
    let mut add = |rule: String| {
        number += 1;
        writeln!(text, "ipfw -q add {number} set 25 {rule}").expect("a String takes all");
    };
    if setup.nat {
        let [(a, _), (b, name)] = setup.sides();
        let (from, to) = (setup.network(a), setup.network(b));
        add(format!("nat 1 ip from {from} to {to} out xmit {name}"));
        add(format!("nat 1 ip from {to} to {} in recv {name}", b.dut(setup.ip)));
    }
    if setup.filters() {
        let ports: Vec<String> = setup.ports().iter().map(|name| format!("recv {name}")).collect();
        let here = format!("in {{ {} }}", ports.join(" or "));
        let stateful = setup.mode == Mode::Stateful;
        if stateful {
            // Without it, frames of known flows are compared with all rules, as on Linux.
            add("check-state :weir".into());
        }
        let keep = if stateful { " keep-state :weir" } else { "" };
        for Other { source, destination, protocol, source_port, destination_port } in
            others(setup.ip, setup.rules - 1)
        {
            add(format!(
                "allow {protocol} from {source} {source_port} to {destination} {destination_port} {here}{keep}"
            ));
        }
        let net = test_network(setup.ip);
        add(format!("allow udp from {net} to {net} {here}{keep}"));
        if setup.ip == IpVersion::V6 {
            // Neighbour discovery; behind the last rule, where test frames do not come.
            add(format!("allow ipv6-icmp from any to any {here}"));
        }
        add(format!("deny ip from any to any {here}"));
    }
    if setup.nat {
        let (side, _) = setup.sides()[1];
        text += &format!("ipfw -q nat 1 config ip {}\n", side.dut(setup.ip));
    }
    text
}

fn tuning(setup: &Setup) -> String {
    let mut lines = Vec::new();
    for name in setup.ports() {
        let unit = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let driver = &name[..name.len() - unit.len()];
        let device = format!("dev.{driver}.{unit}");
        lines.extend([
            (format!("ifconfig {name} -rxcsum -txcsum -tso -lro -vlanhwtso"), "forward each frame unchanged"),
            (
                format!("sysctl {device}.fc=0"),
                "flow control would slow the tester down instead of showing loss",
            ),
            (
                format!("{device}.iflib.override_nrxds=4096 in /boot/loader.conf"),
                "a longer receive ring holds frames while no CPU receives",
            ),
            (
                format!("{device}.iflib.override_ntxds=4096 in /boot/loader.conf"),
                "the same for the transmit ring",
            ),
            (
                format!("{device}.iflib.override_nrxqs=2 in /boot/loader.conf"),
                "8 queues -> 2: one for each CPU, no more interrupts than CPUs",
            ),
            (format!("{device}.iflib.override_ntxqs=2 in /boot/loader.conf"), "as many as receive queues"),
            (
                format!("sysctl {device}.rx_processing_limit=-1"),
                "no limit of frames per interrupt (drivers without iflib; else .iflib.rx_budget=65535)",
            ),
        ]);
    }
    lines.extend([
        ("vmstat -i".into(), "check first: often one CPU handles all interrupts"),
        ("cpuset -l 0 -x IRQ".into(), "a CPU for each queue's interrupt (smp_affinity on Linux)"),
        ("net.isr.maxthreads=-1 in /boot/loader.conf".into(), "with deferred dispatch (rps_cpus on Linux)"),
        ("sysctl net.isr.dispatch=deferred".into(), "spreads flows over CPUs where the NIC has one queue"),
        ("net.link.ifqmaxlen=10000 in /boot/loader.conf".into(), "like txqueuelen on Linux"),
        ("kern.ipc.nmbclusters=1000000 in /boot/loader.conf".into(), "enough buffers for the longer rings"),
        (
            "kern.smp.disabled=1 in /boot/loader.conf".into(),
            "the same device with one CPU, to see how it scales",
        ),
    ]);
    if setup.os == Os::FreebsdIpfw && setup.mode == Mode::Stateful {
        lines.extend([
            ("sysctl net.inet.ip.fw.dyn_max=2000000".into(), "a full table refuses new flows"),
            ("sysctl net.inet.ip.fw.dyn_buckets=2000000".into(), "short chains: as many buckets as flows"),
            ("sysctl net.inet.ip.fw.dyn_udp_lifetime=60".into(), "UDP timeout of the other systems"),
        ]);
    }
    format!(
        "\n# Tuning: the right values depend on the NIC; remove the # of those that you want.\n{}",
        advice(&lines)
    )
}
