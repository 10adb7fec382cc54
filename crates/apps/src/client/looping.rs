//! The event loop of one thread of the client.

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use weir_flows::epoll::{BROKEN, ENDED, Epoll, Events, ONLY_NEWS, READ, WRITE};

use super::flight::{Flight, News, name};
use super::schedule::{Due, Schedule};
use super::{Demand, HOLD_PATIENCE, Mode, PATIENCE, Seen, source};
use crate::server::{Closing, Reply};
use crate::sys;

/// Connections that begin before answers are read.
const AT_ONCE: u32 = 64;

/// The loop.
pub(super) struct Loop<'a> {
    demand: &'a Demand,
    schedule: Schedule,
    epoll: Epoll,
    flights: Flights,
    seen: Seen,
    begin: Instant,
    /// Connections on their way since then.
    since: Duration,
    /// When one began, or, of those that are held, had its reply.
    progress: Duration,
    next_source: u32,
}

/// Connections by descriptor.
#[derive(Default)]
pub(super) struct Flights {
    table: Vec<Option<Flight>>,
    count: u64,
}

impl Flights {
    fn insert(&mut self, flight: Flight) {
        let index = flight.fd() as usize;
        if index >= self.table.len() {
            self.table.resize_with(index + 1, || None);
        }
        self.table[index] = Some(flight);
        self.count += 1;
    }

    fn of(&mut self, fd: RawFd) -> Option<&mut Flight> {
        self.table.get_mut(fd as usize)?.as_mut()
    }

    fn take(&mut self, fd: RawFd) -> Option<Flight> {
        let flight = self.table.get_mut(fd as usize)?.take()?;
        self.count -= 1;
        Some(flight)
    }

    /// Those that have their reply and are open.
    pub(super) fn held(&self, reply: Reply) -> u64 {
        self.table.iter().flatten().filter(|flight| flight.is_held(reply)).count() as u64
    }
}

impl<'a> Loop<'a> {
    pub(super) fn new(demand: &'a Demand, schedule: Schedule, begin: Instant) -> io::Result<Loop<'a>> {
        let (epoll, flights, seen) = (Epoll::new()?, Flights::default(), Seen::default());
        let (since, progress) = (Duration::ZERO, Duration::ZERO);
        Ok(Loop { demand, schedule, epoll, flights, seen, begin, since, progress, next_source: 0 })
    }

    /// Until all that began have ended or waited for too long; connections that are held are handed over.
    pub(super) fn run(mut self) -> io::Result<(Seen, Flights)> {
        sys::exact_timers();
        let mut events = Events::default();
        loop {
            let next = self.begin_due()?;
            let (now, last) = (self.begin.elapsed(), self.last());
            let waiting = self.flights.count - self.seen.held;
            let timeout = match next {
                Due::Never if waiting == 0 || now >= last => break,
                Due::Now(_) => Duration::ZERO,
                Due::At(at) => at.saturating_sub(now),
                Due::Later | Due::Never => last.saturating_sub(now),
            };
            for (token, event) in self.epoll.wait(&mut events, Some(timeout))? {
                self.read(token as RawFd, event);
            }
            if now >= last {
                break;
            }
        }
        let unfinished = self.flights.count - self.seen.held;
        if unfinished > 0 {
            *self.seen.failed.entry("unfinished".into()).or_default() += unfinished;
        }
        self.count_flights();
        Ok((self.seen, self.flights))
    }

    /// When it ends in any case. A server that can hold no more says so by silence.
    fn last(&self) -> Duration {
        match self.demand.mode {
            Mode::Hold(_) => self.progress + HOLD_PATIENCE,
            _ => Duration::from_secs_f64(self.demand.seconds) + PATIENCE,
        }
    }

    /// Begins what is due, and says what comes next.
    fn begin_due(&mut self) -> io::Result<Due> {
        for _ in 0..AT_ONCE {
            let now = self.begin.elapsed();
            match self.schedule.due(now, self.flights.count, self.seen.begun) {
                Due::Now(due) => self.connect(due, now)?,
                other => return Ok(other),
            }
        }
        Ok(Due::Now(Duration::ZERO))
    }

    fn connect(&mut self, due: Duration, now: Duration) -> io::Result<()> {
        self.schedule.begun();
        self.progress = now;
        self.seen.begun += 1;
        self.next_source = (self.next_source + 1) % self.demand.sources.max(1);
        if matches!(self.demand.mode, Mode::Open(_)) && self.counts(due) {
            self.seen.late.push((now - due).as_nanos() as u64);
        }
        let socket = match sys::connect(source(self.next_source, *self.demand.to.ip()), self.demand.to) {
            Ok(socket) => socket,
            Err(error) => {
                self.seen.fail(name(&error, false));
                return Ok(());
            }
        };
        let mut flight = Flight::new(socket, due, now);
        let watch_writable = if flight.ask(self.demand.reply) { 0 } else { WRITE };
        self.epoll.add(&flight.fd(), ONLY_NEWS | READ | ENDED | watch_writable, flight.fd() as u64)?;
        self.count_flights();
        self.flights.insert(flight);
        self.seen.in_flight_max = self.seen.in_flight_max.max(self.flights.count);
        Ok(())
    }

    fn read(&mut self, fd: RawFd, event: u32) {
        let ended = event & (ENDED | BROKEN) != 0;
        let Some(flight) = self.flights.of(fd) else { return };
        let news = flight.read(self.demand.reply, ended);
        let holds = matches!(self.demand.mode, Mode::Hold(_));
        match news {
            News::None => {}
            News::Reply if holds => {
                let (due, began) = (flight.due, flight.began);
                self.seen.held += 1;
                self.answered(due, began);
                self.seen.opened = self.begin.elapsed();
                self.progress = self.seen.opened;
            }
            News::Reply if self.demand.closing == Closing::AfterClient => self.end(fd),
            News::Reply => {}
            News::End if holds => self.lose(fd, "closed by the server"),
            News::End => self.end(fd),
            News::Failed(why) => self.lose(fd, &why),
        }
    }

    fn end(&mut self, fd: RawFd) {
        self.count_flights();
        if let Some(flight) = self.flights.take(fd) {
            self.answered(flight.due, flight.began);
        }
    }

    fn lose(&mut self, fd: RawFd, why: &str) {
        self.count_flights();
        self.flights.take(fd);
        self.seen.fail(why);
        // Of those that are held, one that had its reply may be lost; then it is held no more.
        if matches!(self.demand.mode, Mode::Hold(_)) {
            self.seen.held = self.seen.held.min(self.flights.count);
        }
    }

    fn answered(&mut self, due: Duration, began: Duration) {
        let now = self.begin.elapsed();
        self.seen.answered += 1;
        self.seen.in_window += u64::from(self.counts(now));
        if self.counts(due) {
            self.seen.latency.push((now - due).as_nanos() as u64);
            if matches!(self.demand.mode, Mode::Open(_)) {
                self.seen.from_start.push((now - began).as_nanos() as u64);
            }
        }
    }

    fn counts(&self, at: Duration) -> bool {
        (self.demand.warm_up_s..self.demand.seconds).contains(&at.as_secs_f64())
    }

    /// Adds the connections on their way since the last change of their number, within the window.
    fn count_flights(&mut self) {
        let now = self.begin.elapsed();
        let [from, to] = [self.demand.warm_up_s, self.demand.seconds].map(Duration::from_secs_f64);
        let time = now.min(to).saturating_sub(self.since.max(from));
        self.seen.in_flight_ns += time.as_nanos() as f64 * self.flights.count as f64;
        self.since = now;
    }
}
