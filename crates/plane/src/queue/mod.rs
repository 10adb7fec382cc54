//! A link of a given rate inside of a node: excess frames wait, and an AQM decides which are dropped. The path behind the link
//! may delay, lose and reorder frames.
//!
//! ```text
//! frame > kept > [ limit | AQM | scheduler ] > the link takes it > emitted, goes on
//!                        |                         `--> loss, delay, jitter, reordering --> emitted, goes on
//!                        +-> dropped                       |
//!                                                          +-> dropped
//! ```
//! Queues are those of `weir_queue`, all else is that of `weir_link`, which `weir bottleneck` has as well. They see of a frame its
//! size, flow, path and ECN field; the frame itself stays in its memory. A frame has the length that `tc` gives it: with its
//! Ethernet header, without preamble, FCS and gap; `overhead` adds what the link needs beside.
//!
//! Without anything behind the link a frame goes on when the link takes it: the next link is the one that it is on. Else it goes
//! on when its last bit has left and the delay of its path has passed.
//!
//! Invariant: when frames go on follows from their arrivals and the text alone; a thread that is late by some microseconds emits
//! more at once and loses no rate.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod answer;
mod config;
mod configured;

use std::net::IpAddr;
use std::time::Duration;

use weir_link::{Behind, Departure, Link};
use weir_measure::histogram::Histogram;
use weir_packet::headers::{self, Headers};
use weir_packet::steer::{ends_of_frame, flow, mix4, mix6};
use weir_queue::{Ecn, Packet, Reason, Tally};

use crate::batch::Set;
use crate::dir::{Dir, EntryPoint};
use crate::drops::DropReason;
use crate::frame::{Fragment, Frame, Kind};
use crate::kept::{Then, Ticket};
use crate::outbox::Outbox;
use crate::recipe::{Key, Never, Part};
use crate::stage::{ByDir, StageKind, Step, Waiting};
use crate::time::Time;

pub use answer::QueueState;
pub(crate) use config::Config;

/// Frames that one call emits in a direction; more of them leave behind the next batch.
const AT_ONCE: usize = 256;
/// Bits of a full frame of Ethernet.
const SLOT_BITS: u64 = 1514 * 8;
/// `weir_queue` times end after 213 days: the clock of a link without backlog begins anew long before.
const LONGEST: Duration = Duration::from_secs(100 * 86_400);

/// A link in one direction or in both, with its queue and the path behind it.
#[derive(Debug)]
pub(crate) struct Queue {
    config: Config,
    seed: u64,
    directions: ByDir<Option<DirectedQueue>>,
}

/// The counters of a queue in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    /// The queue among the stages of the text, from 1.
    pub stage: usize,
    /// The direction.
    pub dir: Dir,
    /// The name of its AQM.
    pub aqm: String,
    /// The rate of the link, bits/s, as it was when a frame was last sent; `None` without a limit.
    pub bits_per_s: Option<u64>,
    /// Bytes that may wait.
    pub limit_bytes: u64,
    /// Frames that wait, and their bytes.
    pub backlog: (u64, u64),
    /// Frames that have gone on, and their bytes.
    pub sent: (u64, u64),
    /// Of these, frames that got the mark of congestion here.
    pub marked: u64,
    /// Frames that the queue dropped.
    pub dropped: u64,
    /// Frames behind the link: in flight, and lost as configured. `None` if a frame goes on when the link takes it.
    pub behind: Option<(u64, u64)>,
    /// How much later than they were due frames went on, ns.
    pub late: Histogram,
    /// Time of a frame of 1514 bytes on the link, ns; `None` without a limit.
    pub slot_ns: Option<u64>,
}

impl Queue {
    pub(crate) fn new(config: &Config, seed: u64) -> Queue {
        Queue::begun(config, seed, Time::default())
    }

    fn begun(config: &Config, seed: u64, now: Time) -> Queue {
        let mut directions = ByDir::new(|| None);
        for dir in [Dir::Outward, Dir::Inward] {
            directions[dir] = config.is_in(dir).then(|| DirectedQueue::new(config, dir, seed, now));
        }
        Queue { config: config.clone(), seed, directions }
    }

    /// Takes another configuration, with links in the same directions; what waits is queued again by that.
    fn take_config(&mut self, now: Time, config: &Config) {
        for dir in [Dir::Outward, Dir::Inward] {
            if let Some(queue) = &mut self.directions[dir] {
                queue.take(&self.config, config, dir, self.seed, now);
            }
        }
        self.config = config.clone();
    }

    /// Its counters, as the stage of this number.
    pub(crate) fn counts(&self, stage: usize) -> impl Iterator<Item = QueueCounts> {
        let of =
            move |dir: Dir| self.directions[dir].as_ref().map(|queue| queue.counts(&self.config, stage, dir));
        [Dir::Outward, Dir::Inward].into_iter().filter_map(of)
    }
}

impl StageKind for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    /// Keeps the frames of a direction that has a queue.
    fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        let onward = step.onward(dir);
        let Some(queue) = &mut self.directions[dir] else { return set };
        if queue.is_old(step.now) {
            queue.begin_anew(&self.config, dir, self.seed, step.now);
        }
        for i in set {
            let (packet, path) = packet(&step.frames[i], dir, &self.config);
            queue.arrive(packet, path, step.keep(i), step.now);
        }
        queue.emit(step, onward);
        Set::EMPTY
    }

    fn run_no_ip(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        self.run(step, dir, set)
    }

    fn tick(&mut self, step: &mut Step<'_, '_>) -> bool {
        let mut more = false;
        for dir in [Dir::Outward, Dir::Inward] {
            let onward = step.onward(dir);
            if let Some(queue) = &mut self.directions[dir] {
                more |= queue.emit(step, onward);
            }
        }
        more
    }

    fn due(&self, now: Time) -> Option<Time> {
        self.directions.both().into_iter().flatten().filter_map(|queue| queue.due(now)).min()
    }

    fn begin_anew(&mut self, now: Time) {
        *self = Queue::begun(&self.config, self.seed, now);
    }

    fn waiting(&self) -> Waiting {
        let queues = self.directions.both().into_iter().flatten();
        Waiting { kept: queues.flat_map(|queue| queue.waiting.iter()).collect(), copies: 0 }
    }

    fn emit_waiting(&mut self, now: Time, outbox: &mut Outbox, entry: &dyn Fn(Dir) -> EntryPoint) {
        for dir in [Dir::Outward, Dir::Inward] {
            if let Some(queue) = &mut self.directions[dir] {
                queue.emit_waiting(now, outbox, entry(dir));
            }
        }
    }

    fn recipe(&self, _: Time, _: &Key, dir: Dir, _: u8) -> Result<Option<Part>, Never> {
        match self.directions[dir] {
            None => Ok(None),
            Some(_) => Err(Never::Configured),
        }
    }
}

/// A frame that waits.
#[derive(Debug, Clone, Copy)]
struct Carried {
    frame: Ticket,
    path: usize,
    bytes: u32,
    is_marked: bool,
}

/// The queue of one direction: a link, the frames that wait for it, and what is behind the link.
#[derive(Debug)]
struct DirectedQueue {
    /// `None`: no limit.
    link: Option<Link<Carried>>,
    after: After,
    /// When the time of both began.
    began: Time,
    /// Frames in either.
    waiting: Tickets,
    sent: Tally,
    lost: u64,
    late: Histogram,
}

/// Where frames are that the link has taken.
#[derive(Debug)]
struct After {
    behind: Behind<Carried>,
    /// Nothing is behind the link: a frame goes on when the link takes it.
    is_at_once: bool,
    lost: Vec<Ticket>,
}

impl After {
    fn put(&mut self, departure: Departure<Carried>) {
        let Departure { packet, starts, ends } = departure;
        let carried = Carried { is_marked: packet.ecn == Ecn::Ce, ..packet.payload };
        let at = if self.is_at_once { starts } else { ends };
        if let Err(lost) = self.behind.put(at, carried.path, carried) {
            self.lost.push(lost.frame);
        }
    }
}

impl DirectedQueue {
    #[expect(clippy::expect_used, reason = "the text was read with this queue built")]
    fn new(config: &Config, dir: Dir, seed: u64, now: Time) -> DirectedQueue {
        let link = config
            .rate(dir)
            .map(|rate| Link::new(&config.aqm.config, &config.bottleneck(dir, seed), rate).expect("a queue"));
        let behind = Behind::new(config.paths(), seed ^ 0x70a7 ^ dir as u64);
        DirectedQueue {
            link,
            after: After { behind, is_at_once: config.behind.is_none(), lost: Vec::new() },
            began: now,
            waiting: Tickets::default(),
            sent: Tally::default(),
            lost: 0,
            late: Histogram::latency(),
        }
    }

    /// By the clock of the link.
    fn at(&self, now: Time) -> weir_queue::Time {
        weir_queue::Time::from_ns((now - self.began).as_nanos() as u64)
    }

    /// By that of the plane, no earlier.
    fn since(&self, at: weir_queue::Time) -> Time {
        self.began + Duration::from_nanos(at.ps().div_ceil(1000))
    }

    /// Whether its clock is to begin anew, and may.
    fn is_old(&self, now: Time) -> bool {
        now - self.began > LONGEST && self.link.as_ref().is_none_or(|link| link.backlog().packets == 0)
    }

    #[expect(clippy::expect_used, reason = "the text was read with this queue built")]
    fn begin_anew(&mut self, config: &Config, dir: Dir, seed: u64, now: Time) {
        let at = self.at(now);
        if let Some(link) = &mut self.link {
            link.begin_anew(&config.aqm.config, &config.bottleneck(dir, seed), at).expect("a queue");
        }
        self.after.behind.begin_anew(at);
        self.began = now;
    }

    fn arrive(&mut self, packet: Packet<()>, path: usize, frame: Ticket, now: Time) {
        let at = self.at(now);
        self.waiting.insert(frame);
        let carried = Carried { frame, path, bytes: packet.bytes, is_marked: false };
        let packet = packet.carrying(carried);
        let DirectedQueue { link, after, .. } = self;
        match link {
            Some(link) => link.arrive(packet, at, |departure| after.put(departure)),
            None => after.put(Departure { packet, starts: at, ends: at }),
        }
    }

    fn advance(&mut self, until: weir_queue::Time) {
        let DirectedQueue { link, after, .. } = self;
        if let Some(link) = link {
            link.advance(until, |departure| after.put(departure));
        }
    }

    /// Emits what is due until now, and drops what was dropped and lost. True: there is more.
    fn emit(&mut self, step: &mut Step<'_, '_>, onward: EntryPoint) -> bool {
        let now = self.at(step.now);
        self.advance(now);
        for (carried, reason) in self.link.iter_mut().flat_map(|link| link.dropped().drain(..)) {
            self.waiting.remove(carried.frame);
            step.outbox.discard(carried.frame);
            step.drops.count(match reason {
                Reason::Overflow | Reason::Evicted => DropReason::QueueLimit,
                _ => DropReason::QueueAqm,
            });
        }
        for frame in self.after.lost.drain(..) {
            self.waiting.remove(frame);
            step.outbox.discard(frame);
            step.drops.count(DropReason::QueueLoss);
            self.lost += 1;
        }
        for _ in 0..AT_ONCE {
            let Some((due, carried)) = self.after.behind.take(now) else { return false };
            self.late.record((now - due).ns());
            self.waiting.remove(carried.frame);
            self.sent.add(carried.bytes);
            step.outbox.emit(carried.frame, then(&carried, onward));
        }
        true
    }

    /// When something is to be done next: a frame goes on, or the link takes one that might go on then.
    fn due(&self, now: Time) -> Option<Time> {
        let start = self.link.as_ref().and_then(Link::next_start).filter(|at| *at < weir_queue::Time::MAX);
        let link = start.map(|at| at + self.after.behind.paths().shortest());
        let next = [link, self.after.behind.next_at()].into_iter().flatten().min()?;
        Some(self.since(next).max(now))
    }

    #[expect(clippy::expect_used, reason = "the text was read with this queue built")]
    fn take(&mut self, old: &Config, new: &Config, dir: Dir, seed: u64, now: Time) {
        let at = self.at(now);
        self.advance(at);
        self.after.behind.set_paths(new.paths());
        let DirectedQueue { link, after, .. } = self;
        let (Some(link), Some(rate)) = (link, new.rate(dir)) else { return };
        if old.rate(dir) != Some(rate) {
            link.set_rate(rate, at, seed);
        }
        let waiting = link.drain(at);
        link.set_queue(&new.aqm.config, &new.bottleneck(dir, seed)).expect("a queue");
        for packet in waiting {
            link.arrive(packet, at, |departure| after.put(departure));
        }
    }

    fn emit_waiting(&mut self, now: Time, outbox: &mut Outbox, entry: EntryPoint) {
        let at = self.at(now);
        let mut emit = |carried: Carried| {
            self.waiting.remove(carried.frame);
            outbox.emit(carried.frame, then(&carried, entry));
        };
        while let Some((_, carried)) = self.after.behind.take(weir_queue::Time::MAX) {
            emit(carried);
        }
        for packet in self.link.iter_mut().flat_map(|link| link.drain(at)) {
            emit(Carried { is_marked: packet.ecn == Ecn::Ce, ..packet.payload });
        }
        // What was to be dropped: no reason is left.
        self.waiting.iter().for_each(|frame| outbox.emit(frame, Then::On(entry)));
        self.waiting = Tickets::default();
    }

    fn counts(&self, config: &Config, stage: usize, dir: Dir) -> QueueCounts {
        let counts = self.link.as_ref().map(Link::counts).unwrap_or_default();
        let backlog = self.link.as_ref().map(Link::backlog).unwrap_or_default();
        QueueCounts {
            stage,
            dir,
            aqm: config.aqm.text.clone(),
            bits_per_s: self.link.as_ref().map(Link::bits_per_s),
            limit_bytes: config.limit_bytes(dir),
            backlog: (backlog.packets, backlog.bytes),
            sent: (self.sent.packets, self.sent.bytes),
            marked: counts.marked,
            dropped: counts.dropped.iter().map(|tally| tally.packets).sum(),
            late: self.late.clone(),
            slot_ns: config.rate(dir).map(|rate| SLOT_BITS * 1_000_000_000 / rate.nominal()),
            behind: (!self.after.is_at_once).then(|| (self.after.behind.len() as u64, self.lost)),
        }
    }
}

/// A frame goes on, marked if its queue has marked it.
fn then(carried: &Carried, entry: EntryPoint) -> Then {
    if carried.is_marked { Then::Marked(entry) } else { Then::On(entry) }
}

/// A frame as queues see it, and its path. If a policer has seen it before, its subscriber replaces the inside address, which a NAT may
/// have translated meanwhile.
fn packet(frame: &Frame<'_>, dir: Dir, config: &Config) -> (Packet<()>, usize) {
    let mut packet = Packet::new(frame.bytes().len() as u32 + config.overhead, 0, ());
    let (from, to): (IpAddr, IpAddr);
    match frame.kind() {
        Kind::V4 => {
            let (src, dst) = frame.addresses4();
            (packet.source, packet.destination) = (mix4(src), mix4(dst));
            (from, to) = (IpAddr::V4(src.into()), IpAddr::V4(dst.into()));
        }
        Kind::Arp | Kind::Other => return enclosed(frame, packet, config),
        Kind::V6 => {
            let (src, dst) = frame.addresses6();
            (packet.source, packet.destination) = (mix6(src), mix6(dst));
            (from, to) = (IpAddr::V6(src.into()), IpAddr::V6(dst.into()));
        }
    }
    // Fragments have no ports, so that they count for none of a packet that is cut.
    let ports = if frame.fragment() == Fragment::Whole { frame.ports() } else { (0, 0) };
    packet.flow = flow(packet.source, packet.destination, ports, frame.proto());
    if frame.policed_host != 0 {
        match dir {
            Dir::Outward => packet.source = frame.policed_host,
            Dir::Inward => packet.destination = frame.policed_host,
        }
        // Fragments of two subscribers may have one public address.
        packet.flow ^= frame.policed_host;
    }
    packet.ecn = Ecn::from_bits(frame.ecn());
    (packet, config.behind.as_ref().map_or(0, |paths| paths.of(from, to)))
}

/// The same for a frame of a bump in the wire that is no IP packet, but may enclose one, as `weir bottleneck` sees it.
#[cold]
fn enclosed(frame: &Frame<'_>, mut packet: Packet<()>, config: &Config) -> (Packet<()>, usize) {
    let path = |from: IpAddr, to: IpAddr| config.behind.as_ref().map_or(0, |paths| paths.of(from, to));
    let Some(Headers { src, dst, ports, protocol, .. }) = headers::read(frame.bytes()) else {
        (packet.source, packet.destination, packet.flow) = ends_of_frame(frame.bytes());
        return (packet, config.behind.as_ref().map_or(0, |paths| paths.others()));
    };
    let mix = |address: IpAddr| match address {
        IpAddr::V4(address) => mix4(address.to_bits()),
        IpAddr::V6(address) => mix6(address.to_bits()),
    };
    (packet.source, packet.destination) = (mix(src), mix(dst));
    packet.flow = flow(packet.source, packet.destination, ports, protocol);
    packet.ecn = Ecn::from_bits(frame.ecn());
    (packet, path(src, dst))
}

/// Some tickets, a bit for each.
#[derive(Debug, Default)]
struct Tickets(Vec<u64>);

impl Tickets {
    fn insert(&mut self, ticket: Ticket) {
        let (word, bit) = place(ticket);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    fn remove(&mut self, ticket: Ticket) {
        let (word, bit) = place(ticket);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    fn iter(&self) -> impl Iterator<Item = Ticket> {
        let of = |(n, &word): (usize, &u64)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| Ticket::of(n * 64 + bit))
        };
        self.0.iter().enumerate().flat_map(of)
    }
}

fn place(ticket: Ticket) -> (usize, u64) {
    (ticket.number() / 64, 1 << (ticket.number() % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BATCH, Batch, Verdict};
    use crate::config;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::kept::Shelf;
    use crate::plane::Plane;

    /// However late and however often the queue is called, as many frames have left as the rate allows, to the frame.
    #[test]
    fn the_rate_is_exact_whenever_time_passes() {
        const SLOT_NS: u64 = 100_000;
        let text = "lan > queue(outward 80Mbit, aqm fifo, limit 10MB) > wan";
        let mut plane = Plane::new(&config::Config::read("n", text).expect("a node"), &[[2; 6], [4; 6]]);
        let line = "udp 198.18.0.1:5000 > 198.19.0.9:53 len 958";
        let packet = crate::scenario::packet(line).expect("a packet");
        let bytes = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &packet].concat();
        let mut kept = Shelf::default();
        for _ in 0..16 {
            let mut buffers = vec![bytes.clone(); BATCH];
            let mut batch = Batch::default();
            for buf in &mut buffers {
                let end = buf.len();
                batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(0)));
            }
            plane.run(Time::default(), &mut batch);
            for (frame, verdict) in batch.outcome() {
                let Verdict::Kept(ticket) = verdict else { panic!("{verdict:?}") };
                kept.copy(ticket, frame);
            }
        }
        let (mut left, mut now_ns, mut roll) = (0, 0, 1_u64);
        while left < 16 * BATCH as u64 {
            while plane.tick(Time::from_ns(now_ns)) {}
            let resumed = kept.resume(&mut plane, Time::from_ns(now_ns));
            assert!(resumed.iter().all(|(verdict, ..)| *verdict == Verdict::Out(PortId(1))));
            left += resumed.len() as u64;
            assert_eq!(left, (now_ns / SLOT_NS + 1).min(16 * BATCH as u64), "at {now_ns} ns");
            assert!(plane.accounting().balance(), "{:?}", plane.accounting());
            roll = roll.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now_ns += (roll >> 33) % 300_000;
        }
        let [counts] = &plane.queue_counts()[..] else { panic!("one direction") };
        assert_eq!((counts.sent, counts.backlog, counts.dropped), ((1024, 1_024_000), (0, 0), 0));
    }

    /// Its time would end after 213 days. A schedule that pauses from 15 to 25 ms of every 40 goes on where it would have been.
    #[test]
    fn a_queue_goes_on_after_a_year() {
        let day_ms = 86_400_000;
        let file = |_: &str| Ok("0 800kbit\n0.015 0\n0.025 800kbit\n0.04 repeat\n".to_string());
        for (text, due) in [
            ("lan > queue(outward 800kbit, aqm fifo) > wan", [0, 10, 20]),
            ("lan > queue(outward 800kbit, aqm fifo, delay 7ms) > wan", [17, 27, 37]),
            // The frame that starts at 10 ms keeps its rate; the next one starts just after 25 ms.
            ("lan > queue(outward trace:rates, aqm fifo) > wan", [0, 10, 26]),
            ("lan > queue(outward trace:rates, aqm fifo, delay 7ms) > wan", [17, 27, 43]),
            ("lan > queue(delay 7ms) > wan", [7, 7, 7]),
        ] {
            let mut beside = config::Beside { item: &mut |_, _| false, file: &file };
            let config = config::Config::read_with("n", text, &mut beside).expect("a node");
            let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
            let line = "udp 198.18.0.1:5000 > 198.19.0.9:53 len 958";
            let packet = crate::scenario::packet(line).expect("a packet");
            let mut kept = Shelf::default();
            for at_ms in [0, 1, 101, 202, 203, 365, 366].map(|days| days * day_ms) {
                let mut left = Vec::new();
                for after_ms in 0..50 {
                    let now = Time::from_ms(at_ms + after_ms);
                    if after_ms == 0 {
                        let mut buffers = vec![[&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &packet].concat(); 3];
                        let mut batch = Batch::default();
                        for buf in &mut buffers {
                            let end = buf.len();
                            batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(0)));
                        }
                        plane.run(now, &mut batch);
                        for (frame, verdict) in batch.outcome() {
                            let Verdict::Kept(ticket) = verdict else { panic!("{verdict:?}") };
                            kept.copy(ticket, frame);
                        }
                    }
                    plane.tick(now);
                    left.extend(kept.resume(&mut plane, now).iter().map(|_| after_ms));
                }
                assert_eq!(left, due, "{text}: {at_ms} ms");
            }
        }
    }
}
