//! NICs: rings, queues, interrupts, and the CPUs that do their work.

use weir_linux::cpu::cpu_mask;

use crate::host::cpus_of;
use crate::{Ceiling, Effect, Fix, Host, Load};

/// A stop that a receive ring should ride out: what a busy kernel or a host of virtual machines takes a CPU for.
pub(super) const STOP_S: f64 = 0.002;

/// Rules for machines that receive many frames.
pub(super) fn receive(host: &Host, load: &Load) -> Vec<Ceiling> {
    hardware(host)
        .iter()
        .flat_map(|name| {
            [
                ring(host, load, name),
                queues(host, name),
                spread(host, name),
                interrupts(host, name),
                node(host, name),
            ]
        })
        .flatten()
        .collect()
}

/// Rules for machines that forward frames.
pub(super) fn forwarding(host: &Host, _: &Load) -> Vec<Ceiling> {
    host.interfaces().iter().flat_map(|name| [pauses(host, name), lro(host, name)]).flatten().collect()
}

/// Interfaces that are no others in disguise: bridges, VLANs and virtual wires have no device.
pub(super) fn hardware(host: &Host) -> Vec<String> {
    host.interfaces().into_iter().filter(|name| !host.names(&device(name)).is_empty()).collect()
}

fn device(interface: &str) -> String {
    format!("/sys/class/net/{interface}/device")
}

/// How long the receive ring lasts while no CPU comes.
fn ring(host: &Host, load: &Load, name: &str) -> Option<Ceiling> {
    let rings = host.nic(name).rings?;
    let lasts_s = f64::from(rings.receive) / load.frames_per_s;
    let why = format!(
        "At {:.0} frames/s the ring is full after {:.2} ms without a CPU that reads it; then the NIC drops frames (rx_missed).",
        load.frames_per_s,
        lasts_s * 1e3
    );
    let ceiling = Ceiling::fits(format!("{name} receive ring"), rings.receive, why);
    if lasts_s >= STOP_S || rings.receive >= rings.receive_most {
        return Some(ceiling);
    }
    let fix =
        Fix::Rings { interface: name.into(), receive: rings.receive_most, transmit: rings.transmit_most };
    let cost = "2 KiB of memory for each entry; frames may wait longer; more cache is used. The link may go down for a moment.";
    Some(ceiling.short(Effect::Loses, lasts_s / STOP_S).raise(rings.receive_most, cost).by(fix))
}

/// Queues of the NIC against CPUs.
fn queues(host: &Host, name: &str) -> Option<Ceiling> {
    let (now, most) = host.nic(name).queues?;
    let useful = most.min(host.cpus() as u32);
    let why = format!("The NIC spreads flows over {now} queues: {now} of {} CPUs receive.", host.cpus());
    let ceiling = Ceiling::fits(format!("{name} queues"), now, why);
    Some(if now < useful {
        ceiling
            .short(Effect::Slows, f64::from(now) / f64::from(useful))
            .raise(useful, format!("ethtool -L {name} combined {useful}; the link may go down for a moment."))
    } else {
        ceiling
    })
}

/// A NIC with one queue: RPS spreads by software.
fn spread(host: &Host, name: &str) -> Option<Ceiling> {
    let folder = format!("/sys/class/net/{name}/queues");
    let queues: Vec<_> = host.names(&folder).into_iter().filter(|queue| queue.starts_with("rx-")).collect();
    let [queue] = &queues[..] else { return None };
    let path = format!("{folder}/{queue}/rps_cpus");
    let mask = host.text(&path)?;
    let is_off = mask.chars().all(|c| matches!(c, '0' | ','));
    let why = "One queue, one interrupt, one CPU: it receives all frames, and limits the machine.";
    let ceiling = Ceiling::fits(format!("{name} RPS"), &mask, why);
    let cpus = host.cpus();
    let all = cpu_mask(&(0..cpus).collect::<Vec<_>>());
    Some(if is_off && cpus > 1 {
        ceiling
            .short(Effect::Slows, 1.0 / cpus as f64)
            .raise(all.clone(), "An interrupt between CPUs for each batch, about 100 ns per frame: useful if the work per frame is larger.")
            .by(Fix::File { path, value: all })
    } else {
        ceiling
    })
}

/// Interrupts of several queues on one CPU.
fn interrupts(host: &Host, name: &str) -> Option<Ceiling> {
    let cpus = host.cpus();
    let irqs = host.names(&format!("{}/msi_irqs", device(name)));
    let path = |irq: &String| format!("/proc/irq/{irq}/smp_affinity_list");
    let at: Vec<Vec<usize>> = irqs
        .iter()
        .filter_map(|irq| {
            host.text(&format!("/proc/irq/{irq}/effective_affinity_list")).or_else(|| host.text(&path(irq)))
        })
        .map(|list| cpus_of(&list))
        .collect();
    let first = at.first()?;
    let is_one = at.len() > 1 && cpus > 1 && first.len() == 1 && at.iter().all(|cpus| cpus == first);
    let setting = format!("{name} interrupts");
    if !is_one {
        return Some(Ceiling::fits(
            setting,
            format!("{} of them", at.len()),
            "They are on several CPUs, or there is only one.",
        ));
    }
    let why = format!(
        "All {} interrupts of its queues are handled by CPU {}: the others receive nothing.",
        at.len(),
        first[0]
    );
    let fixes = irqs
        .iter()
        .enumerate()
        .map(|(at, irq)| Fix::File { path: path(irq), value: (at % cpus).to_string() });
    Some(
        Ceiling::fits(setting, format!("CPU {}", first[0]), why)
            .short(Effect::Slows, 1.0 / at.len().min(cpus) as f64)
            .raise("one for each CPU, alternately", "No cost; irqbalance may undo it.")
            .by_all(fixes),
    )
}

/// Memory and CPUs that are near the NIC.
fn node(host: &Host, name: &str) -> Option<Ceiling> {
    let nodes = host.names("/sys/devices/system/node").iter().filter(|name| name.starts_with("node")).count();
    let node = host.number(&format!("{}/numa_node", device(name)))?;
    if nodes < 2 || node < 0.0 {
        return None;
    }
    let near = host.text(&format!("/sys/devices/system/node/node{node:.0}/cpulist"))?;
    let why = format!(
        "Only CPUs {near} are near it: others read each frame from the memory of another node. Run the receiver there."
    );
    Some(Ceiling::fits(format!("{name} NUMA node"), format!("{node:.0}"), why))
}

/// Pause frames: a full ring stops the sender, and all that it would send to others.
fn pauses(host: &Host, name: &str) -> Option<Ceiling> {
    let is_on = host.nic(name).pauses?;
    is_on.then(|| {
        let why = "A full ring pauses the other end of the link, also for its other traffic; a measurement then sees a slow tester instead \
                   of loss.";
        Ceiling::fits(format!("{name} flow control"), "on", why)
            .short(Effect::Slows, 0.95)
            .raise("off", format!("Loss instead of waiting: ethtool -A {name} autoneg off rx off tx off."))
    })
}

/// Segments put together by the NIC cannot be taken apart as they were.
fn lro(host: &Host, name: &str) -> Option<Ceiling> {
    let is_on = host.nic(name).lro?;
    is_on.then(|| {
        let why =
            "Received segments are merged permanently, and forwarded packets are too long for the next link.";
        Ceiling::fits(format!("{name} LRO"), "on", why)
            .short(Effect::Loses, 0.5)
            .raise("off", format!("Some CPU time: ethtool -K {name} lro off."))
    })
}
