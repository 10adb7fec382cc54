//! Every kind of device really forwards, filters, tracks or translates.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use weir_lab::frames::Setup;
use weir_lab::frames::{PointSpec, Routing};
use weir_load::TesterKind;
use weir_load::counts::Load;
use weir_packet::flow::{Direction, IpVersion};
use weir_packet::frame::Transport;
use weir_port::packet::Ring;
use weir_record::record::{Owner, Verdict};
use weir_testbed::dut::DutKind;
use weir_testbed::link::LinkSpec;
use weir_testbed::rules::RuleForm;
use weir_testbed::topology::Side;

use crate::bench::{
    Bench, assert_accounting_close, brief, for_both_testers, on_rig, point, settings, shown, undisturbed,
};

const MS: Duration = Duration::from_millis(1);
const FRAMES: u64 = 1000;
const FLOWS: u64 = 10;

/// All directions that mean something for this device.
fn directions(dut: DutKind) -> &'static [Direction] {
    // Side b cannot begin a flow through a NAT.
    if dut.translates() {
        return &[Direction::Forward, Direction::Reflect];
    }
    &[Direction::Forward, Direction::Both, Direction::Reflect]
}

/// Sends through the device both ways of sending can, and proves by its own counters that it did its work.
fn check(dut: DutKind, tester: TesterKind) {
    for ip in [IpVersion::V4, IpVersion::V6] {
        for &direction in directions(dut) {
            let place = format!("{dut} {ip} {direction:?} {tester:?}");
            println!("{place}");
            let mut bench = Bench::new(&PointSpec { ip, direction, ..point(dut) }, tester, "");
            bench.rig.reset().expect(&place);
            let trial = bench.calm(FRAMES, 100);
            let streams: Vec<&str> = trial.streams.iter().map(|s| s.direction.as_str()).collect();
            let expected = match direction {
                Direction::Forward => &["a>b"][..],
                Direction::Both => &["a>b", "b>a"],
                Direction::Reflect => &["a>b>a"],
            };
            assert_eq!(streams, expected, "{place}");
            for stream in &trial.streams {
                let wrong = stream.lost + stream.reordered + stream.duplicated + stream.corrupted;
                assert_eq!((stream.latency.count, wrong), (stream.sent, 0), "{place}");
            }
            let tracked = match dut {
                DutKind::WIRE => None,
                DutKind::KERNEL_STATEFUL | DutKind::KERNEL_NAT => Some(FLOWS),
                _ => Some(0),
            };
            assert_eq!(trial.cost.conntrack_entries, tracked, "{place}");
            check_rules(&mut bench, dut, direction, &place);
        }
    }
}

/// From zero, one calm trial: each frame was accepted by the last rule, and by no other.
fn check_rules(bench: &mut Bench, dut: DutKind, direction: Direction, place: &str) {
    bench.rig.reset().expect(place);
    let before = sent_by(bench);
    bench.calm(FRAMES, 100);
    let counters = bench.rig.bed().rule_counters().expect(place);
    assert_eq!(counters.len(), if dut.has_rules() { 25 } else { 0 }, "{place}");
    if let Some((last, others)) = counters.split_last() {
        // A reflected frame comes through twice. Trials that were not calm sent frames too.
        let ways = if direction == Direction::Reflect { 2 } else { 1 };
        assert!(last.packets >= ways * FRAMES, "{place}: {last:?}");
        assert_eq!(last.packets, sent_by(bench) - before, "{place}");
        assert!(others.iter().all(|rule| rule.packets == 0), "{place}: {others:?}");
    }
}

/// Frames that the device has transmitted so far.
fn sent_by(bench: &Bench) -> u64 {
    let snapshot = bench.rig.bed().snapshot().expect("a snapshot");
    let sent = |name: &str| snapshot.devices.get(name).map_or(0, |device| device.link.tx_packets);
    sent("d0") + sent("d1")
}

#[test]
fn the_wire_carries_frames() {
    on_rig(|| {
        check(DutKind::WIRE, TesterKind::Xdp);
        check(DutKind::WIRE, TesterKind::Packet);
    });
}

#[test]
fn the_kernel_forwards() {
    on_rig(|| {
        check(DutKind::KERNEL_FORWARD, TesterKind::Xdp);
        check(DutKind::KERNEL_FORWARD, TesterKind::Packet);
    });
}

/// Segments that open a connection each are counted and timed, and come back, as datagrams do.
#[test]
fn the_first_segments_of_tcp_are_forwarded() {
    on_rig(|| {
        let both = [(DutKind::KERNEL_FORWARD, TesterKind::Packet), (DutKind::XDP_FORWARD, TesterKind::Xdp)];
        for (dut, tester) in both {
            for ip in [IpVersion::V4, IpVersion::V6] {
                for (frame, direction) in [("84", Direction::Both), ("random:84-1518", Direction::Reflect)] {
                    let frame = frame.parse().expect("written as sizes are");
                    let transport = Transport::Syn;
                    let point = PointSpec { ip, direction, frame, transport, ..point(dut) };
                    let mut bench = Bench::new(&point, tester, "");
                    let trial = undisturbed(|| {
                        let trial = bench.trial(FRAMES, 100).expect("a trial");
                        if trial.counts().received == FRAMES { Ok(trial) } else { Err(shown(&trial)) }
                    });
                    for stream in &trial.streams {
                        let wrong = stream.lost + stream.reordered + stream.duplicated + stream.corrupted;
                        assert_eq!(
                            (stream.latency.count, wrong),
                            (stream.sent, 0),
                            "{dut} {ip} {direction:?}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn the_stateless_filter_compares_every_rule_and_tracks_nothing() {
    on_rig(|| {
        check(DutKind::KERNEL_STATELESS, TesterKind::Xdp);
    });
}

/// Not one frame of a trial is matched by anything but the last rule, and the frame accounting balances, in every form.
#[test]
fn every_form_of_rules_closes_its_accounting() {
    on_rig(|| {
        for (form, name) in RuleForm::ALL {
            for ip in [IpVersion::V4, IpVersion::V6] {
                let wanted =
                    PointSpec { ip, rules: Some(10), form: Some(form), ..point(DutKind::KERNEL_STATEFUL) };
                if let Err(error) = Setup::check(&wanted, &settings(TesterKind::Xdp)) {
                    println!("skipped: {} needs a program ({error})", module_path!());
                    continue;
                }
                let mut bench = Bench::new(&wanted, TesterKind::Xdp, "");
                let before = sent_by(&bench);
                bench.calm(FRAMES, 100);
                let counters = bench.rig.bed().rule_counters().expect(name);
                let (last, others) = counters.split_last().expect(name);
                assert_eq!(last.packets, sent_by(&bench) - before, "{name} {ip}");
                assert!(others.iter().all(|rule| rule.packets == 0), "{name} {ip}: {others:?}");
            }
        }
    });
}

#[test]
fn the_stateful_filter_compares_every_rule_and_tracks_every_flow() {
    on_rig(|| {
        check(DutKind::KERNEL_STATEFUL, TesterKind::Xdp);
    });
}

#[test]
fn the_nat_tracks_every_flow() {
    on_rig(|| {
        check(DutKind::KERNEL_NAT, TesterKind::Xdp);
    });
}

#[test]
fn the_bridge_forwards() {
    on_rig(|| {
        check(DutKind::KERNEL_BRIDGE, TesterKind::Xdp);
        check(DutKind::KERNEL_BRIDGE, TesterKind::Packet);
    });
}

#[test]
fn the_xdp_router_forwards() {
    on_rig(|| {
        check(DutKind::XDP_FORWARD, TesterKind::Xdp);
        check(DutKind::XDP_FORWARD, TesterKind::Packet);
    });
}

/// All frames find their networks, both ways, while other routes come and go; without the routes none would.
#[test]
fn routers_reach_every_network_while_other_routes_change() {
    on_rig(|| {
        for (dut, ip) in [
            (DutKind::KERNEL_FORWARD, IpVersion::V4),
            (DutKind::KERNEL_FORWARD, IpVersion::V6),
            (DutKind::XDP_FORWARD, IpVersion::V4),
            (DutKind::XDP_FORWARD, IpVersion::V6),
        ] {
            let routing = Some(Routing { networks: 256, changes_per_s: 500 });
            let wanted = PointSpec { ip, routing, flows: 512, direction: Direction::Both, ..point(dut) };
            let mut bench = Bench::new(&wanted, TesterKind::Xdp, "");
            let trial = bench.calm(1024, 200);
            let made = trial.cost.route_changes.expect("a router's routes");
            // The daemon makes up for what it missed, so that only the end of the trial can cut it short.
            assert!(made >= 50, "{dut} {ip}: {made} changes in 0.2 s: {:?}", trial.reasons);
        }
    });
}

/// Source addresses of the frames that arrive at the tester's port b.
fn sources_at_b(dut: DutKind, ip: IpVersion) -> (BTreeSet<IpAddr>, IpAddr) {
    let mut bench = Bench::new(&PointSpec { ip, ..point(dut) }, TesterKind::Packet, "");
    let port = bench.rig.bed().ports()[1].ifindex;
    let mut ring = bench.rig.bed().tester().run(|| Ring::open(port, 8)).expect("a packet ring");
    bench.calm(FRAMES, 100);
    let mut sources = BTreeSet::new();
    // The first frames are there; how many more a small ring had room for does not matter.
    let mut wait = Duration::from_secs(60);
    while ring.receive(wait, |frame, _| sources.extend([source(frame, ip)])).expect("frames") > 0 {
        wait = Duration::ZERO;
    }
    (sources, bench.rig.bed().dut_address(Side::B))
}

fn source(frame: &[u8], ip: IpVersion) -> IpAddr {
    match ip {
        IpVersion::V4 => <[u8; 4]>::try_from(&frame[26..30]).expect("4 bytes").into(),
        IpVersion::V6 => <[u8; 16]>::try_from(&frame[22..38]).expect("16 bytes").into(),
    }
}

#[test]
fn the_nat_translates_every_source_and_the_router_none() {
    on_rig(|| {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let (sources, dut) = sources_at_b(DutKind::KERNEL_NAT, ip);
            assert_eq!(sources, [dut].into());
            let (sources, dut) = sources_at_b(DutKind::KERNEL_FORWARD, ip);
            assert!(!sources.is_empty() && !sources.contains(&dut), "{sources:?}");
        }
    });
}

#[test]
fn a_bottleneck_holds_what_its_buffer_says() {
    on_rig(|| {
        for_both_testers(|tester| {
            // 121 ms a frame: one is on the link, ten wait, and one more passes for each 121 ms that sending takes.
            const SLOT: Duration = Duration::from_micros(121_120);
            let link = LinkSpec { rate: "100kbit".into(), buffer: "15140".into(), ..LinkSpec::default() };
            let spec = PointSpec { link: Some(link), ..PointSpec::plain(DutKind::BOTTLENECK, 1518, 10) };
            let (trial, took) = undisturbed(|| {
                let mut bench = Bench::new(&spec, tester, "");
                let load =
                    Load { max_frames: Some(60), drain: Some(SLOT * 10), ..Load::steady(60e3, SLOT * 100) };
                let begin = Instant::now();
                let trial = bench.offer(&load).expect("a trial");
                let took = begin.elapsed();
                let is_known = trial.counts().unexplained == 0 && trial.dropped_by(Owner::Tester) == 0;
                if is_known && trial.counts().sent == 60 { Ok((trial, took)) } else { Err(shown(&trial)) }
            });
            let received = trial.counts().received;
            let most = 12 + (took.as_nanos() / SLOT.as_nanos()) as u64;
            assert!((11..=most).contains(&received), "{received} of at most {most}: {:#?}", brief(&trial));
            let [drops] = &trial.drop_counters[..] else { panic!("{:#?}", brief(&trial)) };
            assert_eq!(
                (drops.name.as_str(), drops.owner, drops.frames),
                ("queue_limit", Owner::Dut, 60 - received)
            );
            let record = serde_json::to_value(&trial).expect("a record");
            let late = &record["link_lateness"];
            assert_eq!(late["slot_ns"], 121_120_000, "{late}");
            let is_late = late["p99_ns"].as_u64().expect("it is known") > 121_120_000;
            assert_eq!(
                is_late,
                trial.reasons.iter().any(|why| why.contains("left the bottleneck")),
                "{late}"
            );
        });
    });
}

#[test]
fn a_bottleneck_passes_as_many_frames_as_its_rate_and_its_buffer_allow() {
    on_rig(|| {
        for_both_testers(|tester| {
            // 1518 bytes count as 1514, without FCS: 12.112 ms at 1 Mbit/s. Five of them may wait.
            const SLOT_NS: u64 = 12_112_000;
            let link = LinkSpec { rate: "1Mbit".into(), buffer: "7570".into(), ..LinkSpec::default() };
            let spec = PointSpec { link: Some(link), ..PointSpec::plain(DutKind::BOTTLENECK, 1518, 10) };
            let (trial, late) = undisturbed(|| {
                // Twice as many as it carries, 330 in all.
                let load = Load { drain: Some(MS * 500), ..Load::steady(165.0, MS * 2000) };
                let trial = Bench::new(&spec, tester, "").offer(&load).expect("a trial");
                let late = serde_json::to_value(&trial).expect("a record")["link_lateness"].take();
                // A machine that stands still for some slots, once, takes frames, and the 99th percentile does not show it. Nor does
                // any lateness where it stood still before the first frame; but then no frame finds an empty queue.
                let late_ns = late["max_ns"].as_u64().unwrap_or(u64::MAX).max(trial.noise.late_max_ns);
                let stood_still = late_ns > SLOT_NS || trial.streams[0].latency.min_ns > 2 * SLOT_NS;
                if trial.verdict == Verdict::Valid && !stood_still {
                    Ok((trial, late))
                } else {
                    Err(shown(&trial))
                }
            });
            assert_accounting_close(&trial);
            let frames = trial.counts();
            // One each 12.112 ms from the first one on, and those that wait in the end.
            assert!(frames.received.abs_diff(166 + 5) <= 3 && frames.sent == 330, "{:#?}", brief(&trial));
            let [drops] = &trial.drop_counters[..] else { panic!("{:#?}", brief(&trial)) };
            assert_eq!((drops.name.as_str(), drops.owner), ("queue_limit", Owner::Dut));
            assert_eq!(late["slot_ns"], SLOT_NS, "{late}");
            assert!(late["p99_ns"].as_u64().is_some_and(|p99| p99 <= SLOT_NS), "{late}");
        });
    });
}
