//! The shapers of a node: frames from subscribers wait in one, frames to subscribers in the other.
//!
//! ```text
//! accepted from a subscriber > [ from ] > stages > ... > header to a subscriber > [ to ] > port
//! ```
//! A packet of the scheduler is a frame that is kept; its number is that of its ticket.

use super::config::ShapeConfig;
use super::round::NodeCounts;
use super::scheduler::{Backlog, Departed, Limits, Lost, NodeId, Offered, Plan, Shaper};
use crate::frame::{Line, PortId};
use crate::kept::Ticket;
use crate::time::Time;

/// The direction of a shaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    From,
    To,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::From, Side::To];
}

/// Both shapers of a node.
#[derive(Debug)]
pub(crate) struct Shapers {
    config: ShapeConfig,
    seed: u64,
    sides: [Shaper; 2],
    /// Whether a port or group has a rate.
    is_shared: [bool; 2],
    now_ns: u64,
    /// One of them is at work: after a panic, its state is unknown.
    is_at_work: bool,
}

/// A port or group, to be shown.
pub(crate) struct ShownNode<'a> {
    /// The name of a group; `None`: it is the port itself.
    pub(crate) group: Option<&'a str>,
    pub(crate) port: PortId,
    pub(crate) within: Option<&'a str>,
    pub(crate) rates: [u64; 2],
    pub(crate) counts: [NodeCounts; 2],
}

impl Shapers {
    pub(crate) fn new(config: &ShapeConfig, seed: u64) -> Shapers {
        let sides = Side::BOTH.map(|side| shaper(config, side, seed));
        Shapers {
            is_shared: Side::BOTH.map(|side| is_shared(config, side)),
            config: config.clone(),
            seed,
            sides,
            now_ns: 0,
            is_at_work: false,
        }
    }

    /// Whether rates of subscribers are policed.
    #[inline]
    pub(crate) fn is_policed(&self) -> bool {
        self.config.is_policed
    }

    #[inline]
    pub(super) fn side(&self, side: Side) -> &Shaper {
        &self.sides[side as usize]
    }

    /// Whether frames of some subscribers may have to wait.
    #[inline]
    pub(crate) fn is_at(&self, side: Side) -> bool {
        !self.config.is_policed || self.is_shared[side as usize]
    }

    /// Whether frames of a subscriber with this rate may have to wait.
    #[inline]
    pub(crate) fn takes(&self, side: Side, bits_per_s: u64) -> bool {
        !self.config.is_policed && bits_per_s != 0 || self.is_shared[side as usize]
    }

    /// A frame of a subscriber with this line and rate arrives. True: it passes at once. False: it was kept.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        (side, now): (Side, Time),
        packet: &Offered,
        plan: impl FnOnce(&ShapeConfig) -> Plan,
        keep: impl FnOnce() -> Ticket,
    ) -> bool {
        self.is_at_work = true;
        let (config, shaper) = (&self.config, &mut self.sides[side as usize]);
        let passes = shaper.offer(now.ns(), packet, || plan(config), || keep().number() as u32);
        self.is_at_work = false;
        passes
    }

    /// Another rate or line of a subscriber.
    pub(crate) fn set_plan(&mut self, index: u32, line: Line, bits_per_s: [u64; 2]) {
        for side in Side::BOTH {
            let plan = plan(&self.config, line, bits_per_s[side as usize]);
            self.sides[side as usize].set_plan(index, &plan, self.now_ns);
        }
    }

    /// A subscriber has ended.
    pub(crate) fn remove(&mut self, index: u32) {
        self.sides.iter_mut().for_each(|shaper| shaper.remove(index));
    }

    /// Another text: frames that wait are queued again if its levels are others.
    pub(crate) fn take(&mut self, config: &ShapeConfig, of: impl Fn(u32) -> (Line, [u64; 2])) {
        for side in Side::BOTH {
            let shaper = &mut self.sides[side as usize];
            if self.config.has_the_levels_of(config) {
                for (n, rates) in rates(config).enumerate() {
                    shaper.set_node_rate(NodeId(n as u32), rates[side as usize], self.now_ns);
                }
                continue;
            }
            let waiting = shaper.drain();
            *shaper = self::shaper(config, side, self.seed).inherit(shaper);
            for (packet, payload) in waiting {
                let (line, bits_per_s) = of(packet.subscriber);
                let plan = plan(config, line, bits_per_s[side as usize]);
                shaper.put_back(self.now_ns, &packet, &plan, payload);
            }
        }
        self.is_shared = Side::BOTH.map(|side| is_shared(config, side));
        self.config = config.clone();
    }

    /// Whether there is nothing to do.
    #[inline]
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        self.sides.iter().all(|shaper| shaper.is_quiet(now.ns()))
    }

    /// Lets time pass, in front of [`Shapers::next`].
    pub(crate) fn advance(&mut self, side: Side, now: Time) {
        self.now_ns = now.ns();
        self.is_at_work = true;
        self.sides[side as usize].advance(now.ns());
        self.is_at_work = false;
    }

    /// The next frame that goes on now.
    #[inline]
    pub(crate) fn next(&mut self, side: Side, now: Time) -> Option<(Ticket, Departed)> {
        self.is_at_work = true;
        let departed = self.sides[side as usize].take(now.ns());
        self.is_at_work = false;
        departed.map(|departed| (Ticket::of(departed.payload as usize), departed))
    }

    /// Frames that were dropped.
    pub(crate) fn lost(&mut self, side: Side) -> impl Iterator<Item = (Ticket, Lost)> {
        self.sides[side as usize].lost().map(|lost| (Ticket::of(lost.payload as usize), lost))
    }

    /// When something is due.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        self.sides.iter().filter_map(|shaper| shaper.due_ns(now.ns())).min().map(Time::from_ns)
    }

    /// Frames that wait. After a panic within a shaper it begins anew, and none waits.
    pub(crate) fn recover(&mut self) -> Vec<Ticket> {
        if self.is_at_work {
            *self = Shapers::new(&self.config, self.seed);
        }
        self.sides.iter().flat_map(Shaper::payloads).map(|payload| Ticket::of(payload as usize)).collect()
    }

    /// What waits of a subscriber and what became of its frames, from it and to it.
    pub(crate) fn backlogs(&self, index: u32) -> [Backlog; 2] {
        Side::BOTH.map(|side| self.sides[side as usize].totals(index))
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.sides.iter().map(Shaper::bytes).sum()
    }

    /// The ports and groups in the order of the text.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = ShownNode<'_>> {
        let ShapeConfig { ports, groups, .. } = &self.config;
        let ports = ports.iter().map(|&(port, rates)| (None, port, None, rates));
        let groups_shown = groups.iter().map(|group| {
            let within = group.within.and_then(|at| groups.get(at)).map(|outer| &outer.name[..]);
            (Some(&group.name[..]), group.port, within, group.rates)
        });
        ports.chain(groups_shown).enumerate().map(|(n, (group, port, within, rates))| {
            let counts = Side::BOTH.map(|side| self.sides[side as usize].node_counts(NodeId(n as u32)));
            ShownNode { group, port, within, rates, counts }
        })
    }
}

/// The plan of a subscriber with this line and rate.
pub(crate) fn plan(config: &ShapeConfig, line: Line, bits_per_s: u64) -> Plan {
    let port = || config.ports.iter().position(|(port, _)| *port == line.port).unwrap_or_default();
    let parent = config.group_of(line).map_or_else(port, |group| config.ports.len() + group);
    let strict = u128::from(bits_per_s) * u128::from(config.strict_percent) / 100;
    Plan {
        bits_per_s: if config.is_policed { 0 } else { bits_per_s },
        strict_bits_per_s: strict as u64,
        overhead: config.overhead_of(line),
        parent: NodeId(parent as u32),
    }
}

/// Ports, and groups behind them: their numbers are those of nodes.
fn rates(config: &ShapeConfig) -> impl Iterator<Item = [u64; 2]> {
    let ports = config.ports.iter().map(|(_, rates)| *rates);
    ports.chain(config.groups.iter().map(|group| group.rates))
}

fn is_shared(config: &ShapeConfig, side: Side) -> bool {
    rates(config).any(|rates| rates[side as usize] != 0)
}

fn shaper(config: &ShapeConfig, side: Side, seed: u64) -> Shaper {
    let limits = Limits { hosts: config.hosts, ..Limits::default() };
    let mut shaper = Shaper::new(limits, seed ^ side as u64);
    let port_of = |port: PortId| config.ports.iter().position(|(other, _)| *other == port);
    for (_, rates) in &config.ports {
        shaper.add_node(None, rates[side as usize]);
    }
    for group in &config.groups {
        let outer = group.within.map(|at| config.ports.len() + at).or_else(|| port_of(group.port));
        shaper.add_node(outer.map(|at| NodeId(at as u32)), group.rates[side as usize]);
    }
    shaper
}
