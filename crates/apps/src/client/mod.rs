//! The client: opens connections, reads the replies, and measures latencies.
//!
//! ```text
//! closed   so many connections at any time; the next one begins when one ends         latency from connect(2)
//! open     a connection every 1/rate s, whatever has become of the others             latency from when it was due
//! hold     so many connections, kept open until SIGINT                                latency from connect(2)
//! ```
//! With a closed loop a server that stalls is asked less while it stalls (coordinated omission): its latencies are those of
//! this load, not of one that goes on. With an open loop none is left out.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::server::{Closing, Reply};
use crate::sys::{self, Signals, Usage};

mod flight;
mod looping;
mod schedule;

/// For fuzz targets.
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz {
    pub(crate) use super::flight::{Flight, News};
}

use looping::Loop;
use schedule::Schedule;

/// How connections follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// So many at any time.
    Closed(u32),
    /// So many per second.
    Open(f64),
    /// So many, kept open.
    Hold(u32),
}

/// The task of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// The server.
    pub to: SocketAddrV4,
    /// The request and its reply.
    pub reply: Reply,
    /// How connections follow each other.
    pub mode: Mode,
    /// For how long new ones begin, s; `Hold` takes as long as it takes.
    pub seconds: f64,
    /// At the beginning of that, without figures, s.
    pub warm_up_s: f64,
    /// Threads, which share the work.
    pub threads: u32,
    /// Addresses of 127.0.0.0/8 from which connections to the loopback come, in turn: each has all ports.
    pub sources: u32,
    /// Which side closes first, as the server was asked; `Hold` apart.
    pub closing: Closing,
}

/// How long connections that have begun may take after the last one has.
const PATIENCE: Duration = Duration::from_secs(4);

/// Of connections that are held, none gets its reply any more after a time as long as this without any.
const HOLD_PATIENCE: Duration = Duration::from_secs(2);

/// Times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "a percentile each")]
pub struct Percentiles {
    pub count: u64,
    pub mean: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Percentiles {
    /// Of these times.
    pub fn of(mut times: Vec<u64>) -> Percentiles {
        times.sort_unstable();
        // The least time that so large a share of them does not exceed.
        let at = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Percentiles {
            count: times.len() as u64,
            mean: times.iter().sum::<u64>() / (times.len() as u64).max(1),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        }
    }
}

/// The outcome of a run of the client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Connections that began, the warm-up included.
    pub begun: u64,
    /// Of these with the whole reply, the warm-up included.
    pub answered: u64,
    /// Time in which answers were counted, s.
    pub window_s: f64,
    /// Answers in it.
    pub in_window: u64,
    /// Times from connect, or from when a connection was due, to its end, of those that began after the warm-up.
    pub latency: Percentiles,
    /// The same from connect, where the other one is from when it was due.
    pub from_start: Option<Percentiles>,
    /// How late connections began, where they have a schedule.
    pub late: Option<Percentiles>,
    /// Connections that the client had at a time, as a mean over the window and at most.
    pub in_flight_mean: f64,
    /// See above.
    pub in_flight_max: u64,
    /// Of `Hold`: connections that were open at the end.
    pub held: u64,
    /// Of `Hold`: until all were open, s.
    pub opened_s: f64,
    /// Connections that failed, by cause: an error's name, `reset before the reply`, `short reply`, `unfinished`.
    pub failed: BTreeMap<String, u64>,
    /// CPU time of the client while it worked, ns.
    pub cpu_ns: u64,
    /// How long it worked, s.
    pub worked_s: f64,
}

/// What each thread has seen.
#[derive(Default)]
struct Seen {
    begun: u64,
    answered: u64,
    in_window: u64,
    latency: Vec<u64>,
    from_start: Vec<u64>,
    late: Vec<u64>,
    /// Connections times ns, within the window.
    in_flight_ns: f64,
    in_flight_max: u64,
    held: u64,
    opened: Duration,
    failed: BTreeMap<String, u64>,
}

/// Loads the server; `holding` is called when all connections of [`Mode::Hold`] are open or have failed, which then stay
/// until SIGINT or SIGTERM. The process must have one thread.
///
/// # Errors
/// Too few descriptors for the connections; no memory or threads.
pub fn load(demand: &Demand, holding: impl FnOnce(u64)) -> io::Result<Outcome> {
    let descriptors = sys::raise_descriptor_limit();
    if let Mode::Closed(n) | Mode::Hold(n) = demand.mode
        && descriptors < u64::from(n) + 64
    {
        return Err(io::Error::other(format!(
            "{n} connections need as many descriptors, but the client may have {descriptors}: raise the hard limit \
             (ulimit -Hn), or use fewer connections"
        )));
    }
    // Threads inherit the mask: only the thread that waits for the end gets the signal.
    let signals = matches!(demand.mode, Mode::Hold(_)).then(|| Signals::of(&[libc::SIGINT, libc::SIGTERM]));
    let (usage, begin) = (Usage::own(), Instant::now());
    let loops = (0..demand.threads.max(1))
        .map(|number| Loop::new(demand, Schedule::of(demand, number), begin))
        .collect::<io::Result<Vec<_>>>()?;
    let ended = thread::scope(|scope| {
        let threads = loops.into_iter().map(|one| thread::Builder::new().spawn_scoped(scope, || one.run()));
        let threads = threads.collect::<io::Result<Vec<_>>>()?;
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"))
            .collect::<io::Result<Vec<_>>>()
    })?;
    let mut held = 0;
    if let Some(signals) = signals {
        holding(ended.iter().map(|(seen, _)| seen.held).sum());
        signals?.next()?;
        held = ended.iter().map(|(_, flights)| flights.held(demand.reply)).sum();
    }
    let (worked_s, cpu_ns) = (begin.elapsed().as_secs_f64(), Usage::own().since(usage).cpu_ns);
    let outcome = ended.into_iter().map(|(seen, _)| seen).fold(Seen::default(), Seen::and).outcome(demand);
    Ok(Outcome { held, worked_s, cpu_ns, ..outcome })
}

impl Seen {
    fn and(mut self, other: Seen) -> Seen {
        self.begun += other.begun;
        self.answered += other.answered;
        self.in_window += other.in_window;
        self.latency.extend(other.latency);
        self.from_start.extend(other.from_start);
        self.late.extend(other.late);
        self.in_flight_ns += other.in_flight_ns;
        self.in_flight_max += other.in_flight_max;
        self.held += other.held;
        self.opened = self.opened.max(other.opened);
        other.failed.into_iter().for_each(|(why, n)| *self.failed.entry(why).or_default() += n);
        self
    }

    fn fail(&mut self, why: impl Into<String>) {
        *self.failed.entry(why.into()).or_default() += 1;
    }

    fn outcome(self, demand: &Demand) -> Outcome {
        let window_s = (demand.seconds - demand.warm_up_s).max(0.0);
        let scheduled =
            |times: Vec<u64>| matches!(demand.mode, Mode::Open(_)).then(|| Percentiles::of(times));
        Outcome {
            begun: self.begun,
            answered: self.answered,
            window_s,
            in_window: self.in_window,
            latency: Percentiles::of(self.latency),
            from_start: scheduled(self.from_start),
            late: scheduled(self.late),
            in_flight_mean: self.in_flight_ns / 1e9 / window_s.max(1e-9),
            in_flight_max: self.in_flight_max,
            opened_s: self.opened.as_secs_f64(),
            failed: self.failed,
            ..Outcome::default()
        }
    }
}

/// The address of this number: 127.0.1.0 and those after it, which every Linux has on its loopback; to elsewhere the one that the
/// kernel chooses.
fn source(number: u32, to: Ipv4Addr) -> Ipv4Addr {
    if !to.is_loopback() {
        return Ipv4Addr::UNSPECIFIED;
    }
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 1, 0).to_bits() + number % 60_000)
}

#[cfg(test)]
mod tests;
