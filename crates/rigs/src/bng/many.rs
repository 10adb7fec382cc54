//! TCP to many subscribers at once, each with a plan of 1 Mbit/s: the byte counters of the node beside their rates. All sessions are one
//! interface with all their addresses, so that the kernel's TCP runs behind their tags.
//!
//! ```text
//!  [hosts] two flows to each > e ---- f [bng] b ---- a > emulator > tcp0 [devices] reads
//!          warm-up, 5 s | counters, 3 s, counters, 3 s (this machine stood still: left out), counters .. until 30 s are left
//! ```

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_cpe::run::Event;
use weir_cpe::{Mac, Options, Tapped, Template};
use weir_flows::epoll::{Epoll, Events, READ, WRITE};
use weir_lab::error::RunError;
use weir_linux::Error;
use weir_linux::rtnl::Rtnl;
use weir_record::record::{Detail, Trial, Verdict};

use super::device::Device;
use super::street::{HOSTS_NETWORK, Street, TAP};
use super::trials::Bench;

/// Subscribers with this plan at most, their devices, and how those dial in.
pub(super) const MOST: u32 = 200;
pub(super) const PLAN: &str = "one";
pub(super) const MANY_MAC: Mac = Mac([2, 0, 0x77, 1, 0, 0]);
pub(super) const MANY_LOGIN: &str = "many{n}@isp";
const RATE_BITS_PER_S: f64 = 1e6;
/// Flows of each subscriber: the other one sends while one has lost a segment.
const FLOWS: usize = 2;
const PORT: u16 = 5201;
const RATE_PER_S: f64 = 100.0;
const WARM_UP: Duration = Duration::from_secs(5);
/// Time for which counters are compared with the plan.
pub(super) const WINDOW: Duration = Duration::from_secs(30);
/// Between two readings of the counters: a slice in which this machine stood still is left out.
const SLICE: Duration = Duration::from_secs(3);
/// Most time for all slices; with less than half of [`WINDOW`] there is no figure.
const MOST_WINDOW: Duration = Duration::from_secs(120);
/// A reading that takes longer has no certain time.
const LONG_READING: Duration = Duration::from_millis(200);
/// Time limit of the set-up.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// A pause of a thread that asks to go on after a shorter time: this machine stood still.
const TICK: Duration = Duration::from_millis(5);
const STOP: Duration = Duration::from_millis(25);
/// A rate within this share of the plan is right.
const RIGHT: f64 = 0.01;

/// What the node counted for the subscribers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Many {
    pub(super) subscribers: u32,
    /// Of all slices in which this machine did not stand still.
    pub(super) seconds: f64,
    /// Bits/s to a subscriber: least, median, most.
    pub(super) bits_per_s: [f64; 3],
    /// Subscribers whose rate is within 1 % of their plan.
    pub(super) right: u32,
    /// Time that frames waited in the node: the median of p50, and the largest p99, s.
    pub(super) delay_s: Option<[f64; 2]>,
    /// Of the other slices, which were left out, s.
    #[serde(default)]
    pub(super) left_out_s: f64,
    /// Time for which this machine stood still in them, s.
    pub(super) stopped_s: f64,
}

impl Detail for Many {
    const KEY: &'static str = "bng_many";
}

/// What was read of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reading {
    session: u64,
    bytes: u64,
    /// p50 and p99, us.
    delay_us: Option<[u64; 2]>,
}

/// All subscribers at one time.
#[derive(Debug, Clone)]
struct Readings {
    all: Vec<Reading>,
    at: Instant,
    /// How long it took to read them.
    took: Duration,
}

/// The time between two readings.
struct Slice<'a> {
    before: &'a Readings,
    after: &'a Readings,
    /// Time for which this machine stood still meanwhile.
    stopped: Duration,
}

impl Slice<'_> {
    fn time(&self) -> Duration {
        self.after.at - self.before.at
    }

    fn is_certain(&self) -> bool {
        self.stopped.is_zero() && self.before.took.max(self.after.took) <= LONG_READING
    }
}

/// Sum of slices.
#[derive(Debug, Default)]
struct Sum {
    bytes: HashMap<u64, u64>,
    time: Duration,
    left_out: Duration,
    stopped: Duration,
}

impl Sum {
    fn add(&mut self, slice: &Slice<'_>) {
        if !slice.is_certain() {
            self.left_out += slice.time();
            self.stopped += slice.stopped;
            return;
        }
        self.time += slice.time();
        for one in &slice.after.all {
            if let Some(then) = slice.before.all.iter().find(|other| other.session == one.session) {
                *self.bytes.entry(one.session).or_default() += one.bytes.saturating_sub(then.bytes);
            }
        }
    }
}

impl Many {
    /// From what was counted, and the last reading.
    fn of(sum: &Sum, last: &[Reading]) -> Option<Many> {
        let seconds = sum.time.as_secs_f64();
        let mut rates: Vec<f64> = sum.bytes.values().map(|bytes| *bytes as f64 * 8.0 / seconds).collect();
        rates.sort_by(f64::total_cmp);
        let (least, most) = (*rates.first()?, *rates.last()?);
        let is_right = |rate: &&f64| (**rate / RATE_BITS_PER_S - 1.0).abs() <= RIGHT;
        let mut p50: Vec<u64> = last.iter().filter_map(|one| Some(one.delay_us?[0])).collect();
        p50.sort_unstable();
        let p99 = last.iter().filter_map(|one| Some(one.delay_us?[1])).max();
        let seconds_of = |us: u64| us as f64 / 1e6;
        Some(Many {
            subscribers: rates.len() as u32,
            seconds,
            bits_per_s: [least, rates[rates.len() / 2], most],
            right: rates.iter().filter(is_right).count() as u32,
            delay_s: p50.get(p50.len() / 2).zip(p99).map(|(p50, p99)| [seconds_of(*p50), seconds_of(p99)]),
            left_out_s: sum.left_out.as_secs_f64(),
            stopped_s: sum.stopped.as_secs_f64(),
        })
    }

    /// The largest difference from the plan, as a share of it.
    pub(super) fn error(&self) -> f64 {
        let [least, _, most] = self.bits_per_s;
        (1.0 - least / RATE_BITS_PER_S).max(most / RATE_BITS_PER_S - 1.0)
    }
}

impl Bench<'_> {
    /// All of them come online, and TCP sends to all of them.
    pub(super) fn many(&self, stop: &AtomicBool) -> Result<Trial, RunError> {
        let subscribers = self.plan.most_sessions().min(MOST);
        let mut options = Options {
            first_mac: MANY_MAC,
            tap: Tapped::All,
            own_far: false,
            far: None,
            hold: None,
            ..self.options(subscribers, RATE_PER_S)
        };
        if let Some(pppoe) = &mut options.pppoe {
            pppoe.login = Template(MANY_LOGIN.into());
        }
        let own_stop = AtomicBool::new(false);
        let (leased, is_leased) = mpsc::channel();
        let found = thread::scope(|scope| {
            let own_stop = &own_stop;
            let (street, device) = (&self.street, &self.device);
            let sender = scope.spawn(move || {
                let found = send(street, device, &is_leased, subscribers);
                own_stop.store(true, Ordering::Relaxed);
                found
            });
            let emulated = street.emulate(options, own_stop, &mut |event| match event {
                Event::Tap { address, gateway, .. } => leased.send((address, gateway)).unwrap_or_default(),
                Event::Progress(_) if stop.load(Ordering::Relaxed) => own_stop.store(true, Ordering::Relaxed),
                Event::Progress(_) => {}
            });
            drop(leased);
            let found = sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            emulated.and(found)
        })?;
        let trial = Trial { duration_s: WINDOW.as_secs_f64(), ..Trial::default() };
        Ok(match found {
            Ok(many) => trial.with_detail(&many),
            Err(why) => Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial },
        })
    }
}

type Lease = (Ipv4Addr, Option<Ipv4Addr>);

/// Sends to all addresses, and reads the counters; `Err` inside: why there are none.
fn send(
    street: &Street,
    device: &Device,
    is_leased: &Receiver<Lease>,
    subscribers: u32,
) -> Result<Result<Many, String>, RunError> {
    let mut leases: Vec<Lease> = Vec::new();
    while leases.len() < subscribers as usize {
        match is_leased.recv_timeout(PATIENCE) {
            Ok(lease) => leases.push(lease),
            Err(_) => {
                return Ok(Err(format!(
                    "{} of {subscribers} subscribers with the plan of 1 Mbit/s came online",
                    leases.len()
                )));
            }
        }
    }
    let gateway = leases.iter().find_map(|(_, gateway)| *gateway).unwrap_or(Ipv4Addr::new(100, 64, 0, 1));
    let failed = |step: &'static str| move |error| RunError::Linux(Error::os(step)(error));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (listening, is_listening) = mpsc::channel();
        let is_over = &is_over;
        let reader = scope.spawn(move || -> Result<(), RunError> {
            // The thread of the namespace belongs to the emulator meanwhile.
            street.devices.enter()?;
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.link(TAP)?.ifindex;
            rtnl.add_route(HOSTS_NETWORK, IpAddr::V4(gateway), index)?;
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).map_err(failed("listen"))?;
            listening.send(()).unwrap_or_default();
            read_all(&listener, is_over).map_err(failed("read what was sent to subscribers"))
        });
        let found = match is_listening.recv() {
            Ok(()) => scope
                .spawn(move || -> Result<Result<Many, String>, RunError> {
                    if let Some(hosts) = &street.hosts {
                        hosts.enter()?;
                    }
                    write_all(&leases, device, is_over)
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The reader says why.
            Err(_) => Ok(Err("no program reads what is sent to subscribers".into())),
        };
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        found
    })
}

/// Reads all connections until it is over.
fn read_all(listener: &TcpListener, is_over: &AtomicBool) -> std::io::Result<()> {
    let (epoll, mut events) = (Epoll::new()?, Events::default());
    listener.set_nonblocking(true)?;
    epoll.add(listener, READ, u64::MAX)?;
    let (mut streams, mut room): (Vec<TcpStream>, _) = (Vec::new(), vec![0; 1 << 16]);
    while !is_over.load(Ordering::Relaxed) {
        for (token, _) in epoll.wait(&mut events, Some(LOOK))? {
            let Some(stream) = streams.get_mut(token as usize) else {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    epoll.add(&stream, READ, streams.len() as u64)?;
                    streams.push(stream);
                }
                continue;
            };
            match stream.read(&mut room) {
                // Its end is seen by the writer, which ends the trial.
                Ok(0) => epoll.remove(stream)?,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => epoll.remove(stream)?,
            }
        }
    }
    Ok(())
}

/// Connects to all subscribers, keeps all connections full, and reads the counters before and after the window.
fn write_all(
    leases: &[Lease],
    device: &Device,
    is_over: &AtomicBool,
) -> Result<Result<Many, String>, RunError> {
    let mut streams = Vec::new();
    for (address, _) in leases {
        for _ in 0..FLOWS {
            match TcpStream::connect_timeout(&SocketAddr::from((*address, PORT)), PATIENCE) {
                Ok(stream) => streams.push(stream),
                Err(error) => return Ok(Err(format!("no connection to the subscriber {address}: {error}"))),
            }
        }
    }
    thread::scope(|scope| {
        let writer = scope.spawn(|| fill(streams, is_over));
        let counted = window(device, is_over);
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match written {
            Ok(()) => counted,
            Err(error) => Ok(Err(format!("a connection to a subscriber has ended: {error}"))),
        }
    })
}

/// Writes as much as the connections take, until it is over.
fn fill(mut streams: Vec<TcpStream>, is_over: &AtomicBool) -> std::io::Result<()> {
    let (epoll, mut events) = (Epoll::new()?, Events::default());
    for (token, stream) in (0..).zip(&streams) {
        stream.set_nonblocking(true)?;
        epoll.add(stream, WRITE, token)?;
    }
    let zeros = vec![0; 1 << 14];
    while !is_over.load(Ordering::Relaxed) {
        for (token, _) in epoll.wait(&mut events, Some(LOOK))? {
            let Some(stream) = streams.get_mut(token as usize) else { continue };
            match stream.write(&zeros) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The reader may be faster to see that it is over.
                Err(error) => {
                    return if is_over.swap(true, Ordering::Relaxed) { Ok(()) } else { Err(error) };
                }
            }
        }
    }
    Ok(())
}

/// Reads the counters again and again, until the slices that count are long enough.
fn window(device: &Device, is_over: &AtomicBool) -> Result<Result<Many, String>, RunError> {
    stood_still(WARM_UP, is_over);
    let (mut sum, mut before) = (Sum::default(), readings(device)?);
    let deadline = before.at + MOST_WINDOW;
    while sum.time < WINDOW && before.at < deadline {
        let stopped = stood_still(SLICE, is_over);
        let after = readings(device)?;
        sum.add(&Slice { before: &before, after: &after, stopped });
        before = after;
        if is_over.load(Ordering::Relaxed) {
            return Ok(Err("the flows have ended early".into()));
        }
    }
    if sum.time < WINDOW / 2 {
        return Ok(Err(format!(
            "this machine stood still in {:.0} s of {:.0} s, in all for {:.1} s: measure on a quiet machine",
            sum.left_out.as_secs_f64(),
            (sum.left_out + sum.time).as_secs_f64(),
            sum.stopped.as_secs_f64()
        )));
    }
    let many = Many::of(&sum, &before.all);
    Ok(many.ok_or_else(|| "the node has no sessions of the plan of 1 Mbit/s".to_string()))
}

/// Waits so long; the time for which this thread was not run.
fn stood_still(time: Duration, is_over: &AtomicBool) -> Duration {
    let (begin, mut stopped) = (Instant::now(), Duration::ZERO);
    while begin.elapsed() < time && !is_over.load(Ordering::Relaxed) {
        let before = Instant::now();
        thread::sleep(TICK);
        stopped += Some(before.elapsed()).filter(|pause| *pause > STOP).unwrap_or_default();
    }
    stopped
}

/// The counters, and when they were read.
fn readings(device: &Device) -> Result<Readings, RunError> {
    let begin = Instant::now();
    let shown = device.subscribers(PLAN)?;
    let took = begin.elapsed();
    let all = shown["subscribers"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Readings { all: all.iter().filter_map(reading).collect(), at: begin + took / 2, took })
}

fn reading(one: &Value) -> Option<Reading> {
    let queue = serde_json::from_value::<Queue>(one["to_queue"].clone()).unwrap_or_default();
    let delay_us = queue.step(0.5).zip(queue.step(0.99)).map(|(p50, p99)| [p50, p99]);
    Some(Reading { session: one["session"].as_u64()?, bytes: one["to_bytes"].as_u64()?, delay_us })
}

/// Frames by their delay: the first step ends at 65.536 us, each other one at twice the one before.
#[derive(Debug, Default, Deserialize)]
struct Queue {
    delays: Vec<u64>,
}

impl Queue {
    /// The end of the step in which this share of the frames is, us.
    fn step(&self, share: f64) -> Option<u64> {
        let all: u64 = self.delays.iter().sum();
        let mut sum = 0;
        let place = self.delays.iter().position(|frames| {
            sum += frames;
            sum as f64 >= all as f64 * share
        })?;
        (all > 0).then(|| (1 << (16 + place)) / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared_with_the_plan() {
        let reading = |session, bytes| Reading { session, bytes, delay_us: Some([4_000, 9_000]) };
        let begin = Instant::now();
        let readings = |s: u64, all: &[Reading]| {
            let (at, took) = (begin + Duration::from_secs(s), Duration::from_millis(5));
            Readings { all: all.to_vec(), at, took }
        };
        let before = readings(0, &[reading(1, 100), reading(2, 0), reading(3, 7)]);
        let after = [reading(1, 1_250_100), reading(2, 1_260_000), reading(3, 1_238_757), reading(4, 5)];
        let after = readings(10, &after);
        let mut sum = Sum::default();
        sum.add(&Slice { before: &before, after: &after, stopped: Duration::ZERO });
        // Neither a slice with a stop counts, nor one whose end has no certain time.
        let later = readings(12, &after.all);
        sum.add(&Slice { before: &after, after: &later, stopped: Duration::from_millis(100) });
        let unsure = Readings { took: Duration::from_secs(1), ..readings(15, &after.all) };
        sum.add(&Slice { before: &later, after: &unsure, stopped: Duration::ZERO });
        let many = Many::of(&sum, &after.all).expect("readings");
        assert_eq!((many.seconds, many.left_out_s, many.stopped_s), (10.0, 5.0, 0.1));
        assert_eq!((many.subscribers, many.right), (3, 3));
        assert_eq!(many.bits_per_s, [991_000.0, 1_000_000.0, 1_008_000.0]);
        assert_eq!(many.delay_s, Some([0.004, 0.009]));
        assert!((many.error() - 0.009).abs() < 1e-9, "{}", many.error());
        assert_eq!(Many::of(&Sum::default(), &after.all), None);
    }

    #[test]
    fn delays_are_ends_of_steps() {
        let queue = Queue { delays: vec![0, 50, 49, 1] };
        assert_eq!((queue.step(0.5), queue.step(0.99)), (Some(131), Some(262)));
        assert_eq!(Queue { delays: vec![0; 16] }.step(0.5), None);
    }
}
