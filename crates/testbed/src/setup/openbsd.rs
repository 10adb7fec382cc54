//! OpenBSD 6.9 or newer: a script for a root shell.
//!
//! Sources: ifconfig(8), route(8), pfctl(8), pf.conf(5) (nat-to, OPTIONS), sysctl(2) (net.inet.ip.ifq.maxlen), the
//! PF user's guide at openbsd.org/faq/pf. Not run here.

use std::fmt::Write as _;

use weir_packet::flow::IpVersion;

use super::{Setup, advice, pf};

pub(super) fn text(setup: &Setup) -> String {
    let mut text = setup
        .heading("OpenBSD with pf", "Paste it into a root shell (ksh or sh), or: ssh root@box sh < this");
    text += &interfaces(setup);
    text += &pf_conf(setup);
    text + &tuning(setup)
}

fn interfaces(setup: &Setup) -> String {
    let family = if setup.ip == IpVersion::V4 { "inet" } else { "inet6" };
    let mut text = String::from("\n# The tester is reached through the second address of each side.\n");
    for (side, name) in setup.sides() {
        let (address, network, gateway) = (setup.address(side), setup.network(side), side.tester(setup.ip));
        writeln!(
            text,
            "ifconfig {name} {family} alias {address} up\n\
             route -q delete -{family} {network} 2>/dev/null; route -q add -{family} {network} {gateway}"
        )
        .expect("a String takes all");
    }
    text + match setup.ip {
        IpVersion::V4 => "sysctl net.inet.ip.forwarding=1\nsysctl net.inet.ip.redirect=0\n",
        IpVersion::V6 => "sysctl net.inet6.ip6.forwarding=1\nsysctl net.inet6.ip6.redirect=0\n",
    }
}

fn pf_conf(setup: &Setup) -> String {
    if !setup.filters() && !setup.nat {
        return "\npfctl -q -d 2>/dev/null || true   # plain forwarding: no filter; pf is on by default\n"
            .into();
    }
    let nat = if setup.nat {
        let [(a, _), (b, name)] = setup.sides();
        let family = if setup.ip == IpVersion::V4 { "inet" } else { "inet6" };
        let (from, to) = (setup.network(a), setup.network(b));
        format!("match out on {name} {family} from {from} to {to} nat-to {}\n", b.dut(setup.ip))
    } else {
        String::new()
    };
    format!(
        "\ncat > /etc/pf.weir.conf <<'END'\n{}{nat}{}END\npfctl -q -f /etc/pf.weir.conf\n\
         pfctl -q -e 2>/dev/null || true\n",
        pf::options(),
        pf::rules(setup)
    )
}

fn tuning(setup: &Setup) -> String {
    let mut lines = Vec::new();
    for name in setup.ports() {
        lines.push((format!("ifconfig {name} -tcplro"), "forward each frame unchanged (7.3 or newer)"));
        lines.push((
            format!("ifconfig {name} media"),
            "shows rxpause and txpause: switch flow control off at the other end, because it hides loss",
        ));
    }
    lines.extend([
        ("sysctl net.inet.ip.ifq.maxlen=10000".into(), "room for bursts (txqueuelen on Linux)"),
        ("sysctl kern.pool_debug=0".into(), "snapshots check all memory, which is several times slower"),
        ("systat vmstat".into(), "check first which CPU handles the interrupts; it cannot be changed"),
        ("boot bsd.sp instead of bsd.mp".into(), "the same device with one CPU, to see how it scales"),
    ]);
    format!(
        "\n# Tuning: the drivers set ring sizes, numbers of queues and limits per interrupt; they cannot be changed.\n{}",
        advice(&lines)
    )
}
