//! A thread of the client, and its flows: they connect, wait for the barrier, send until the deadline, end.

use std::hint;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::iperf3::COOKIE;
use super::{Common, Load, Word};
use crate::FlowsError;
use crate::epoll::{Epoll, Events, READ, WRITE};
use crate::info::Info;
use crate::result::Stall;
use crate::sys;
use crate::wire::flow_header;

/// Flows must have connected after this time.
const CONNECTING: Duration = Duration::from_secs(60);
/// Bytes of one write: with fewer, a byte costs more.
const CHUNK: usize = 128 << 10;
/// Writes in a row, divided by the flows that have room: a few flows fill their sockets, of many each has one turn.
const WRITES: usize = 8;
/// Bytes of the first write, so that all flows begin soon: a full segment, but no more than this.
const FIRST: usize = 14_480;
/// At most so many flows get their first bytes from a thread that is not preempted: meanwhile a bottleneck on the same CPU
/// does not run, and the segments wait in its ring.
const TOGETHER: usize = 1000;
/// A thread that sleeps wakes up late by less than this: it looks at the clock for the rest of the time to the barrier.
const WAKES_LATE: Duration = Duration::from_micros(200);
/// Bytes that a flow keeps that were not sent yet: those of a millisecond, at least this. With less, a thread with one fast flow
/// sleeps and wakes up for each few hundred kB; more is only memory, and time until the flow ends.
const UNSENT: u32 = 256 << 10;
/// See `UNSENT`: at most this.
const MOST_UNSENT: u32 = 2 << 20;
/// Flows are looked at this often for their progress, or each interval.
const LOOK: Duration = Duration::from_millis(200);
/// A flow is stalled after so many of its retransmission timeouts.
const STALLED_TIMEOUTS: f64 = 5.0;

/// The first bytes of a flow, which identify it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Greeting {
    /// To a server of this program: the number of the test.
    Test(u64),
    /// To an iperf3 server.
    Cookie([u8; COOKIE]),
}

impl Greeting {
    fn bytes(&self, flow: u32) -> Vec<u8> {
        match self {
            Greeting::Test(test) => flow_header(*test, flow).to_vec(),
            Greeting::Cookie(cookie) => cookie.to_vec(),
        }
    }
}

/// A flow that is to be.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) number: u32,
    pub(super) group: u32,
    pub(super) cc: Option<String>,
    pub(super) from: Option<SocketAddr>,
    pub(super) start: Duration,
}

/// What its thread knows of a flow in the end.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) flow: Flow,
    pub(super) cc: String,
    pub(super) from: String,
    pub(super) started_s: Option<f64>,
    pub(super) sent_bytes: u64,
    pub(super) info: Info,
    pub(super) stalls: Vec<Stall>,
    pub(super) end: String,
}

impl Done {
    /// Of a flow that has sent nothing so far: its congestion control, and where it comes from.
    pub(super) fn unsent(flow: Flow, (cc, from): (String, String)) -> Done {
        let (info, stalls, end) = (Info::default(), Vec::new(), String::new());
        Done { flow, cc, from, started_s: None, sent_bytes: 0, info, stalls, end }
    }
}

/// A flow that is connected.
struct Running {
    /// `None`: it has ended.
    stream: Option<TcpStream>,
    /// It is looked at for room.
    sends: bool,
    /// Bytes of its first write.
    first: usize,
    /// Bytes that it keeps that were not sent yet.
    unsent: u32,
    done: Done,
    progress_at: Instant,
}

pub(super) struct Worker {
    load: Load,
    greeting: Greeting,
    common: Arc<Common>,
    words: Sender<Word>,
    epoll: Epoll,
    events: Events,
    share: Vec<Flow>,
    flows: Vec<Running>,
    content: Vec<u8>,
    /// Time in which this thread had no CPU while it wrote the first bytes of flows.
    without_cpu: Duration,
}

impl Worker {
    pub(super) fn new(
        load: Load,
        greeting: Greeting,
        share: Vec<Flow>,
        (common, words): (Arc<Common>, Sender<Word>),
    ) -> Result<Worker, FlowsError> {
        let (epoll, events) =
            (Epoll::new().map_err(FlowsError::at("waiting for sockets"))?, Events::default());
        let content = (0..CHUNK).map(|i| (i * 31 + i / 256) as u8).collect();
        let (flows, without_cpu) = (Vec::new(), Duration::ZERO);
        Ok(Worker { load, greeting, common, words, epoll, events, share, flows, content, without_cpu })
    }

    /// The outcomes of its flows, and how long it had no CPU while it wrote their first bytes.
    pub(super) fn work(mut self, at_once: usize) -> Result<(Vec<Done>, Duration), FlowsError> {
        self.connect(at_once)?;
        let _ = self.words.send(Word::Connected);
        let start = loop {
            match self.common.start.get() {
                Some(start) => break *start,
                None if self.is_stopped() => return Ok((Vec::new(), Duration::ZERO)),
                None => thread::sleep(Duration::from_micros(200)),
            }
        };
        if let Some(wait) = start.checked_duration_since(Instant::now() + WAKES_LATE) {
            thread::sleep(wait);
        }
        while Instant::now() < start {
            hint::spin_loop();
        }
        self.send(start)?;
        self.end(start)?;
        Ok((self.flows.into_iter().map(|flow| flow.done).collect(), self.without_cpu))
    }

    fn is_stopped(&self) -> bool {
        self.common.stop.load(Ordering::Relaxed)
    }

    /// Connects all flows, so many at once.
    fn connect(&mut self, at_once: usize) -> Result<(), FlowsError> {
        let until = Instant::now() + CONNECTING;
        let mut left = std::mem::take(&mut self.share).into_iter();
        let mut pending = 0;
        loop {
            while pending < at_once {
                let Some(flow) = left.next() else { break };
                self.begin(flow)?;
                pending += 1;
            }
            if pending == 0 {
                return Ok(());
            }
            if Instant::now() > until || self.is_stopped() {
                let text = format!(
                    "{} flows could not connect to {} in a minute",
                    pending + left.len(),
                    self.load.to
                );
                return Err(FlowsError::Limit(text));
            }
            for token in self.wait(Duration::from_millis(100))? {
                if self.established(token as usize)? {
                    pending -= 1;
                }
            }
        }
    }

    /// Flows that something happened to.
    fn wait(&mut self, timeout: Duration) -> Result<Vec<u64>, FlowsError> {
        let found = self.epoll.wait(&mut self.events, Some(timeout));
        Ok(found.map_err(FlowsError::at("waiting for sockets"))?.map(|(token, _)| token).collect())
    }

    fn begin(&mut self, flow: Flow) -> Result<(), FlowsError> {
        let stream = sys::connect(self.load.to, flow.from, flow.cc.as_deref()).map_err(|source| {
            let step = match (source.raw_os_error(), &flow.cc, flow.from) {
                (Some(libc::ENOENT | libc::EPERM), Some(cc), _) => format!(
                    "congestion control `{cc}`: see net.ipv4.tcp_available_congestion_control, or `modprobe tcp_{cc}`"
                ),
                (Some(libc::EADDRNOTAVAIL), _, Some(from)) => format!("connecting from {}", from.ip()),
                (Some(libc::EADDRNOTAVAIL), ..) => format!(
                    "connecting flow {} to {}: no free port; ports of ended connections are free after a minute",
                    flow.number, self.load.to
                ),
                _ => format!("connecting flow {} to {}", flow.number, self.load.to),
            };
            FlowsError::System { step, source }
        })?;
        let failed = || FlowsError::at("waiting for sockets");
        sys::keep_little_unsent(&stream, UNSENT).map_err(failed())?;
        self.epoll.add(&stream, WRITE, self.flows.len() as u64).map_err(failed())?;
        let done = Done::unsent(flow, (sys::congestion_control(&stream), String::new()));
        let progress_at = Instant::now();
        let (sends, first, unsent) = (false, FIRST, UNSENT);
        self.flows.push(Running { stream: Some(stream), sends, first, unsent, done, progress_at });
        Ok(())
    }

    /// A connection was established or failed: sends its identification, and waits.
    fn established(&mut self, index: usize) -> Result<bool, FlowsError> {
        let Some(Running { stream: Some(stream), done, first, .. }) = self.flows.get_mut(index) else {
            return Ok(false);
        };
        let failed = || FlowsError::at(format!("connecting flow {} to {}", done.flow.number, self.load.to));
        if let Some(error) = stream.take_error().map_err(failed())? {
            return Err(failed()(error));
        }
        done.from = stream.local_addr().map_err(failed())?.to_string();
        *first = sys::segment(stream).map_err(failed())?.clamp(1, FIRST);
        let greeting = self.greeting.bytes(done.flow.number);
        // The buffer of a new socket has room for it.
        if stream.write(&greeting).map_err(failed())? != greeting.len() {
            return Err(failed()(io::ErrorKind::WriteZero.into()));
        }
        self.epoll.remove(stream).map_err(failed())?;
        Ok(true)
    }

    /// Sends until the deadline.
    fn send(&mut self, start: Instant) -> Result<(), FlowsError> {
        let deadline = start + self.load.duration;
        let look = self.load.interval.min(LOOK);
        let (mut next_look, mut next_sample) = (start + look, start + self.load.interval);
        let mut waiting: Vec<usize> = (0..self.flows.len()).rev().collect();
        waiting.sort_by_key(|&index| std::cmp::Reverse((self.flows[index].done.flow.start, index)));
        while !self.is_stopped() {
            let now = Instant::now();
            if now >= deadline {
                return Ok(());
            }
            let is_due = |index: &usize| start + self.flows[*index].done.flow.start <= now;
            let due = waiting.iter().rev().take_while(|index| is_due(index)).count();
            if due > 0 {
                let due: Vec<usize> = waiting.drain(waiting.len() - due..).rev().collect();
                self.first_bytes(&due, start)?;
            }
            if now >= next_look {
                let sample = now >= next_sample;
                self.look(start, now, sample);
                next_look = now + look;
                if sample {
                    next_sample = now + self.load.interval;
                }
            }
            let next_start =
                waiting.last().map_or(deadline, |&index| start + self.flows[index].done.flow.start);
            let until = next_start.min(deadline).min(next_look);
            let ready = self.wait(until.saturating_duration_since(Instant::now()))?;
            let writes = (WRITES / ready.len().max(1)).max(1);
            for token in ready {
                let _ = (0..writes).all(|_| self.write(token as usize, CHUNK));
            }
        }
        Ok(())
    }

    /// The first bytes of these flows: nothing else is done until all of them have begun.
    fn first_bytes(&mut self, due: &[usize], start: Instant) -> Result<(), FlowsError> {
        let unpreempted = (due.len() <= TOGETHER).then(sys::Unpreempted::begin);
        let (began, cpu_time) = (Instant::now(), sys::cpu_time());
        for &index in due {
            self.flows[index].sends = true;
            self.write(index, self.flows[index].first);
            let now = Instant::now();
            let flow = &mut self.flows[index];
            flow.done.started_s = Some(now.saturating_duration_since(start).as_secs_f64());
            flow.progress_at = now;
        }
        self.without_cpu += began.elapsed().saturating_sub(sys::cpu_time().saturating_sub(cpu_time));
        drop(unpreempted);
        for &index in due {
            if let Some(stream) = &self.flows[index].stream {
                self.epoll.add(stream, WRITE, index as u64).map_err(FlowsError::at("waiting for sockets"))?;
            }
        }
        Ok(())
    }

    /// Whether the socket took all, and may have room for more.
    fn write(&mut self, index: usize, bytes: usize) -> bool {
        let Some(flow) = self.flows.get_mut(index).filter(|flow| flow.sends) else { return false };
        let Some(stream) = &mut flow.stream else { return false };
        match stream.write(&self.content[..bytes]) {
            Ok(taken) => {
                flow.done.sent_bytes += taken as u64;
                return taken == bytes;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => self.over(index, &error.to_string()),
        }
        false
    }

    /// A flow ends now, whatever it has in its socket.
    fn over(&mut self, index: usize, how: &str) {
        let flow = &mut self.flows[index];
        if let Some(stream) = flow.stream.take() {
            if let Ok(info) = sys::info(&stream) {
                flow.done.info = info;
            }
            flow.done.end = how.into();
            let _ = self.epoll.remove(&stream);
        }
    }

    /// Reads the kernel's state of each flow; notes flows without progress.
    fn look(&mut self, start: Instant, now: Instant, sample: bool) {
        let mut samples = Vec::new();
        for flow in &mut self.flows {
            if let Some(stream) = &flow.stream
                && let Ok(info) = sys::info(stream)
            {
                let moved = info.acked_bytes > flow.done.info.acked_bytes;
                let unsent = unsent_at(info.delivery_bytes_per_s);
                if unsent != flow.unsent && sys::keep_little_unsent(stream, unsent).is_ok() {
                    flow.unsent = unsent;
                }
                note_progress(flow, &info, moved, (start, now));
                flow.done.info = info;
            }
            let stalled = flow.done.stalls.last().is_some_and(|stall| stall.to_s.is_none());
            samples.push((flow.done.flow.number, flow.done.info, stalled));
        }
        if sample {
            let _ = self.words.send(Word::Samples(samples));
        }
    }

    /// All flows end: by FIN, or by RST.
    fn end(&mut self, start: Instant) -> Result<(), FlowsError> {
        self.look(start, Instant::now(), true);
        let reset = self.load.reset || self.is_stopped();
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            flow.sends = false;
            let Some(stream) = &flow.stream else { continue };
            if reset {
                self.over(index, "reset");
                continue;
            }
            let ready = stream.shutdown(Shutdown::Write).and_then(|()| match flow.done.started_s {
                Some(_) => self.epoll.change(stream, READ, index as u64),
                None => self.epoll.add(stream, READ, index as u64),
            });
            if let Err(error) = ready {
                self.over(index, &error.to_string());
            }
        }
        let until = Instant::now() + self.load.grace;
        while self.flows.iter().any(|flow| flow.stream.is_some())
            && Instant::now() < until
            && !self.is_stopped()
        {
            for token in self.wait(Duration::from_millis(50))? {
                let Some(Running { stream: Some(stream), .. }) = self.flows.get_mut(token as usize) else {
                    continue;
                };
                match stream.read(&mut [0]) {
                    Ok(0) => self.over(token as usize, "closed"),
                    Ok(_) => self.over(token as usize, "the server sent something"),
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    }
                    Err(error) => self.over(token as usize, &error.to_string()),
                }
            }
        }
        (0..self.flows.len()).for_each(|index| self.over(index, "cut"));
        Ok(())
    }
}

/// Bytes that a flow of this rate keeps unsent: those of a millisecond, rounded up to a power of two, so that they seldom change.
fn unsent_at(bytes_per_s: u64) -> u32 {
    let of_a_ms = u32::try_from(bytes_per_s / 1000).unwrap_or(MOST_UNSENT);
    of_a_ms.clamp(UNSENT, MOST_UNSENT).next_power_of_two()
}

/// Begins a stall where a flow that has begun made no progress for long, ends it where there is some.
fn note_progress(flow: &mut Running, info: &Info, moved: bool, (start, now): (Instant, Instant)) {
    if flow.done.started_s.is_none() {
        return;
    }
    let since = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
    let open = flow.done.stalls.last_mut().filter(|stall| stall.to_s.is_none());
    match (moved, open) {
        (true, Some(stall)) => stall.to_s = Some(since(now)),
        (false, None) => {
            let idle = now.saturating_duration_since(flow.progress_at).as_secs_f64();
            // Timeouts of a flow that gets nothing through grow; those of its last progress count.
            let timeout_s = info.timeout_s().min(flow.done.info.timeout_s().max(0.2));
            if idle > STALLED_TIMEOUTS * timeout_s {
                flow.done.stalls.push(Stall { from_s: since(flow.progress_at), to_s: None });
            }
        }
        _ => {}
    }
    if moved {
        flow.progress_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_keeps_a_millisecond_of_its_rate_unsent() {
        let rows = [
            (0, UNSENT),
            (1_250_000, UNSENT),
            (262_144_000, 256 << 10),
            (262_145_999, 512 << 10),
            (1_250_000_000, 2 << 20),
            (u64::MAX, MOST_UNSENT),
        ];
        for (bytes_per_s, unsent) in rows {
            assert_eq!(unsent_at(bytes_per_s), unsent, "{bytes_per_s} bytes/s");
        }
    }
}
