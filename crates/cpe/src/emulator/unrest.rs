//! Sessions that end and begin again: churn, and what the monkey does.
//!
//! ```text
//!  churn:   up for an exponential time > RELEASE or PADT > a second > from the beginning
//!  redial:  a device that has failed > 1, 2, 4 .. 16 s > from the beginning, until the end of the hold
//!  monkey:  a device that has failed > a second > from the beginning;  power cut: all devices forget everything, nothing is sent
//!           SettingUp, Holding: messages are disturbed > Settling: undisturbed, until all are up > Draining
//! ```

use super::{Emulator, Output, Phase, count_step};
use crate::device::{NEVER, State};
use crate::summary::Step;

/// Between the end of a session and the next try.
const PAUSE_NS: u64 = 1_000_000_000;
/// Tries in a row after which a device has failed for good.
const MOST_TRIES: u32 = 50;
/// Longest pause before a device that has failed begins again.
const MOST_PAUSE_NS: u64 = 16_000_000_000;
/// The monkey cuts the power after half of the hold, at most after this time.
const POWER_NS: u64 = 10_000_000_000;
/// How long devices may need to be up when nothing is disturbed any more.
const SETTLE_NS: u64 = 60_000_000_000;
/// Time between two looks at whether all are up.
const LOOK_NS: u64 = 100_000_000;

impl Emulator {
    /// A device begins, or begins again.
    pub(super) fn begin(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        let device = &mut self.devices[number as usize];
        if device.failures == 0 {
            device.first_ns = now_ns;
        }
        match self.options.pppoe {
            None => self.discover(number, now_ns, out),
            Some(_) => self.solicit(number, now_ns, out),
        }
    }

    /// When a device that is up now ends its session.
    pub(super) fn leave_ns(&mut self, now_ns: u64) -> u64 {
        let Some(mean) = self.options.churn else { return NEVER };
        let time_ns = -(1.0 - self.rng.unit()).ln() * mean.as_nanos() as f64;
        now_ns.saturating_add(time_ns as u64)
    }

    /// A device that is up ends its session, and comes again later.
    pub(super) fn leave(&mut self, number: u32, now_ns: u64, out: &mut Vec<Output>) {
        self.devices[number as usize].leave_ns = NEVER;
        if !matches!(self.phase, Phase::SettingUp | Phase::Holding) {
            let due_ns = self.up_due_ns(number, now_ns);
            return self.set_due(number, due_ns);
        }
        self.churn.ended += 1;
        self.end_session(number, now_ns, out);
        self.come_again(number, now_ns, PAUSE_NS);
    }

    /// A device begins again after a pause.
    fn come_again(&mut self, number: u32, now_ns: u64, pause_ns: u64) {
        self.forget_address(number);
        self.devices[number as usize].enter(State::Waiting, now_ns);
        self.set_due(number, now_ns + pause_ns);
    }

    /// Whether a device that has failed tries again, as devices do; then it does.
    pub(super) fn tries_again(&mut self, number: u32, step: Step, now_ns: u64) -> bool {
        let device = &mut self.devices[number as usize];
        if !matches!(self.phase, Phase::SettingUp | Phase::Holding | Phase::Settling) {
            return false;
        }
        let pause_ns = match (&mut self.monkey, self.options.redial) {
            (Some(_), _) if device.failures >= MOST_TRIES => return false,
            (Some(monkey), _) => {
                monkey.counts.tries_again += 1;
                PAUSE_NS
            }
            // Devices that failed at the same time do not begin again at the same time.
            (None, Some(_)) => {
                let doubled_ns = PAUSE_NS << device.failures.min(4);
                doubled_ns.min(MOST_PAUSE_NS) + (self.rng.unit() * PAUSE_NS as f64) as u64
            }
            (None, None) => return false,
        };
        device.failures += 1;
        count_step(&mut self.redials, step);
        self.come_again(number, now_ns, pause_ns);
        true
    }

    /// The hold has ended: devices that would begin again, and are not up, have failed.
    pub(super) fn end_tries(&mut self, now_ns: u64, out: &mut Vec<Output>) {
        if self.options.redial.is_none() || self.monkey.is_some() {
            return;
        }
        for number in 0..self.started {
            let device = &self.devices[number as usize];
            if device.is_up() || matches!(device.state, State::Failed(_)) {
                continue;
            }
            let step =
                self.sessions.get(number as usize).map_or_else(|| device.step(), |session| session.step);
            self.hang_up(number, now_ns, out);
            self.fail_for_good(number, step, now_ns);
        }
    }

    /// Whether messages are disturbed now.
    pub(super) fn is_disturbed(&self) -> bool {
        self.monkey.is_some() && matches!(self.phase, Phase::SettingUp | Phase::Holding)
    }

    /// When the monkey cuts the power.
    pub(super) fn power_cut_ns(&self) -> u64 {
        let has_power = self.monkey.as_ref().is_none_or(|monkey| monkey.counts.power_cuts > 0);
        if has_power || self.phase != Phase::Holding {
            return NEVER;
        }
        let half_ns = (self.hold_end_ns() - self.since_ns) / 2;
        self.since_ns + half_ns.min(POWER_NS)
    }

    /// All devices lose what they know; they begin again, evenly paced.
    pub(super) fn cut_power(&mut self, now_ns: u64) {
        let Some(monkey) = &mut self.monkey else { return };
        monkey.counts.power_cuts += 1;
        for number in 0..self.options.devices {
            if matches!(self.devices[number as usize].state, State::Failed(_)) {
                continue;
            }
            self.forget_address(number);
            self.devices[number as usize].enter(State::Waiting, now_ns);
            if let Some(session) = self.sessions.get_mut(number as usize) {
                session.end();
            }
            let due_ns = self.paced_ns(number, now_ns + PAUSE_NS);
            self.set_due(number, due_ns);
        }
    }

    /// Sends the messages that come late.
    pub(super) fn send_late(&mut self, now_ns: u64, out: &mut Vec<Output>) {
        while let Some((number, frame)) = self.monkey.as_mut().and_then(|monkey| monkey.next_late(now_ns)) {
            out.push(Output::Access(crate::wire::tagged(self.tags(number), frame)));
        }
    }

    /// Goes on when all devices are up again, or have had the time for it.
    pub(super) fn settle(&mut self, now_ns: u64) {
        if now_ns < self.look_ns {
            return;
        }
        self.look_ns = now_ns + LOOK_NS;
        if now_ns >= self.since_ns + SETTLE_NS || self.up_now() == u64::from(self.options.devices) {
            self.enter(Phase::Draining, now_ns);
        }
    }

    /// Devices that are up now.
    pub(super) fn up_now(&self) -> u64 {
        self.devices.iter().filter(|device| device.is_up()).count() as u64
    }
}
