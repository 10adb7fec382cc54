//! How rows are measured and printed: each with a walk through as much memory as its tables take, one dependent load
//! after another. On a machine whose caches are shared a row says something together with its walk only.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use serde_json::json;
use weir_packet::checksum::write_ipv4;
use weir_plane::{Accounting, BATCH, Batch, Emitted, Frame, HEAD_ROOM, Plane, PortId, Shelf, Time, Verdict};

use super::Form;

/// Ethernet addresses of the two ports of a node.
pub(super) const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// Frames in memory at a time.
const FRAMES: usize = 1024;
/// Room of a frame.
const STRIDE: usize = 128;
/// Passes over the frames in a round, and rounds.
const PASSES: usize = if cfg!(test) { 1 } else { 64 };
const ROUNDS: usize = 15;
/// Between two batches in the time of the plane: 5 M frames/s.
const BATCH_NS: u64 = 12_800;

/// The rows that are wanted, the speed of the clock, and where they are written.
pub(super) struct Bench<'a> {
    wanted: &'a str,
    /// Rows that were not wanted; `None` since one was.
    others: Option<Vec<String>>,
    /// Rows that lost frames: their cycles are not those of a frame that leaves.
    losing: Vec<String>,
    cycles_per_ns: f64,
    form: Form,
    out: &'a mut dyn Write,
}

/// The headers of a frame of 64 bytes between two ends, up to the ports.
pub(super) fn headers(buf: &mut [u8], proto: u8, (src, sport): (u32, u16), (dst, dport): (u32, u16)) {
    let mut ip = [0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, proto, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[12..16].copy_from_slice(&src.to_be_bytes());
    ip[16..20].copy_from_slice(&dst.to_be_bytes());
    write_ipv4(&mut ip);
    buf[12..14].copy_from_slice(&[8, 0]);
    buf[14..34].copy_from_slice(&ip);
    buf[34..36].copy_from_slice(&sport.to_be_bytes());
    buf[36..38].copy_from_slice(&dport.to_be_bytes());
}

impl<'a> Bench<'a> {
    pub(super) fn new(wanted: &'a str, form: Form, out: &'a mut dyn Write) -> Bench<'a> {
        let cpu = weir_disk::kernel_text("/proc/cpuinfo").unwrap_or_default();
        let mhz = cpu.lines().find(|line| line.starts_with("cpu MHz"));
        let mhz: Option<f64> = mhz.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        Bench {
            wanted,
            others: Some(Vec::new()),
            losing: Vec::new(),
            cycles_per_ns: mhz.map_or(1.0, |mhz| mhz / 1000.0),
            form,
            out,
        }
    }

    pub(super) fn heading(&mut self) -> io::Result<()> {
        if self.form == Form::Json {
            return Ok(());
        }
        let pages = pages();
        let ghz = self.cycles_per_ns;
        writeln!(
            self.out,
            "cycles at {ghz:.2} GHz (without /proc/cpuinfo: ns); spread = least and most of {ROUNDS} rounds; pages of \
             {pages}"
        )?;
        writeln!(
            self.out,
            "{:<34} {:>8} {:>15} {:>7} {:>12} {:>10} {:>10}",
            "row", "cycles", "spread", "Mpps", "batch p99.99", "tables", "walk"
        )
    }

    pub(super) fn wants(&mut self, row: &str) -> bool {
        let wants = row.contains(self.wanted);
        if wants {
            self.others = None;
        } else if let Some(others) = &mut self.others {
            others.push(row.to_string());
        }
        wants
    }

    /// Says so if no row was wanted, or if one has lost frames.
    pub(super) fn end(self) -> io::Result<()> {
        if !self.losing.is_empty() {
            let text = format!("frames of these rows did not leave: {}", self.losing.join("; "));
            return Err(io::Error::other(text));
        }
        let Some(rows) = self.others else { return Ok(()) };
        let (wanted, rows) = (self.wanted, rows.join("\n  "));
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("no row has `{wanted}` in its name; the rows are\n  {rows}"),
        ))
    }

    /// Frames through a plane whose tables take so many bytes: `make` writes a frame's bytes and says how many, and by
    /// which port it comes in.
    pub(super) fn row(
        &mut self,
        name: &str,
        plane: &mut Plane,
        table_bytes: usize,
        mut make: impl FnMut(&mut [u8]) -> (usize, PortId),
    ) -> io::Result<()> {
        let mut memory = vec![0_u8; FRAMES * STRIDE];
        let mut now = plane_start();
        let mut batches_ns = Vec::with_capacity(ROUNDS * PASSES * FRAMES / BATCH);
        let mut rounds: Vec<f64> = Vec::with_capacity(ROUNDS);
        let before = plane.accounting();
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
        self.finish(name, plane, &before, rounds, batches_ns, table_bytes)
    }

    /// The same for frames of which many wait in the plane; the time until they have left counts. A frame is in the same memory
    /// all the time.
    pub(super) fn row_of_waiting(
        &mut self,
        name: &str,
        plane: &mut Plane,
        mut make: impl FnMut(&mut [u8]) -> (usize, PortId),
    ) -> io::Result<()> {
        let (mut free, mut kept): (Vec<Buffer>, Shelf<(PortId, Buffer)>) = (Vec::new(), Shelf::default());
        let mut now = plane_start();
        let mut batches_ns = Vec::with_capacity(ROUNDS * PASSES * FRAMES / BATCH);
        let mut rounds: Vec<f64> = Vec::with_capacity(ROUNDS);
        let mut before = plane.accounting();
        let warm_up = if cfg!(test) { 1 } else { 8 };
        for round in 0..warm_up + ROUNDS {
            if round == warm_up {
                batches_ns.clear();
                rounds.clear();
                before = plane.accounting();
            }
            let mut total_ns = 0;
            for _ in 0..PASSES * FRAMES / BATCH {
                let mut buffers: Vec<Buffer> =
                    (0..BATCH).map(|_| free.pop().unwrap_or_else(|| Box::new([0; STRIDE]))).collect();
                let made: Vec<_> = buffers.iter_mut().map(|buf| make(&mut buf[HEAD_ROOM..])).collect();
                now = Time::from_ns(now.ns() + BATCH_NS);
                let start = Instant::now();
                let mut batch = Batch::default();
                for (buf, &(bytes, port)) in buffers.iter_mut().zip(&made) {
                    batch.push(Frame::new(&mut buf[..], HEAD_ROOM, HEAD_ROOM + bytes, port));
                }
                plane.run(now, &mut batch);
                let verdicts: Vec<_> = batch.outcome().map(|(_, verdict)| verdict).collect();
                drop(batch);
                for ((buf, verdict), (_, port)) in buffers.into_iter().zip(verdicts).zip(made) {
                    match verdict {
                        Verdict::Kept(ticket) => kept.put(ticket, (port, buf)),
                        _ => free.push(buf),
                    }
                }
                resume(plane, now, &mut kept, &mut free);
                plane.tick(now);
                resume(plane, now, &mut kept, &mut free);
                let ns = start.elapsed().as_nanos() as u64;
                total_ns += ns;
                batches_ns.push(ns);
            }
            rounds.push(total_ns as f64 / (PASSES * FRAMES) as f64);
        }
        let table_bytes = plane.subscriber_bytes();
        // What waits has not left.
        let waiting = plane.accounting().kept;
        while plane.accounting().kept > 0 {
            now = Time::from_ns(now.ns() + 1_000_000);
            plane.tick(now);
            resume(plane, now, &mut kept, &mut free);
        }
        self.finish(name, plane, &before, rounds, batches_ns, table_bytes)?;
        self.figures(name, &[("waiting_frames", waiting as f64)])
    }

    fn finish(
        &mut self,
        name: &str,
        plane: &Plane,
        before: &Accounting,
        mut rounds: Vec<f64>,
        mut batches_ns: Vec<u64>,
        table_bytes: usize,
    ) -> io::Result<()> {
        let accounting = plane.accounting();
        let entered = accounting.entered + before.kept - before.entered;
        let left = accounting.left + accounting.handed - before.left - before.handed;
        let lost = (entered != left).then(|| {
            let reasons: Vec<_> = accounting
                .drops
                .occurred()
                .map(|(reason, frames)| format!("{} {frames}", reason.name()))
                .collect();
            format!("{left} of {entered} left: {}", reasons.join(", "))
        });
        self.losing.extend(lost.iter().map(|lost| format!("{name}: {lost}")));
        rounds.sort_by(f64::total_cmp);
        batches_ns.sort_unstable();
        self.print(name, &rounds, batches_ns[batches_ns.len() * 9999 / 10_000], table_bytes, lost)
    }

    fn print(
        &mut self,
        name: &str,
        rounds: &[f64],
        late_ns: u64,
        table_bytes: usize,
        lost: Option<String>,
    ) -> io::Result<()> {
        let cycles = |ns: f64| ns * self.cycles_per_ns;
        let (least, median, most) = (rounds[0], rounds[rounds.len() / 2], rounds[rounds.len() - 1]);
        let (late_us, walk) = (late_ns as f64 / 1000.0, cycles(chase(table_bytes)));
        if self.form == Form::Json {
            let row = json!({
                "row": name, "cycles": cycles(median), "cycles_least": cycles(least), "cycles_most": cycles(most),
                "rounds": rounds.len(), "mpps": 1000.0 / median, "batch_us_p9999": late_us, "table_bytes": table_bytes,
                "walk_cycles": walk, "ghz": self.cycles_per_ns, "lost": lost,
            });
            return writeln!(self.out, "{row}");
        }
        writeln!(
            self.out,
            "{name:<34} {:>8.1} {:>15} {:>7.2} {late_us:>9.1} us {:>6.1} MiB {walk:>6.1} cyc{}",
            cycles(median),
            format!("{:.1}–{:.1}", cycles(least), cycles(most)),
            1000.0 / median,
            table_bytes as f64 / f64::from(1 << 20),
            lost.map(|lost| format!("  {lost}")).unwrap_or_default(),
        )
    }

    /// Why a row could not be measured.
    pub(super) fn missing(&mut self, name: &str, why: &str) -> io::Result<()> {
        match self.form {
            Form::Json => writeln!(self.out, "{}", json!({ "row": name, "missing": why })),
            Form::Text => writeln!(self.out, "{name:<34} not measured: {why}"),
        }
    }

    /// Other figures of a row, each with its unit in its name.
    pub(super) fn figures(&mut self, name: &str, figures: &[(&str, f64)]) -> io::Result<()> {
        if self.form == Form::Json {
            let figures = figures.iter().map(|&(name, value)| (name.to_string(), json!(value)));
            let row: serde_json::Map<_, _> =
                [("row".to_string(), json!(name))].into_iter().chain(figures).collect();
            return writeln!(self.out, "{}", serde_json::Value::Object(row));
        }
        let figures: Vec<_> = figures.iter().map(|(name, value)| format!("{name} {value:.1}")).collect();
        writeln!(self.out, "{name:<34} {}", figures.join(", "))
    }
}

/// Memory of a frame.
type Buffer = Box<[u8; STRIDE]>;

/// Brings frames back that the plane emits.
fn resume(plane: &mut Plane, now: Time, kept: &mut Shelf<(PortId, Buffer)>, free: &mut Vec<Buffer>) {
    loop {
        let mut back = Vec::with_capacity(BATCH);
        while back.len() < BATCH
            && let Some(emitted) = plane.next_emitted()
        {
            match emitted {
                Emitted::Free(ticket) => free.push(kept.take(ticket).1),
                Emitted::Back(ticket) => back.push((ticket, kept.take(ticket))),
            }
        }
        if back.is_empty() {
            return;
        }
        let mut batch = Batch::default();
        for (ticket, (port, buf)) in &mut back {
            batch.push_kept(Frame::new(&mut buf[..], HEAD_ROOM, STRIDE, *port), *ticket);
        }
        plane.resume(now, &mut batch);
        let verdicts: Vec<_> = batch.outcome().map(|(_, verdict)| verdict).collect();
        drop(batch);
        for ((_, (port, buf)), verdict) in back.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Kept(ticket) => kept.put(ticket, (port, buf)),
                _ => free.push(buf),
            }
        }
    }
}

/// The pages that the tables lie in: the kernel gives large ones to all, or the allocator asks for them; large tables ask for
/// themselves.
fn pages() -> &'static str {
    let kernel = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let asked =
        std::env::var("GLIBC_TUNABLES").is_ok_and(|tunables| tunables.contains("glibc.malloc.hugetlb=1"));
    match (kernel.contains("[always]"), kernel.contains("[madvise]")) {
        (true, _) => "2 MiB",
        (_, true) if asked => "2 MiB",
        (_, true) => "4 KiB, those of large tables 2 MiB as far as granted",
        _ => "4 KiB",
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

/// Clocks of a load from a random place of so many bytes, each place given by the load before, in ns.
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
