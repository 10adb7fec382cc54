//! Queues in which connections wait for a server, and the ports that connections to one have.

use super::count;
use crate::{Ceiling, Effect, Fix, Host, Load};

/// Connections that may arrive before a server has accepted the first: as many as are wanted at once, as after its
/// restart, but no more than the kernel's type holds for most programs.
fn burst(load: &Load) -> f64 {
    (load.connections as f64).min(65_535.0)
}

/// The queue of connections that are complete, that of those which are not, and cookies.
pub(super) fn backlogs(host: &Host, load: &Load) -> Vec<Ceiling> {
    let burst = burst(load);
    let queue = |name: &str, why: String| {
        let limit = host.sysctl_one(name)?;
        let ceiling = count(name, limit, burst, why);
        Some(match ceiling.effect {
            Effect::Fits => ceiling,
            _ => ceiling
                .raise(
                    format!("{burst:.0}"),
                    "About 300 bytes for each waiting connection; the server sets its backlog in listen().",
                )
                .by(Fix::sysctl(name, format!("{burst:.0}"))),
        })
    };
    let accepted = queue(
        "net.core.somaxconn",
        "listen() silently limits the backlog to this. Above it, final ACKs are dropped (ListenOverflows): a client believes that \
         it is connected, and waits 1, 3, 7 seconds."
            .to_string(),
    );
    let half_open = queue(
        "net.ipv4.tcp_max_syn_backlog",
        "Connections in their handshake. With SYN cookies further ones are answered, but lose their TCP options; without \
         cookies their SYNs are dropped."
            .to_string(),
    );
    let cookies = (host.sysctl_one("net.ipv4.tcp_syncookies") == Some(0.0)).then(|| {
        Ceiling::fits(
            "net.ipv4.tcp_syncookies",
            0,
            "A SYN flood that fills the backlog blocks all other clients.",
        )
        .short(Effect::Loses, 0.0)
        .raise(1, "No cost until the backlog is full.")
        .by(Fix::sysctl("net.ipv4.tcp_syncookies", 1))
    });
    [accepted, half_open, cookies].into_iter().flatten().collect()
}

/// Ports of outgoing connections to one address and port, and how soon they come back.
pub(super) fn ports(host: &Host, load: &Load) -> Vec<Ceiling> {
    let range: Option<[f64; 2]> =
        host.sysctl("net.ipv4.ip_local_port_range").and_then(|range| range.try_into().ok());
    let Some([first, last]) = range else {
        return Vec::new();
    };
    let ports: f64 = last - first + 1.0;
    let wanted = load.connections as f64;
    let why = format!(
        "{ports:.0} concurrent connections from one address to one address and port. A port stays 60 s in TIME_WAIT if this side \
         closes first: {:.0} new connections/s, less the open ones.",
        ports / 60.0
    );
    let mut range = count("net.ipv4.ip_local_port_range", ports, wanted, why);
    range.now = format!("{first:.0} {last:.0}");
    if range.effect != Effect::Fits {
        let cost = "Reserve the ports of services above 1023 (net.ipv4.ip_local_reserved_ports); each further source address adds \
                    as many ports.";
        range = range.raise("1024 65535", cost);
        if ports < 64_512.0 {
            range = range.by(Fix::sysctl("net.ipv4.ip_local_port_range", "1024 65535"));
        }
    }
    [Some(range), waiting(host, load)].into_iter().flatten().collect()
}

/// Connections in TIME_WAIT.
fn waiting(host: &Host, load: &Load) -> Option<Ceiling> {
    let limit = host.sysctl_one("net.ipv4.tcp_max_tw_buckets")?;
    let why = "Connections in TIME_WAIT; above this they are removed early, and late segments may reach a new connection.";
    let ceiling = count("net.ipv4.tcp_max_tw_buckets", limit, load.connections as f64, why);
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ => ceiling
            .raise(load.connections, "About 250 bytes for each.")
            .by(Fix::sysctl("net.ipv4.tcp_max_tw_buckets", load.connections)),
    })
}
