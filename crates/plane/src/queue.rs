//! A link of a given rate in the midst of a node: what is more than it carries waits, and an AQM decides what is dropped.
//!
//! ```text
//! frame > kept > [ limit | AQM | scheduler ] > the link is free > emitted, goes on
//!                        |
//!                        +-> dropped
//! ```
//! The queues are those of `weir_queue`, which see of a frame its size, flow and ECN field; the frame itself stays in its
//! memory. A frame has the length that `tc` gives it: with its Ethernet header, without preamble, FCS and gap; `overhead`
//! adds what the link needs beside.
//!
//! Invariant: at any time the bits that have left since the link was busy are not more than its rate allows, but for the frame
//! in service; a thread that is late by some microseconds emits more at once and loses no rate.
//!
//! ```text
//! lan > queue(outward 20Mbit, inward 100Mbit, aqm fq-codel) > nat(public 192.0.2.1) > route > wan
//! ```
//!
//! | argument | | else |
//! |---|---|---|
//! | `outward RATE`, `inward RATE` | of the link in this direction, in bits/s; at least one of them | not limited |
//! | `aqm NAME` | `fifo`, `red`, `ared`, `pie`, `codel`, `fq-codel`, `fq-pie`, `gsp`, `dualpi2`, `cake` and others | `fq-codel` |
//! | `limit SIZE\|TIME` | what may wait in each direction: bytes, or as long as the link takes for it | 100 ms, 32 frames at least |
//! | `overhead BYTES` | what the link adds to each frame | 0 |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::time::Duration;

use weir_config::{Notes, did_you_mean, rate, unit};
use weir_packet::steer::{mix4, mix6};
use weir_queue::{Bottleneck, Ecn, Pace, Packet, Reason};

use crate::batch::Set;
use crate::drops::Drop;
use crate::frame::{Frame, Kind};
use crate::kept::{Then, Ticket};
use crate::outbox::Outbox;
use crate::recipe::Never;
use crate::route::flow_hash;
use crate::stage::{ByDir, Step};
use crate::text::{Arg, Item};
use crate::time::Time;
use crate::way::{Dir, Entry};

/// Frames that one call emits in a direction; more of them leave behind the next batch.
const AT_ONCE: usize = 256;
/// What may wait where the text does not say it.
const LIMIT: Duration = Duration::from_millis(100);
/// And at least, in bytes: some frames must fit however slow the link is.
const LEAST_LIMIT: u64 = 32 * 1514;
/// Time of `weir_queue` ends after 213 days: the clock of a queue that is empty begins anew long before.
const LONGEST: Duration = Duration::from_secs(100 * 86_400);

/// What a queue is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Bits/s.
    outward: Option<u64>,
    inward: Option<u64>,
    /// A name of the catalogue of `weir_queue`.
    aqm: String,
    limit: Limit,
    overhead: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Bytes(u64),
    Time(Duration),
}

impl Config {
    /// Reads an item; mistakes are noted.
    pub(crate) fn read(item: &Item, notes: &Notes<'_>) -> Config {
        let mut config = Config {
            outward: None,
            inward: None,
            aqm: "fq-codel".into(),
            limit: Limit::Time(LIMIT),
            overhead: 0,
        };
        for arg in &item.args {
            if let Err(text) = config.argument(arg) {
                arg.wrong(notes, text);
            }
        }
        item.said_once(&NAMES, notes);
        if config.outward.is_none() && config.inward.is_none() && notes.is_empty() {
            item.wrong(
                notes,
                "a queue needs the rate of its link: write `outward 20Mbit`, `inward 100Mbit` or both".into(),
            );
        }
        config
    }

    fn argument(&mut self, arg: &Arg) -> Result<(), String> {
        match arg.words()[..] {
            ["outward", rate] => self.outward = Some(bits_per_s(rate)?),
            ["inward", rate] => self.inward = Some(bits_per_s(rate)?),
            ["aqm", name] => self.aqm = aqm(name)?,
            ["limit", limit] => self.limit = limit.parse()?,
            ["overhead", bytes] => {
                let few = bytes.parse::<u32>().ok().filter(|bytes| *bytes <= 256);
                self.overhead = few.ok_or("overhead takes a number of bytes from 0 to 256")?;
            }
            [name, ..] if NAMES.contains(&name) => {
                return Err(format!("`{name}` takes one value, as in `{}`", example(name)));
            }
            [name, ..] => {
                return Err(format!("`{name}` is no argument of a queue: {}", did_you_mean(name, &NAMES)));
            }
            [] => {}
        }
        Ok(())
    }

    /// Whether the other one has links in the same directions.
    pub(crate) fn has_the_directions_of(&self, other: &Config) -> bool {
        let directions = |config: &Config| (config.outward.is_some(), config.inward.is_some());
        directions(self) == directions(other)
    }

    fn bits_per_s(&self, dir: Dir) -> Option<u64> {
        match dir {
            Dir::Outward => self.outward,
            Dir::Inward => self.inward,
        }
    }

    fn limit_bytes(&self, bits_per_s: u64) -> u64 {
        match self.limit {
            Limit::Bytes(bytes) => bytes,
            Limit::Time(time) => {
                let bytes = u128::from(bits_per_s) * time.as_nanos() / 8_000_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST_LIMIT)
            }
        }
    }

    /// Bytes that may wait in both directions.
    pub(crate) fn all_bytes(&self) -> u64 {
        let of = |rate: Option<u64>| rate.map_or(0, |rate| self.limit_bytes(rate));
        of(self.outward).saturating_add(of(self.inward))
    }
}

const NAMES: [&str; 5] = ["outward", "inward", "aqm", "limit", "overhead"];

fn example(name: &str) -> &'static str {
    match name {
        "aqm" => "aqm fq-codel",
        "limit" => "limit 50ms",
        "overhead" => "overhead 24",
        "inward" => "inward 100Mbit",
        _ => "outward 20Mbit",
    }
}

fn bits_per_s(text: &str) -> Result<u64, String> {
    let rate = rate::line_bits_per_s(text).ok().filter(|rate| (1e3..=1e12).contains(rate));
    rate.map(|rate| rate as u64).ok_or_else(|| {
        format!("`{text}` is no rate of a link from 1kbit to 1000Gbit: write 20Mbit or 2.5Gbit")
    })
}

/// A queue that needs no packet values: nobody gives frames any here.
fn aqm(name: &str) -> Result<String, String> {
    let known = weir_queue::Config::catalogue();
    let known: Vec<&str> =
        known.iter().filter(|(_, queue)| !queue.needs_values()).map(|(name, _)| *name).collect();
    match known.contains(&name) {
        true => Ok(name.to_string()),
        false => Err(format!("`{name}` is no AQM: {}", did_you_mean(name, &known))),
    }
}

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let is_time = text.ends_with('s');
        match is_time {
            true => unit::time(text, Duration::from_micros(10), Duration::from_secs(10)).map(Limit::Time),
            false => match unit::bytes(text)? {
                bytes @ 2_000..=4_000_000_000 => Ok(Limit::Bytes(bytes)),
                _ => Err(format!("a limit of {text} is none from 2kB to 4GB: write 500kB or 50ms")),
            },
        }
    }
}

/// What waits for a link of a rate, in a direction or in both.
#[derive(Debug)]
pub(crate) struct Queue {
    config: Config,
    seed: u64,
    links: ByDir<Option<Link>>,
    /// Frames of queues that are no more, which these have dropped.
    gone: Vec<(Dir, Ticket, Reason)>,
}

/// What a queue has done in a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    /// The queue among the stages of the text, from 1.
    pub stage: usize,
    /// The direction.
    pub dir: Dir,
    /// The name of its AQM.
    pub aqm: String,
    /// The rate of the link, bits/s.
    pub bits_per_s: u64,
    /// Frames and bytes that may wait.
    pub limit_bytes: u64,
    /// Frames that wait, and their bytes.
    pub backlog: (u64, u64),
    /// Frames that have gone on, and their bytes.
    pub sent: (u64, u64),
    /// Of these, frames that got the mark of congestion here.
    pub marked: u64,
    /// Frames that were dropped.
    pub dropped: u64,
}

impl Queue {
    pub(crate) fn new(config: &Config, seed: u64) -> Queue {
        Queue::begun(config, seed, Time::default())
    }

    fn begun(config: &Config, seed: u64, now: Time) -> Queue {
        let mut links = ByDir::new(|| None);
        for dir in [Dir::Outward, Dir::Inward] {
            links[dir] = config.bits_per_s(dir).map(|rate| Link::new(config, rate, seed, now));
        }
        Queue { config: config.clone(), seed, links, gone: Vec::new() }
    }

    /// Has the frames of `set` wait on their way in `dir`; returns those that need not.
    pub(crate) fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        let onward = step.onward(dir);
        let Some(link) = &mut self.links[dir] else { return set };
        if link.is_old(step.now) {
            *link = Link::new(&self.config, link.pace.bits_per_s(), self.seed, step.now);
        }
        link.emit(step, onward);
        for i in set {
            let packet = packet(&step.frames[i], self.config.overhead);
            let ticket = step.keep(i);
            link.offer(packet.carrying(ticket), step.now);
            link.emit(step, onward);
        }
        Set::EMPTY
    }

    /// Lets time pass: what is due goes on. True: there is more.
    pub(crate) fn tick(&mut self, step: &mut Step<'_, '_>) -> bool {
        for (_, frame, reason) in self.gone.drain(..) {
            discard(step, frame, reason);
        }
        let mut more = false;
        for dir in [Dir::Outward, Dir::Inward] {
            let onward = step.onward(dir);
            if let Some(link) = &mut self.links[dir] {
                more |= link.emit(step, onward);
            }
        }
        more
    }

    /// When the next frame is due.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let gone = (!self.gone.is_empty()).then_some(now);
        let links = self.links.both().into_iter().flatten().filter_map(|link| link.due(now));
        links.chain(gone).min()
    }

    /// Whether nothing waits here for frames of a direction, whatever comes.
    ///
    /// # Errors
    /// Frames must come here.
    pub(crate) fn recipe(&self, dir: Dir) -> Result<(), Never> {
        match self.links[dir] {
            None => Ok(()),
            Some(_) => Err(Never::Configured),
        }
    }

    /// Takes another configuration; what waits is queued again by that.
    pub(crate) fn take(&mut self, now: Time, config: &Config) {
        let mut new = Queue::begun(config, self.seed, now);
        for dir in [Dir::Outward, Dir::Inward] {
            // A text with other directions is that of another queue.
            if let (Some(old), Some(link)) = (&mut self.links[dir], &mut new.links[dir]) {
                link.free = link.at(old.since(old.free));
                let (waiting, dropped) = old.drain(now);
                new.gone.extend(dropped.into_iter().map(|(frame, reason)| (dir, frame, reason)));
                waiting.into_iter().for_each(|packet| link.offer(packet, now));
            }
        }
        new.gone.append(&mut self.gone);
        *self = new;
    }

    /// It goes away: what waited in it goes on where frames of its direction enter.
    pub(crate) fn let_go(&mut self, now: Time, outbox: &mut Outbox, entry: impl Fn(Dir) -> Entry) {
        self.gone.drain(..).for_each(|(dir, frame, _)| outbox.emit(frame, Then::On(entry(dir))));
        for dir in [Dir::Outward, Dir::Inward] {
            let Some(link) = &mut self.links[dir] else { continue };
            let (waiting, dropped) = link.drain(now);
            waiting.iter().for_each(|packet| outbox.emit(packet.payload, then(packet, entry(dir))));
            // No reason is left to drop these.
            dropped.into_iter().for_each(|(frame, _)| outbox.emit(frame, Then::On(entry(dir))));
        }
    }

    /// Forgets all that waits.
    pub(crate) fn begin_anew(&mut self, now: Time) {
        *self = Queue::begun(&self.config, self.seed, now);
    }

    /// Frames that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        let links = self.links.both().into_iter().flatten();
        links.flat_map(|link| link.waiting.iter()).chain(self.gone.iter().map(|(_, frame, _)| *frame))
    }

    /// What it has done, of the stage of this number.
    pub(crate) fn counts(&self, stage: usize) -> impl Iterator<Item = QueueCounts> {
        let of = move |dir: Dir| self.links[dir].as_ref().map(|link| link.counts(&self.config, stage, dir));
        [Dir::Outward, Dir::Inward].into_iter().filter_map(of)
    }
}

/// A link and what waits for it.
struct Link {
    queue: Box<dyn weir_queue::Queue<Ticket> + Send>,
    pace: Pace,
    /// When the link is free, by the clock of the queue.
    free: weir_queue::Time,
    /// When something came or left last, by the same.
    last: weir_queue::Time,
    /// When that clock began.
    began: Time,
    waiting: Tickets,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("free", &self.free).field("backlog", &self.queue.backlog()).finish()
    }
}

impl Link {
    #[expect(clippy::expect_used, reason = "of a name of the catalogue, whose settings make sense")]
    fn new(config: &Config, bits_per_s: u64, seed: u64, now: Time) -> Link {
        let at = Bottleneck { limit_bytes: config.limit_bytes(bits_per_s), bits_per_s, seed };
        let queue = weir_queue::Config::named(&config.aqm).and_then(|queue| queue.build(&at).ok());
        Link {
            queue: queue.expect("a queue"),
            pace: Pace::new(bits_per_s),
            free: weir_queue::Time::ZERO,
            last: weir_queue::Time::ZERO,
            began: now,
            waiting: Tickets::default(),
        }
    }

    /// By the clock of the queue.
    fn at(&self, now: Time) -> weir_queue::Time {
        weir_queue::Time::from_ns((now - self.began).as_nanos() as u64)
    }

    /// By that of the plane, no earlier.
    fn since(&self, at: weir_queue::Time) -> Time {
        self.began + Duration::from_nanos(at.ps().div_ceil(1000))
    }

    /// Whether its clock is to begin anew, and may.
    fn is_old(&self, now: Time) -> bool {
        now - self.began > LONGEST && self.queue.backlog().packets == 0
    }

    fn offer(&mut self, packet: Packet<Ticket>, now: Time) {
        self.last = self.last.max(self.at(now));
        self.waiting.insert(packet.payload);
        self.queue.offer(packet, self.last);
    }

    /// When the link takes the next frame.
    fn next_start(&self) -> Option<weir_queue::Time> {
        Some(self.queue.due(self.last)?.max(self.free))
    }

    fn due(&self, now: Time) -> Option<Time> {
        Some(self.since(self.next_start()?).max(now))
    }

    /// Emits what has begun to leave until now, and drops what the queue drops. True: there is more.
    fn emit(&mut self, step: &mut Step<'_, '_>, onward: Entry) -> bool {
        let now = self.at(step.now);
        self.drop_dropped(step);
        for _ in 0..AT_ONCE {
            let Some(start) = self.next_start().filter(|start| *start <= now) else { return false };
            self.last = start;
            let taken = self.queue.take(start);
            self.drop_dropped(step);
            let Some(packet) = taken else { continue };
            self.free = start + self.pace.slot(u64::from(packet.bytes));
            self.waiting.remove(packet.payload);
            step.outbox.emit(packet.payload, then(&packet, onward));
        }
        true
    }

    fn drop_dropped(&mut self, step: &mut Step<'_, '_>) {
        for dropped in self.queue.dropped().drain(..) {
            self.waiting.remove(dropped.packet.payload);
            discard(step, dropped.packet.payload, dropped.reason);
        }
    }

    /// Takes all out, in the order in which they would have left; and what the queue drops meanwhile.
    fn drain(&mut self, now: Time) -> (Vec<Packet<Ticket>>, Vec<(Ticket, Reason)>) {
        let (mut at, mut waiting) = (self.last.max(self.at(now)), Vec::new());
        while let Some(due) = self.queue.due(at) {
            let before = self.queue.backlog().packets;
            at = due;
            waiting.extend(self.queue.take(at));
            if self.queue.backlog().packets == before {
                break;
            }
        }
        waiting.iter().for_each(|packet| self.waiting.remove(packet.payload));
        let mut dropped = Vec::new();
        for drop in self.queue.dropped().drain(..) {
            self.waiting.remove(drop.packet.payload);
            dropped.push((drop.packet.payload, drop.reason));
        }
        // What the queue does not give out is lost with it.
        dropped.extend(self.waiting.iter().map(|frame| (frame, Reason::Evicted)));
        self.waiting = Tickets::default();
        (waiting, dropped)
    }

    fn counts(&self, config: &Config, stage: usize, dir: Dir) -> QueueCounts {
        let (counters, backlog) = (self.queue.counters(), self.queue.backlog());
        let bits_per_s = self.pace.bits_per_s();
        QueueCounts {
            stage,
            dir,
            aqm: config.aqm.clone(),
            bits_per_s,
            limit_bytes: config.limit_bytes(bits_per_s),
            backlog: (backlog.packets, backlog.bytes),
            sent: (counters.taken.packets, counters.taken.bytes),
            marked: counters.marked,
            dropped: counters.dropped_packets(),
        }
    }
}

/// A frame goes on, marked if its queue has marked it.
fn then(packet: &Packet<Ticket>, entry: Entry) -> Then {
    if packet.ecn == Ecn::Ce { Then::Marked(entry) } else { Then::On(entry) }
}

fn discard(step: &mut Step<'_, '_>, frame: Ticket, reason: Reason) {
    step.outbox.discard(frame);
    step.drops.count(match reason {
        Reason::Overflow | Reason::Evicted => Drop::QueueLimit,
        _ => Drop::QueueAqm,
    });
}

/// A frame as queues see it.
fn packet(frame: &Frame<'_>, overhead: u32) -> Packet<()> {
    let mut packet = Packet::new(frame.bytes().len() as u32 + overhead, flow_hash(frame), ());
    (packet.source, packet.destination) = match frame.kind() {
        Kind::V4 => {
            let (src, dst) = frame.addresses4();
            (mix4(src), mix4(dst))
        }
        _ => {
            let (src, dst) = frame.addresses6();
            (mix6(src), mix6(dst))
        }
    };
    packet.ecn = Ecn::from_bits(frame.ecn());
    packet
}

/// Some tickets, a bit for each.
#[derive(Default)]
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

    #[test]
    fn a_queue_is_read_or_its_mistakes_are_told() {
        let read = |args: &str| {
            let text = format!("lan > queue({args}) > wan");
            config::Config::read("n", &text).map(|_| ()).map_err(|wrong| wrong.to_string())
        };
        for args in [
            "outward 20Mbit",
            "inward 2.5Gbit, aqm cake, limit 50ms, overhead 24",
            "outward 1Mbit, inward 10Mbit, aqm pie, limit 500kB",
        ] {
            assert_eq!(read(args), Ok(()), "{args}");
        }
        for (args, wrong) in [
            (
                "aqm pie",
                "n:1: a queue needs the rate of its link: write `outward 20Mbit`, `inward 100Mbit` or both",
            ),
            ("outward 20", "n:1: `20` is no rate of a link from 1kbit to 1000Gbit: write 20Mbit or 2.5Gbit"),
            ("outward 1M, aqm fq_codel", "n:1: `fq_codel` is no AQM: did you mean `fq-codel`?"),
            ("outward 1M, limit 10", "n:1: a limit of 10 is none from 2kB to 4GB: write 500kB or 50ms"),
            ("outward 1M, limt 10ms", "n:1: `limt` is no argument of a queue: did you mean `limit`?"),
            ("outward 1M, overhead x", "n:1: overhead takes a number of bytes from 0 to 256"),
            ("outward 1M, outward 2M", "n:1: `outward` is said already: leave one of them out"),
            ("outward", "n:1: `outward` takes one value, as in `outward 20Mbit`"),
        ] {
            assert_eq!(read(args), Err(wrong.to_string()), "{args}");
        }
    }

    /// However late and however often somebody looks, as many frames have left as the rate allows, to the frame.
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

    /// Its time would end after 213 days.
    #[test]
    fn a_queue_goes_on_after_a_year() {
        let day_ms = 86_400_000;
        let text = "lan > queue(outward 800kbit, aqm fifo) > wan";
        let mut plane = Plane::new(&config::Config::read("n", text).expect("a node"), &[[2; 6], [4; 6]]);
        let line = "udp 198.18.0.1:5000 > 198.19.0.9:53 len 958";
        let packet = crate::scenario::packet(line).expect("a packet");
        let mut kept = Shelf::default();
        for at_ms in [1, 101, 202, 203, 365, 366].map(|days| days * day_ms) {
            let mut out = 0;
            for after_ms in [0, 0, 9, 10] {
                let now = Time::from_ms(at_ms + after_ms);
                let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &packet].concat();
                if after_ms == 0 {
                    let (end, mut batch) = (buf.len(), Batch::default());
                    batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
                    plane.run(now, &mut batch);
                    for (frame, verdict) in batch.outcome() {
                        let Verdict::Kept(ticket) = verdict else { panic!("{verdict:?}") };
                        kept.copy(ticket, frame);
                    }
                }
                plane.tick(now);
                out += kept.resume(&mut plane, now).len();
                assert_eq!(out, if after_ms < 10 { 1 } else { 2 }, "{at_ms} ms and {after_ms}");
            }
        }
    }

    #[test]
    fn all_queues_that_can_be_named_can_be_built() {
        let config = |aqm| Config {
            outward: Some(1_000_000),
            inward: None,
            aqm,
            limit: Limit::Time(LIMIT),
            overhead: 0,
        };
        let mut named = 0;
        for (name, _) in weir_queue::Config::catalogue() {
            if let Ok(aqm) = aqm(name) {
                Queue::new(&config(aqm), 7);
                named += 1;
            }
        }
        assert!(named > 10, "{named}");
    }
}
