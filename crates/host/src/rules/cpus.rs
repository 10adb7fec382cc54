//! Settings that slow the CPUs: clock, sleep, siblings, mitigations, interpreted eBPF.

use crate::{Ceiling, Effect, Fix, Host, Load};

/// A CPU that needs longer than this to wake up is felt by a frame, microseconds.
const LONG_WAKE_US: f64 = 50.0;
const CPUS: &str = "/sys/devices/system/cpu";

/// Rules for all roles.
pub(super) fn examine(host: &Host, _: &Load) -> Vec<Ceiling> {
    [governor(host), sleep(host), siblings(host), mitigations(host), jit(host)]
        .into_iter()
        .flatten()
        .collect()
}

/// Folders of CPUs: `cpu0`, `cpu1`.
fn folders(host: &Host) -> Vec<String> {
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok());
    host.names(CPUS).into_iter().filter(is_cpu).map(|name| format!("{CPUS}/{name}")).collect()
}

/// A governor that waits for load before it raises the clock.
fn governor(host: &Host) -> Option<Ceiling> {
    let files: Vec<_> = folders(host).iter().map(|cpu| format!("{cpu}/cpufreq/scaling_governor")).collect();
    let now = host.text(files.first()?)?;
    let ceiling = Ceiling::fits(
        "CPU governor",
        &now,
        "The CPU clock follows the load some milliseconds late, or stays low.",
    );
    let slow: Vec<_> =
        files.into_iter().filter(|path| host.text(path).is_some_and(|now| now != "performance")).collect();
    Some(if slow.is_empty() {
        ceiling
    } else {
        ceiling
            .short(Effect::Slows, 0.8)
            .raise("performance", "Power and heat while idle.")
            .by_all(slow.into_iter().map(|path| Fix::File { path, value: "performance".into() }))
    })
}

/// States of sleep that a CPU needs long to leave.
fn sleep(host: &Host) -> Option<Ceiling> {
    let mut deep = Vec::new();
    let mut longest_us: f64 = 0.0;
    for cpu in folders(host) {
        for state in host.names(&format!("{cpu}/cpuidle")) {
            let folder = format!("{cpu}/cpuidle/{state}");
            let wakes_us = host.number(&format!("{folder}/latency")).unwrap_or(0.0);
            if wakes_us > LONG_WAKE_US && host.number(&format!("{folder}/disable")) == Some(0.0) {
                longest_us = longest_us.max(wakes_us);
                deep.push(format!("{folder}/disable"));
            }
        }
    }
    (!deep.is_empty()).then(|| {
        let why = format!(
            "An idle CPU may need {longest_us:.0} us to wake up: the first frame of each burst waits that long."
        );
        Ceiling::fits("CPU idle states", "deep ones are used", why)
            .short(Effect::Slows, 0.9)
            .raise("off", "Power while idle.")
            .by_all(deep.into_iter().map(|path| Fix::File { path, value: "1".into() }))
    })
}

/// Hyper-threads share what executes.
fn siblings(host: &Host) -> Option<Ceiling> {
    let active = host.number(&format!("{CPUS}/smt/active"))?;
    (active == 1.0).then(|| {
        let why = "Two CPUs share a core: together they do about 1.2 to 1.3 times the work of one, and disturb each other's latency.";
        Ceiling::fits("hyper-threads", "on", why)
            .short(Effect::Slows, 0.9)
            .costs("Without hyper-threads a fifth of the total is lost: echo off > /sys/devices/system/cpu/smt/control. Measure it.")
    })
}

/// Mitigations of the CPU's faults.
fn mitigations(host: &Host) -> Option<Ceiling> {
    let folder = format!("{CPUS}/vulnerabilities");
    let on: Vec<_> = host
        .names(&folder)
        .into_iter()
        .filter(|name| {
            host.text(&format!("{folder}/{name}")).is_some_and(|text| text.starts_with("Mitigation:"))
        })
        .collect();
    (!on.is_empty()).then(|| {
        let why = format!("Indirect calls and system calls cost more for: {}.", on.join(", "));
        Ceiling::fits("CPU mitigations", format!("{} on", on.len()), why)
            .short(Effect::Slows, 0.9)
            .costs("A decision about security: without mitigations (mitigations=off at boot) other programs may read memory. weir never changes this.")
    })
}

/// eBPF programs are interpreted without the JIT.
fn jit(host: &Host) -> Option<Ceiling> {
    let name = "net.core.bpf_jit_enable";
    (host.sysctl_one(name)? == 0.0).then(|| {
        Ceiling::fits(name, 0, "Filters and XDP programs are interpreted, several times slower.")
            .short(Effect::Slows, 0.3)
            .raise(1, "Nothing.")
            .by(Fix::sysctl(name, 1))
    })
}
