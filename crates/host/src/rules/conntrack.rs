//! The kernel's table of connections: room, chains, memory and timeouts. Source: nf_conntrack-sysctl.rst of the kernel.

use super::{bytes, count, power_of_two};
use crate::{Ceiling, Effect, Fix, Host, Load};

const MAX: &str = "net.netfilter.nf_conntrack_max";
const ESTABLISHED: &str = "net.netfilter.nf_conntrack_tcp_timeout_established";
/// Size of an entry where the kernel does not say it.
const ENTRY_BYTES: f64 = 320.0;
/// Shortest time that a NAT may forget an idle TCP connection after (RFC 5382 REQ-5): 2 hours 4 minutes.
const RFC5382_S: f64 = 7440.0;

/// Rules for a NAT and a stateful filter; nothing if the kernel tracks no connections.
pub(super) fn examine(host: &Host, load: &Load) -> Vec<Ceiling> {
    [room(host, load), chains(host, load), timeout(host)].into_iter().flatten().collect()
}

/// Memory of an entry.
fn entry_bytes(host: &Host) -> f64 {
    host.number("/sys/kernel/slab/nf_conntrack/slab_size").unwrap_or(ENTRY_BYTES)
}

fn room(host: &Host, load: &Load) -> Option<Ceiling> {
    let limit = host.sysctl_one(MAX)?;
    // A quarter more than is wanted: entries of connections that have ended stay for minutes.
    let wanted = 1.25 * load.flows as f64;
    let memory = wanted * entry_bytes(host);
    let why = "Above this, the first packet of a new connection is dropped (\"nf_conntrack: table full\"); existing connections continue.";
    let ceiling = count(MAX, limit, wanted, why);
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ => ceiling
            .raise(format!("{wanted:.0}"), format!("{} of memory when the table is full.", bytes(memory)))
            .by(Fix::sysctl(MAX, format!("{wanted:.0}"))),
    })
}

/// Entries are found by a hash: with more entries than buckets, chains are walked.
fn chains(host: &Host, load: &Load) -> Option<Ceiling> {
    let buckets = host.sysctl_one("net.netfilter.nf_conntrack_buckets")?;
    // Each connection stands in the table twice, once for each direction.
    let chain = 2.0 * load.flows as f64 / buckets;
    let why = format!(
        "With {} flows a look-up reads {chain:.1} entries on average, each in another cache line.",
        load.flows
    );
    let mut ceiling = Ceiling::fits("net.netfilter.nf_conntrack_buckets", buckets, why);
    if chain > 2.0 {
        let wanted = power_of_two(load.flows as f64);
        // The parameter of the module changes the table at once; the sysctl can be written in the first namespace only.
        let path = "/sys/module/nf_conntrack/parameters/hashsize".to_string();
        ceiling = ceiling
            .short(Effect::Slows, 2.0 / chain)
            .raise(
                wanted,
                format!(
                    "{} of memory, and a short stop while the table is rehashed.",
                    bytes(wanted as f64 * 8.0)
                ),
            )
            .by(Fix::File { path, value: wanted.to_string() });
    }
    Some(ceiling)
}

fn timeout(host: &Host) -> Option<Ceiling> {
    let seconds = host.sysctl_one(ESTABLISHED)?;
    let limit = host.sysctl_one(MAX)?;
    let why = format!(
        "A connection that neither end closes stays {:.1} days: {:.1} such connections/s keep the table full.",
        seconds / 86_400.0,
        limit / seconds
    );
    let ceiling = Ceiling::fits(ESTABLISHED, seconds, why);
    Some(if seconds > 4.0 * RFC5382_S {
        ceiling
            .short(Effect::Slows, (RFC5382_S / seconds).max(0.5))
            .raise(
                RFC5382_S,
                "Connections that are idle for more than 2 h 4 min are removed (RFC 5382 allows it).",
            )
            .by(Fix::sysctl(ESTABLISHED, RFC5382_S))
    } else {
        ceiling
    })
}
