//! Memory and settings of TCP, against the bandwidth-delay product.

use super::{bytes, count};
use crate::{Ceiling, Effect, Fix, Host, Load};

/// The part of a socket's memory that is payload: the rest is what the kernel needs beside it (tcp_adv_win_scale = 1).
const PAYLOAD: f64 = 0.5;

/// Rules for few connections of high rate.
pub(super) fn examine(host: &Host, load: &Load) -> Vec<Ceiling> {
    let windows = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].map(|name| window(host, name, load));
    let switches = [
        (
            "net.ipv4.tcp_window_scaling",
            64.0 * 1024.0 / load.bdp_bytes(),
            "No window above 64 KiB (RFC 7323).",
        ),
        (
            "net.ipv4.tcp_sack",
            0.5,
            "After a loss only one segment per round trip is retransmitted (RFC 2018).",
        ),
        (
            "net.ipv4.tcp_timestamps",
            0.8,
            "Round-trip times are sampled once a round, and sequence numbers are not protected (RFC 7323).",
        ),
        (
            "net.ipv4.tcp_moderate_rcvbuf",
            0.5,
            "The receive buffer stays at its default and does not grow with the rate.",
        ),
    ];
    let switches = switches.map(|(name, left, why)| switched_on(host, name, left, why));
    windows.into_iter().chain(switches).chain([slow_start(host), total(host, load, 1.0)]).flatten().collect()
}

/// The memory of all sockets, for many connections.
pub(super) fn memory_of_all(host: &Host, load: &Load) -> Vec<Ceiling> {
    total(host, load, load.connections as f64).into_iter().collect()
}

/// The largest window that a socket's buffer may grow to.
fn window(host: &Host, name: &str, load: &Load) -> Option<Ceiling> {
    let values: [f64; 3] = host.sysctl(name)?.try_into().ok()?;
    let [least, default, most] = values;
    let needed = load.bdp_bytes() / PAYLOAD;
    let rate = most * PAYLOAD * 8.0 / load.rtt_s;
    let why = format!(
        "One connection reaches at most {:.0} Mbit/s at {:.0} ms: {} of it are window, and one window is sent per round trip.",
        rate / 1e6,
        load.rtt_s * 1e3,
        bytes(most * PAYLOAD)
    );
    let mut ceiling = count(name, most, needed, why);
    ceiling.now = format!("{least:.0} {default:.0} {most:.0}");
    if ceiling.effect == Effect::Fits {
        return Some(ceiling);
    }
    ceiling.effect = Effect::Slows;
    let value = format!("{least:.0} {default:.0} {needed:.0}");
    let cost = format!("Up to {} for each connection of this rate.", bytes(needed));
    Some(ceiling.raise(&value, cost).by(Fix::sysctl(name, &value)))
}

/// A part of TCP that is switched off.
fn switched_on(host: &Host, name: &str, left: f64, why: &str) -> Option<Ceiling> {
    let is_off = host.sysctl_one(name)? == 0.0;
    is_off.then(|| {
        Ceiling::fits(name, 0, why)
            .short(Effect::Slows, left)
            .raise(1, "No cost: 1 is the kernel's default.")
            .by(Fix::sysctl(name, 1))
    })
}

/// After a pause the window is small again (RFC 2861).
fn slow_start(host: &Host) -> Option<Ceiling> {
    let name = "net.ipv4.tcp_slow_start_after_idle";
    (host.sysctl_one(name)? == 1.0).then(|| {
        let why = "A connection that paused for a retransmission timeout restarts with ten segments (RFC 2861): requests over persistent \
                   connections take several round trips.";
        Ceiling::fits(name, 1, why).short(Effect::Slows, 0.9).raise(0, "Bursts after pauses; suitable for known paths.").by(Fix::sysctl(name, 0))
    })
}

/// All of TCP's memory, in pages.
fn total(host: &Host, load: &Load, connections: f64) -> Option<Ceiling> {
    let values: [f64; 3] = host.sysctl("net.ipv4.tcp_mem")?.try_into().ok()?;
    let [low, pressure, most] = values;
    let page = 4096.0;
    // Many connections are small ones: a page each way; few have whole windows.
    let of_one = if connections > 100.0 { 2.0 * page } else { 2.0 * load.bdp_bytes() / PAYLOAD };
    let wanted = connections * of_one;
    let why = format!(
        "All TCP sockets together have {}; above {} their buffers shrink, and above the maximum segments are dropped.",
        bytes(most * page),
        bytes(pressure * page)
    );
    let mut ceiling = count("net.ipv4.tcp_mem", most * page, wanted, why);
    ceiling.now = format!("{low:.0} {pressure:.0} {most:.0}");
    if ceiling.effect == Effect::Fits {
        return Some(ceiling);
    }
    let pages = wanted / page;
    let value = format!("{:.0} {:.0} {:.0}", pages / 2.0, pages * 0.75, pages);
    let fits = host.memory_bytes().is_none_or(|memory| wanted < memory / 2.0);
    let cost = format!("{} of memory under that load.", bytes(wanted));
    if !fits {
        return Some(ceiling.raise(
            &value,
            format!(
                "{cost} The machine has less than twice this memory: use fewer connections, or add memory."
            ),
        ));
    }
    Some(ceiling.raise(&value, cost).by(Fix::sysctl("net.ipv4.tcp_mem", &value)))
}
