//! One of two threads of a NAT: the cost of its own frames, and the cost of recognising a frame of the other thread. The
//! transfer of that frame through memory is not part of it.

use std::io;

use weir_plane::{BATCH, Batch, Config, Frame, HEAD_ROOM, Plane, PortId, Share, Time, Verdict};

use super::probe::{Bench, MACS, headers};
use weir_rng::Rng;

const TEXT: &str = "nat(public 192.0.2.0/28, block 64, blocks 2, log nothing)";
/// 63 of each host, as beside.
const FLOWS: u32 = 64_512;
const BYTES: usize = 60;

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    let names = ["threads nat 64k, its own frames", "threads nat 64k, the other's"];
    if !names.iter().any(|name| bench.wants(name)) {
        return Ok(());
    }
    let mut config = Config::read("bench", TEXT).unwrap_or_else(|mistakes| panic!("{mistakes}")).shared_by(2);
    config.share = Share { thread: 0, of: 2 };
    let mut plane = Plane::new(&config, &MACS);
    let [own, others] = dealt(&mut plane);
    let share_handed = others.len() as f64 / f64::from(FLOWS);
    let bytes = plane.nat_usage().bytes;
    for (name, flows) in names.into_iter().zip([own, others]) {
        let mut random = Rng::new(7);
        if bench.wants(name) {
            bench.row(name, &mut plane, bytes, |buf| {
                write(buf, flows[random.below(flows.len())]);
                (BYTES, PortId(0))
            })?;
        }
    }
    bench.figures("threads nat 64k", &[("flows_handed_percent", 100.0 * share_handed)])
}

/// One frame of each flow: those of this thread, and those of the other.
fn dealt(plane: &mut Plane) -> [Vec<u32>; 2] {
    let (mut flows, mut memory) = ([Vec::new(), Vec::new()], vec![0; BATCH * 128]);
    for first in (0..FLOWS).step_by(BATCH) {
        let mut batch = Batch::default();
        for (n, buf) in (first..FLOWS).zip(memory.chunks_mut(128)) {
            write(&mut buf[HEAD_ROOM..], n);
            batch.push(Frame::new(buf, HEAD_ROOM, HEAD_ROOM + BYTES, PortId(0)));
        }
        plane.run(Time::from_ms(1), &mut batch);
        for (n, (_, verdict)) in (first..).zip(batch.outcome()) {
            flows[usize::from(matches!(verdict, Verdict::Handed(_)))].push(n);
        }
    }
    flows
}

fn write(buf: &mut [u8], flow: u32) {
    let inside = (0x0a00_0000 + flow / 63, 5000 + (flow % 63) as u16);
    buf[..BYTES].fill(0);
    headers(buf, 17, inside, (0xc613_0009, 80));
    buf[38..42].copy_from_slice(&[0, 26, 0x12, 0x34]);
}
