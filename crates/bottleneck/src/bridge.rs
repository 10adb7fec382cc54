//! Two ports and the two ways between them: frames in, frames out, at the times that a clock shows.

use std::io;

use weir_load::histogram::Histogram;
use weir_packet::ecn;
use weir_port::duplex::{BATCH, Chunk, Pool, Port};
use weir_queue::Time;

use crate::clock::Clock;
use crate::frame;
use crate::log::Log;
use crate::result::{Outcome, Place, Snapshot, direction};
use crate::settings::Settings;
use crate::way::{Way, histogram};

/// Frames of one system call: those at its end leave that much later.
const GROUP: usize = 8;
/// Calls in a row to receive at a port, and to send, before the other has its turn.
const ROUNDS: usize = 8;
/// Most chunks of a pool: 1 GiB of frames of Ethernet's length.
const MOST_CHUNKS: u64 = 1 << 19;
/// Chunks for frames that are neither in a queue nor in a delay line.
const SPARE_CHUNKS: u64 = 8192;
/// Bytes of the smallest frame.
const SMALLEST: u64 = 60;

/// Chunks that the frames of both directions need: a full buffer and full delay lines of the smallest frames.
pub fn chunks_for(settings: &Settings) -> u32 {
    let of = |way: usize| {
        let Ok(at) = settings.bottleneck(way) else { return 0 };
        let limit = settings.rate_of(way).map_or(0, |_| at.limit_bytes);
        let bits_per_s = at.bits_per_s.max(settings.rate.nominal());
        limit / SMALLEST + (settings.paths.latest().secs() * bits_per_s as f64 / 8.0) as u64 / SMALLEST
    };
    (of(0) + of(1) + SPARE_CHUNKS).min(MOST_CHUNKS) as u32
}

/// A bottleneck between two ports.
pub struct Bridge {
    ports: [Box<dyn Port>; 2],
    pool: Pool,
    ways: [Way<Chunk>; 2],
    lateness: [Histogram; 2],
    latest_ns: [u64; 2],
    /// Frames of which no packet could be read.
    unread: [u64; 2],
    settings: Settings,
    batch: Vec<Chunk>,
    leaving: Vec<Chunk>,
}

impl Bridge {
    /// Between these ports, whose frames have room in the chunks of the pool; with logs if they are asked for.
    ///
    /// # Errors
    /// The buffer is too small, or a setting of the queue makes no sense.
    pub fn new(
        ports: [Box<dyn Port>; 2],
        pool: Pool,
        settings: Settings,
        log: bool,
    ) -> Result<Bridge, String> {
        Ok(Bridge {
            ways: [Way::new(&settings, 0, log)?, Way::new(&settings, 1, log)?],
            ports,
            pool,
            lateness: [histogram(), histogram()],
            latest_ns: [0; 2],
            unread: [0; 2],
            settings,
            batch: Vec::with_capacity(BATCH),
            leaving: Vec::with_capacity(GROUP),
        })
    }

    /// Takes in what has arrived and sends what is due. Whether there may be more of it at once.
    ///
    /// # Errors
    /// A port is of no more use.
    pub fn turn(&mut self, clock: &Clock) -> io::Result<bool> {
        let mut more = false;
        for way in 0..2 {
            more |= self.receive(way, clock)?;
            more |= self.send(way, clock)?;
        }
        Ok(more)
    }

    fn receive(&mut self, number: usize, clock: &Clock) -> io::Result<bool> {
        let (port, way) = (&mut self.ports[number], &mut self.ways[number]);
        // What arrived until here is seen below.
        let until = clock.now();
        let mut all = false;
        for _ in 0..ROUNDS {
            port.receive(&mut self.pool, &mut self.batch)?;
            all = self.batch.len() < BATCH;
            let stamps = port.arrived_ns();
            let (epoch_ns, now) =
                if stamps.is_empty() { (0, until) } else { (clock.epoch_ns(), clock.now()) };
            for (i, chunk) in self.batch.drain(..).enumerate() {
                let stamp = stamps.get(i).map(|stamp| Time::from_ns(stamp.saturating_sub(epoch_ns)));
                let frame::Seen { packet, path, is_unread } =
                    frame::see(self.pool.bytes(&chunk), way.paths());
                self.unread[number] += u64::from(is_unread);
                way.arrive(packet.carrying(chunk), path, stamp.map_or(now, |at| at.min(now)));
            }
            if all {
                break;
            }
        }
        if all {
            way.advance(until);
        }
        way.gone().for_each(|chunk| self.pool.give_back(chunk));
        Ok(!all)
    }

    fn send(&mut self, number: usize, clock: &Clock) -> io::Result<bool> {
        let (way, port) = (&mut self.ways[number], &mut self.ports[1 - number]);
        for _ in 0..ROUNDS {
            let now = clock.now();
            while self.leaving.len() < GROUP
                && let Some(leaving) = way.take(now)
            {
                if leaving.marked {
                    ecn::mark(self.pool.bytes_mut(&leaving.what));
                }
                let late_ns = (now - leaving.due).ns();
                self.lateness[number].record(late_ns);
                self.latest_ns[number] = self.latest_ns[number].max(late_ns);
                self.leaving.push(leaving.what);
            }
            if self.leaving.is_empty() {
                return Ok(false);
            }
            port.send(&mut self.pool, &mut self.leaving)?;
        }
        Ok(true)
    }

    /// When there is something to do next, if nothing arrives.
    pub fn due(&self) -> Option<Time> {
        self.ways.iter().filter_map(Way::due).min()
    }

    /// The ports.
    pub(crate) fn ports(&mut self) -> &mut [Box<dyn Port>; 2] {
        &mut self.ports
    }

    /// Changes a setting, from now on.
    ///
    /// # Errors
    /// No such setting or value; then all stays as it was.
    pub fn change(&mut self, name: &str, value: &str, now: Time) -> Result<(), String> {
        let mut settings = self.settings.clone();
        settings.set(name, value)?;
        for number in 0..2 {
            settings.bottleneck(number)?;
            if settings.rate_of(number).is_some() != self.settings.rate_of(number).is_some() {
                return Err("back-rate cannot change between none and a rate at run time".into());
            }
        }
        self.ways.iter_mut().try_for_each(|way| way.change(&settings, name, now))?;
        for way in &mut self.ways {
            way.gone().for_each(|chunk| self.pool.give_back(chunk));
        }
        self.settings = settings;
        Ok(())
    }

    /// What is to be seen now, since the last call.
    pub(crate) fn snapshot(&mut self, now: Time) -> Snapshot {
        Snapshot::of(now, &mut self.ways)
    }

    /// The log of a direction, if there is one.
    pub fn log(&self, direction: usize) -> Option<&Log> {
        self.ways.get(direction).and_then(Way::log)
    }

    /// Counts of the fate of every frame. A frame that still waits is never released.
    ///
    /// # Errors
    /// What the kernel says when a port is asked.
    pub fn outcome(&mut self, now: Time) -> io::Result<Outcome> {
        let accounts = [self.ports[0].account()?, self.ports[1].account()?];
        let of = |number: usize| {
            direction(Place {
                way: &self.ways[number],
                lateness: &self.lateness[number],
                latest_ns: self.latest_ns[number],
                unread: self.unread[number],
                came: &accounts[number],
                went: &accounts[1 - number],
                settings: &self.settings,
                number,
                seconds: now.secs(),
            })
        };
        Ok(Outcome::of(now, [of(0), of(1)]))
    }
}
