//! The way out: queueing disciplines, their length, which CPU sends by which queue, and segmentation.

use weir_linux::cpu::cpu_mask;

use super::interfaces::{STOP_S, hardware};
use crate::{Ceiling, Effect, Fix, Host, Load};

/// Rules for machines that forward frames.
pub(super) fn forwarding(host: &Host, load: &Load) -> Vec<Ceiling> {
    let of = |name: &String| {
        [length(host, load, name), one_lock(host, name), spread(host, name), merging(host, name)]
    };
    hardware(host).iter().flat_map(of).flatten().collect()
}

/// Rules for machines that send by TCP.
pub(super) fn sending(host: &Host, _: &Load) -> Vec<Ceiling> {
    let of = |name: &String| {
        let cut = cutting(host, name);
        [pacing(host, name), one_lock(host, name), spread(host, name), merging(host, name), cut]
    };
    hardware(host).iter().flat_map(of).flatten().collect()
}

/// Frames that wait for the link. After a stop a CPU sends what has gathered faster than the link takes it.
fn length(host: &Host, load: &Load, name: &str) -> Option<Ceiling> {
    // Others have a limit of their own: fq_codel 10,240 frames, fq 10,000 and 100 for each flow.
    if !matches!(host.nic(name).root_queue.as_deref()?, "pfifo_fast" | "pfifo") {
        return None;
    }
    let path = format!("/sys/class/net/{name}/tx_queue_len");
    let frames = host.number(&path)?;
    let lasts_s = frames / load.frames_per_s;
    let why = format!(
        "{frames:.0} frames can wait for the link, {:.2} ms at {:.0} frames/s; the rest of a longer burst is dropped (tc -s qdisc).",
        lasts_s * 1e3,
        load.frames_per_s
    );
    let ceiling = Ceiling::fits(format!("{name} txqueuelen"), format!("{frames:.0}"), why);
    let wanted = (STOP_S * load.frames_per_s).ceil();
    Some(if lasts_s < STOP_S {
        ceiling
            .short(Effect::Loses, lasts_s / STOP_S)
            .raise(
                format!("{wanted:.0}"),
                "A full queue delays later frames, on a slow link for a long time.",
            )
            .by(Fix::File { path, value: format!("{wanted:.0}") })
    } else {
        ceiling
    })
}

/// Transmit queues of an interface.
fn queues(host: &Host, name: &str) -> Vec<String> {
    let folder = format!("/sys/class/net/{name}/queues");
    let names = host.names(&folder).into_iter().filter(|queue| queue.starts_with("tx-"));
    names.map(|queue| format!("{folder}/{queue}")).collect()
}

/// A NIC with several queues behind one discipline, and with that behind one lock.
fn one_lock(host: &Host, name: &str) -> Option<Ceiling> {
    let kind = host.nic(name).root_queue?;
    let (queues, cpus) = (queues(host, name).len(), host.cpus());
    if queues < 2 || cpus < 2 {
        return None;
    }
    let why = format!(
        "Each frame takes the lock of one {kind} for all {queues} queues: the CPUs wait for each other."
    );
    let ceiling = Ceiling::fits(format!("{name} qdisc"), &kind, why);
    // mq has one for each queue; mqprio and taprio are configured schedules; noqueue has no lock.
    if matches!(kind.as_str(), "mq" | "mqprio" | "taprio" | "noqueue") {
        return Some(Ceiling { why: "Each queue has its own qdisc, or there is none.".into(), ..ceiling });
    }
    let cost = format!("Removes limits and classes that are set there: tc qdisc replace dev {name} root mq.");
    Some(ceiling.short(Effect::Slows, 1.0 / queues.min(cpus) as f64).raise("mq", cost))
}

/// Several queues, and no CPU has one of its own.
fn spread(host: &Host, name: &str) -> Option<Ceiling> {
    let queues = queues(host, name);
    let masks: Option<Vec<String>> =
        queues.iter().map(|queue| host.text(&format!("{queue}/xps_cpus"))).collect();
    let (masks, cpus) = (masks?, host.cpus());
    if queues.len() < 2 || cpus < 2 {
        return None;
    }
    let why = "A hash selects the transmit queue: several CPUs use the same queue, and its cache lines move between them.";
    let ceiling = Ceiling::fits(format!("{name} XPS"), masks.join(" "), why);
    let is_off = masks.iter().all(|mask| mask.chars().all(|c| matches!(c, '0' | ',')));
    if !is_off {
        return Some(ceiling);
    }
    // CPU 0 by the first queue, CPU 1 by the second, and round again.
    let own = |at: usize| cpu_mask(&(at..cpus).step_by(queues.len()).collect::<Vec<_>>());
    let fixes = queues
        .iter()
        .enumerate()
        .take(cpus)
        .map(|(at, queue)| Fix::File { path: format!("{queue}/xps_cpus"), value: own(at) });
    let wanted = "a queue for each CPU";
    Some(
        ceiling
            .short(Effect::Slows, 0.9)
            .raise(wanted, "Frames of a flow that moves to another CPU may overtake each other.")
            .by_all(fixes),
    )
}

/// BBR wants its packets spaced out; without fq each socket has a timer for that.
fn pacing(host: &Host, name: &str) -> Option<Ceiling> {
    let cc = host.text("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let kind = host.nic(name).root_queue?;
    (cc.starts_with("bbr") && !matches!(kind.as_str(), "fq" | "mq")).then(|| {
        let why = format!(
            "{cc} paces packets. Without fq each socket has a timer for this, which costs CPU time and gives uneven gaps."
        );
        let cost = format!("fq has a limit of 100 packets per flow: tc qdisc replace dev {name} root fq.");
        Ceiling::fits(format!("{name} qdisc for {cc}"), kind, why).short(Effect::Slows, 0.9).raise("fq", cost)
    })
}

/// Without GRO the stack handles each segment by itself.
fn merging(host: &Host, name: &str) -> Option<Ceiling> {
    (!host.nic(name).gro?).then(|| {
        let why = "Each received TCP segment passes the stack on its own; with GRO up to 64 KiB of a connection pass together.";
        Ceiling::fits(format!("{name} GRO"), "off", why)
            .short(Effect::Slows, 0.5)
            .raise("on", format!("A segment waits for the end of its batch: ethtool -K {name} gro on."))
    })
}

/// Without TSO the CPU cuts what a connection sends into segments.
fn cutting(host: &Host, name: &str) -> Option<Ceiling> {
    (!host.nic(name).tso?).then(|| {
        let why = "The CPU cuts sent data into segments and copies a header for each; the NIC could do it.";
        Ceiling::fits(format!("{name} TSO"), "off", why)
            .short(Effect::Slows, 0.7)
            .raise("on", format!("Bursts of up to 64 KiB on the wire: ethtool -K {name} tso on."))
    })
}
