//! Every queue drops and marks the same packets as an independent model does (`models/*.py`), on random arrivals.
//!
//! `models/regenerate.py` writes the expected lines; what both have in common is said in `models/harness.py`.

use std::path::Path;

use weir_queue::ppv::{PvPieConfig, marker};
use weir_queue::{Bottleneck, Config, Ecn, Packet, Queue, Time, fair, gsp, pie, red};
use weir_rng::Rng;

const RATE: u64 = 10_000_000;
const PS_PER_BYTE: u64 = 800_000;
const LIMIT: u64 = 120_000;
const LOADS_PERCENT: [u64; 8] = [50, 105, 115, 110, 105, 115, 200, 10];
const PER_LOAD: u64 = 2000;
const ARRIVALS_SEED: u64 = 1;
const SEED: u64 = 42;

fn arrivals() -> impl Iterator<Item = (Time, Packet<u64>)> {
    let mut rng = Rng::new(ARRIVALS_SEED);
    let mut now = Time::ZERO;
    (0..PER_LOAD * LOADS_PERCENT.len() as u64).map(move |index| {
        let mean_gap = 791 * PS_PER_BYTE * 100 / LOADS_PERCENT[(index / PER_LOAD) as usize];
        now += Time::from_ps(rng.below(2 * mean_gap as usize) as u64);
        let bytes = 64 + rng.below(1455) as u32;
        let flow = rng.below(8) as u32;
        let mut packet = Packet::new(bytes, flow, index);
        packet.value = rng.below(1024) as u16;
        packet.source = flow % 3;
        packet.destination = flow % 2;
        packet.ecn = [Ecn::NotEct, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][flow as usize % 4];
        (now, packet)
    })
}

struct Digest(u64);

impl Digest {
    fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x100_0000_01B3);
    }
}

struct Link {
    queue: Box<dyn Queue<u64> + Send>,
    free: Time,
    clock: Time,
    lines: Vec<String>,
    departures: Digest,
}

impl Link {
    fn note_drops(&mut self) {
        for drop in self.queue.dropped().drain(..) {
            self.lines.push(format!("drop {} {}", drop.packet.payload, drop.reason.name()));
        }
    }

    fn serve(&mut self, until: Time) {
        while let Some(due) = self.queue.due(self.clock) {
            let now = self.free.max(self.clock).max(due);
            if now > until {
                return;
            }
            self.clock = now;
            let taken = self.queue.take(now);
            self.note_drops();
            let Some(packet) = taken else { continue };
            if packet.ecn == Ecn::Ce {
                self.lines.push(format!("mark {}", packet.payload));
            }
            self.free = now + Time::from_ps(u64::from(packet.bytes) * PS_PER_BYTE);
            self.departures.add(packet.payload);
            self.departures.add(now.ps());
        }
    }
}

fn replay(config: &Config) -> Vec<String> {
    let at = Bottleneck { limit_bytes: LIMIT, bits_per_s: RATE, seed: SEED };
    let queue = config.build(&at).unwrap();
    let departures = Digest(0xCBF2_9CE4_8422_2325);
    let mut link = Link { queue, free: Time::ZERO, clock: Time::ZERO, lines: Vec::new(), departures };
    for (now, packet) in arrivals() {
        link.serve(now);
        link.clock = now;
        link.queue.offer(packet, now);
        link.note_drops();
        link.serve(now);
    }
    link.serve(Time::MAX);
    let taken = link.queue.counters().taken;
    let digest = link.departures.0;
    link.lines.push(format!("left {} packets {} bytes digest {digest:016x}", taken.packets, taken.bytes));
    link.lines
}

fn expected(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

fn check(name: &str, config: Config) {
    let (expected, got) = (expected(name), replay(&config));
    let line = expected.iter().zip(&got).position(|(expected, got)| expected != got);
    let line = line.or((expected.len() != got.len()).then_some(expected.len().min(got.len())));
    if let Some(line) = line {
        let of = |lines: &[String]| lines.get(line).cloned().unwrap_or("nothing".into());
        panic!("{name}: line {} is {:?}, the model says {:?}", line + 1, of(&got), of(&expected));
    }
}

#[test]
fn queues_of_the_catalogue_equal_their_models() {
    for (name, config) in Config::catalogue() {
        check(name, if name == "cake" { cake_shaped() } else { config });
    }
}

fn cake_shaped() -> Config {
    let config = weir_queue::cake::Config {
        rate_bits_per_s: Some(9_000_000),
        overhead_bytes: 4,
        ..weir_queue::cake::Config::default()
    };
    Config::Cake(config)
}

#[test]
fn variants_equal_their_models() {
    let step = weir_queue::fifo::Config { mark_at_bytes: Some(30_000) };
    check("fifo-step", Config::Fifo(step));
    check("red-wait", Config::Red(red::Config { spacing: red::Spacing::Wait, ..red::Config::default() }));
    check("pie-rate", Config::Pie(pie::Config { delay: pie::Delay::Rate, ..pie::Config::default() }));
}

#[test]
fn another_setting_is_another_list_of_drops() {
    let pie = pie::Config { alpha_hz: 0.126, ..pie::Config::default() };
    let fq_pie = fair::FqPieConfig { pie: pie::Config { wake_share: 0.0, ..pie }, ..Default::default() };
    let pvpie = PvPieConfig { window: Time::from_ms(900), ..PvPieConfig::default() };
    let gsp = gsp::Config { interval: Time::from_ms(190), ..gsp::Config::default() };
    for (name, config) in [
        ("pie", Config::Pie(pie)),
        ("fq-pie", Config::FqPie(fq_pie)),
        ("pvpie", Config::Pvpie(pvpie)),
        ("gsp", Config::Gsp(gsp)),
    ] {
        assert_ne!(replay(&config), expected(name), "{name}: this test would not see a wrong constant");
    }
}

#[test]
fn markers_equal_their_models() {
    let window = Time::from_ms(100);
    for (name, config) in [
        ("marker-ladder", marker::Config::Ladder { depth: window, weight: 1.0 }),
        ("marker-random", marker::Config::Random { window, weight: 1.0 }),
    ] {
        let mut marker = config.build(SEED);
        let values: Vec<u16> = arrivals().map(|(now, packet)| marker.mark(packet.bytes, now)).collect();
        let mut digest = Digest(0xCBF2_9CE4_8422_2325);
        values.iter().for_each(|&value| digest.add(u64::from(value)));
        let line = |values: &[u16]| values.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        let mut got: Vec<String> = values.chunks(800).map(|chunk| line(&chunk[..20])).collect();
        got.push(format!("digest {:016x}", digest.0));
        assert_eq!(got, expected(name), "{name}");
    }
}
