//! Trials of what happens to sessions: all devices at once, sessions that end and begin again, a flood beside them.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_cpe::run::Event;
use weir_cpe::{Flood, FloodKind, Options, Phase, SHORTEST_FRAME};
use weir_lab::error::RunError;
use weir_record::record::Trial;

use super::churned::{Churned, Ends, Told};
use super::measured::{Cold, ColdDrops, Drops, Stormed};
use super::plan::COLD_HOLD;
use super::trials::{Bench, MOST_BEFORE_FORWARDING};

/// A message without an answer is sent again after this time, as devices do it.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Messages before a device begins again (RFC 1661, section 4.6: Max-Configure is 10).
const TRIES: u32 = 10;
/// How long devices have to come up: they begin again and again, as those of customers do.
const COLD_SET_UP: Duration = Duration::from_secs(180);
/// Interval of the echo requests of an idle device.
const ECHO: Duration = Duration::from_secs(30);
/// After a cold start the program writes for a while, and each session gets two more router advertisements 16 s apart: CPU time counts from
/// then on.
const SETTLED: Duration = Duration::from_secs(40);
/// Sessions that end per second, and how long a device waits before it begins again.
const CHURN_PER_S: f64 = 200.0;
const PAUSE_S: f64 = 1.0;
/// Frames/s in each direction beside churn.
const CHURN_FPS: f64 = 5000.0;
/// Sessions beside a flood, and their frames/s in each direction.
const STORM_SESSIONS: u32 = 1000;
const STORM_FPS: f64 = 5000.0;

impl Bench<'_> {
    /// All devices of the most sessions start within a second, and are idle then.
    pub(super) fn cold(&mut self, stop: &AtomicBool) -> Result<Trial, RunError> {
        let sessions = self.plan.most_sessions();
        let mut options = self.options(sessions, f64::from(sessions));
        options.timeout = TIMEOUT;
        options.tries = TRIES;
        options.redial = Some(COLD_SET_UP);
        options.hold = Some(COLD_HOLD);
        options.release_per_s = Some(MOST_BEFORE_FORWARDING);
        if let Some(pppoe) = &mut options.pppoe {
            pppoe.echo = Some(ECHO);
        }
        let (mut held_since, mut begin, mut end) = (None, None, None);
        let (street, device) = (&self.street, &self.device);
        let before = [device.drops()?, device.control_drops()?];
        let summary = street.emulate(options, stop, &mut |event| {
            let Event::Progress(emulator) = event else { return };
            if emulator.phase() != Phase::Holding {
                return;
            }
            let held: Instant = *held_since.get_or_insert_with(Instant::now);
            let for_long = held.elapsed();
            if begin.is_none() && for_long >= SETTLED {
                begin = device.cpu_time().map(|time| (Instant::now(), time));
            }
            // A look at it costs CPU time of the emulator: one is enough.
            if end.is_none() && for_long + Duration::from_millis(500) >= COLD_HOLD {
                end = device.cpu_time().map(|time| (Instant::now(), time));
            }
        })?;
        let idle_cpu = begin.zip(end).map(|((from, before), (to, after))| {
            after.saturating_sub(before).as_secs_f64() / (to - from).as_secs_f64()
        });
        self.most_sessions = self.most_sessions.max(summary.up);
        let left_behind = self.device.sessions_after_release()?;
        let [node, control] = before;
        let drops = ColdDrops {
            node: since(self.device.drops()?, &node),
            control: since(self.device.control_drops()?, &control),
        };
        Ok(self.trial(&summary).with_detail(&Cold::of(&summary, idle_cpu, left_behind, drops)))
    }

    /// Sessions end and begin again while packets are sent.
    pub(super) fn churn(&mut self, rate_per_s: f64, stop: &AtomicBool) -> Result<Trial, RunError> {
        let sessions = self.plan.most_sessions();
        let rate_per_s = (rate_per_s / 2.0).clamp(1.0, MOST_BEFORE_FORWARDING);
        let mean_s = (f64::from(sessions) / CHURN_PER_S - PAUSE_S).max(0.1);
        let options = Options {
            hold: Some(self.plan.life),
            churn: Some(Duration::from_secs_f64(mean_s)),
            ..self.options(sessions, rate_per_s)
        };
        let options = self.with_traffic(CHURN_FPS, options);
        let frame_bytes = options.load.map_or(SHORTEST_FRAME, |load| load.frame_bytes);
        let line_bytes = [frame_bytes, SHORTEST_FRAME].map(|bytes| options.line_bytes(bytes) as u64);
        let before = (self.device.forwarded()?, self.device.accounted());
        let summary = self.street.emulate(options, stop, &mut |_| ())?;
        let left_behind = self.device.sessions_after_release()?;
        let after = (self.device.forwarded()?, self.device.accounted_after_release());
        let told = before.1.zip(after.1).map(|(before, after)| Told::from(after.since(&before)));
        let ends = Ends { node: before.0.zip(after.0).map(|(before, after)| after.since(before)), told };
        let churned = Churned::of(&summary, self.plan.life, line_bytes, ends, left_behind);
        Ok(self.trial(&summary).with_detail(&churned))
    }

    /// Packets of sessions beside a flood.
    pub(super) fn storm(&mut self, kind: FloodKind, stop: &AtomicBool) -> Result<Trial, RunError> {
        let options = Options {
            flood: Some(Flood { kind, per_s: self.plan.flood_per_s.into() }),
            hold: Some(self.plan.life),
            ..self.options(STORM_SESSIONS, 1000.0)
        };
        let options = self.with_traffic(STORM_FPS, options);
        let before = self.device.drops()?;
        let summary = self.street.emulate(options, stop, &mut |_| ())?;
        let drops = since(self.device.drops()?, &before);
        Ok(self.trial(&summary).with_detail(&Stormed::of(kind, &summary, drops)))
    }
}

/// Drops since an earlier time; reasons without any are left out.
fn since(mut drops: Drops, before: &Drops) -> Drops {
    for (reason, frames) in &mut drops {
        *frames -= before.get(reason).copied().unwrap_or(0);
    }
    drops.retain(|_, frames| *frames > 0);
    drops
}
