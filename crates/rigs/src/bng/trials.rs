//! The trials at one concentrator.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use weir_cpe::run::Event;
use weir_cpe::{Load, Method, Options, Phase, Pppoe, SHORTEST_FRAME, SHORTEST_FRAME6, Summary, Template};
use weir_lab::error::RunError;
use weir_record::record::{Trial, Verdict};
use weir_testbed::journal::Journal;

use super::aaa::PASSWORD;
use super::device::{Device, Program, RestartTimes};
use super::measured::{Forwarded, Restarted, SetUps};
use super::plan::{Access, Concentrators, Entry};
use super::street::Street;
use super::weir::{FAR6, LOGIN};

/// Port of the far end: echo (RFC 862).
const PORT: u16 = 7;
/// A message is sent again after this time: a set-up that needed it did not keep up.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Set-ups before forwarding come at half of the highest rate, and at most at this one.
pub(super) const MOST_BEFORE_FORWARDING: f64 = 4000.0;
const FCS_BYTES: u32 = 4;
/// Sessions, frames/s in each direction and time of the trial in which the control program restarts.
const RESTART_SESSIONS: u32 = 1000;
const RESTART_FPS: f64 = 5000.0;
const RESTART_TRIAL: Duration = Duration::from_secs(3);

/// How devices dial in; `None`: they have DHCP.
fn pppoe(access: Access) -> Option<Pppoe> {
    let text = |text: &str| Template(text.into());
    let dual_stack = match access {
        Access::Dhcp => return None,
        Access::Pppoe => true,
        Access::PppoeIpv4 => false,
    };
    let (login, password, methods) = (text(LOGIN), text(PASSWORD), vec![Method::ChapMd5]);
    Some(Pppoe { login, password, methods, dual_stack, ..Pppoe::default() })
}

/// A BNG on its wires.
pub(super) struct Bench<'p> {
    pub(super) plan: &'p Concentrators,
    pub(super) entry: Entry,
    pub(super) street: Street,
    pub(super) device: Device,
    pub(super) seed: u64,
    /// Memory of the device before the first session, bytes.
    pub(super) memory: Option<[u64; 2]>,
    /// Most sessions that were up at once: processes keep the memory that they once took.
    pub(super) most_sessions: u64,
}

impl Bench<'_> {
    pub(super) fn options(&self, devices: u32, rate_per_s: f64) -> Options {
        let far_address = match (&self.device, &self.plan.external) {
            (Device::External, Some(external)) => external.far_address,
            _ => Ipv4Addr::new(198, 18, 0, 2),
        };
        Options {
            pppoe: pppoe(self.entry.access),
            lines: self.plan.lines,
            rate_per_s,
            timeout: TIMEOUT,
            far: Some(SocketAddrV4::new(far_address, PORT)),
            own_far: true,
            release: true,
            seed: self.seed,
            ..Options::new(devices)
        }
    }

    /// The address of IPv6 of the far end, where devices and the concentrator have IPv6.
    fn far6(&self) -> Option<Ipv6Addr> {
        let has_ipv6 = self.entry.access == Access::Pppoe && matches!(self.device, Device::Weir(_));
        has_ipv6.then_some(FAR6)
    }

    /// The options with so many of the shortest frames per second in each direction, every second one of IPv6 where sessions have that.
    pub(super) fn with_traffic(&self, fps: f64, options: Options) -> Options {
        let (each, far6) = (fps / f64::from(options.devices), self.far6());
        let frame_bytes = if far6.is_some() { SHORTEST_FRAME6 } else { SHORTEST_FRAME };
        let load = Load { from_subscriber_fps: each, to_subscriber_fps: each, frame_bytes };
        Options { load: Some(load), far6, ..options }
    }

    /// Set-ups at a rate, then releases.
    pub(super) fn set_ups(&mut self, rate_per_s: f64, stop: &AtomicBool) -> Result<Trial, RunError> {
        let devices = self.plan.devices_at(rate_per_s);
        let summary = self.street.emulate(self.options(devices, rate_per_s), stop, &mut |_| ())?;
        self.most_sessions = self.most_sessions.max(summary.up);
        let found = SetUps::of(rate_per_s, &summary);
        let trial = self.trial(&summary);
        let limited = found.is_tester_limited().then_some(Verdict::TesterLimited);
        Ok(Trial { verdict: limited.unwrap_or(trial.verdict), ..trial }.with_detail(&found))
    }

    /// Frames in both directions with so many sessions, and the memory that these take.
    pub(super) fn forward(
        &mut self,
        sessions: u32,
        rate_per_s: f64,
        stop: &AtomicBool,
    ) -> Result<Trial, RunError> {
        let rate_per_s = (rate_per_s / 2.0).clamp(1.0, MOST_BEFORE_FORWARDING);
        let each = self.plan.offered_fps / f64::from(sessions);
        let load = Load {
            from_subscriber_fps: each,
            to_subscriber_fps: each,
            frame_bytes: (self.plan.frame_bytes - FCS_BYTES) as usize,
        };
        let hold = Some(self.plan.trial);
        let options = Options { load: Some(load), hold, ..self.options(sessions, rate_per_s) };
        let mut with_sessions = None;
        let summary = self.street.emulate(options, stop, &mut |event| {
            if let Event::Progress(emulator) = event
                && with_sessions.is_none()
                && emulator.phase() == Phase::Holding
            {
                with_sessions = Some(self.device.memory());
            }
        })?;
        self.most_sessions = self.most_sessions.max(summary.up);
        let per_session = |grown_bytes: u64| grown_bytes as f64 / self.most_sessions.max(1) as f64;
        let memory = self.memory.zip(with_sessions.flatten()).map(|(before, with)| {
            [0, 1].map(|place: usize| per_session(with[place].saturating_sub(before[place])))
        });
        Ok(self.trial(&summary).with_detail(&Forwarded::of(sessions, &summary, memory)))
    }

    /// Traffic while a program is killed and started again.
    pub(super) fn restart(
        &mut self,
        what: Program,
        rate_per_s: f64,
        stop: &AtomicBool,
        journal: &mut Journal,
    ) -> Result<Trial, RunError> {
        let sessions = self.plan.sessions.iter().copied().max().unwrap_or(1).min(RESTART_SESSIONS);
        let rate_per_s = (rate_per_s / 2.0).clamp(1.0, MOST_BEFORE_FORWARDING);
        let options = Options { hold: Some(RESTART_TRIAL), ..self.options(sessions, rate_per_s) };
        let options = self.with_traffic(RESTART_FPS, options);
        let (held, is_held) = mpsc::channel();
        let (street, device) = (&self.street, &mut self.device);
        let (summary, times) = thread::scope(|scope| {
            let restarted = scope.spawn(move || -> Result<RestartTimes, RunError> {
                match is_held.recv() {
                    Ok(()) => device.restart(what, street, journal),
                    // The run ended before.
                    Err(_) => Ok(RestartTimes::default()),
                }
            });
            let mut held = Some(held);
            let summary = street.emulate(options, stop, &mut |event| {
                if let Event::Progress(emulator) = event
                    && emulator.phase() == Phase::Holding
                    && let Some(held) = held.take()
                {
                    held.send(()).unwrap_or_default();
                }
            });
            drop(held);
            let times = restarted.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, RunError>((summary?, times?))
        })?;
        Ok(self.trial(&summary).with_detail(&Restarted::of(what, sessions, &summary, times)))
    }

    pub(super) fn trial(&self, summary: &Summary) -> Trial {
        let lost = summary.own_losses.iter();
        let reasons =
            lost.map(|(place, frames)| format!("The emulator lost {frames} frames ({place}).")).collect();
        Trial { duration_s: self.plan.trial.as_secs_f64(), reasons, ..Trial::default() }
    }
}
