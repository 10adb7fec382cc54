//! Trials of a tester that is here, or of one on each of two hosts.

use std::sync::Arc;
use std::time::Duration;

use weir_load::counts::{Counts, Load, Sent, Traffic};
use weir_load::{Control, Tester, soon_ns};
use weir_port::bpf::now_ns;
use weir_testbed::error::Result;

use super::end::PATIENCE;
use super::{Fired, Remote, Request};
use crate::error::RunError;

/// How often the remote clock is asked: the quickest answer counts.
const CLOCK_READINGS: usize = 8;
/// Time for the word to start to reach the remote side, beyond that of a few such answers.
const START: Duration = Duration::from_millis(2);

/// The tester of a setup: both its ports are here, or one is on another host.
pub(crate) enum Hosts {
    One(Tester),
    Two(Pair),
}

impl Hosts {
    /// Sends `load`, waits until all has arrived, returns what was counted, and what is known of another host.
    pub(crate) fn trial(
        &mut self,
        load: &Load,
        control: &Control,
    ) -> std::result::Result<(Counts, Elsewhere), RunError> {
        match self {
            Hosts::One(tester) => Ok((tester.trial(load, control)?, Elsewhere::default())),
            Hosts::Two(pair) => pair.trial(load, control),
        }
    }

    /// The tester of this host.
    fn near(&self) -> &Tester {
        match self {
            Hosts::One(tester) => tester,
            Hosts::Two(pair) => &pair.near,
        }
    }

    /// See [`Tester::call`].
    pub(crate) fn call(&self) -> Option<Duration> {
        self.near().call()
    }

    /// See [`Tester::drain`]: what arrives at this host.
    pub(crate) fn drain(&self, control: &Control) {
        self.near().drain(control);
    }
}

/// What a trial tells of the tester on another host, beyond its counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Elsewhere {
    /// Both began to send at most this far apart; `None` where only one sends.
    pub(crate) skew_ns: Option<u64>,
    /// How long its thread waited for a CPU, ns.
    pub(crate) wait_ns: u64,
}

/// Two testers, each with one of the ports.
pub(crate) struct Pair {
    near: Tester,
    remote: Arc<Remote>,
    traffic: Traffic,
}

impl Pair {
    pub(crate) fn new(near: Tester, remote: Arc<Remote>, traffic: &Traffic) -> Pair {
        Pair { near, remote, traffic: traffic.clone() }
    }

    /// Connects again if the connection was lost.
    pub(crate) fn repair(&self) -> Result<()> {
        self.remote.reconnect()
    }

    fn trial(
        &mut self,
        load: &Load,
        control: &Control,
    ) -> std::result::Result<(Counts, Elsewhere), RunError> {
        let epoch = self.near.epoch().wrapping_add(1);
        self.near.arm(load, epoch)?;
        self.remote.ask::<()>(&Request::Arm { load: *load, epoch })?;
        let clock = self.traffic.sends(1).then(|| RemoteClock::read(&self.remote)).transpose()?;
        let at_ns = soon_ns() + clock.as_ref().map_or(0, RemoteClock::notice_ns);
        self.remote.send(&Request::Send { at_ns: clock.as_ref().map(|clock| clock.there(at_ns)) })?;
        let here = self.near.send(load, at_ns, control)?;
        let fired: Fired = self.remote.receive(load.duration, || control.stopped())?;
        fired.sent.check(&self.traffic, there(&self.traffic)).map_err(|why| self.remote.lied(&why))?;
        let Fired { sent: there, at_ns: remote_ns, wait_ns } = fired;
        let skew_ns = clock.map(|clock| clock.apart(at_ns, remote_ns));
        check_skew(skew_ns).map_err(|why| self.remote.lied(&why))?;
        // From the first start to the last end.
        let sending = here.sending.max(there.sending) + Duration::from_nanos(skew_ns.unwrap_or(0));
        let streams = [here.streams, there.streams].concat();
        let (to_b, to_a) = streams.into_iter().partition(|s| self.traffic.arrival(s.stream) == 1);
        let near = self.near.settle(load, Sent { streams: to_a, sending }, control)?;
        let settled: Vec<usize> = to_b.iter().map(|s| s.stream).collect();
        self.remote.send(&Request::Settle(Sent { streams: to_b, sending }))?;
        let remote: Counts = self.remote.receive(load.drain.unwrap_or_default(), || control.stopped())?;
        remote.check(&self.traffic, &settled).map_err(|why| self.remote.lied(&why))?;
        Ok((both(near, remote), Elsewhere { skew_ns, wait_ns }))
    }
}

/// The streams that are sent from there.
pub(super) fn there(traffic: &Traffic) -> &'static [usize] {
    if traffic.sends(1) { &[1] } else { &[] }
}

/// Both sides wait for each other no longer than this.
fn check_skew(skew_ns: Option<u64>) -> std::result::Result<(), String> {
    match skew_ns.map(Duration::from_nanos) {
        Some(skew) if skew > PATIENCE => Err(format!("it began to send {} s off", skew.as_secs())),
        _ => Ok(()),
    }
}

/// Counts of port a here, and of port b there.
pub(super) fn both(near: Counts, remote: Counts) -> Counts {
    let mut streams = [near.streams, remote.streams].concat();
    streams.sort_by_key(|stream| stream.stream);
    let ports = [near.ports[0], remote.ports[1]];
    Counts { streams, ports, sending: near.sending, drops: [near.drops, remote.drops].concat() }
}

/// The far CLOCK_MONOTONIC relative to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RemoteClock {
    ahead_ns: i128,
    /// It is at most this far off: half of the time that the answer took.
    within_ns: u64,
}

impl RemoteClock {
    fn read(remote: &Remote) -> Result<RemoteClock> {
        let mut best: Option<RemoteClock> = None;
        for _ in 0..CLOCK_READINGS {
            let asked_ns = now_ns();
            let there_ns = remote.ask(&Request::Clock)?;
            let clock = RemoteClock::between(asked_ns, there_ns, now_ns());
            best = Some(best.filter(|best| best.within_ns <= clock.within_ns).unwrap_or(clock));
        }
        Ok(best.expect("several readings"))
    }

    /// By a reading that was asked for and answered at these times of ours.
    fn between(asked_ns: u64, there_ns: u64, answered_ns: u64) -> RemoteClock {
        let within_ns = (answered_ns - asked_ns).div_ceil(2);
        RemoteClock { ahead_ns: i128::from(there_ns) - i128::from(asked_ns + within_ns), within_ns }
    }

    /// The far time of a time of ours.
    fn there(&self, ns: u64) -> u64 {
        (i128::from(ns) + self.ahead_ns).try_into().unwrap_or(0)
    }

    /// How far apart these times are at most: ours and a remote one.
    fn apart(&self, here_ns: u64, there_ns: u64) -> u64 {
        self.there(here_ns).abs_diff(there_ns) + self.within_ns
    }

    /// How long before it the remote side must hear of a start.
    fn notice_ns(&self) -> u64 {
        4 * self.within_ns + START.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_clock_is_known_to_half_a_round_trip() {
        // The answer may have been read at any time between question and answer.
        for (true_ahead, way_there) in [(0_i128, 50), (1_000_000, 0), (-900, 100)] {
            let there_ns = (i128::from(1000 + way_there) + true_ahead) as u64;
            let clock = RemoteClock::between(1000, there_ns, 1100);
            assert_eq!(clock.within_ns, 50);
            assert!((clock.ahead_ns - true_ahead).abs() <= 50, "{clock:?}, and it is {true_ahead} ahead");
            // Both start at once: the bound holds that.
            let remote_start = (5000 + true_ahead) as u64;
            assert!(clock.apart(5000, remote_start) <= 100, "{clock:?}");
            assert_eq!(clock.apart(5000, clock.there(5000) + 7), 57);
        }
    }
}
