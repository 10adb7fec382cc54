//! One direction of a bottleneck: its queue, its link, its paths. Pure: it is given times and packets.

use weir_link::{Behind, Departure, Link, Paths};
use weir_load::histogram::{Histogram, LATENCY_BITS};
use weir_port::shared::LATENCY_BUCKETS;
use weir_queue::{Ecn, Packet, Reason, Tally, Time};

use crate::frame::Markers;
use crate::log::Log;
use crate::settings::Settings;

/// A payload on its way, with what the way has to know of it.
#[derive(Debug)]
struct Carried<T> {
    what: T,
    path: usize,
    number: u64,
    ecn: Ecn,
    marked: bool,
    bytes: u32,
}

/// A packet that comes out.
#[derive(Debug)]
pub struct Leaving<T> {
    /// The packet itself, as the port handed it in.
    pub what: T,
    /// When it is to come out.
    pub due: Time,
    /// The queue set CE.
    pub marked: bool,
}

/// Counts of the fate of all packets of a direction: entered = dropped + lost + left + queued + delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// They arrived.
    pub entered: Tally,
    /// The queue dropped them, by [`Reason::ALL`].
    pub dropped: [Tally; Reason::ALL.len()],
    /// They were lost behind the link.
    pub lost: Tally,
    /// They came out.
    pub left: Tally,
    /// They wait in the queue.
    pub queued: Tally,
    /// They are in the delay line.
    pub delayed: u64,
    /// The link has taken them.
    pub departed: Tally,
    /// The queue set CE in them.
    pub marked: u64,
}

impl Counts {
    /// Packets that are nowhere; 0 unless there is a mistake in this program.
    pub fn unexplained(&self) -> i64 {
        let dropped: u64 = self.dropped.iter().map(|tally| tally.packets).sum();
        let known = dropped + self.lost.packets + self.left.packets + self.queued.packets + self.delayed;
        self.entered.packets as i64 - known as i64
    }

    /// Packets that the queue has dropped.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|tally| tally.packets).sum()
    }
}

/// One direction.
pub struct Way<T> {
    /// `None`: no limit, no queue.
    link: Option<Link<Carried<T>>>,
    behind: Behind<Carried<T>>,
    markers: Option<Markers>,
    log: Option<Log>,
    direction: usize,
    now: Time,
    next: u64,
    entered: Tally,
    departed: Tally,
    lost: Tally,
    left: Tally,
    /// Payloads of packets that will not come out.
    gone: Vec<T>,
    sojourn: Histogram,
    recent: Histogram,
}

impl<T: Send + 'static> Way<T> {
    /// A direction, 0 there and 1 back, at time 0; with a log if one is asked for.
    ///
    /// # Errors
    /// The buffer is too small, or a setting of the queue makes no sense.
    pub fn new(settings: &Settings, direction: usize, log: bool) -> Result<Way<T>, String> {
        let at = settings.bottleneck(direction)?;
        let link = settings.rate_of(direction).map(|rate| Link::new(&settings.aqm.config, &at, rate));
        let mut way = Way {
            link: link.transpose().map_err(|error| error.to_string())?,
            behind: Behind::new(settings.paths.clone(), settings.seed ^ 0x70a7 ^ direction as u64),
            markers: None,
            log: log.then(Log::default),
            direction,
            now: Time::ZERO,
            next: 0,
            entered: Tally::default(),
            departed: Tally::default(),
            lost: Tally::default(),
            left: Tally::default(),
            gone: Vec::new(),
            sojourn: histogram(),
            recent: histogram(),
        };
        way.set_markers(settings);
        Ok(way)
    }

    fn set_markers(&mut self, settings: &Settings) {
        let needs = settings.aqm.config.needs_values();
        if needs != self.markers.is_some() {
            self.markers = needs.then(|| Markers::new(settings.seed));
        }
    }

    /// The setting `name` has changed, from `at` on. What waits in a former queue leaves by its rules.
    ///
    /// # Errors
    /// The buffer is too small, the rate's limit was to come or to go; then all stays as it was.
    pub fn change(&mut self, settings: &Settings, name: &str, at: Time) -> Result<(), String> {
        let bottleneck = settings.bottleneck(self.direction)?;
        self.advance(at);
        match (&mut self.link, settings.rate_of(self.direction)) {
            (Some(link), Some(rate)) => {
                if name.ends_with("rate") {
                    link.set_rate(rate, at, bottleneck.seed);
                }
                if name == "aqm" || name == "buffer" {
                    let set = link.set_queue(&settings.aqm.config, &bottleneck);
                    set.map_err(|error| error.to_string())?;
                }
            }
            (None, None) => {}
            _ => return Err("back-rate cannot change between none and a rate at run time".into()),
        }
        self.behind.set_paths(settings.paths.clone());
        self.set_markers(settings);
        Ok(())
    }

    /// The paths that [`crate::frame::see`] looks up.
    pub(crate) fn paths(&self) -> &Paths {
        self.behind.paths()
    }

    /// A packet arrives, on this path. An earlier time than that of the last packet counts as that.
    pub fn arrive(&mut self, packet: Packet<T>, path: usize, at: Time) {
        let at = at.max(self.now);
        self.advance(at);
        self.now = at;
        self.entered.add(packet.bytes);
        let (ecn, bytes, flow) = (packet.ecn, packet.bytes, packet.flow);
        let (bare, what) = packet.apart();
        let carried = Carried { what, path, number: self.next, ecn, marked: false, bytes };
        let mut packet = bare.carrying(carried);
        packet.arrival = at;
        self.next += 1;
        if let Some(markers) = &mut self.markers {
            packet.value = markers.value(flow, bytes, at);
        }
        if let Some(log) = &mut self.log {
            log.arrived(&packet, at);
        }
        match &mut self.link {
            // Until here it has advanced already.
            Some(link) => link.arrive(packet, at, |_| ()),
            None => self.departed(Departure { packet, starts: at, ends: at }),
        }
        self.collect();
    }

    /// Brings the link to `until`.
    pub fn advance(&mut self, until: Time) {
        let Some(mut link) = self.link.take() else { return };
        link.advance(until, |departure| self.departed(departure));
        self.now = self.now.max(until);
        self.link = Some(link);
        self.collect();
    }

    /// A packet has left the link.
    fn departed(&mut self, departure: Departure<Carried<T>>) {
        let Departure { packet, starts, ends } = departure;
        self.departed.add(packet.bytes);
        let sojourn_ns = (starts - packet.arrival).ns();
        self.sojourn.record(sojourn_ns);
        self.recent.record(sojourn_ns);
        if let Some(log) = &mut self.log {
            log.started(packet.payload.number, starts);
        }
        let mut carried = packet.payload;
        carried.marked = carried.ecn != packet.ecn;
        if let Err(lost) = self.behind.put(ends, carried.path, carried) {
            self.lost.add(lost.bytes);
            self.gone.push(lost.what);
        }
    }

    fn collect(&mut self) {
        let Some(link) = &mut self.link else { return };
        for (carried, _) in link.dropped().drain(..) {
            if let Some(log) = &mut self.log {
                log.dropped(carried.number);
            }
            self.gone.push(carried.what);
        }
    }

    /// The next packet that has come out by `now`.
    pub fn take(&mut self, now: Time) -> Option<Leaving<T>> {
        let (due, carried) = self.behind.take(now)?;
        self.left.add(carried.bytes);
        Some(Leaving { what: carried.what, due, marked: carried.marked })
    }

    /// When something is to be done next: a packet comes out, or the link takes one that might come out then.
    pub fn due(&self) -> Option<Time> {
        let start = self.link.as_ref().and_then(Link::next_start).filter(|&at| at < Time::MAX);
        let link = start.map(|at| at + self.paths().shortest());
        [link, self.behind.next_at()].into_iter().flatten().min()
    }

    /// Payloads of packets that were dropped or lost since the last call.
    pub fn gone(&mut self) -> std::vec::Drain<'_, T> {
        self.gone.drain(..)
    }

    /// Counts of the fate of all packets so far.
    pub fn counts(&self) -> Counts {
        let link = self.link.as_ref().map(Link::counts).unwrap_or_default();
        Counts {
            entered: self.entered,
            dropped: link.dropped,
            lost: self.lost,
            left: self.left,
            queued: self.link.as_ref().map(Link::backlog).unwrap_or_default(),
            delayed: self.behind.len() as u64,
            departed: self.departed,
            marked: link.marked,
        }
    }

    /// Time in the queue of all packets that the link has taken, in ns.
    pub fn sojourn(&self) -> &Histogram {
        &self.sojourn
    }

    /// The same since the last call.
    pub(crate) fn recent_sojourn(&mut self) -> Histogram {
        std::mem::replace(&mut self.recent, histogram())
    }

    /// The rate of the packet that started last, in bits/s; `None` without a limit.
    pub fn bits_per_s(&self) -> Option<u64> {
        self.link.as_ref().map(Link::bits_per_s)
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }
}

/// For times in ns.
pub(crate) fn histogram() -> Histogram {
    Histogram::new(LATENCY_BITS, LATENCY_BUCKETS)
}
