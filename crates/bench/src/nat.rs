//! NAT44: look-up, state, rewrite, for as many flows as a row says; 63 flows of each host, UDP or TCP, out and in, the
//! next frame of a random flow or of the next one; and with a route behind the NAT, as a router does. The row of a bump in
//! the wire is what all of it costs without NAT: headers read, checksum of the header verified, verdict decided.

use std::io;

use weir_plane::{BATCH, Batch, Config, Frame, HEAD_ROOM, Plane, PortId, Time};

use super::probe::{Bench, MACS, headers};
use weir_rng::Rng;

const FLOWS_PER_HOST: u32 = 63;
const REMOTE: u32 = 0xc613_0009;
const INSIDE: u32 = 0x0a00_0000;

#[derive(Clone, Copy, PartialEq)]
enum Proto {
    Udp = 17,
    Tcp = 6,
}

#[derive(Clone, Copy)]
enum Order {
    Random,
    RoundRobin,
}

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    if bench.wants("nat none (bump)") {
        let mut random = Rng::new(1);
        let out =
            |buf: &mut [u8]| (frame(buf, Proto::Udp, flow(random.below(10_000) as u32), FLAG_ACK), PortId(0));
        bench.row("nat none (bump)", &mut plane("lan > wan"), 1 << 16, out)?;
    }
    for (name, flows) in [("1", 1), ("10k", 10_000), ("64k", 64_512), ("1M", 1_000_000)] {
        for (proto, order, dir) in [
            (Proto::Udp, Order::Random, 0),
            (Proto::Udp, Order::RoundRobin, 0),
            (Proto::Tcp, Order::Random, 0),
            (Proto::Udp, Order::Random, 1),
        ] {
            let what = format!("nat {name} {} {} {}", proto.name(), order.name(), ["out", "in"][dir]);
            if bench.wants(&what) {
                established(bench, &what, nat(flows), flows, (proto, order, dir as u8))?;
            }
        }
        let what = format!("nat and route {name} udp random out");
        if bench.wants(&what) {
            established(bench, &what, routed(flows), flows, (Proto::Udp, Order::Random, 0))?;
        }
    }
    for (count, entries) in [("1", 1), ("10k", 10_000)] {
        by_address(bench, count, entries)?;
    }
    for order in [Order::RoundRobin, Order::Random] {
        let what = format!("nat new sessions {}", order.name());
        if bench.wants(&what) {
            new_sessions(bench, &what, order)?;
        }
    }
    if bench.wants("nat 10M come and go") {
        come_and_go(bench)?;
    }
    Ok(())
}

impl Proto {
    fn name(self) -> &'static str {
        if self == Proto::Udp { "udp" } else { "tcp" }
    }
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Random => "random",
            Order::RoundRobin => "alternately",
        }
    }
}

const FLAG_SYN: u8 = 2;
const FLAG_ACK: u8 = 16;

fn plane(text: &str) -> Plane {
    let config = Config::read("bench", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Plane::new(&config, &MACS)
}

/// A NAT with room for so many flows, in the wire.
fn nat(flows: u32) -> Plane {
    plane(&format!("node {}", stage(flows)))
}

/// The same in front of a default route.
fn routed(flows: u32) -> Plane {
    // No host of the rows has the router's address.
    plane(&format!(
        "lan(10.200.0.1/8) > {} > route(default via 198.18.0.2) >
         wan(198.18.0.1/24, neighbour 198.18.0.2 02:00:00:00:cc:02)",
        stage(flows)
    ))
}

fn stage(flows: u32) -> String {
    let addresses = flows.div_ceil(1008 * FLOWS_PER_HOST) * 5 / 4 + 1;
    let last = std::net::Ipv4Addr::from(0xc000_0200 + addresses);
    let sessions = flows.saturating_mul(2).max(1000);
    format!("nat(public 192.0.2.0-{last}, block 64, blocks 2, sessions {sessions}, log nothing)")
}

/// Inside address and port of a flow.
fn flow(n: u32) -> (u32, u16) {
    (INSIDE + n / FLOWS_PER_HOST, 5000 + (n % FLOWS_PER_HOST) as u16)
}

fn established(
    bench: &mut Bench<'_>,
    name: &str,
    mut plane: Plane,
    flows: u32,
    (proto, order, dir): (Proto, Order, u8),
) -> io::Result<()> {
    let mut outside = vec![(0_u32, 0_u16); flows as usize];
    let mut learn = |n: u32, bytes: &[u8]| {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        outside[n as usize] = (word(26), word(34).wrapping_shr(16) as u16);
    };
    let syn = if proto == Proto::Tcp { FLAG_SYN } else { FLAG_ACK };
    pass(&mut plane, flows, |n, buf| (frame(buf, proto, flow(n), syn), PortId(0)), &mut learn);
    if proto == Proto::Tcp {
        let answer =
            |n: u32, buf: &mut [u8]| (back(buf, proto, outside[n as usize], FLAG_SYN | FLAG_ACK), PortId(1));
        pass(&mut plane, flows, answer, &mut |_, _| {});
        pass(&mut plane, flows, |n, buf| (frame(buf, proto, flow(n), FLAG_ACK), PortId(0)), &mut |_, _| {});
    }
    let bytes = plane.nat_usage().bytes;
    let (mut random, mut next) = (Rng::new(7), 0);
    bench.row(name, &mut plane, bytes, |buf| {
        next = match order {
            Order::Random => random.below(flows as usize) as u32,
            Order::RoundRobin => (next + 1) % flows,
        };
        match dir {
            0 => (frame(buf, proto, flow(next), FLAG_ACK), PortId(0)),
            _ => (back(buf, proto, outside[next as usize], FLAG_ACK), PortId(1)),
        }
    })
}

/// What is configured by address, so many of each: a frame asks for any of them, or for none.
fn by_address(bench: &mut Bench<'_>, count: &str, entries: u32) -> io::Result<()> {
    // Apart, so that no two are one range.
    let apart = |first: u32, n: u32| first + 2 * n;
    let nat = |entry: &dyn Fn(u32) -> String| {
        let entries: Vec<String> = (0..entries).map(entry).collect();
        plane(&format!("node nat(public 192.0.2.1, log nothing, {})", entries.join(", ")))
    };
    let text = |address: u32| std::net::Ipv4Addr::from(address).to_string();
    let (inside, outside) = (|n| apart(INSIDE, n), |n| apart(0xc612_0000, n));
    let mut random = Rng::new(5);
    let mut any = move || random.below(entries as usize) as u32;
    let mut row =
        |kind: &str, entry: &dyn Fn(u32) -> String, make: &mut dyn FnMut(&mut [u8]) -> (usize, PortId)| {
            let what = format!("nat {kind} {count}");
            if bench.wants(&what) {
                bench.row(&what, &mut nat(entry), 16 * entries as usize, make)
            } else {
                Ok(())
            }
        };
    let pair = |n| format!("one-to-one {} to {}", text(outside(n)), text(inside(n)));
    row("one-to-one out", &pair, &mut |buf| {
        (frame(buf, Proto::Udp, (inside(any()), 5000), FLAG_ACK), PortId(0))
    })?;
    row("one-to-one in", &pair, &mut |buf| {
        (back(buf, Proto::Udp, (outside(any()), 5000), FLAG_ACK), PortId(1))
    })?;
    row("exclude", &|n| format!("exclude {}", text(outside(n))), &mut |buf| {
        (write(buf, Proto::Udp, (INSIDE, 5000), (outside(any()), 80), FLAG_ACK), PortId(0))
    })?;
    row("redirect", &|n| format!("redirect udp {}:80 to 198.51.100.53:53", text(outside(n))), &mut |buf| {
        (frame(buf, Proto::Udp, flow(0), FLAG_ACK), PortId(0))
    })
}

/// Each frame is the first of its flow.
fn new_sessions(bench: &mut Bench<'_>, name: &str, order: Order) -> io::Result<()> {
    const FLOWS: u32 = 2_000_000;
    let mut plane = nat(FLOWS);
    let mut n = 0_u32;
    bench.row(name, &mut plane, FLOWS as usize * 96, |buf| {
        n += 1;
        // An odd factor walks over all flows of the power of two, in no order.
        let number = match order {
            Order::RoundRobin => n,
            Order::Random => n.wrapping_mul(0x9e37_79b1) % (1 << 21) % FLOWS,
        };
        (frame(buf, Proto::Udp, flow(number), FLAG_ACK), PortId(0))
    })?;
    let usage = plane.nat_usage();
    let (sessions, bytes) = (f64::from(usage.sessions), usage.bytes as f64);
    bench.figures(name, &[("sessions", sessions), ("bytes_per_session", bytes / sessions)])
}

/// Ten million sessions are made, and end all at once: the longest batch and tick.
fn come_and_go(bench: &mut Bench<'_>) -> io::Result<()> {
    const FLOWS: u32 = 10_000_000;
    let mut plane = nat(FLOWS);
    let start = std::time::Instant::now();
    let made = pass(
        &mut plane,
        FLOWS,
        |n, buf| (frame(buf, Proto::Udp, flow(n), FLAG_ACK), PortId(0)),
        &mut |_, _| {},
    );
    let seconds = start.elapsed().as_secs_f64();
    let usage = plane.nat_usage();
    let sessions = f64::from(usage.sessions);
    bench.figures(
        "nat 10M made",
        &[
            ("sessions", sessions),
            ("seconds", seconds),
            ("bytes_per_session", usage.bytes as f64 / sessions),
            ("batch_us_p9999", at(&made, 9999)),
            ("batch_us_most", at(&made, 10_000)),
        ],
    )?;
    let (start, mut ticks, mut now) = (std::time::Instant::now(), Vec::new(), 10_000_000);
    while plane.nat_usage().sessions > 0 {
        now += 1;
        let begin = std::time::Instant::now();
        plane.tick(Time::from_ms(now));
        ticks.push(begin.elapsed().as_nanos() as u64);
    }
    ticks.sort_unstable();
    bench.figures(
        "nat 10M ended",
        &[
            ("calls", ticks.len() as f64),
            ("seconds", start.elapsed().as_secs_f64()),
            ("call_us_median", at(&ticks, 5000)),
            ("call_us_p9999", at(&ticks, 9999)),
            ("call_us_most", at(&ticks, 10_000)),
        ],
    )
}

/// What so many of 10,000 times are not longer than, in us.
fn at(sorted_ns: &[u64], of_10_000: usize) -> f64 {
    sorted_ns[(sorted_ns.len() * of_10_000 / 10_000).min(sorted_ns.len() - 1)] as f64 / 1000.0
}

/// One frame of each flow, as `make` writes it; `seen` gets what left. The batches' times in ns, the longest last.
fn pass(
    plane: &mut Plane,
    flows: u32,
    make: impl Fn(u32, &mut [u8]) -> (usize, PortId),
    seen: &mut dyn FnMut(u32, &[u8]),
) -> Vec<u64> {
    let mut memory = vec![0_u8; BATCH * 128];
    let mut times = Vec::new();
    for first in (0..flows).step_by(BATCH) {
        let mut batch = Batch::default();
        for (n, buf) in (first..flows).zip(memory.chunks_mut(128)) {
            let (bytes, port) = make(n, &mut buf[HEAD_ROOM..]);
            batch.push(Frame::new(buf, HEAD_ROOM, HEAD_ROOM + bytes, port));
        }
        let begin = std::time::Instant::now();
        plane.run(Time::from_ms(1), &mut batch);
        times.push(begin.elapsed().as_nanos() as u64);
        for (n, (frame, _)) in (first..).zip(batch.outcome()) {
            seen(n, frame.bytes());
        }
    }
    times.sort_unstable();
    times
}

/// Writes a frame of 64 bytes (60 without its check sequence) from the inside.
fn frame(buf: &mut [u8], proto: Proto, inside: (u32, u16), flags: u8) -> usize {
    let bytes = write(buf, proto, inside, (REMOTE, 80), flags);
    buf[..6].copy_from_slice(&MACS[0]);
    bytes
}

/// And one from the outside.
fn back(buf: &mut [u8], proto: Proto, outside: (u32, u16), flags: u8) -> usize {
    write(buf, proto, (REMOTE, 80), outside, flags)
}

fn write(buf: &mut [u8], proto: Proto, src: (u32, u16), dst: (u32, u16), flags: u8) -> usize {
    buf[..60].fill(0);
    headers(buf, proto as u8, src, dst);
    match proto {
        // Some checksum: the NAT carries it on, it does not verify it.
        Proto::Udp => buf[38..42].copy_from_slice(&[0, 26, 0x12, 0x34]),
        Proto::Tcp => {
            // Both begin at 1 and send nothing.
            let seq = if flags & FLAG_SYN != 0 { 0 } else { 1 };
            buf[41] = seq;
            buf[45] = 1;
            buf[46..50].copy_from_slice(&[0x50, flags, 0x10, 0]);
        }
    }
    60
}
