//! The stream of frames becomes events. See the crate's documentation for the picture.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use weir_packet::encapsulation::Unread;
use weir_packet::headers::Headers;

use crate::class::Class;
use crate::config::{Config, Group};
use crate::counts::{Counts, Direction, Limits, Load, Metric, Rates, SLOT_NS, SYN_SHARE_MIN_PPS, WINDOW};
use crate::event::{Event, Kind};
use crate::flows::Flows;
use crate::prefix::{Prefix, address, bits};
use crate::table::{Key, Line, Table, UNWATCHED};
use crate::unjudged::{Gap, NotJudged};
use crate::watch::{Attack, Change, NEAR, Watch, longest_silence};

/// Frames that are looked up together, so that their cache lines arrive together.
const BATCH: usize = 32;
/// Hosts and directions that are watched at a time.
const MAX_WATCHES: usize = 4096;
/// A longer silence counts as one of a day: that numbers of slots last.
const DAY_SLOTS: u64 = 86_400_000_000_000 / SLOT_NS;
/// Steps back of the clock that are kept until they are asked for.
const MOST_STEPS: usize = 16;
/// In the year 2262. Times of files may be anything.
const LATEST_NS: u64 = i64::MAX as u64;
const DIRECTIONS: [Direction; 2] = [Direction::In, Direction::Out];

/// The clock that dates the frames went back: a new period begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// The clock's time after the step, ns since 1970.
    pub time_ns: u64,
    /// By how much less that is than the newest time before.
    pub back_ns: u64,
}

/// Counts frames and detects attacks.
pub struct Engine {
    config: Config,
    /// Prefixes of groups, the longest first, with the number of the group.
    prefixes: Vec<(Prefix, usize)>,
    /// Per group and direction: a host with less in a slot needs no closer look.
    quiet: Vec<[Quiet; 2]>,
    table: Table,
    flows: Option<Flows>,
    watches: Vec<Option<HostWatch>>,
    free: Vec<u16>,
    totals: Vec<Total>,
    /// Per group and direction: which of them counts its hosts.
    total_of: Vec<[Option<usize>; 2]>,
    batch: Vec<(Headers, Load)>,
    /// `slot` 0 before the first frame.
    clock: Clock,
    /// The newest frame since the last [`Engine::advance`].
    newest_ns: u64,
    /// The newest frame of this period: since the clock was last set back.
    latest_ns: u64,
    /// The first of the steps back since [`Engine::take_steps`].
    steps: Vec<ClockStep>,
    /// Frames lost in the last slots, and by how much a count of them may be too high.
    lost: [u64; WINDOW],
    errors: [u32; WINDOW],
    next_attack: u64,
    /// Classes of the attacks that continue.
    classes: BTreeMap<u64, Class>,
    status: Status,
}

/// Counters of the engine, and what limits its answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Status {
    /// Frames with an IP header; one that was joined counts as its segments.
    pub frames: u64,
    /// Captured frames that GRO or LRO had joined from several.
    pub joined: u64,
    /// Frames of protocols that carry no packets of hosts: ARP, LLDP, LCP and others.
    pub control: u64,
    /// Frames that were lost before they could be counted.
    pub lost: u64,
    /// Frames of no watched network.
    pub foreign: u64,
    /// Hosts and directions that were seen, as far as they fit into memory.
    pub hosts: u64,
    /// Busy hosts whose counts were discarded, because the table was full.
    pub hosts_evicted: u64,
    /// Flows that had to be forgotten too early, and may be new again.
    pub flows_forgotten: u64,
    /// Hosts that came near a limit when too many others did.
    pub unwatched: u64,
    /// Attacks that go on.
    pub attacks: u64,
    /// How often the clock went back.
    pub clock_steps: u64,
    /// Frames with an implausible time stamp; each counts at the time of its neighbours.
    pub odd_stamps: u64,
    /// Frames that could not be judged, by the reason.
    pub not_judged: NotJudged,
}

impl Status {
    /// All that was not judged, with its count.
    pub fn gaps(&self) -> Vec<(Gap, u64)> {
        let counts = [
            (Gap::Lost, self.lost),
            (Gap::HostsEvicted, self.hosts_evicted),
            (Gap::FlowsForgotten, self.flows_forgotten),
            (Gap::Unwatched, self.unwatched),
        ];
        counts.into_iter().chain(self.not_judged.iter()).collect()
    }
}

#[derive(Debug, Clone, Copy)]
struct Quiet {
    frames: u32,
    bytes: u32,
}

struct HostWatch {
    key: Key,
    watch: Watch,
    learned: bool,
}

/// All hosts of a group together, in one direction.
struct Total {
    group: usize,
    direction: Direction,
    counts: Counts,
    watch: Watch,
}

/// Which slot it is. Slots begin at multiples of their length.
#[derive(Debug, Clone, Copy)]
struct Clock {
    start_ns: u64,
    slot: u32,
}

impl Engine {
    /// Nothing seen so far. `secret` is random, so that an attacker cannot choose colliding addresses.
    pub fn new(config: Config, secret: [u64; 2]) -> Engine {
        let mut prefixes: Vec<_> = (config.groups.iter().enumerate())
            .flat_map(|(i, group)| group.prefixes.iter().map(move |&prefix| (prefix, i)))
            .collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length()));
        let quiet = |group: &Group| DIRECTIONS.map(|direction| Quiet::of(&config, group.limits(direction)));
        let totals = config.groups.iter().enumerate().flat_map(|(group, config)| {
            let limited = DIRECTIONS.into_iter().filter(|&d| !config.total[d as usize].is_empty());
            limited.map(move |direction| Total {
                group,
                direction,
                counts: Counts::default(),
                watch: Watch::new(Counts::default(), 0, group as u32),
            })
        });
        let totals: Vec<_> = totals.collect();
        let mut total_of = vec![[None; 2]; config.groups.len()];
        for (index, total) in totals.iter().enumerate() {
            total_of[total.group][total.direction as usize] = Some(index);
        }
        Engine {
            prefixes,
            quiet: config.groups.iter().map(quiet).collect(),
            table: Table::new(config.memory.hosts, secret),
            flows: config.counts_flows().then(|| Flows::new(config.memory.flows, secret[0])),
            watches: Vec::new(),
            free: Vec::new(),
            totals,
            total_of,
            batch: Vec::with_capacity(BATCH),
            clock: Clock { start_ns: 0, slot: 0 },
            newest_ns: 0,
            latest_ns: 0,
            steps: Vec::new(),
            lost: [0; WINDOW],
            errors: [0; WINDOW],
            next_attack: 1,
            classes: BTreeMap::new(),
            status: Status::default(),
            config,
        }
    }

    /// A frame with these headers, so many bytes on the wire without FCS, arrived at `at_ns`, ns since 1970. A frame
    /// that is a little older than the one before belongs to the present slot.
    #[inline]
    pub fn frame(&mut self, headers: Headers, wire_bytes: u32, at_ns: u64, events: &mut Vec<Event>) {
        let at_ns = at_ns.min(LATEST_NS);
        self.newest_ns = at_ns.max(self.newest_ns);
        self.latest_ns = at_ns.max(self.latest_ns);
        if at_ns >= self.clock.start_ns + SLOT_NS || self.clock.slot == 0 {
            self.go_to(at_ns, events);
        }
        let load = Load::of(&headers, wire_bytes, self.config.mtu());
        if load.frames > 1 {
            self.status.joined += 1;
        }
        if headers.is_cut {
            self.not_judged(Gap::NoPorts, 1);
        }
        self.batch.push((headers, load));
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    /// Counts a frame without a readable IP packet.
    pub fn unread(&mut self, unread: Unread) {
        match unread {
            Unread::Control(_) => self.status.control += 1,
            Unread::Unknown(ether_type) => self.not_judged(Gap::NotUnderstood(ether_type), 1),
            Unread::Cut(ether_type) => self.not_judged(Gap::Cut(ether_type), 1),
        }
    }

    /// Counts a frame with an implausible time stamp.
    pub fn odd_stamp(&mut self) {
        self.status.odd_stamps += 1;
    }

    /// Counts frames that cannot be judged.
    #[cold]
    pub fn not_judged(&mut self, gap: Gap, frames: u64) {
        self.status.not_judged.add(gap, frames);
    }

    /// Counts frames that were lost before this engine since the last call.
    pub fn lost(&mut self, frames: u64) {
        self.lost[WINDOW - 1] += frames;
        self.status.lost += frames;
    }

    /// Advances the clock to `now_ns`: judges slots that ended, even without a frame. A time that lies far back is used if
    /// no frame since the last call contradicts it: the clock was set.
    pub fn advance(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        let now_ns = now_ns.min(LATEST_NS);
        if now_ns.max(self.newest_ns) + SLOT_NS * (WINDOW as u64) < self.clock.start_ns {
            self.set_back(now_ns, events);
        }
        self.newest_ns = 0;
        self.go_to(now_ns, events);
    }

    /// The clock that dates the frames was set back to `now_ns`: a new period begins. The frames just before are dated just
    /// before the new time, so that rates are those of the traffic, and attacks go on.
    pub fn set_back(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        let now_ns = now_ns.min(LATEST_NS);
        self.flush();
        if self.clock.slot != 0 {
            self.end_slot(events);
        }
        self.status.clock_steps += 1;
        if self.steps.len() < MOST_STEPS {
            self.steps.push(ClockStep { time_ns: now_ns, back_ns: self.latest_ns.saturating_sub(now_ns) });
        }
        self.clock.start_ns = now_ns / SLOT_NS * SLOT_NS;
        (self.newest_ns, self.latest_ns) = (now_ns, now_ns);
    }

    /// The steps back of the clock since the last call: of so many at once, the first few.
    pub fn take_steps(&mut self) -> Vec<ClockStep> {
        std::mem::take(&mut self.steps)
    }

    fn go_to(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        let now = now_ns / SLOT_NS * SLOT_NS;
        if self.clock.slot == 0 {
            self.clock = Clock { start_ns: now, slot: 1 };
        }
        self.flush();
        // After this many slots without a frame no attack continues and no host is watched: the rest changes nothing.
        let mut silent = 0;
        while self.clock.start_ns < now
            && silent < longest_silence(&self.config.hysteresis)
            && self.has_watches()
        {
            self.end_slot(events);
            silent += 1;
        }
        let slots = now.saturating_sub(self.clock.start_ns) / SLOT_NS;
        self.skip(slots.min(DAY_SLOTS) as u32);
        self.clock.start_ns = self.clock.start_ns.max(now);
    }

    fn has_watches(&self) -> bool {
        !self.totals.is_empty() || self.watches.iter().any(Option::is_some)
    }

    fn skip(&mut self, slots: u32) {
        for _ in 0..slots.min(WINDOW as u32) {
            self.errors[WINDOW - 1] = self.errors[WINDOW - 1].max(self.table.take_error_frames());
            self.errors.rotate_left(1);
            self.errors[WINDOW - 1] = 0;
            self.lost.rotate_left(1);
            self.lost[WINDOW - 1] = 0;
        }
        self.clock.start_ns += u64::from(slots) * SLOT_NS;
        self.clock.slot = self.clock.slot.saturating_add(slots);
    }

    /// Counters of the engine so far.
    pub fn status(&self) -> Status {
        let over = self.watches.iter().flatten().filter(|host| host.watch.is_over()).count();
        let totals = self.totals.iter().filter(|total| total.watch.is_over()).count();
        Status {
            hosts: self.table.used() as u64,
            hosts_evicted: self.table.evicted(),
            flows_forgotten: self.flows.as_ref().map_or(0, Flows::forgotten),
            attacks: (over + totals) as u64,
            ..self.status.clone()
        }
    }

    /// Counts the frames of the batch.
    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut found = [(0, None); 2 * BATCH];
        let mut touched = 0;
        // All rows are asked for before the first is needed.
        for ((headers, _), found) in batch.iter().zip(found.chunks_exact_mut(2)) {
            for (direction, found) in DIRECTIONS.into_iter().zip(found) {
                let address = bits(if direction == Direction::In { headers.dst } else { headers.src });
                if self.config.networks.iter().any(|network| network.contains(address)) {
                    let key = Key { address, direction };
                    let row = self.table.row(key);
                    touched ^= self.table.touch(row);
                    *found = (row, Some(key));
                }
            }
        }
        std::hint::black_box(touched);
        for ((headers, load), found) in batch.iter().zip(found.chunks_exact(2)) {
            let is_new = self.flows.as_mut().is_some_and(|flows| flows.is_new(headers, self.clock.slot));
            for (row, key) in found {
                if let Some(key) = key {
                    self.count(*row, *key, (headers, *load, u32::from(is_new)));
                }
            }
            let frames = u64::from(load.frames);
            self.status.frames += frames;
            self.status.foreign += if found.iter().all(|(_, key)| key.is_none()) { frames } else { 0 };
        }
        self.batch = batch;
        self.batch.clear();
    }

    #[inline]
    fn count(&mut self, row: Line, key: Key, (headers, load, new_flow): (&Headers, Load, u32)) {
        let frame_bytes = load.frame_bytes(self.config.mtu());
        let slot = self.clock.slot;
        let prefixes = &self.prefixes;
        let line = self.table.line(row, key, slot, || group_of(prefixes, key.address));
        if self.table.host(line).slot != slot {
            self.roll(line, key);
        }
        let host = self.table.host(line);
        host.counts.add(headers, load, new_flow);
        let (watch, group) = (host.watch, host.group());
        if let Some(Some(host)) = self.watches.get_mut(usize::from(watch)) {
            host.watch.sample.offer(headers, frame_bytes, key.direction);
        }
        if let Some(index) = self.total_of[group][key.direction as usize] {
            let total = &mut self.totals[index];
            total.counts.add(headers, load, new_flow);
            total.watch.sample.offer(headers, frame_bytes, key.direction);
        }
    }

    /// The first frame of a host in a slot: the one before is complete.
    fn roll(&mut self, line: Line, key: Key) {
        let slot = self.clock.slot;
        let host = self.table.host(line);
        let (finished, gap) = (host.counts, slot - host.slot);
        (host.counts, host.slot) = (Counts::default(), slot);
        let (watch, group) = (host.watch, host.group());
        let attacked = watch != UNWATCHED
            && self.watches[usize::from(watch)].as_ref().is_some_and(|host| host.watch.is_over());
        if let Some(learned) = self.config.baseline.filter(|_| !attacked) {
            let alpha = (SLOT_NS as f64 / 1e9 / learned.learn_s).min(1.0);
            let faded = (1.0 - alpha).powi(gap.min(i32::MAX as u32) as i32);
            let rates = Rates::of(&[finished]);
            let host = self.table.host(line);
            for (mean, rate) in host.baseline.iter_mut().zip([rates.pps, rates.bits_per_s]) {
                *mean = (f64::from(*mean) * faded + alpha * rate) as f32;
            }
        }
        let quiet = self.quiet[group][key.direction as usize];
        let silent = gap as usize - 1;
        // Counts that are a second old are ignored.
        if watch == UNWATCHED
            && silent < WINDOW - 1
            && (finished.frames >= quiet.frames || finished.bytes >= quiet.bytes)
        {
            self.look_closer(line, key, (finished, silent));
        }
    }

    /// Begins to watch a host if it was near a limit in its last slot, which so many without a frame have followed.
    fn look_closer(&mut self, line: Line, key: Key, (finished, silent): (Counts, usize)) {
        let (limits, _) = self.limits(line, key.direction);
        if limits.exceeded(&Rates::of(&[finished]), NEAR).is_none() {
            return;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.watches.len() < MAX_WATCHES => {
                self.watches.push(None);
                (self.watches.len() - 1) as u16
            }
            None => {
                self.status.unwatched += 1;
                return;
            }
        };
        let watch = Watch::new(finished, silent, self.clock.slot);
        self.watches[usize::from(index)] = Some(HostWatch { key, watch, learned: false });
        self.table.host(line).watch = index;
    }

    /// The limits of a host, and which of them are learned.
    fn limits(&mut self, line: Line, direction: Direction) -> (Limits, Option<Limits>) {
        let host = self.table.host(line);
        let (group, baseline) = (host.group(), host.baseline);
        let own = *self.config.groups[group].limits(direction);
        let Some(learned) = self.config.baseline else { return (own, None) };
        let slots = learned.learn_s * 1e9 / SLOT_NS as f64;
        if f64::from(self.clock.slot) < slots {
            return (own, None);
        }
        // The mean began at zero: corrected for the weight of what it has not seen.
        let seen = 1.0 - (1.0 - 1.0 / slots.max(1.0)).powf(f64::from(self.clock.slot));
        let mean = |kind: usize, floor: f64| (f64::from(baseline[kind]) / seen).max(floor) * learned.factor;
        let (pps, bits_per_s) = (mean(0, learned.floor_pps), mean(1, learned.floor_bits_per_s));
        let all = own.at_most(Metric::Pps, pps).at_most(Metric::BitsPerS, bits_per_s);
        (all, Some(own))
    }

    /// The current slot has ended: judges all watched hosts.
    fn end_slot(&mut self, events: &mut Vec<Event>) {
        let time_ns = self.clock.start_ns + SLOT_NS;
        self.errors[WINDOW - 1] = self.table.take_error_frames();
        for index in 0..self.watches.len() {
            events.extend(self.judge_host(index, time_ns));
        }
        let mut totals = std::mem::take(&mut self.totals);
        events.extend(totals.iter_mut().filter_map(|total| self.judge_total(total, time_ns)));
        self.totals = totals;
        self.skip(1);
    }

    fn judge_host(&mut self, index: usize, time_ns: u64) -> Option<Event> {
        let mut host = self.watches[index].take()?;
        let line = self.table.find(host.key);
        let slot = self.clock.slot;
        let counts = line.map(|line| self.table.host(line)).filter(|host| host.slot == slot);
        let counts = counts.map_or(Counts::default(), |host| host.counts);
        let (limits, own) = match line {
            Some(line) => self.limits(line, host.key.direction),
            None => (Limits::default(), None),
        };
        let change = host.watch.end_slot(counts, &limits, &self.config.hysteresis, &mut self.next_attack);
        if let Change::Start(attack) = change {
            host.learned = own.is_some_and(|own| own.get(attack.metric) != Some(attack.limit));
        }
        if let Change::Forget = change {
            if let Some(line) = line {
                self.table.host(line).watch = UNWATCHED;
            }
            self.free.push(index as u16);
            return None;
        }
        let group = line.map(|line| self.table.host(line).group()).unwrap_or(0);
        let subject = Subject {
            host: Some(address(host.key.address)),
            group,
            direction: host.key.direction,
            learned: host.learned,
        };
        let event = self.event(change, &subject, &mut host.watch, time_ns);
        self.watches[index] = Some(host);
        event
    }

    fn judge_total(&mut self, total: &mut Total, time_ns: u64) -> Option<Event> {
        let counts = std::mem::take(&mut total.counts);
        let limits = self.config.groups[total.group].total[total.direction as usize];
        let hysteresis = &self.config.hysteresis;
        let change = total.watch.end_slot(counts, &limits, hysteresis, &mut self.next_attack);
        let (group, direction) = (total.group, total.direction);
        let subject = Subject { host: None, group, direction, learned: false };
        self.event(change, &subject, &mut total.watch, time_ns)
    }

    /// The event for a change; takes the evidence out of the watch.
    fn event(&mut self, change: Change, subject: &Subject, watch: &mut Watch, time_ns: u64) -> Option<Event> {
        let (event, attack): (Kind, Attack) = match change {
            Change::Start(attack) => (Kind::Start, attack),
            Change::Update(attack) => (Kind::Update, attack),
            Change::End(attack) => (Kind::End, attack),
            Change::Nothing | Change::Forget => return None,
        };
        let measured_s = attack.measured as f64 * SLOT_NS as f64 / 1e9;
        let errors = &self.errors[WINDOW - attack.measured..];
        let rates = watch.rates(attack.measured);
        let evidence = watch.take_sample().evidence(self.config.top as usize);
        // At the end hardly anything comes any more: it is named after what was seen while it lasted.
        let class = match event {
            Kind::End => self.classes.remove(&attack.id).unwrap_or(Class::Mixed),
            Kind::Start | Kind::Update => Class::of(&rates, &evidence, subject.direction),
        };
        if event != Kind::End {
            self.classes.insert(attack.id, class);
        }
        Some(Event {
            class,
            event,
            attack: attack.id,
            time_ns,
            // A clock that was set back may say less than the attack has lasted.
            crossed_ns: time_ns.saturating_sub(u64::from(attack.since_crossed) * SLOT_NS),
            host: subject.host,
            group: self.config.groups[subject.group].name.clone(),
            direction: subject.direction,
            metric: attack.metric,
            limit: attack.limit,
            limit_learned: subject.learned,
            rates,
            measured_s,
            lost_pps: self.lost.iter().sum::<u64>() as f64,
            error_pps: errors.iter().map(|&frames| f64::from(frames)).sum::<f64>() / measured_s,
            peak_pps: attack.peak_pps,
            peak_bits_per_s: attack.peak_bits_per_s,
            frames: attack.frames,
            bytes: attack.bytes,
            evidence,
        })
    }
}

/// The host or group of an event.
struct Subject {
    host: Option<IpAddr>,
    group: usize,
    direction: Direction,
    learned: bool,
}

impl Quiet {
    /// A host with less than this in a slot is not near a limit.
    fn of(config: &Config, limits: &Limits) -> Quiet {
        let frames = Metric::ALL.iter().filter_map(|&(metric, _)| match metric {
            Metric::BitsPerS => None,
            Metric::SynShare => limits.get(metric).map(|_| SYN_SHARE_MIN_PPS),
            _ => limits.get(metric),
        });
        let learned = config.baseline.map(|learned| learned.floor_pps * learned.factor);
        let bits = limits.get(Metric::BitsPerS).into_iter();
        let learned_bits = config.baseline.map(|learned| learned.floor_bits_per_s * learned.factor);
        let least = |rates: &mut dyn Iterator<Item = f64>| {
            let rate = rates.fold(f64::INFINITY, f64::min);
            // A float becomes the nearest number there is.
            (rate * NEAR * SLOT_NS as f64 / 1e9) as u32
        };
        Quiet {
            frames: least(&mut frames.chain(learned)),
            bytes: least(&mut bits.chain(learned_bits).map(|bits| bits / 8.0)),
        }
    }
}

/// The group of an address: that of the longest prefix, or the default group.
fn group_of(prefixes: &[(Prefix, usize)], address: u128) -> usize {
    prefixes.iter().find(|(prefix, _)| prefix.contains(address)).map_or(0, |(_, group)| *group)
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
