//! Filters of 25 and 10,000 rules without and with connections. Each frame hits a random rule: of its networks, ports
//! and protocol; one in ten hits none before the last.

use std::io;
use std::net::Ipv4Addr;

use weir_plane::{Batch, Beside, Config, Frame, HEAD_ROOM, Plane, PortId, Time, mask4};

use super::probe::{Bench, MACS, headers};
use weir_rng::Rng;

/// What a rule asks and a frame has.
#[derive(Clone, Copy)]
struct Rule {
    src: (u32, u8),
    dst: (u32, u8),
    proto: u8,
    sport: (u16, u16),
    dport: (u16, u16),
}

pub(super) fn rows(bench: &mut Bench<'_>) -> io::Result<()> {
    bump(bench)?;
    for (name, count) in
        [("filter 25 rules", 25), ("filter 1,000 rules", 1000), ("filter 10,000 rules", 10_000)]
    {
        if !bench.wants(name) {
            continue;
        }
        let mut random = Rng::new(11);
        let rules: Vec<Rule> = (0..count).map(|_| rule(&mut random)).collect();
        let text: String = rules.iter().map(|rule| line(*rule)).collect();
        let mut plane = node("lan > filter(rules.fw) > wan", &(text + "policy accept\n"));
        let bytes = plane.filter_bytes();
        bench.row(name, &mut plane, bytes, |buf| {
            let mut hit = rules[random.below(rules.len())];
            if random.below(10) == 0 {
                hit.dst = (0xc633_6400, 24);
            }
            (frame(buf, hit, &mut random), PortId(0))
        })?;
    }
    for (count, flows) in [("1", 1), ("10k", 10_000), ("64k", 64_512), ("1M", 1_000_000)] {
        for (proto, name) in [(17, "udp"), (6, "tcp")] {
            let name = format!("filter stateful {count} {name} random");
            if bench.wants(&name) {
                stateful(bench, &name, proto, flows)?;
            }
        }
    }
    Ok(())
}

/// Frames of random ones of so many established connections; both directions alternately.
fn stateful(bench: &mut Bench<'_>, name: &str, proto: u8, flows: u64) -> io::Result<()> {
    let mut random = Rng::new(11);
    let rules = "accept state established,related\naccept outward state new\n";
    let mut plane = node("lan > filter(rules.fw) > wan", rules);
    let ends = |n: u64| ((0x0a00_0000 + (n / 60) as u32, 5000 + (n % 60) as u16), (0xc000_0201, 443));
    let mut memory = vec![0; 128];
    for n in 0..flows {
        let (inside, outside) = ends(n);
        // SYN, SYN-ACK, ACK; without meaning for UDP.
        for (back, flags) in [(false, 0x02), (true, 0x12), (false, 0x10)] {
            let (from, to) = if back { (outside, inside) } else { (inside, outside) };
            let bytes = write(&mut memory[HEAD_ROOM..], proto, from, to);
            if proto == 6 {
                memory[HEAD_ROOM + 47] = flags;
            }
            let mut batch = Batch::default();
            let port = PortId(u16::from(back));
            batch.push(Frame::new(&mut memory, HEAD_ROOM, HEAD_ROOM + bytes, port));
            plane.run(Time::from_ms(1), &mut batch);
        }
    }
    assert_eq!((plane.accounting().left, u64::from(plane.connections())), (3 * flows, flows), "all are open");
    let bytes = plane.filter_bytes();
    bench.row(name, &mut plane, bytes, |buf| {
        let (inside, outside) = ends(random.below(flows as usize) as u64);
        let back = random.below(2) == 1;
        let (from, to) = if back { (outside, inside) } else { (inside, outside) };
        (write(buf, proto, from, to), PortId(u16::from(back)))
    })
}

/// What the plane costs around a filter.
fn bump(bench: &mut Bench<'_>) -> io::Result<()> {
    let name = "filter none";
    if bench.wants(name) {
        let mut random = Rng::new(11);
        let any =
            Rule { src: (0x0a00_0000, 8), dst: (0, 0), proto: 17, sport: (0, 65535), dport: (0, 65535) };
        let mut plane = node("lan > wan", "");
        bench.row(name, &mut plane, 0, |buf| (frame(buf, any, &mut random), PortId(0)))?;
    }
    Ok(())
}

pub(super) fn node(text: &str, rules: &str) -> Plane {
    let file = |_: &str| Ok(rules.to_string());
    let mut beside = Beside { item: &mut |_, _| false, file: &file };
    let config =
        Config::read_with("bench", text, &mut beside).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Plane::new(&config, &MACS)
}

/// So many rules as those of firewalls are, a line each.
pub(super) fn lines(count: usize, random: &mut Rng) -> Vec<String> {
    (0..count).map(|_| line(rule(random))).collect()
}

/// A rule as those of firewalls are: most name a server or a network behind it and a port, many where it is asked from,
/// some the one or the other alone.
fn rule(random: &mut Rng) -> Rule {
    let outside = |random: &mut Rng| {
        let len = [24, 24, 24, 22, 20, 16, 32, 32][random.below(8)];
        ((((1 + random.below(126)) << 24 | random.below(1 << 24)) as u32) & mask4(len), len)
    };
    let inside = |random: &mut Rng| {
        let len = [32, 32, 32, 32, 28, 24, 24, 16][random.below(8)];
        ((0x0a00_0000 | random.below(1 << 24) as u32) & mask4(len), len)
    };
    let any = (0, 0);
    let (src, dst) = match random.below(100) {
        0..45 => (any, inside(random)),
        45..85 => (outside(random), inside(random)),
        85..95 => (outside(random), any),
        _ => (any, any),
    };
    let every = (0, u16::MAX);
    let port = |random: &mut Rng| match random.below(10) {
        0..6 => {
            let port = [22, 25, 53, 80, 110, 123, 143, 443, 445, 993, 3306, 3389, 5060, 5432, 8080, 8443];
            let port = port[random.below(16)];
            (port, port)
        }
        6..8 => {
            let port = 1024 + random.below(60_000) as u16;
            (port, port)
        }
        8 => {
            let first = 1024 + random.below(30_000) as u16;
            (first, first + random.below(1000) as u16)
        }
        _ => (1024, u16::MAX),
    };
    let proto = [6, 6, 6, 17][random.below(4)];
    // What asks for no address asks for one port.
    let dport = if (src, dst) == (any, any) {
        let port = 1024 + random.below(60_000) as u16;
        (port, port)
    } else if random.below(5) == 0 {
        every
    } else {
        port(random)
    };
    let sport = if random.below(20) == 0 { port(random) } else { every };
    Rule { src, dst, proto, sport, dport }
}

fn line(rule: Rule) -> String {
    let network = |(address, len): (u32, u8)| format!("{}/{len}", Ipv4Addr::from(address));
    let ports = |(first, last): (u16, u16)| format!("{first}-{last}");
    let proto = if rule.proto == 6 { "tcp" } else { "udp" };
    let (src, dst) = (network(rule.src), network(rule.dst));
    format!("accept {proto} from {src} port {} to {dst} port {}\n", ports(rule.sport), ports(rule.dport))
}

/// Writes a frame that the rule holds for.
fn frame(buf: &mut [u8], rule: Rule, random: &mut Rng) -> usize {
    let address =
        |(address, len): (u32, u8), random: &mut Rng| address | (random.next_u64() as u32 & !mask4(len));
    let port = |(first, last): (u16, u16), random: &mut Rng| {
        first + random.below(usize::from(last - first) + 1) as u16
    };
    let (src, dst) = (address(rule.src, random), address(rule.dst, random));
    let (sport, dport) = (port(rule.sport, random), port(rule.dport, random));
    write(buf, rule.proto, (src, sport), (dst, dport))
}

/// Writes a frame of TCP or UDP.
fn write(buf: &mut [u8], proto: u8, src: (u32, u16), dst: (u32, u16)) -> usize {
    buf[..6].copy_from_slice(&MACS[0]);
    buf[6..12].copy_from_slice(&[2, 0, 0, 0, 0xcc, 0]);
    headers(buf, proto, src, dst);
    // The length of UDP is where TCP has its sequence number; behind it a header of TCP with ACK.
    buf[38..60].copy_from_slice(&[0, 26, 0, 0, 0, 0, 0, 1, 0x50, 0x10, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    60
}
