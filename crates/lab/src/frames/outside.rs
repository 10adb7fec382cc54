//! External DUTs, connected to interfaces of this machine: whether the interfaces may be used, how the tester attaches to
//! them, and the owners of lost frames.

use std::sync::Arc;

use weir_linux::namespace::Namespace;
use weir_load::counts::{Counts, Traffic};
use weir_load::xdp::{IdleLoopback, Interface};
use weir_load::{Tester, TesterKind};
use weir_packet::flow::{Direction, IpVersion};
use weir_port::bpf::Mode;
use weir_port::duplex::takes_redirected;
use weir_testbed::bed::Bed;
use weir_testbed::dut::DutKind;
use weir_testbed::error::{Error, Result};
use weir_testbed::external::{CPU_NS, ExternalSpec, Sample};
use weir_testbed::interface::Device;

use super::remote::{Hosts, Pair, Remote};
use crate::error::RunError;
use crate::frames::PointSpec;
use crate::interface;
use weir_record::record::{DropCounter, Owner};

/// Refuses interfaces that cannot be used, or must not.
pub(crate) fn check(external: &ExternalSpec, spec: &PointSpec) -> Result<()> {
    external
        .ports
        .iter()
        .try_for_each(|name| check_port(name, spec.frame.max(), external.allow_default_route))?;
    spec.spreading.iter().try_for_each(|spreading| Bed::settings_of_ports(spreading, external).map(drop))
}

/// Refuses an interface that cannot be used for frames of up to `frame_bytes`, or must not.
pub(crate) fn check_port(name: &str, frame_bytes: u16, allow_default_route: bool) -> Result<()> {
    let link = interface::find(name)?;
    if !allow_default_route {
        interface::check_not_default_route(name, "`allow_default_route = true` to [external]")?;
    }
    interface::check_ready(&link)?;
    Ok(interface::check_mtu(&link, frame_bytes, "traffic.frame_bytes =")?)
}

/// Refuses a host with the other end of the tester, or an interface there, that cannot be used, or must not.
pub fn check_remote(specs: &[PointSpec], external: Option<&ExternalSpec>) -> Result<()> {
    let outside = specs.iter().filter(|spec| spec.dut == DutKind::EXTERNAL);
    match (external, outside.max_by_key(|spec| spec.frame.max())) {
        (Some(external), Some(spec)) => Remote::open(external, spec.ip, spec.frame.max()).map(drop),
        _ => Ok(()),
    }
}

/// Interfaces of this host that a tester is put on.
pub(crate) struct Seat<'a> {
    /// Their indices; 0: none on this side.
    pub(crate) ifindex: [u32; 2],
    /// Their names.
    pub(crate) names: Vec<String>,
    /// A namespace without traffic.
    pub(crate) idle: &'a Namespace,
}

/// The tester of a box: one for both sides, or one on each of two hosts.
pub(crate) fn open_ends(
    bed: &Bed,
    remote: Option<Arc<Remote>>,
    wanted: TesterKind,
    traffic: &Traffic,
    notes: &mut Vec<String>,
) -> std::result::Result<Hosts, RunError> {
    let external = bed.external().expect("there is a box");
    notes.extend(external.note().map(String::from));
    let ifindex = bed.ports().map(|port| port.ifindex);
    let seat = Seat { ifindex, names: external.spec().ports.clone(), idle: external.idle() };
    let near = open_tester(&seat, wanted, traffic, notes)?;
    let Some(remote) = remote else { return Ok(Hosts::One(near)) };
    notes.extend(remote.open_tester(wanted, traffic)?);
    if traffic.direction != Direction::Reflect {
        notes.push(
            "The hosts of the two ports have no common clock: the latency of frames from one to the other is not known \
             and not shown. Round trips can be measured, with direction = \"reflect\"."
                .into(),
        );
    }
    Ok(Hosts::Two(Pair::new(near, remote, traffic)))
}

/// Puts a tester on the interfaces, with the best means that their drivers offer; the notes say which. To be called in
/// their namespace.
pub(crate) fn open_tester(
    seat: &Seat,
    wanted: TesterKind,
    traffic: &Traffic,
    notes: &mut Vec<String>,
) -> std::result::Result<Tester, RunError> {
    let interfaces = |mode| seat.ifindex.map(|ifindex| Interface { ifindex, mode, pass: true });
    if wanted == TesterKind::Xdp {
        let names = seat.names.join(" and ");
        match Tester::new(TesterKind::Xdp, interfaces(Mode::Native), traffic.clone(), None) {
            Ok(mut tester) => match takes_no_frames(seat)? {
                None => {
                    seat.idle.run(|| tester.hold_slot(IdleLoopback(1)))?;
                    notes.push(format!("Frames are received by native (the driver's) XDP on {names}."));
                    return Ok(tester);
                }
                Some(name) => notes.push(format!(
                    "Frames go through AF_PACKET sockets: {name} does not accept frames of an XDP program (on a veth, its \
                     peer needs GRO)."
                )),
            },
            // What an XDP program redirects to a driver without XDP vanishes without a count.
            Err(error) => {
                notes.push(format!(
                    "Frames go through AF_PACKET sockets: no XDP in the driver on {names} ({error})."
                ));
            }
        }
    }
    refuse_forwarding(&seat.names, traffic.ends[0].ip)?;
    Ok(Tester::new(TesterKind::Packet, interfaces(Mode::Generic), traffic.clone(), None)?)
}

/// The interface whose driver does not take redirected frames, with the tester's programs attached: before that most
/// network cards take none. Returns when they have a carrier, which many lose for seconds while a program is attached.
fn takes_no_frames<'a>(seat: &'a Seat<'_>) -> Result<Option<&'a str>> {
    for name in &seat.names {
        interface::wait_until_ready(name)?;
        // Where it is not known we try: drivers with XDP nearly always can.
        if matches!(takes_redirected(name), Ok(Some(false))) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Through packet sockets, the kernel sees the test frames too, and must not send them on.
fn refuse_forwarding(names: &[String], ip: IpVersion) -> Result<()> {
    for name in names {
        let switch = format!("net/ipv{ip}/conf/{name}/forwarding");
        let text = weir_disk::kernel_text(format!("/proc/sys/{switch}")).unwrap_or_default();
        if text.trim() == "1" {
            return Err(Error::Input(format!(
                "this machine forwards packets from {name}, with packet sockets also the test frames: `sysctl -w {switch}=0`, \
                 or use a NIC whose driver has XDP"
            )));
        }
    }
    Ok(())
}

/// Owners of the lost frames of a trial: the tester's interfaces by their own counters, the device by those of the plan,
/// and the device or its wires for the rest.
pub(crate) fn drop_counters(
    delta: &Sample,
    spec: &ExternalSpec,
    counts: &Counts,
    traffic: &Traffic,
) -> Vec<DropCounter> {
    let sent: u64 = counts.streams.iter().map(|stream| stream.sent).sum();
    let received: u64 = counts.streams.iter().map(|stream| stream.received()).sum();
    let named: u64 = counts.drops.iter().map(|drop| drop.frames).sum::<u64>()
        + counts.ports.iter().map(|port| port.corrupted).sum::<u64>();
    let mut left = sent.saturating_sub(received).saturating_sub(named);
    let mut drop_counters = Vec::new();
    // A counter may count other frames too: it explains no more than what is missing.
    let mut line = |name: &str, owner, frames: u64, source: String| {
        let frames = frames.min(left);
        left -= frames;
        if frames > 0 {
            drop_counters.push(DropCounter { name: name.into(), owner, frames, source });
        }
    };
    for (i, (nic, device)) in delta.nics.iter().enumerate() {
        let link = &device.link;
        line("tester ring full", Owner::Tester, link.rx_missed, format!("rx_missed_errors of {nic}"));
        line("receive error", Owner::Tester, link.rx_errors, format!("rx_errors of {nic}"));
        let dropped = dropped_on_receipt(device, seen(i, counts, traffic));
        line("dropped on receipt", Owner::Tester, dropped, format!("rx_dropped of {nic}"));
        let unsent = link.tx_dropped.saturating_add(link.tx_errors);
        line("not sent", Owner::Tester, unsent, format!("tx_dropped + tx_errors of {nic}"));
    }
    for name in &spec.drops {
        let frames = delta.counters.get(name).copied().unwrap_or(0).max(0) as u64;
        line(name, Owner::Dut, frames, "the device's own count".into());
    }
    line(
        "lost in the device or on its wires",
        Owner::Dut,
        u64::MAX,
        "sent less received and all counters".into(),
    );
    drop_counters
}

/// Frames that the tester saw at port `i`.
fn seen(i: usize, counts: &Counts, traffic: &Traffic) -> u64 {
    let here = counts.streams.iter().filter(|stream| traffic.arrival(stream.stream) == i);
    let groups = here.flat_map(|stream| &stream.groups).map(|group| group.received + group.duplicated);
    let port = &counts.ports[i];
    groups.sum::<u64>() + port.corrupted + port.stale + port.misdelivered + port.broadcasts
}

/// Some drivers count what the receiving program took as dropped (virtio_net), others do not (ixgbe).
fn dropped_on_receipt(device: &Device, seen: u64) -> u64 {
    let dropped = device.link.rx_dropped;
    if dropped >= seen { dropped - seen } else { dropped }
}

/// CPU time that the box says it has used in a trial, ns.
pub(crate) fn cpu_ns(delta: &Sample) -> Option<u64> {
    delta.counters.get(CPU_NS).and_then(|&ns| ns.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_linux::rtnl::LinkStats;

    fn device(link: LinkStats) -> Device {
        Device { link, ..Device::default() }
    }

    #[test]
    fn a_driver_may_count_what_we_took_as_dropped() {
        let dropped = |rx_dropped, seen| {
            dropped_on_receipt(&device(LinkStats { rx_dropped, ..LinkStats::default() }), seen)
        };
        assert_eq!([dropped(0, 900), dropped(7, 900), dropped(907, 900), dropped(900, 900)], [0, 7, 7, 0]);
    }
}
