//! Frames of all sizes: mixed ones leave in the promised sizes and order, the largest ones still arrive.

use std::time::Duration;

use weir_lab::frames::PointSpec;
use weir_load::TesterKind;
use weir_load::xdp::MAX_FRAME_BYTES;
use weir_packet::flow::{Direction, IpVersion};
use weir_packet::size::{FCS_BYTES, FrameSizes};
use weir_port::packet::Ring;
use weir_testbed::dut::DutKind;

use crate::bench::{Bench, assert_accounting_close, not_tested, on_rig, point};

const FRAMES: u64 = 600;
const TESTERS: [TesterKind; 2] = [TesterKind::Xdp, TesterKind::Packet];

/// A router and frames of these sizes, which it is sent from a.
fn router(frame: &str, ip: IpVersion) -> PointSpec {
    PointSpec { frame: frame.parse().expect("written as sizes are"), ip, ..point(DutKind::KERNEL_FORWARD) }
}

/// Sizes of the frames of one trial as they arrive at the device, FCS included.
fn at_the_device(point: &PointSpec, tester: TesterKind) -> Vec<u16> {
    let mut bench = Bench::new(point, tester, "");
    let dut = bench.rig.bed().dut().expect("a router has a namespace").clone();
    let port = bench.rig.bed().dut_ports().expect("a router has ports")[0].ifindex;
    for _ in 0..20 {
        // The kernel goes on to the next of the 64 blocks at least every 2 ms.
        let mut ring = dut.run(|| Ring::open(port, 64)).expect("a packet ring");
        let trial = bench.trial(FRAMES, 50).expect("a trial");
        assert_accounting_close(&trial);
        if trial.counts().sent < trial.counts().offered || trial.counts().lost > 0 {
            println!("not calm: {:?} {:?}", trial.verdict, trial.reasons);
            continue;
        }
        let mut sizes = Vec::new();
        let mut take = |frame: &[u8], _| sizes.push((frame.len() + FCS_BYTES) as u16);
        while ring.receive(Duration::from_millis(20), &mut take).expect("frames") > 0 {}
        return sizes;
    }
    not_tested(format!("no trial with {} was calm", point.frame));
}

#[test]
fn mixed_sizes_leave_in_their_order() {
    on_rig(|| {
        for tester in TESTERS {
            for (frame, ip) in [("imix", IpVersion::V4), ("mix:1518,84,600", IpVersion::V6)] {
                let point = router(frame, ip);
                let FrameSizes::Cycle { sizes: cycle, .. } = &point.frame else {
                    panic!("{frame} is a cycle")
                };
                let expected: Vec<u16> = cycle.iter().copied().cycle().take(FRAMES as usize).collect();
                assert_eq!(at_the_device(&point, tester), expected, "{frame} {tester:?}");
            }
        }
    });
}

#[test]
fn random_sizes_are_in_their_range_and_repeat_with_the_seed() {
    on_rig(|| {
        for tester in TESTERS {
            let sizes = at_the_device(&router("random:100-1500", IpVersion::V4), tester);
            assert_eq!(sizes.len() as u64, FRAMES, "{tester:?}");
            assert!(sizes.iter().all(|size| (100..=1500).contains(size)), "{tester:?}: {sizes:?}");
            let mean = sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / FRAMES as f64;
            // A uniform distribution: standard error 405 / sqrt(600) = 17.
            assert!((mean - 800.0).abs() < 100.0, "{tester:?}: {mean}");
            assert_eq!(at_the_device(&router("random:100-1500", IpVersion::V4), tester), sizes, "{tester:?}");
        }
    });
}

#[test]
fn large_frames_pass_by_packet_sockets_where_live_frames_end() {
    on_rig(|| {
        for (bytes, notes) in [(MAX_FRAME_BYTES, 0), (MAX_FRAME_BYTES + 1, 1), (9018, 1)] {
            for (dut, ip) in [(DutKind::WIRE, IpVersion::V4), (DutKind::KERNEL_STATEFUL, IpVersion::V6)] {
                let frame = FrameSizes::Fixed(bytes);
                let point = PointSpec { frame, ip, direction: Direction::Both, ..point(dut) };
                let mut bench = Bench::new(&point, TesterKind::Xdp, "");
                let reported = bench.rig.notes().iter().filter(|note| note.contains("AF_PACKET")).count();
                assert_eq!(reported, notes, "{bytes} {dut}: {:?}", bench.rig.notes());
                bench.calm(FRAMES, 100);
            }
        }
    });
}
