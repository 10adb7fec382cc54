//! Runs a bottleneck until it is stopped: waits, reads the clock, and applies changes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use weir_port::duplex::wait;
use weir_port::thread;
use weir_queue::Time;

use crate::bridge::Bridge;
use crate::clock::Clock;
use crate::result::{Outcome, Snapshot};

/// So much before the next frame is due, waiting ends and looking begins: sleeping CPUs wake up late.
const WATCHFUL: Time = Time::from_us(100);
/// Signals and changes are seen after this time.
const LOOK: Time = Time::from_ms(50);

/// The observer and the controls of a running bottleneck.
pub struct Observe<'a> {
    /// Ends it.
    pub stop: &'a AtomicBool,
    /// Lines `SETTING VALUE`.
    pub changes: Option<&'a Receiver<String>>,
    /// Time between two looks.
    pub interval: Duration,
    /// Ends it, too.
    pub duration: Option<Duration>,
    /// Is shown what there is to be seen.
    pub see: &'a mut dyn FnMut(&Snapshot),
    /// Is shown a change, and what was wrong with it.
    pub changed: &'a mut dyn FnMut(&str, Result<(), String>),
}

/// Runs it until it is ended, on the calling thread.
///
/// # Errors
/// A port is of no more use.
pub fn run(bridge: &mut Bridge, observe: Observe<'_>) -> io::Result<Outcome> {
    // Without it waits are 50 us longer, which the histogram of lateness shows.
    let _ = thread::exact_waits();
    let clock = Clock::start();
    let interval = Time::from_ns(observe.interval.as_nanos() as u64).max(Time::from_ms(1));
    let end = observe.duration.map_or(Time::MAX, |time| Time::from_ns(time.as_nanos() as u64));
    let (mut look, mut see) = (LOOK, interval);
    let mut before: Option<Snapshot> = None;
    loop {
        let more = bridge.turn(&clock)?;
        let now = clock.now();
        if now >= look {
            look = now + LOOK;
            if observe.stop.load(Ordering::Relaxed) {
                break;
            }
            changes(bridge, &observe.changes, now, observe.changed);
        }
        if now >= end {
            break;
        }
        if now >= see {
            see = now + interval;
            let snapshot = bridge.snapshot(now).since(before.as_ref());
            (observe.see)(&snapshot);
            before = Some(snapshot);
        }
        if !more {
            rest(bridge, &clock, look.min(see).min(end))?;
        }
    }
    for port in bridge.ports() {
        port.stop()?;
    }
    // What has arrived is taken in, so that it is accounted for.
    while bridge.turn(&clock)? {}
    bridge.outcome(clock.now())
}

fn changes(
    bridge: &mut Bridge,
    lines: &Option<&Receiver<String>>,
    now: Time,
    changed: &mut dyn FnMut(&str, Result<(), String>),
) {
    for line in lines.iter().flat_map(|lines| lines.try_iter()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        changed(line, bridge.change(name, value, now));
    }
}

/// Waits for a frame, or until shortly before one is due.
fn rest(bridge: &mut Bridge, clock: &Clock, latest: Time) -> io::Result<()> {
    let due = bridge.due().map_or(Time::MAX, |due| due - WATCHFUL);
    let until = due.min(latest);
    let now = clock.now();
    if until <= now {
        return Ok(());
    }
    let descriptors: Vec<_> = bridge.ports().iter().filter_map(|port| port.descriptor()).collect();
    let troubled = wait(&descriptors, Duration::from_nanos((until - now).ns()))?;
    for number in troubled {
        bridge.ports()[number].check()?;
    }
    Ok(())
}
