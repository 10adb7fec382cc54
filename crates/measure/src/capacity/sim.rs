//! A noisy machine in virtual time: its host stops each of two CPUs now and then, and moves them from a place to another.

use std::time::Duration;

use super::{Mark, Overload, Round, Windows, order, rate, windows};
use crate::placement::{Placement, Probes};
use crate::rng::Rng;
use crate::stops::{Clock, Tick, stops};

const MS: u64 = 1_000_000;
/// Queue of a device, frames.
const QUEUE: f64 = 256.0;
const TICK: Duration = Duration::from_millis(1);

/// What a device forwards, frames/s, with its CPU near and far.
#[derive(Clone, Copy)]
pub(super) struct Device {
    pub(super) near_fps: f64,
    pub(super) far_fps: f64,
}

pub(super) struct Machine {
    rng: Rng,
    now_ns: u64,
    placement: Placement,
    /// When the CPUs are moved next.
    move_ns: u64,
    /// Stops of tester and device to come or under way: begin and end.
    stops: [(u64, u64); 2],
    /// Mean time between two stops of a CPU.
    stop_every_ms: u64,
}

impl Machine {
    pub(super) fn new(seed: u64, stop_every_ms: u64) -> Machine {
        let rng = Rng::new(seed);
        let placement = if seed.is_multiple_of(4) { Placement::FarCores } else { Placement::NearCores };
        let mut machine =
            Machine { rng, now_ns: 0, placement, move_ns: 0, stops: [(0, 0); 2], stop_every_ms };
        machine.move_ns = machine.later(20_000);
        machine.stops = [machine.stop(), machine.stop()];
        machine
    }

    /// After `mean_ms` on the average.
    fn later(&mut self, mean_ms: u64) -> u64 {
        self.now_ns + (-(1.0 - self.rng.unit()).ln() * (mean_ms * MS) as f64) as u64
    }

    /// A stop of 1 to 5 ms.
    fn stop(&mut self) -> (u64, u64) {
        let from_ns = self.later(self.stop_every_ms);
        (from_ns, from_ns + MS + (self.rng.unit() * 4e6) as u64)
    }

    fn core_distance_ns(&mut self) -> f64 {
        let middle = if self.placement == Placement::NearCores { 31.0 } else { 160.0 };
        middle * (0.95 + 0.1 * self.rng.unit())
    }

    /// A trial in steps of 50 us; the marks, and what the clocks of both CPUs say.
    fn trial(&mut self, device: Device, offered_fps: f64, time: Duration) -> (Vec<Mark>, Vec<Vec<Tick>>) {
        const STEP_NS: u64 = 50_000;
        let (begin_ns, mut marks) = (self.now_ns, Vec::new());
        let mut ticks = vec![Vec::new(); 2];
        // Some rounds are slower for all devices.
        let speed = 1.0 + 0.02 * self.rng.normal();
        let (mut queue, mut arrived, mut late) = (0.0f64, 0.0, [false; 2]);
        while self.now_ns < begin_ns + time.as_nanos() as u64 {
            self.now_ns += STEP_NS;
            if self.now_ns >= self.move_ns {
                self.placement = match self.placement {
                    Placement::NearCores => Placement::FarCores,
                    _ => Placement::NearCores,
                };
                self.move_ns = self.later(20_000);
            }
            let mut runs = [true; 2];
            for cpu in 0..2 {
                if self.now_ns >= self.stops[cpu].1 {
                    self.stops[cpu] = self.stop();
                }
                runs[cpu] = self.now_ns < self.stops[cpu].0;
                let due = self.now_ns % (TICK.as_nanos() as u64) < STEP_NS || late[cpu];
                late[cpu] = due && !runs[cpu];
                if due && runs[cpu] {
                    ticks[cpu].push(Tick { at_ns: self.now_ns, thread: 1 });
                }
            }
            let near = self.placement == Placement::NearCores;
            let fps = if near { device.near_fps } else { device.far_fps } * speed;
            let step_s = STEP_NS as f64 / 1e9;
            queue = (queue + if runs[0] { offered_fps * step_s } else { 0.0 }).min(QUEUE);
            if runs[1] {
                let can = fps * step_s * (1.0 + 0.1 * self.rng.normal());
                let forwarded = can.clamp(0.0, queue);
                (queue, arrived) = (queue - forwarded, arrived + forwarded);
                if self.now_ns % MS < STEP_NS {
                    marks.push(Mark { at_ns: self.now_ns, frames: arrived as u64 });
                }
            }
        }
        (marks, ticks)
    }

    /// A turn of a device, and the load of its next one.
    fn turn(&mut self, device: Device, offered_fps: f64) -> (Round, f64) {
        let time = Duration::from_millis(200);
        let (before, from_ns) = (self.core_distance_ns(), self.now_ns);
        let (marks, ticks) = self.trial(device, offered_fps, time);
        let seen = ticks.iter().zip(0..).flat_map(|(ticks, cpu)| {
            stops(Clock { cpu, period: TICK }, ticks, &[], from_ns..self.now_ns, |_| true)
        });
        let stops: Vec<(u64, u64)> = seen.map(|stop| (stop.from_ns, stop.to_ns)).collect();
        let how = Windows {
            settle: Duration::from_millis(20),
            length: Duration::from_millis(16),
            end_ns: self.now_ns,
        };
        let fps = rate(&windows(&marks, how, &stops));
        let core_distance_ns = [Some(before), Some(self.core_distance_ns())];
        let place = Probes { core_distance_ns, ..Probes::default() }.place(1.0);
        // Counters are read, the next device's trial is prepared.
        self.now_ns += 30 * MS;
        let forwarded = fps.unwrap_or(offered_fps / 1.35);
        (Round { fps, place }, OVERLOAD.next_fps(offered_fps, forwarded))
    }

    /// All rounds of all devices.
    pub(super) fn run(&mut self, devices: &[Device], rounds: usize) -> Vec<Vec<Round>> {
        let mut found = vec![Vec::new(); devices.len()];
        let mut loads = vec![OVERLOAD.most_fps; devices.len()];
        for (device, load) in devices.iter().zip(&mut loads) {
            for _ in 0..3 {
                *load = self.turn(*device, *load).1;
            }
        }
        let seed = self.rng.next_u64();
        for round in 0..rounds {
            for i in order(seed, round, devices.len()) {
                let (one, next) = self.turn(devices[i], loads[i]);
                found[i].push(one);
                loads[i] = next;
            }
        }
        found
    }
}

const OVERLOAD: Overload = Overload { times: 1.35, least: 1.2, most: 1.5, most_fps: 4e6 };
