//! The verdict of a trial. Pure: the frame accounting of a trial and the limits of the plan in, a verdict out.

use std::time::Duration;

use weir_load::counts::{Load, StreamCounts};
use weir_port::bpf::SLOW_CALL;

use super::counted::load_parameters;
use weir_measure::search::Measured;
use weir_record::record::{Broadcasts, DropCounter, FrameCounts, Noise, Owner, Trial, Verdict};

/// When a trial is not to be believed. Shares are 0..1.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Lost frames that no counter explains, as a share of the frames sent.
    pub unexplained: f64,
    /// Difference between offered and sent rate, as a share of the offered rate.
    pub rate_error: f64,
    /// CPU time taken by the hypervisor.
    pub steal: f64,
    /// How often a noisy trial is repeated.
    pub retries: u32,
    /// Shall clocks of the CPUs tell when one of them stood still?
    pub witness: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { unexplained: 0.001, rate_error: 0.001, steal: 0.01, retries: 3, witness: true }
    }
}

/// What a trial says to a search that asked for this load for so long. `rate_error`: the limit of the plan; too slow by more
/// than that again and again, but never by much, is no noise.
pub fn measured(trial: &Trial, loss_ratio: f64, effective: Duration, rate_error: f64) -> Measured {
    let kept = 1.0 - trial.dropped_by(Owner::Tester) as f64 / trial.counts().sent.max(1) as f64;
    // The rate at which the tester both sent and received.
    let limited = Measured::TesterLimited { achieved_fps: trial.sent_fps() * kept.max(0.0) };
    match trial.verdict {
        Verdict::Valid => Measured::Loss { loss_ratio, effective },
        Verdict::TesterLimited => limited,
        Verdict::Noisy if trial.noise.rate_error < -rate_error => limited,
        Verdict::Noisy | Verdict::Invalid => Measured::Unusable,
    }
}

/// The accounting of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Accounting {
    /// Frames that were to be sent.
    pub offered: u64,
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames that came back, each counted once.
    pub received: u64,
    /// Where frames were lost.
    pub drop_counters: Vec<DropCounter>,
    /// Broadcasts that went along. They are no test frames, but the drop counters have those that were lost.
    pub broadcasts: Broadcasts,
    /// Frames of another trial or another stream.
    pub strays: u64,
    /// How far the machine's clocks moved apart: the time of day was set, or the machine slept.
    pub clock_jump: Duration,
}

/// Short of what was offered by more than this, the tester is too slow; by less, it was disturbed.
const TOO_SLOW: f64 = 0.05;
/// The DUT's threads may wait this share of a trial for foreign tasks.
const DUT_WAIT: f64 = 0.02;
/// Two hosts may begin to send this share of a trial apart: meanwhile half of the load is missing.
const START_SKEW: f64 = 0.01;
/// Clocks that move apart by more than this in a trial have jumped; less is the error of reading them.
const CLOCK_JUMP: Duration = Duration::from_millis(1);
/// One frame in a thousand may leave this late, ns.
const LATE_P999_NS: u64 = 5_000_000;

impl Accounting {
    /// The trial of these accounting at a load, judged; `sent_fps` is its rate where the load is full speed. Number, point,
    /// purpose and start are those that it gets in its series.
    pub fn trial(self, load: &Load, sent_fps: f64, noise: Noise, limits: &Limits) -> Trial {
        let (verdict, reasons) = judge(&self, &noise, limits);
        Trial {
            duration_s: load.duration.as_secs_f64(),
            frames: Some(FrameCounts {
                offered_fps: load.fps.unwrap_or(sent_fps),
                offered: self.offered,
                sent: self.sent,
                received: self.received,
                lost: self.lost(),
                unexplained: self.unexplained(),
            }),
            load: load_parameters(load),
            broadcasts: load.broadcast_every.map(|_| self.broadcasts),
            drop_counters: self.drop_counters,
            verdict,
            reasons,
            noise,
            ..Trial::default()
        }
    }

    /// Frames that did not come back.
    pub(crate) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    pub(crate) fn dropped_by(&self, owner: Owner) -> u64 {
        self.drop_counters.iter().filter(|line| line.owner == owner).map(|line| line.frames).sum()
    }

    /// Lost frames that no counter explains, broadcasts among them; negative when counters explain more than was lost.
    pub(crate) fn unexplained(&self) -> i64 {
        let Broadcasts { sent, received, discarded } = self.broadcasts;
        let entered = self.sent + sent;
        let left = self.received + received + discarded;
        let lost = self.dropped_by(Owner::Tester) + self.dropped_by(Owner::Dut);
        entered as i64 - left as i64 - lost as i64
    }

    /// Accounting the frames that no counter explains on the device, where one knows what became of them.
    pub(crate) fn explain_rest(&mut self, name: &str, source: &str) {
        let frames = u64::try_from(self.unexplained()).unwrap_or(0);
        let line = DropCounter { name: name.into(), owner: Owner::Dut, frames, source: source.into() };
        self.drop_counters.extend((frames > 0).then_some(line));
    }
}

/// The verdict on a trial and its reasons. A tester that does not send comes first, since the rest follows from it; then the
/// gravest.
pub(crate) fn judge(accounting: &Accounting, noise: &Noise, limits: &Limits) -> (Verdict, Vec<String>) {
    let mut others = invalid(accounting, limits);
    others.extend(lost_itself(accounting, noise, limits));
    others.extend(noisy(noise, limits));
    others.sort_by_key(|(verdict, _)| gravity(*verdict));
    let mut found = does_not_send(accounting, noise);
    found.append(&mut others);
    let verdicts = found.iter().map(|(verdict, _)| *verdict);
    let verdict = verdicts.min_by_key(|verdict| gravity(*verdict)).unwrap_or(Verdict::Valid);
    (verdict, found.into_iter().map(|(_, reason)| reason).collect())
}

/// Is what the device did to be believed of the load that was really sent? It is if nothing is wrong with a trial but that
/// the tester sent less than it was to, or later.
pub fn tells_of_what_was_sent(trial: &Trial, limits: &Limits) -> bool {
    let undisturbed = trial.noise.steal <= limits.steal && trial.noise.dut_wait <= DUT_WAIT;
    let slow = trial.noise.rate_error < -limits.rate_error;
    match trial.verdict {
        Verdict::Valid => true,
        Verdict::TesterLimited | Verdict::Noisy => {
            slow && undisturbed && trial.dropped_by(Owner::Tester) == 0
        }
        Verdict::Invalid => false,
    }
}

/// Relative difference between the rate that was sent and the one asked for: frames that were not sent, and the time
/// that the last ones took beyond theirs.
pub fn rate_error(stream: &StreamCounts, load: &Load) -> f64 {
    if load.fps.is_none() || stream.offered == 0 {
        return 0.0;
    }
    let time_s = load.duration.as_secs_f64();
    let stretched = time_s / (time_s + stream.late_end_ns as f64 / 1e9);
    stream.sent as f64 / stream.offered as f64 * stretched - 1.0
}

fn gravity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Invalid => 0,
        Verdict::TesterLimited => 1,
        Verdict::Noisy => 2,
        Verdict::Valid => 3,
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

fn invalid(accounting: &Accounting, limits: &Limits) -> Vec<(Verdict, String)> {
    let mut found = Vec::new();
    let unexplained = accounting.unexplained();
    if share(unexplained.unsigned_abs(), accounting.sent) > limits.unexplained {
        found.push(format!(
            "the frame accounting does not balance: {unexplained} of {} frames sent are unexplained (limit {})",
            accounting.sent,
            percent(limits.unexplained)
        ));
    }
    if accounting.received > accounting.sent {
        found.push(format!("{} frames received, but only {} sent", accounting.received, accounting.sent));
    }
    if share(accounting.strays, accounting.sent) > limits.unexplained {
        found.push(format!("{} frames of another trial or stream arrived", accounting.strays));
    }
    if accounting.clock_jump > CLOCK_JUMP {
        let jump_s = accounting.clock_jump.as_secs_f64();
        found.push(format!("the clock jumped by {jump_s:.3} s: it was set, or the machine was suspended"));
    }
    found.into_iter().map(|reason| (Verdict::Invalid, reason)).collect()
}

/// A tester that sent nothing, or much less than it was to.
fn does_not_send(accounting: &Accounting, noise: &Noise) -> Vec<(Verdict, String)> {
    let mut found = Vec::new();
    if accounting.sent == 0 && accounting.offered > 0 {
        found.push((Verdict::Invalid, "no frame left the tester".to_string()));
    }
    if noise.rate_error < -TOO_SLOW {
        let sent = percent(1.0 + noise.rate_error);
        let call = noise.call_ns.map_or_else(String::new, slow_call);
        found
            .push((Verdict::TesterLimited, format!("the tester sent only {sent} of the offered rate{call}")));
    }
    found
}

/// How long a call of the generator takes, and why that is so long.
fn slow_call(ns: u64) -> String {
    let call = format!("; a call of its generator takes {:.3} ms", ns as f64 / 1e6);
    let is_slow = Duration::from_nanos(ns) > SLOW_CALL;
    let why = if is_slow { NO_SLOT } else { "" };
    format!("{call}{why}")
}

/// What a call of 25 ms means.
const NO_SLOT: &str = ", because the kernel's XDP dispatcher has 48 slots for all programs of the machine, and none was free: measure \
    fewer devices at once";

fn lost_itself(accounting: &Accounting, noise: &Noise, limits: &Limits) -> Option<(Verdict, String)> {
    let own = accounting.dropped_by(Owner::Tester);
    let lost = noise.rate_error >= -TOO_SLOW && share(own, accounting.sent) > limits.rate_error;
    let reason = || format!("the tester itself lost {own} of {} frames", accounting.sent);
    lost.then(|| (Verdict::TesterLimited, reason()))
}

fn noisy(noise: &Noise, limits: &Limits) -> Vec<(Verdict, String)> {
    let mut found = Vec::new();
    if noise.rate_error.abs() > limits.rate_error && noise.rate_error >= -TOO_SLOW {
        found.push(format!(
            "the sent rate is {} off the offered one (limit {})",
            percent(noise.rate_error),
            percent(limits.rate_error)
        ));
    }
    if noise.steal > limits.steal {
        found.push(format!(
            "the hypervisor took {} of the CPUs (limit {})",
            percent(noise.steal),
            percent(limits.steal)
        ));
    }
    if noise.dut_wait > DUT_WAIT {
        found.push(format!(
            "the DUT waited {} of the time for a CPU that something else used (limit {})",
            percent(noise.dut_wait),
            percent(DUT_WAIT)
        ));
    }
    if let Some(skew) = noise.start_skew.filter(|&skew| skew > START_SKEW) {
        found.push(format!(
            "the two hosts began to send up to {} of the trial apart (limit {})",
            percent(skew),
            percent(START_SKEW)
        ));
    }
    if noise.late_p999_ns > LATE_P999_NS {
        found.push(format!(
            "one frame in a thousand left more than {:.1} ms late (limit {:.1} ms)",
            noise.late_p999_ns as f64 / 1e6,
            LATE_P999_NS as f64 / 1e6
        ));
    }
    found.into_iter().map(|reason| (Verdict::Noisy, reason)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounting(offered: u64, sent: u64, received: u64, drops: &[(Owner, u64)]) -> Accounting {
        let line = |(owner, frames): &(Owner, u64)| DropCounter {
            name: "ring".into(),
            owner: *owner,
            frames: *frames,
            source: "test".into(),
        };
        Accounting {
            offered,
            sent,
            received,
            drop_counters: drops.iter().map(line).collect(),
            ..Accounting::default()
        }
    }

    fn check(accounting: Accounting, mut noise: Noise, expected: Verdict, reason: &str) {
        noise.rate_error = accounting.sent as f64 / accounting.offered as f64 - 1.0;
        let (verdict, reasons) = judge(&accounting, &noise, &Limits::default());
        assert_eq!(verdict, expected, "{reasons:?}");
        assert_eq!(reasons.join("; "), reason);
    }

    fn unbalanced(share: &str) -> String {
        format!("the frame accounting does not balance: {share} frames sent are unexplained (limit 0.100 %)")
    }

    #[test]
    fn each_trouble_gets_its_verdict() {
        use Owner::{Dut, Tester};
        use Verdict::*;
        let half = "the tester sent only 50.000 % of the offered rate";
        // Offered, sent, received.
        for (frames, drops, verdict, reason) in [
            ([1000, 1000, 1000], &[][..], Valid, ""),
            ([1000, 1000, 600], &[(Dut, 400)], Valid, ""),
            ([10_000, 10_000, 9_990], &[], Valid, ""),
            ([10_000, 10_000, 9_980], &[], Invalid, &unbalanced("20 of 10000")),
            ([10_000, 10_000, 10_000], &[(Dut, 20)], Invalid, &unbalanced("-20 of 10000")),
            ([10_000, 5_000, 5_000], &[], TesterLimited, half),
            (
                [10_000, 9_900, 9_900],
                &[],
                Noisy,
                "the sent rate is -1.000 % off the offered one (limit 0.100 %)",
            ),
            (
                [10_000, 10_000, 9_000],
                &[(Tester, 1_000)],
                TesterLimited,
                "the tester itself lost 1000 of 10000 frames",
            ),
            (
                [10, 0, 0],
                &[],
                Invalid,
                "no frame left the tester; the tester sent only 0.000 % of the offered rate",
            ),
            (
                [10, 10, 11],
                &[],
                Invalid,
                &(unbalanced("-1 of 10") + "; 11 frames received, but only 10 sent"),
            ),
        ] {
            let [offered, sent, received] = frames;
            check(accounting(offered, sent, received, drops), Noise::default(), verdict, reason);
        }
        assert_eq!(accounting(1000, 1000, 900, &[(Tester, 60), (Dut, 40)]).lost(), 100);
        let noise =
            |steal, dut_wait, late_p999_ns| Noise { steal, dut_wait, late_p999_ns, ..Noise::default() };
        let skew = |share| Noise { start_skew: Some(share), ..Noise::default() };
        for (noise, verdict, reason) in [
            (noise(0.02, 0.0, 0), Noisy, "the hypervisor took 2.000 % of the CPUs (limit 1.000 %)"),
            (
                noise(0.0, 0.1, 0),
                Noisy,
                "the DUT waited 10.000 % of the time for a CPU that something else used (limit 2.000 %)",
            ),
            (
                noise(0.0, 0.0, 6_000_000),
                Noisy,
                "one frame in a thousand left more than 6.0 ms late (limit 5.0 ms)",
            ),
            (skew(0.009), Valid, ""),
            (
                skew(0.02),
                Noisy,
                "the two hosts began to send up to 2.000 % of the trial apart (limit 1.000 %)",
            ),
        ] {
            check(accounting(9, 9, 9, &[]), noise, verdict, reason);
        }
        // A tester that does not send comes first: frames of the trial before that are still in the device unbalance this one.
        let calls = |ms: u64| Noise { call_ns: Some(ms * 1_000_000), ..Noise::default() };
        for (ms, why) in [(25, NO_SLOT), (1, "")] {
            let reason = format!(
                "the tester sent only 3.500 % of the offered rate; a call of its generator takes {ms}.000 ms{why}; {}; 450 \
                 frames received, but only 350 sent",
                unbalanced("-100 of 350")
            );
            check(accounting(10_000, 350, 450, &[]), calls(ms), Invalid, &reason);
        }
        check(accounting(10_000, 10_000, 10_000, &[]), calls(25), Valid, "");
        let both = format!("{half}; the hypervisor took 50.000 % of the CPUs (limit 1.000 %)");
        check(accounting(10_000, 5_000, 5_000, &[]), noise(0.5, 0.0, 0), TesterLimited, &both);
    }

    /// Of 100 broadcasts each ends somewhere, and none of them hides a test frame.
    #[test]
    fn broadcasts_hide_no_test_frame() {
        for (received, discarded, drops, unexplained) in [
            (0, 100, 20, None),
            (60, 0, 60, None),
            (0, 70, 50, None),
            (0, 70, 30, Some("20 of 10000")),
            (100, 0, 40, Some("-20 of 10000")),
        ] {
            let broadcasts = Broadcasts { sent: 100, received, discarded };
            let drops = [(Owner::Dut, drops)];
            let accounting = Accounting { broadcasts, ..accounting(10_000, 10_000, 9_980, &drops) };
            let reason = unexplained.map(unbalanced);
            let verdict = if reason.is_some() { Verdict::Invalid } else { Verdict::Valid };
            check(accounting, Noise::default(), verdict, &reason.unwrap_or_default());
        }
    }

    #[test]
    fn a_clock_that_jumps_makes_a_trial_invalid() {
        for (ms, verdict, reason) in [
            (1, Verdict::Valid, ""),
            (1500, Verdict::Invalid, "the clock jumped by 1.500 s: it was set, or the machine was suspended"),
        ] {
            let clock_jump = Duration::from_millis(ms);
            let accounting = Accounting { clock_jump, ..accounting(9, 9, 9, &[]) };
            check(accounting, Noise::default(), verdict, reason);
        }
    }

    #[test]
    fn a_tester_that_was_only_slow_does_not_spoil_what_the_device_did() {
        let trial = weir_record::fixture::clean_trial();
        let slow = |verdict, rate_error, steal| Trial {
            verdict,
            noise: Noise { rate_error, steal, ..Noise::default() },
            ..trial.clone()
        };
        let own = DropCounter { name: "ring".into(), owner: Owner::Tester, frames: 1, source: String::new() };
        for (trial, expected) in [
            (trial.clone(), true),
            (slow(Verdict::TesterLimited, -0.3, 0.0), true),
            (slow(Verdict::Noisy, -0.02, 0.0), true),
            (slow(Verdict::Noisy, 0.0, 0.0), false),
            (slow(Verdict::Noisy, -0.02, 0.05), false),
            (slow(Verdict::Invalid, -0.3, 0.0), false),
            (Trial { drop_counters: vec![own], ..slow(Verdict::TesterLimited, -0.3, 0.0) }, false),
        ] {
            assert_eq!(tells_of_what_was_sent(&trial, &Limits::default()), expected, "{trial:?}");
        }
    }

    #[test]
    fn what_is_known_to_be_lost_with_a_link_closes_the_accounting() {
        let mut accounting = accounting(1000, 1000, 400, &[(Owner::Dut, 100)]);
        accounting.explain_rest("links down", "test");
        assert_eq!(
            (accounting.unexplained(), accounting.drop_counters.last().map(|line| line.frames)),
            (0, Some(500))
        );
        accounting.explain_rest("links down", "test");
        assert_eq!(accounting.drop_counters.len(), 2, "there is no rest");
    }
}
