//! The simulation itself: processes the next event.

use weir_queue::ppv::marker::Marker;
use weir_queue::{Bottleneck, Ecn, Pace, Packet, Queue, Time};
use weir_rng::Rng;

use crate::event::{Event, Timers};
use crate::meter::{FlowMeter, Histogram, LinkMeter};
use crate::outcome::{FlowSeries, Series};
use crate::path::{Path, Sent};
use crate::receiver::Receiver;
use crate::scenario::{Rate, Scenario, ScenarioError};
use crate::segment::{AckMessage, Arrival, Data};
use crate::sender::{Idle, Sender};
use crate::supply::Supply;

/// A flow: both ends, and when their timers are set.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) group: u32,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) meter: FlowMeter,
    /// Segments in order at the end of the warm-up.
    pub(crate) warm_delivered: u64,
    pub(crate) started: bool,
    marker: Option<Marker>,
    departed_in_interval: u64,
    send_at: Time,
    sender_at: Time,
    receiver_at: Time,
}

/// Which of the sources of events is next.
#[derive(Debug, Clone, Copy)]
enum Source {
    Link,
    Segment(usize),
    Ack(usize),
    Timer,
}

/// All state of a simulation.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) queue: Box<dyn Queue<Data> + Send>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) link: LinkMeter,
    pub(crate) sojourn: Histogram,
    pub(crate) series: Series,
    pub(crate) now: Time,
    pub(crate) paths: Vec<Path>,
    timers: Timers,
    late: Vec<Arrival>,
    pace: Pace,
    rate_since: Time,
    link_free: Time,
    /// When the link takes the next packet.
    link_at: Time,
    backlog_since: Time,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Result<World, ScenarioError> {
        scenario.check()?;
        let mut rng = Rng::new(scenario.seed);
        let at = Bottleneck {
            limit_bytes: scenario.buffer_bytes(),
            bits_per_s: scenario.rate.first(),
            seed: rng.next_u64(),
        };
        let mut world = World {
            queue: scenario.queue.build(&at)?,
            flows: Vec::new(),
            link: LinkMeter::default(),
            sojourn: Histogram::default(),
            series: Series { interval_s: scenario.interval.secs(), ..Series::default() },
            now: Time::ZERO,
            paths: scenario.groups.iter().map(|group| Path::new(group, rng.next_u64())).collect(),
            timers: Timers::default(),
            late: Vec::new(),
            pace: Pace::new(scenario.rate.first()),
            rate_since: Time::ZERO,
            link_free: Time::ZERO,
            link_at: Time::MAX,
            backlog_since: Time::ZERO,
            scenario: scenario.clone(),
        };
        world.add_flows(&mut rng);
        world.series.flows = vec![FlowSeries::default(); world.flows.len()];
        world.timers.set(scenario.interval, Event::Sample);
        if let Rate::Trace(steps) = &scenario.rate {
            steps.iter().skip(1).for_each(|step| world.timers.set(step.0, Event::Rate));
        }
        Ok(world)
    }

    fn add_flows(&mut self, rng: &mut Rng) {
        let scenario = self.scenario.clone();
        let segment_bits = f64::from(scenario.segment_bytes) * 8.0;
        for (index, group) in (0..).zip(&scenario.groups) {
            let ecn = if group.ecn { Ecn::Ect0 } else { Ecn::NotEct };
            let supply: Vec<_> =
                group.application.iter().map(|&(at, rate)| (at, rate / segment_bits)).collect();
            for _ in 0..group.flows {
                let number = self.flows.len() as u32;
                let marker = scenario.queue.needs_values().then(|| group.marker.build(rng.next_u64()));
                self.flows.push(Flow {
                    group: index,
                    sender: Sender::new(
                        group.cc.build(ecn, rng.next_u64(), group.min_rtt),
                        Supply::new(supply.clone()),
                    ),
                    receiver: Receiver::new(number, group.delayed_ack),
                    meter: FlowMeter::default(),
                    warm_delivered: 0,
                    started: false,
                    marker,
                    departed_in_interval: 0,
                    send_at: Time::MAX,
                    sender_at: Time::MAX,
                    receiver_at: Time::MAX,
                });
                let start = group.start + Time::from_ps((rng.unit() * group.spread.ps() as f64) as u64);
                self.timers.set(start, Event::Start(number));
            }
        }
    }

    /// What is next, and when. Of equal times the link is first, then the paths, then timers in the order of their setting.
    fn next(&self) -> (Time, Source) {
        let mut next = (self.link_at, Source::Link);
        for (index, path) in self.paths.iter().enumerate() {
            if let Some(head) = path.segments.front()
                && head.at < next.0
            {
                next = (head.at, Source::Segment(index));
            }
            if let Some(head) = path.acks.front()
                && head.at < next.0
            {
                next = (head.at, Source::Ack(index));
            }
        }
        if self.timers.next() < next.0 { (self.timers.next(), Source::Timer) } else { next }
    }

    /// Simulates up to and with `until`.
    pub(crate) fn run_until(&mut self, until: Time) {
        loop {
            let (at, source) = self.next();
            if at > until {
                self.now = until;
                return;
            }
            self.now = at;
            match source {
                Source::Link => self.depart(),
                Source::Segment(path) => {
                    if let Some(due) = self.paths[path].segments.pop_front() {
                        self.arrive(due.what);
                    }
                }
                Source::Ack(path) => {
                    if let Some(due) = self.paths[path].acks.pop_front() {
                        self.acknowledge(&due.what);
                    }
                }
                Source::Timer => self.timer(),
            }
        }
    }

    /// The warm-up ends: figures begin anew.
    pub(crate) fn reset_meters(&mut self) {
        self.charge_capacity();
        self.link = LinkMeter::default();
        self.sojourn = Histogram::default();
        for flow in &mut self.flows {
            flow.meter = FlowMeter { last_departure: self.now, ..FlowMeter::default() };
            flow.warm_delivered = flow.receiver.delivered();
            flow.sender.counts = Default::default();
        }
    }

    /// Adds what the link could have sent since the last call.
    pub(crate) fn charge_capacity(&mut self) {
        self.link.capacity_bytes += (self.now - self.rate_since).secs() * self.pace.bits_per_s() as f64 / 8.0;
        self.rate_since = self.now;
    }

    fn timer(&mut self) {
        match self.timers.pop() {
            Some(Event::Start(flow)) => {
                let flow_state = &mut self.flows[flow as usize];
                flow_state.started = true;
                flow_state.meter.last_departure = self.now;
                self.pump(flow);
            }
            // a timer that was set anew for an earlier time is still in the heap: it is not the flow's any more
            Some(Event::Send(flow)) if self.flows[flow as usize].send_at == self.now => {
                self.flows[flow as usize].send_at = Time::MAX;
                self.pump(flow);
            }
            Some(Event::Sender(flow)) if self.flows[flow as usize].sender_at == self.now => {
                self.sender_timer(flow)
            }
            Some(Event::Receiver(flow)) if self.flows[flow as usize].receiver_at == self.now => {
                self.receiver_timer(flow);
            }
            Some(Event::Send(_) | Event::Sender(_) | Event::Receiver(_)) | None => {}
            Some(Event::Late(index)) => self.arrive(self.late[index as usize]),
            Some(Event::Rate) => self.change_rate(),
            Some(Event::Sample) => self.sample(),
        }
    }

    fn change_rate(&mut self) {
        if let Rate::Trace(steps) = &self.scenario.rate
            && let Some(step) = steps.iter().rev().find(|step| step.0 <= self.now)
        {
            self.set_rate(step.1);
        }
    }

    /// The link has another rate from now on.
    pub(crate) fn set_rate(&mut self, bits_per_s: u64) {
        self.charge_capacity();
        self.pace = Pace::new(bits_per_s);
    }

    /// Lets a flow send what it may, and sets its timers.
    fn pump(&mut self, number: u32) {
        let wait = loop {
            match self.flows[number as usize].sender.send(self.now) {
                Ok(seq) => self.offer(number, seq),
                Err(Idle::Until(at)) => break at,
                Err(Idle::Application(at)) => break at.unwrap_or(Time::MAX),
                Err(Idle::Window) => break Time::MAX,
            }
        };
        let flow = &mut self.flows[number as usize];
        if wait < flow.send_at {
            flow.send_at = wait;
            self.timers.set(wait, Event::Send(number));
        }
        let deadline = flow.sender.deadline();
        if deadline < flow.sender_at {
            flow.sender_at = deadline;
            self.timers.set(deadline, Event::Sender(number));
        }
    }

    /// A segment reaches the bottleneck.
    fn offer(&mut self, number: u32, seq: u64) {
        let flow = &mut self.flows[number as usize];
        let bytes = self.scenario.segment_bytes;
        let mut packet = Packet::new(bytes, number + 1, Data { flow: number, seq });
        packet.ecn = flow.sender.ecn();
        if let Some(marker) = &mut flow.marker {
            packet.value = marker.mark(bytes, self.now);
        }
        flow.meter.offered += 1;
        let empty = self.queue.backlog().packets == 0;
        self.queue.offer(packet, self.now);
        if empty {
            self.backlog_since = self.now;
        }
        self.after_queue();
    }

    /// Counts drops, and sets when the link takes the next packet.
    fn after_queue(&mut self) {
        for drop in self.queue.dropped().drain(..) {
            self.flows[drop.packet.payload.flow as usize].meter.dropped += 1;
        }
        self.link_at = self.queue.due(self.now).map_or(Time::MAX, |due| due.max(self.link_free));
    }

    /// The link takes a packet.
    fn depart(&mut self) {
        let Some(packet) = self.queue.take(self.now) else {
            return self.after_queue();
        };
        self.link.idle_with_backlog += self.now - self.link_free.max(self.backlog_since);
        let slot = self.pace.slot(u64::from(packet.bytes));
        self.link_free = self.now + slot;
        self.link.busy += slot;
        self.link.bytes += u64::from(packet.bytes);
        self.sojourn.add(self.now - packet.arrival);
        let flow = &mut self.flows[packet.payload.flow as usize];
        flow.meter.departed += 1;
        flow.meter.marked += u64::from(packet.ecn == Ecn::Ce);
        flow.meter.longest_gap = flow.meter.longest_gap.max(self.now - flow.meter.last_departure);
        flow.meter.last_departure = self.now;
        flow.departed_in_interval += 1;
        let arrival = Arrival { data: packet.payload, ecn: packet.ecn };
        let sent = self.paths[flow.group as usize].send(arrival, packet.bytes, self.link_free);
        if let Sent::Late(at) = sent {
            self.late.push(arrival);
            self.timers.set(at, Event::Late(self.late.len() as u32 - 1));
        }
        self.after_queue();
    }

    /// A segment reaches its receiver.
    fn arrive(&mut self, arrival: Arrival) {
        let number = arrival.data.flow;
        let flow = &mut self.flows[number as usize];
        match flow.receiver.arrived(arrival.data.seq, arrival.ecn, self.now) {
            Some(ack) => self.paths[flow.group as usize].acknowledge(ack, self.now),
            None => self.set_receiver_timer(number),
        }
    }

    fn set_receiver_timer(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        if flow.receiver.deadline < flow.receiver_at {
            flow.receiver_at = flow.receiver.deadline;
            self.timers.set(flow.receiver_at, Event::Receiver(number));
        }
    }

    fn receiver_timer(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.receiver_at = Time::MAX;
        match flow.receiver.timer(self.now) {
            Some(ack) => self.paths[flow.group as usize].acknowledge(ack, self.now),
            None => self.set_receiver_timer(number),
        }
    }

    fn acknowledge(&mut self, ack: &AckMessage) {
        self.flows[ack.flow as usize].sender.acked(ack, self.now);
        self.pump(ack.flow);
    }

    fn sender_timer(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.sender_at = Time::MAX;
        if flow.sender.deadline() <= self.now
            && let Some(seq) = flow.sender.timer(self.now)
        {
            self.offer(number, seq);
        }
        self.pump(number);
    }

    fn sample(&mut self) {
        let interval_s = self.series.interval_s;
        let bits = f64::from(self.scenario.segment_bytes) * 8.0;
        for (flow, series) in self.flows.iter_mut().zip(&mut self.series.flows) {
            series.bits_per_s.push(std::mem::take(&mut flow.departed_in_interval) as f64 * bits / interval_s);
            series.cwnd.push(if flow.started { flow.sender.window() } else { 0.0 });
            series.srtt_s.push(flow.sender.srtt_s());
        }
        self.series.queue_bytes.push(self.queue.backlog().bytes);
        self.timers.set(self.now + self.scenario.interval, Event::Sample);
    }
}
