//! pf rules that FreeBSD and OpenBSD have in common.
//!
//! Sources: pf.conf(5) of both systems, sections PACKET FILTERING, STATEFUL FILTERING, OPTIONS. A rule with `quick`
//! is the last that is looked at, which makes the order that of the other systems. Without `no state` a pass rule
//! keeps state, and frames of a known state are compared with no rule: that is how pf works, and a difference to
//! the Linux set-up, where they are.

use std::fmt::Write as _;

use weir_packet::flow::IpVersion;

use super::{Mode, Setup};
use crate::rules::others::{Other, others};
use crate::rules::test_network;

/// Options that stand before all rules.
pub(super) fn options() -> &'static str {
    "set limit states 2000000        # a full table refuses new flows\n\
     set ruleset-optimization none   # do not reorder the rules\n\
     set skip on lo0\n"
}

/// The filter on the test interfaces; other interfaces are not filtered.
pub(super) fn rules(setup: &Setup) -> String {
    // Only behind the last rule: a list of interfaces makes a rule of each line for each of them.
    let on = format!("on {{ {} }}", setup.ports().join(", "));
    let family = if setup.ip == IpVersion::V4 { "inet" } else { "inet6" };
    let state = if setup.mode == Mode::Stateless { " no state" } else { "" };
    let mut text = String::new();
    if setup.filters() {
        for Other { source, destination, protocol, source_port, destination_port } in
            others(setup.ip, setup.rules - 1)
        {
            writeln!(
                text,
                "pass in quick {family} proto {protocol} from {source} port {source_port} to {destination} port \
                 {destination_port}{state}"
            )
            .expect("a String takes all");
        }
        let net = test_network(setup.ip);
        writeln!(text, "pass in quick {family} proto udp from {net} to {net}{state}")
            .expect("a String takes all");
        if setup.ip == IpVersion::V6 {
            // Neighbour discovery; behind the last rule, where test frames do not come.
            writeln!(text, "pass in quick {on} inet6 proto icmp6 all no state").expect("a String takes all");
        }
        writeln!(text, "block drop in quick {on} all").expect("a String takes all");
        writeln!(text, "pass out quick {on} all{state}").expect("a String takes all");
    } else if setup.nat {
        writeln!(text, "pass quick {on} all").expect("a String takes all");
    }
    text
}
