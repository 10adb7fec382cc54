//! All devices: their starts, their deadlines, and the phases of a run.
//!
//! ```text
//!  SettingUp: starts evenly paced > Holding: renewals, ARP, traffic > Draining: what is under way > Releasing > Done
//!                                                         Settling in between, after a monkey
//!
//!  frame of the access side > dhcp.rs | pppoe.rs | forwarding.rs > device > frames
//!  frame of the far side    > forwarding.rs
//! ```

mod dhcp;
mod forwarding;
mod pppoe;
mod unrest;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

use weir_bng::{Mac, Random, Tags};
use weir_rng::Rng;

use crate::device::{Device, NEVER, State};
use crate::far::Far;
use crate::flood::Flooding;
use crate::monkey::Monkey;
use crate::options::{Options, Tapped};
use crate::session::Session;
use crate::summary::{ChurnSummary, Failed, Messages, Retransmissions, Step, Summary, Times};
use crate::traffic::{Direction, Traffic};
use crate::wire::{in_session, tagged};

/// Most devices that start, and most deadlines that pass, in one call; the others are due at once.
const MOST_AT_ONCE: usize = 64;
/// Failed devices that are named.
const NAMED: usize = 10;
/// How long frames under way are waited for after the last one was sent.
const DRAIN_NS: u64 = 1_000_000_000;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Devices start, or their set-up is not done.
    SettingUp,
    /// Sessions stay up; numbered traffic is sent.
    Holding,
    /// Nothing is disturbed any more; devices come up again.
    Settling,
    /// The last frames are under way.
    Draining,
    /// Devices release their addresses.
    Releasing,
    /// Nothing is left to be done.
    Done,
}

/// A frame to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// On the access side, with its tags.
    Access(Vec<u8>),
    /// On the far side.
    Far(Vec<u8>),
    /// To the interface of device 0, without tags.
    Tap(Vec<u8>),
}

/// A side of the BNG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Devices are there.
    Access,
    /// The far end is there.
    Far,
}

/// What the interface of device 0 needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TapLease {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix_len: u8,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// Longest packet of a session of PPPoE, bytes; `None`: that of Ethernet.
    pub(crate) mtu: Option<u16>,
}

/// The devices and the far end.
#[derive(Debug)]
pub struct Emulator {
    options: Options,
    devices: Vec<Device>,
    /// Of PPPoE; none without it.
    sessions: Vec<Session>,
    deadlines: BinaryHeap<Reverse<(u64, u32)>>,
    /// Devices that have addresses.
    by_address: HashMap<Ipv4Addr, u32>,
    /// Devices that have started, and that are not up yet.
    started: u32,
    open: u32,
    first_start_ns: u64,
    last_start_ns: u64,
    /// ACKs of set-ups: how many, and the last.
    bound: (u64, u64),
    up: u64,
    released: u32,
    far: Option<Far>,
    traffic: Option<Traffic>,
    flooding: Option<Flooding>,
    /// When the last device came up for the first time.
    last_up_ns: u64,
    phase: Phase,
    /// When the phase began.
    since_ns: u64,
    failures: Vec<(Step, u64)>,
    first_failed: Vec<Failed>,
    retransmissions: Retransmissions,
    messages: Messages,
    /// Failures after which devices began again.
    redials: Vec<(Step, u64)>,
    foreign: u64,
    churn: ChurnSummary,
    monkey: Option<Monkey>,
    /// When to look whether all devices are up again.
    look_ns: u64,
    rng: Rng,
    /// For PPP.
    random: Random,
    /// The number of this run in its packets.
    run: u16,
    room: Vec<u8>,
    packet_room: Vec<u8>,
}

impl Emulator {
    /// Devices that have not started. `far_mac` is the MAC address of the own far end, if there is one.
    ///
    /// # Errors
    /// The options contradict themselves: all that is wrong.
    pub fn new(options: Options, far_mac: Mac) -> Result<Emulator, String> {
        let wrong = options.contradictions();
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        let mut rng = Rng::new(options.seed);
        let far = options.far.filter(|_| options.own_far);
        let sessions = options.pppoe.as_ref().map_or(0, |_| options.devices as usize);
        let run = rng.next_u64() as u16;
        let mut key = [0; 32];
        key[..8].copy_from_slice(&options.seed.to_be_bytes());
        Ok(Emulator {
            devices: vec![Device::default(); options.devices as usize],
            sessions: (0..sessions).map(|_| Session::default()).collect(),
            deadlines: BinaryHeap::new(),
            by_address: HashMap::new(),
            started: 0,
            open: 0,
            first_start_ns: 0,
            last_start_ns: 0,
            bound: (0, 0),
            up: 0,
            released: 0,
            far: far.map(|end| Far { end, address6: options.far6, mac: far_mac, peer: None }),
            traffic: None,
            flooding: None,
            last_up_ns: 0,
            phase: Phase::SettingUp,
            since_ns: 0,
            failures: Vec::new(),
            first_failed: Vec::new(),
            retransmissions: Retransmissions::default(),
            messages: Messages::default(),
            redials: Vec::new(),
            foreign: 0,
            churn: ChurnSummary::default(),
            monkey: options.monkey.map(Monkey::new),
            look_ns: 0,
            run,
            rng,
            random: Random::new(key),
            room: Vec::new(),
            packet_room: Vec::new(),
            options,
        })
    }

    /// Where the run is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Devices that are up, or were.
    pub fn up(&self) -> u64 {
        self.up
    }

    /// Devices that have failed.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|(_, count)| count).sum()
    }

    /// The leases of devices that are at an interface from this number on, of which the first ones have none yet.
    pub(crate) fn tap_leases(&self, from: u32) -> impl Iterator<Item = TapLease> {
        let end = match self.options.tap {
            Tapped::None => 0,
            Tapped::First => 1,
            Tapped::All => self.options.devices,
        };
        (from..end).map_while(|number| self.tap_lease(number))
    }

    /// The lease of a device, once it has one. An interface with all devices has each address without a network.
    fn tap_lease(&self, number: u32) -> Option<TapLease> {
        let device = self.devices.get(number as usize).filter(|device| device.is_bound())?;
        let pppoe = self.options.pppoe.as_ref();
        let agreed = self.sessions.get(number as usize).map_or(0, |session| session.agreed.peer_mru);
        let mtu = pppoe.map(|pppoe| if agreed == 0 { pppoe.max_payload } else { agreed });
        let prefix_len = if self.options.tap == Tapped::All { 32 } else { device.prefix_len };
        let (address, gateway) = (device.address, device.next_hop);
        Some(TapLease { address, prefix_len, gateway, mtu })
    }

    /// Does what is due: starts, retransmissions, renewals, the next phase.
    pub fn advance(&mut self, now_ns: u64, out: &mut Vec<Output>) {
        self.start_devices(now_ns, out);
        self.pass_deadlines(now_ns, out);
        self.send_late(now_ns, out);
        if now_ns >= self.power_cut_ns() {
            self.cut_power(now_ns);
        }
        match self.phase {
            Phase::SettingUp if self.is_set_up(now_ns) => self.hold(now_ns),
            Phase::Holding if now_ns >= self.hold_end_ns() => {
                self.end_tries(now_ns, out);
                let next = if self.monkey.is_some() { Phase::Settling } else { Phase::Draining };
                self.enter(next, now_ns);
            }
            Phase::Settling => self.settle(now_ns),
            Phase::Draining if self.has_drained(now_ns) => {
                let next = if self.options.release { Phase::Releasing } else { Phase::Done };
                self.enter(next, now_ns);
            }
            Phase::Releasing => self.release_devices(now_ns, out),
            _ => {}
        }
    }

    /// When [`Emulator::advance`] has something to do, or a frame of the traffic is due; `u64::MAX`: never.
    pub fn due_ns(&self) -> u64 {
        let paced = match self.phase {
            Phase::SettingUp if self.started < self.options.devices => {
                self.paced_ns(self.started, self.first_start_ns)
            }
            Phase::SettingUp => self.set_up_end_ns(),
            Phase::Releasing => self.release_ns(),
            Phase::Holding => {
                let traffic_ns = self.traffic.as_ref().map_or(NEVER, Traffic::next_ns);
                let flood_ns = self.flooding.as_ref().map_or(NEVER, Flooding::due_ns);
                self.hold_end_ns().min(traffic_ns).min(flood_ns)
            }
            Phase::Draining => self.drained_ns(),
            Phase::Settling => self.look_ns,
            _ => NEVER,
        };
        let late = self.monkey.as_ref().map_or(NEVER, Monkey::due_ns).min(self.power_cut_ns());
        paced.min(late).min(self.deadlines.peek().map_or(NEVER, |Reverse((at_ns, _))| *at_ns))
    }

    /// Begins to end: no more starts, no more traffic, then releases if they are wanted.
    pub fn stop(&mut self, now_ns: u64) {
        if matches!(self.phase, Phase::SettingUp | Phase::Holding | Phase::Settling) {
            if let Some(traffic) = &mut self.traffic {
                traffic.end(now_ns);
            }
            self.enter(Phase::Draining, now_ns);
        }
    }

    fn enter(&mut self, phase: Phase, now_ns: u64) {
        let up = self.up_now();
        if let Some(monkey) = self.monkey.as_mut().filter(|_| phase == Phase::Draining) {
            monkey.counts.up_at_end = up;
        }
        (self.phase, self.since_ns) = (phase, now_ns);
    }

    /// When the device of a number starts, evenly paced.
    fn paced_ns(&self, number: u32, begin_ns: u64) -> u64 {
        begin_ns + (f64::from(number) * 1e9 / self.options.rate_per_s) as u64
    }

    /// The same of its release.
    fn release_ns(&self) -> u64 {
        let rate_per_s = self.options.release_per_s.unwrap_or(self.options.rate_per_s);
        self.since_ns + (f64::from(self.released) * 1e9 / rate_per_s) as u64
    }

    fn start_devices(&mut self, now_ns: u64, out: &mut Vec<Output>) {
        if self.started == 0 {
            self.first_start_ns = now_ns;
        }
        for _ in 0..MOST_AT_ONCE {
            let is_due = self.phase == Phase::SettingUp
                && self.started < self.options.devices
                && self.paced_ns(self.started, self.first_start_ns) <= now_ns;
            if !is_due {
                return;
            }
            let number = self.started;
            self.started += 1;
            self.open += 1;
            self.last_start_ns = now_ns;
            self.begin(number, now_ns, out);
        }
    }

    fn pass_deadlines(&mut self, now_ns: u64, out: &mut Vec<Output>) {
        for _ in 0..MOST_AT_ONCE {
            let Some(&Reverse((at_ns, number))) = self.deadlines.peek() else { return };
            if at_ns > now_ns {
                return;
            }
            self.deadlines.pop();
            // It may have another deadline meanwhile.
            if self.devices[number as usize].due_ns == at_ns {
                self.devices[number as usize].due_ns = NEVER;
                self.deadline(number, now_ns, out);
            }
        }
    }

    /// A device did not get what it waited for, or its lease is to be renewed.
    fn deadline(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let device = &self.devices[number as usize];
        if device.is_up() && now_ns >= device.leave_ns {
            return self.leave(number, now_ns, out);
        }
        match device.state {
            State::Selecting | State::Requesting => self.retransmit(number, now_ns, out),
            State::Resolving => self.ask_gateway(number, now_ns, out),
            State::Proving => self.prove(number, now_ns, out),
            State::Soliciting | State::Confirming | State::Negotiating => {
                self.dial_deadline(number, now_ns, out);
            }
            State::Up | State::Renewing | State::Rebinding if self.options.pppoe.is_none() => {
                self.renew(number, now_ns, out);
            }
            State::Up | State::Renewing | State::Rebinding => self.attend_session(number, now_ns, out),
            State::Waiting => self.begin(number, now_ns, out),
            State::Failed(_) | State::Released => {}
        }
    }

    fn set_due(&mut self, number: u32, due_ns: u64) {
        let device = &mut self.devices[number as usize];
        let due_ns = if device.is_up() { due_ns.min(device.leave_ns) } else { due_ns };
        device.due_ns = due_ns;
        if due_ns != NEVER {
            self.deadlines.push(Reverse((due_ns, number)));
        }
    }

    /// All devices are up or have failed.
    fn hold(&mut self, now_ns: u64) {
        self.enter(Phase::Holding, now_ns);
        let (end_ns, seed) = (self.hold_end_ns(), self.options.seed);
        let lines = self.options.lines;
        self.flooding = self.options.flood.map(|flood| Flooding::new(flood, lines, now_ns, end_ns, seed));
        let Some(load) = self.options.load else { return };
        let up = (0..self.options.devices).filter(|number| self.devices[*number as usize].is_up());
        let up: Vec<u32> = up.collect();
        if !up.is_empty() {
            self.traffic = Some(Traffic::new(load, self.options.devices, up, now_ns, self.hold_end_ns()));
        }
    }

    /// Whether the set-up has ended: each device is up or has failed, or those that are not have had the time for it.
    fn is_set_up(&self, now_ns: u64) -> bool {
        self.started == self.options.devices && (self.open == 0 || now_ns >= self.set_up_end_ns())
    }

    fn set_up_end_ns(&self) -> u64 {
        let redial = self.options.redial;
        redial.map_or(NEVER, |redial| self.first_start_ns.saturating_add(redial.as_nanos() as u64))
    }

    fn hold_end_ns(&self) -> u64 {
        self.options.hold.map_or(NEVER, |hold| self.since_ns.saturating_add(hold.as_nanos() as u64))
    }

    fn has_drained(&self, now_ns: u64) -> bool {
        let is_all_there = self.traffic.as_ref().is_none_or(Traffic::is_all_there);
        now_ns >= self.drained_ns() || is_all_there && !self.awaits_prefixes()
    }

    /// The answer to a router solicitation, which is sent when IPV6CP is open, may be under way after the first packet of IPv4.
    fn awaits_prefixes(&self) -> bool {
        self.sessions.iter().any(|session| session.ipv6.is_some() && session.prefix.is_none())
    }

    /// When frames under way are not waited for any longer.
    fn drained_ns(&self) -> u64 {
        let awaits = self.traffic.is_some() || self.awaits_prefixes();
        self.since_ns + if awaits { DRAIN_NS } else { 0 }
    }

    /// A device has failed at a step.
    fn fail(&mut self, number: u32, step: Step, now_ns: u64) {
        if self.tries_again(number, step, now_ns) {
            return;
        }
        self.fail_for_good(number, step, now_ns);
    }

    /// A device has failed, and does not begin again.
    fn fail_for_good(&mut self, number: u32, step: Step, now_ns: u64) {
        let device = &mut self.devices[number as usize];
        let was_open = !device.was_up;
        device.enter(State::Failed(step), now_ns);
        self.forget_address(number);
        self.open -= u32::from(was_open);
        count_step(&mut self.failures, step);
        if self.first_failed.len() < NAMED {
            let (mac, tags) = (self.options.mac(number), self.options.lines.tags(number));
            self.first_failed.push(Failed { mac, tags, step });
        }
    }

    /// The set-up of a device is done.
    fn is_up(&mut self, number: u32, now_ns: u64) {
        let session = self.sessions.get_mut(number as usize);
        // PPP may negotiate again within a session: none began.
        let is_same = session.is_some_and(|session| std::mem::replace(&mut session.was_up, true));
        let device = &mut self.devices[number as usize];
        device.enter(State::Up, now_ns);
        device.failures = 0;
        if device.was_up {
            self.churn.up_again += u64::from(!is_same);
        } else {
            device.was_up = true;
            self.open -= 1;
            self.up += 1;
            self.last_up_ns = now_ns;
        }
        let leave_ns = self.leave_ns(now_ns);
        self.devices[number as usize].leave_ns = leave_ns;
        let due_ns = self.up_due_ns(number, now_ns);
        self.set_due(number, due_ns);
    }

    /// When a device that is up has something to do: a renewal, a router solicitation, or an echo.
    fn up_due_ns(&self, number: u32, now_ns: u64) -> u64 {
        let solicitation_ns = self.sessions.get(number as usize).map_or(NEVER, Session::solicitation_ns);
        self.devices[number as usize].renew_ns.min(solicitation_ns).min(self.echo_due_ns(now_ns))
    }

    /// A device has no address any more.
    fn forget_address(&mut self, number: u32) {
        let address = self.devices[number as usize].address;
        if self.by_address.get(&address) == Some(&number) {
            self.by_address.remove(&address);
        }
    }

    /// A device has an address, for the first time or after an earlier session.
    fn count_bound(&mut self, number: u32, now_ns: u64) {
        let device = &mut self.devices[number as usize];
        if !device.was_up {
            device.setup_ns = now_ns - device.first_ns;
            self.bound = (self.bound.0 + 1, now_ns);
        }
    }

    /// Sends a message of a device; `None`: it could not be written.
    fn send_control(&mut self, number: u32, frame: Option<Vec<u8>>, now_ns: u64, out: &mut Vec<Output>) {
        let Some(frame) = frame else { return };
        let is_disturbed = self.is_disturbed();
        let frames = match self.monkey.as_mut().filter(|_| is_disturbed) {
            Some(monkey) => monkey.disturb(number, frame, now_ns),
            None => vec![frame],
        };
        out.extend(frames.into_iter().map(|frame| Output::Access(tagged(self.tags(number), frame))));
    }

    /// Whether a message of the BNG is lost by the monkey.
    fn loses_answer(&mut self) -> bool {
        self.is_disturbed() && self.monkey.as_mut().is_some_and(Monkey::loses_answer)
    }

    /// An Ethernet frame of a device on its line: with its tags, in its session.
    fn on_line(&self, number: u32, frame: Vec<u8>) -> Option<Output> {
        let frame = match self.session_id(number) {
            Some(id) => in_session(&frame, id)?,
            None => frame,
        };
        Some(Output::Access(tagged(self.tags(number), frame)))
    }

    /// The session of a device; `None`: it has DHCP.
    fn session_id(&self, number: u32) -> Option<u16> {
        self.sessions.get(number as usize).map(|session| session.id)
    }

    fn tags(&self, number: u32) -> Tags {
        self.options.lines.tags(number)
    }

    /// The figures so far.
    pub fn summary(&self) -> Summary {
        let per_s = |count: u64, first_ns: u64, last_ns: u64| {
            (last_ns > first_ns).then(|| (count - 1) as f64 * 1e9 / (last_ns - first_ns) as f64)
        };
        let times = |of: fn(&Device) -> u64| {
            Times::of(self.devices.iter().map(of).filter(|time_ns| *time_ns != NEVER).collect())
        };
        let sorted = |steps: &[(Step, u64)]| {
            let mut steps = steps.to_vec();
            steps.sort_unstable();
            steps
        };
        let (bound, last_ns) = self.bound;
        // Not from the first ACK on: a BNG that answers all at once, but late, has not kept up.
        let shortest_ns = self.devices.iter().map(|device| device.setup_ns).min().unwrap_or(NEVER);
        let first_ns = self.first_start_ns.saturating_add(shortest_ns);
        let traffic = |direction| self.traffic.as_ref().and_then(|traffic| traffic.summary(direction));
        Summary {
            devices: self.options.devices.into(),
            started: self.started.into(),
            up: self.up,
            failures: sorted(&self.failures),
            redials: sorted(&self.redials),
            first_failed: self.first_failed.clone(),
            starts_per_s: per_s(self.started.into(), self.first_start_ns, self.last_start_ns),
            setups_per_s: per_s(bound, first_ns, last_ns),
            setup: times(|device| device.setup_ns),
            first_packet: times(|device| device.first_packet_ns),
            all_up: (self.up == u64::from(self.options.devices))
                .then(|| Duration::from_nanos(self.last_up_ns - self.first_start_ns)),
            flood: self.flooding.as_ref().map_or(0, |flooding| flooding.sent),
            prefixes: self.devices.iter().filter(|device| device.had_prefix).count() as u64,
            retransmissions: self.retransmissions,
            messages: self.messages,
            released: self.released_devices(),
            foreign: self.foreign,
            churn: Some(self.churn).filter(|churn| *churn != ChurnSummary::default()),
            monkey: self.monkey.as_ref().map(|monkey| monkey.counts),
            from_subscriber: traffic(Direction::FromSubscriber),
            to_subscriber: traffic(Direction::ToSubscriber),
            own_losses: Vec::new(),
        }
    }

    fn released_devices(&self) -> u64 {
        self.devices.iter().filter(|device| device.state == State::Released).count() as u64
    }

    /// A time-out that doubles with each message, and varies by a quarter of the first one.
    fn retransmission_ns(&mut self, sends: u32) -> u64 {
        const MOST: Duration = Duration::from_secs(64);
        let first = self.options.timeout;
        let doubled = first.saturating_mul(1 << sends.saturating_sub(1).min(16));
        let varied = first.mul_f64(self.rng.unit() / 2.0);
        (doubled.min(MOST.max(first)) + varied).saturating_sub(first / 4).as_nanos() as u64
    }
}

/// One more failure at a step.
fn count_step(steps: &mut Vec<(Step, u64)>, step: Step) {
    match steps.iter_mut().find(|(known, _)| *known == step) {
        Some((_, count)) => *count += 1,
        None => steps.push((step, 1)),
    }
}
