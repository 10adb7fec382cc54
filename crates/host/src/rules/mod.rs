//! Rules: each reads settings of a host and reports their effect.

mod conntrack;
mod cpus;
mod forwarding;
mod interfaces;
mod processes;
mod sockets;
mod tcp;
#[cfg(test)]
mod tests;
mod transmit;

use crate::{Ceiling, Effect, Host, Load, Role};

/// A family of settings: what it finds, in any order; nothing of what cannot be read.
type Rule = fn(&Host, &Load) -> Vec<Ceiling>;

/// What matters to a role.
fn rules(role: Role) -> &'static [Rule] {
    match role {
        Role::Router => &[
            forwarding::examine,
            interfaces::receive,
            interfaces::forwarding,
            transmit::forwarding,
            cpus::examine,
        ],
        Role::Nat => &[
            forwarding::examine,
            conntrack::examine,
            interfaces::receive,
            interfaces::forwarding,
            transmit::forwarding,
            cpus::examine,
        ],
        Role::Capture => &[interfaces::receive, cpus::examine],
        Role::Tcp => &[tcp::examine, sockets::ports, interfaces::receive, transmit::sending, cpus::examine],
        Role::Servers => &[
            processes::examine,
            sockets::backlogs,
            sockets::ports,
            tcp::memory_of_all,
            interfaces::receive,
            transmit::sending,
            cpus::examine,
        ],
    }
}

/// The ceilings of a machine in this role under this load: what stops it first, then what loses most, then what slows it
/// most, then what fits. A setting that cannot be read is left out.
pub fn examine(host: &Host, role: Role, load: &Load) -> Vec<Ceiling> {
    let mut found: Vec<Ceiling> = rules(role).iter().flat_map(|rule| rule(host, load)).collect();
    let rank = |one: &Ceiling| (one.effect, 1.0 - one.fits);
    found.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
    found
}

/// A ceiling of a count: `limit` of `wanted` fit.
fn count(setting: &str, limit: f64, wanted: f64, why: impl Into<String>) -> Ceiling {
    let ceiling = Ceiling::fits(setting, format!("{limit:.0}"), why);
    if limit >= wanted { ceiling } else { ceiling.short(Effect::Loses, limit / wanted) }
}

/// Bytes as people read them.
fn bytes(number: f64) -> String {
    let steps = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number;
    let mut step = 0;
    while value >= 1024.0 && step + 1 < steps.len() {
        value /= 1024.0;
        step += 1;
    }
    if step == 0 || value >= 100.0 {
        format!("{value:.0} {}", steps[step])
    } else {
        format!("{value:.1} {}", steps[step])
    }
}

/// The next power of two, for tables that are sized so.
fn power_of_two(at_least: f64) -> u64 {
    (at_least.max(1.0) as u64).next_power_of_two()
}
