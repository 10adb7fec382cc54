//! How rows are measured and printed: each with a walk through as much memory as its tables take, one dependent load
//! after another. On a machine whose caches are shared a row says something together with its walk only.

use std::hint::black_box;
use std::time::Instant;

use weir_plane::{BATCH, Batch, Frame, HEAD_ROOM, Plane, PortId, Time};

/// Frames in memory at a time.
const FRAMES: usize = 1024;
/// Room of a frame.
const STRIDE: usize = 128;
/// Passes over the frames in a round, and rounds.
const PASSES: usize = 64;
const ROUNDS: usize = 15;
/// Between two batches in the time of the plane: 5 M frames/s.
const BATCH_NS: u64 = 12_800;

/// The rows that are wanted, and the speed of the clock.
pub(crate) struct Bench {
    wanted: String,
    clocks_per_ns: f64,
}

/// A generator of numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

impl Bench {
    pub(crate) fn new(wanted: String) -> Bench {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mhz = cpu.lines().find(|line| line.starts_with("cpu MHz"));
        let mhz: Option<f64> = mhz.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        Bench { wanted, clocks_per_ns: mhz.map_or(1.0, |mhz| mhz / 1000.0) }
    }

    pub(crate) fn heading(&self) {
        let ghz = self.clocks_per_ns;
        let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
        let pages = if tunables.contains("hugetlb=1") { "2 MiB" } else { "4 KiB" };
        println!(
            "clocks at {ghz:.2} GHz (without /proc/cpuinfo: ns); spread = least and most of {ROUNDS} rounds; \
             pages of {pages}"
        );
        println!(
            "{:<34} {:>8} {:>15} {:>7} {:>12} {:>10} {:>10}",
            "row", "clocks", "spread", "Mpps", "batch p99.99", "tables", "walk"
        );
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        row.starts_with(&self.wanted)
    }

    /// Frames through a plane whose tables take so many bytes: `make` writes a frame's bytes and says how many, and by
    /// which port it comes in.
    pub(crate) fn row(
        &self,
        name: &str,
        plane: &mut Plane,
        table_bytes: usize,
        mut make: impl FnMut(&mut [u8]) -> (usize, PortId),
    ) {
        let mut memory = vec![0_u8; FRAMES * STRIDE];
        let mut now = plane_start();
        let mut batches_ns = Vec::with_capacity(ROUNDS * PASSES * FRAMES / BATCH);
        let mut rounds: Vec<f64> = Vec::with_capacity(ROUNDS);
        let before = plane.books();
        for round in 0..=ROUNDS {
            let mut total_ns = 0;
            for _ in 0..PASSES {
                for mut batch in batches(&mut memory, &mut make) {
                    now = Time::from_ns(now.ns() + BATCH_NS);
                    let start = Instant::now();
                    plane.run(now, &mut batch);
                    let ns = start.elapsed().as_nanos() as u64;
                    total_ns += ns;
                    batches_ns.push(ns);
                }
                plane.tick(now);
                plane.departures().for_each(drop);
            }
            // The first one warms up.
            if round == 0 {
                batches_ns.clear();
            } else {
                rounds.push(total_ns as f64 / (PASSES * FRAMES) as f64);
            }
        }
        let books = plane.books();
        let (entered, left) = (books.entered - before.entered, books.left - before.left);
        let note = if entered == left {
            String::new()
        } else {
            format!("  {left} of {entered} left: {:?}", books.drops.occurred().collect::<Vec<_>>())
        };
        self.print(name, rounds, batches_ns, table_bytes, &note);
    }

    fn print(
        &self,
        name: &str,
        mut rounds: Vec<f64>,
        mut batches_ns: Vec<u64>,
        table_bytes: usize,
        note: &str,
    ) {
        rounds.sort_by(f64::total_cmp);
        batches_ns.sort_unstable();
        let clocks = |ns: f64| ns * self.clocks_per_ns;
        let (least, median, most) = (rounds[0], rounds[rounds.len() / 2], rounds[rounds.len() - 1]);
        let late = batches_ns[(batches_ns.len() * 9999 / 10_000).min(batches_ns.len() - 1)];
        println!(
            "{name:<34} {:>8.1} {:>15} {:>7.2} {:>9.1} us {:>6.1} MiB {:>6.1} clk{note}",
            clocks(median),
            format!("{:.1}–{:.1}", clocks(least), clocks(most)),
            1000.0 / median,
            late as f64 / 1000.0,
            table_bytes as f64 / f64::from(1 << 20),
            clocks(chase(table_bytes)),
        );
    }
}

/// After the beginning, so that nothing is due at zero.
fn plane_start() -> Time {
    Time::from_ms(1)
}

/// The memory as batches of new frames.
fn batches<'a>(memory: &'a mut [u8], make: &mut impl FnMut(&mut [u8]) -> (usize, PortId)) -> Vec<Batch<'a>> {
    let mut batches = Vec::with_capacity(FRAMES / BATCH);
    for memory in memory.chunks_mut(BATCH * STRIDE) {
        let mut batch = Batch::default();
        for buf in memory.chunks_mut(STRIDE) {
            let (bytes, port) = make(&mut buf[HEAD_ROOM..]);
            batch.push(Frame::new(buf, HEAD_ROOM, HEAD_ROOM + bytes, port));
        }
        batches.push(batch);
    }
    batches
}

/// Clocks of a load from a random place of so many bytes, each place told by the load before, in ns.
fn chase(bytes: usize) -> f64 {
    let lines = (bytes / 64).max(16).next_power_of_two();
    let step = (lines as f64 * 0.618) as usize | 1;
    let mut next = vec![[0_usize; 8]; lines];
    (0..lines).for_each(|i| next[i][0] = (i * 5 + step) & (lines - 1));
    let loads = 500_000;
    let start = Instant::now();
    let mut at = 0;
    for _ in 0..loads {
        at = next[at][0];
    }
    black_box(at);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(loads)
}
