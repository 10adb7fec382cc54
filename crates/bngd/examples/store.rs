//! Measures the store and the control plane with 64,000 sessions, in a folder on the disk that is to be measured:
//! `cargo run --release -p weir-bngd --example store -- FOLDER`.
//!
//! Leases are appended at a steady rate; of each one the time until it is reported as stored is measured. Then the store is opened
//! again, and its records are adopted.

use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use weir_bng::{Bng, Config, Input, Now, Record};
use weir_bngd::store::{Options, Report, Store};

/// Subscribers, each of which has a session.
const SUBSCRIBERS: u64 = 64_000;
/// How long each rate lasts.
const LASTS: Duration = Duration::from_secs(10);
/// Time between two groups of appended records.
const TICK: Duration = Duration::from_millis(1);
const WALL_S: u64 = 1_790_000_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        println!("store FOLDER     (which does not exist yet)");
        return Ok(());
    };
    // First, while the program has no memory that it could use again.
    println!("memory of the control plane: {:.0} bytes for each subscriber with a session", memory()?);
    std::fs::create_dir(&folder)?;
    let measured = measure(&folder);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure(folder: &Path) -> Result<()> {
    let (store, _) = Store::open(folder, Options::default())?;
    let mut load = Load { store, revision: 0, waiting: VecDeque::new(), latencies: Vec::new(), commits: 0 };
    let begun = Instant::now();
    (0..SUBSCRIBERS).try_for_each(|n| load.append(&format!("subscriber s{n} mac {} plan basic", mac(n))))?;
    load.drain()?;
    println!("{SUBSCRIBERS} subscribers at once: {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    for rate in [5_000, 20_000] {
        load.run(rate)?;
    }
    // Every subscriber has a session.
    (0..SUBSCRIBERS).try_for_each(|n| load.append(&lease(load.revision + 1, n)))?;
    load.drain()?;
    load.store.close()?;
    start_again(folder)
}

fn mac(n: u64) -> String {
    format!("02:00:00:{:02x}:{:02x}:{:02x}", n >> 16, n >> 8 & 0xff, n & 0xff)
}

fn lease(session: u64, n: u64) -> String {
    let (mac, line, address) =
        (mac(n), n % 4094 + 1, format!("100.{}.{}.{}", 64 + (n >> 16), n >> 8 & 0xff, n & 0xff));
    format!(
        "lease {session} s{n} access1:{line}.7 {mac} {address} id 0x01{} start 7 granted {WALL_S} for 3600 counted 0 0 0 0",
        mac.replace(':', "")
    )
}

/// Records on their way to the disk.
struct Load {
    store: Store,
    revision: u64,
    /// Revisions that are not stored, and when they were appended.
    waiting: VecDeque<(u64, Instant)>,
    latencies: Vec<Duration>,
    /// Reports of a success: a group each.
    commits: u64,
}

impl Load {
    fn append(&mut self, change: &str) -> Result<()> {
        self.revision += 1;
        let record: Record = format!("1 {} {change}", self.revision).parse()?;
        self.waiting.push_back((self.revision, Instant::now()));
        self.store.append(record);
        Ok(())
    }

    /// Takes in reports until a time.
    fn wait_until(&mut self, end: Instant) -> Result<()> {
        loop {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now()))?;
            if poll(&mut [PollFd::new(&self.store, PollFlags::IN)], Some(&left))? == 0 {
                return Ok(());
            }
            for report in self.store.reports() {
                let Report::Stored { revision } = report else { return Err(format!("{report:?}").into()) };
                self.commits += 1;
                let now = Instant::now();
                while let Some((_, since)) = self.waiting.pop_front_if(|(waiting, _)| *waiting <= revision) {
                    self.latencies.push(now - since);
                }
            }
        }
    }

    fn drain(&mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            self.wait_until(Instant::now() + TICK)?;
        }
        Ok(())
    }

    fn run(&mut self, rate: u64) -> Result<()> {
        (self.latencies, self.commits) = (Vec::new(), 0);
        let (begun, cpu) = (Instant::now(), cpu_time());
        let mut appended = 0;
        while begun.elapsed() < LASTS {
            let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
            for n in appended..due {
                self.append(&lease(self.revision + 1, n % SUBSCRIBERS))?;
            }
            appended = due;
            self.wait_until(Instant::now() + TICK)?;
        }
        self.drain()?;
        let seconds = begun.elapsed().as_secs_f64();
        self.latencies.sort();
        let ms = |share: f64| {
            let at = (self.latencies.len() as f64 * share) as usize;
            self.latencies
                .get(at.min(self.latencies.len() - 1))
                .map_or(0.0, |found| found.as_secs_f64() * 1e3)
        };
        println!(
            "{rate} records/s: {:.0} stored/s in {:.0} commits/s, append to stored p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms, CPU {:.0} %",
            appended as f64 / seconds,
            self.commits as f64 / seconds,
            ms(0.5),
            ms(0.99),
            ms(1.0),
            (cpu_time() - cpu).as_secs_f64() / seconds * 100.0
        );
        Ok(())
    }
}

fn start_again(folder: &Path) -> Result<()> {
    let cpu = cpu_time();
    let begun = Instant::now();
    let (store, records) = Store::open(folder, Options::default())?;
    println!(
        "open: {} records in {:.0} ms, CPU {:.0} ms",
        records.len(),
        begun.elapsed().as_secs_f64() * 1e3,
        (cpu_time() - cpu).as_secs_f64() * 1e3
    );
    let (mut bng, now, mut out) = (bng()?, now(), Vec::new());
    let cpu = cpu_time();
    for record in records {
        bng.input(now, Input::Adopt(record), &mut out);
    }
    let (sessions, cpu) = (bng.sizes().sessions, cpu_time() - cpu);
    println!("adopt: {sessions} sessions, CPU {:.0} ms", cpu.as_secs_f64() * 1e3);
    Ok(store.close()?)
}

fn bng() -> Result<Bng> {
    let text =
        "port access1 mac 02:00:00:00:00:fe, pool main 100.64.0.2-100.127.255.254 router 100.64.0.1/10,
        plan basic down 20Mbit up 5Mbit";
    let (config, _) = Config::read("example", text).map_err(|mistakes| mistakes.to_string())?;
    Ok(Bng::new(config, 7)?)
}

fn now() -> Now {
    Now { at: Duration::ZERO, wall_s: WALL_S }
}

/// Bytes of a subscriber with a session.
fn memory() -> Result<f64> {
    let (mut bng, mut out) = (bng()?, Vec::new());
    let before = resident_bytes()?;
    let subscribers =
        (0..SUBSCRIBERS).map(|n| format!("1 {} subscriber s{n} mac {} plan basic", n + 1, mac(n)));
    let leases = (0..SUBSCRIBERS).map(|n| (SUBSCRIBERS + n + 1, n));
    let leases = leases.map(|(revision, n)| format!("1 {revision} {}", lease(revision, n)));
    for line in subscribers.chain(leases) {
        bng.input(now(), Input::Adopt(line.parse()?), &mut out);
        out.clear();
    }
    Ok(resident_bytes()?.saturating_sub(before) as f64 / bng.sizes().sessions as f64)
}

/// CPU time of the process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Memory of the process.
fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("VmRSS is missing")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
