//! Runs a scenario, and returns its outcome.

use weir_queue::Time;

use crate::outcome::{FlowOutcome, GroupOutcome, Outcome, jain};
use crate::scenario::{Scenario, ScenarioError};
use crate::world::{Flow, World};

impl Scenario {
    /// Simulates it. The outcome is a function of the scenario alone.
    ///
    /// # Errors
    /// A scenario that makes no sense.
    pub fn run(&self) -> Result<Outcome, ScenarioError> {
        let mut world = World::new(self)?;
        if self.warm_up > Time::ZERO {
            world.run_until(self.warm_up);
            world.reset_meters();
        }
        world.run_until(self.duration);
        world.charge_capacity();
        Ok(outcome(world))
    }
}

fn outcome(world: World) -> Outcome {
    let scenario = &world.scenario;
    let time_s = (scenario.duration - scenario.warm_up).secs();
    let flows: Vec<FlowOutcome> =
        world.flows.iter().map(|flow| flow_outcome(flow, scenario, time_s)).collect();
    let groups =
        (0..).zip(&scenario.groups).map(|(index, _)| group_outcome(index, &flows, scenario)).collect();
    let converged = world.series.convergence();
    let busy_s = world.link.busy.secs();
    let waiting_s = world.link.idle_with_backlog.secs();
    Outcome {
        utilisation: world.link.bytes as f64 / world.link.capacity_bytes,
        idle_empty: ((time_s - busy_s - waiting_s) / time_s).max(0.0),
        idle_with_backlog: waiting_s / time_s,
        buffer_bytes: scenario.buffer_bytes(),
        jain: jain(flows.iter().map(|flow| flow.throughput_bits_per_s)),
        jain_min_after_convergence: converged.map(|(_, smallest)| smallest),
        convergence_s: converged.map(|(first, _)| first),
        sojourn: world.sojourn.figures(),
        queue: *world.queue.counters(),
        groups,
        flows,
        series: world.series,
    }
}

fn flow_outcome(flow: &Flow, scenario: &Scenario, time_s: f64) -> FlowOutcome {
    let bits = |segments: u64, bytes: u32| segments as f64 * f64::from(bytes) * 8.0 / time_s;
    let (meter, counts) = (flow.meter, flow.sender.counts);
    let gap = meter.longest_gap.max(scenario.duration - meter.last_departure);
    let unlimited = scenario.groups[flow.group as usize].application.is_empty();
    FlowOutcome {
        group: flow.group,
        goodput_bits_per_s: bits(flow.receiver.delivered() - flow.warm_delivered, scenario.payload_bytes),
        throughput_bits_per_s: bits(meter.departed, scenario.segment_bytes),
        offered: meter.offered,
        dropped: meter.dropped,
        marked: meter.marked,
        retransmitted: counts.retransmitted,
        recoveries: counts.recoveries,
        timeouts: counts.timeouts,
        longest_gap_s: gap.secs(),
        stalled: flow.started && unlimited && gap.secs() > 5.0 * (0.2 + flow.sender.srtt_s()).max(0.2),
    }
}

fn group_outcome(index: u32, all: &[FlowOutcome], scenario: &Scenario) -> GroupOutcome {
    let group = &scenario.groups[index as usize];
    let own = || all.iter().filter(|flow| flow.group == index);
    let sum = |figure: fn(&FlowOutcome) -> f64| -> f64 { own().map(figure).sum() };
    let total: f64 = all.iter().map(|flow| flow.throughput_bits_per_s).sum();
    let flows = f64::from(group.flows);
    let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let share = ratio(sum(|flow| flow.throughput_bits_per_s), total);
    let departed = sum(|flow| (flow.offered - flow.dropped) as f64);
    GroupOutcome {
        cc: group.cc.text().into(),
        flows: group.flows,
        rtt_s: group.rtt.secs(),
        share,
        share_of_fair: ratio(share * all.len() as f64, flows),
        jain: jain(own().map(|flow| flow.throughput_bits_per_s)),
        goodput_bits_per_s: ratio(sum(|flow| flow.goodput_bits_per_s), flows),
        loss: ratio(sum(|flow| flow.dropped as f64), sum(|flow| flow.offered as f64)),
        marks: ratio(sum(|flow| flow.marked as f64), departed),
    }
}
