//! A test bed, a device and a tester that are ready for trials at one point of a plan.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_linux::cpu::softirq_threads;
use weir_linux::lock::measuring_lock;
use weir_load::counts::{Counts, Load, StreamCounts, Traffic};
use weir_load::translation::Translation;
use weir_load::xdp::{IdleLoopback, Interface, MAX_FRAME_BYTES, pin_to};
use weir_load::{Control, Tester, TesterKind};
use weir_packet::flow::Direction;
use weir_packet::size::FrameSizes;
use weir_port::bpf::Mode;
use weir_port::perf::idle::Idles;
use weir_testbed::bed::{Bed, BedSpec, FAST_ENTRIES, SESSIONS};
use weir_testbed::core_distance::core_distance_ns;
use weir_testbed::core_speed::core_step_ns;
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::device::Device;
use weir_testbed::dut::{DutKind, Function};
use weir_testbed::external::{External, ExternalSpec, PortEnd};
use weir_testbed::fault::Faults;
use weir_testbed::interface::Port;
use weir_testbed::journal::{self, Journal};
use weir_testbed::rules::RuleForm;
use weir_testbed::topology::Side;
use weir_testbed::updates::Updates;

pub mod traffic;
mod translation;
mod usage;

use self::traffic::networks;
pub use self::traffic::{FIRST_HOST, mirrored, traffic};
pub use self::translation::AddressRange;
use self::usage::Used;
pub(crate) use self::usage::own_times;
use super::diagnosis::{Symptoms, diagnose};
use super::disturbance::Disturbance;
use super::remote::{Hosts, Remote};
use super::verdict::{Accounting, Limits};
use super::witness::{Parties, Witness, arrived, witnessed};
use super::{counted, outside};
use crate::error::RunError;
use crate::frames::{Cpus, PointSpec};
use weir_linux::time;
use weir_record::record::{DropCounter, Noise, Owner, Purpose, Stream, Trial, Verdict};

/// Everything that is the same for all points of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How frames are sent and received, where their size allows.
    pub tester: TesterKind,
    /// Seed of flows and sizes.
    pub seed: u64,
    /// When a trial is not to be believed.
    pub limits: Limits,
    /// The external DUT, if the device is one.
    pub external: Option<ExternalSpec>,
    /// Time stamp counter in Hz, for costs in reference cycles.
    pub tsc_hz: Option<f64>,
}

/// A point's test bed with everything in it.
pub struct Setup {
    // Dropped in this order: programs and sockets before the namespaces that hold their interfaces.
    tester: Hosts,
    device: Device,
    bed: Bed,
    cpus: CpuPlan,
    spec: PointSpec,
    settings: Settings,
    faults: Faults,
    notes: Vec<String>,
    traffic: Traffic,
    /// What the fastest frame takes on a wire, ns.
    wire_min_ns: Option<u64>,
    /// What is expected of a NAT.
    translation: Option<Translation>,
    /// The kernel's softirq threads on the device's CPUs.
    softirq_threads: Vec<u32>,
    /// Were frames of the last trial not accounted for? They may still be in the device.
    unsettled: bool,
    /// When the CPUs in use are idle; `None` where the kernel does not say it.
    idles: OnceCell<Option<Arc<Idles>>>,
}

impl Setup {
    /// Replaces what has broken by a new bed with a new device; what was learned or tracked is gone.
    ///
    /// # Errors
    /// See [`Setup::build`]; the setup stays as it is.
    pub fn repair(&mut self) -> Result<(), RunError> {
        if self.bed.broken().is_empty() {
            return Ok(());
        }
        if let Hosts::Two(pair) = &self.tester {
            self.bed.external().map_or(Ok(()), External::reconnect)?;
            pair.repair()?;
        } else {
            // Nothing is published, hence nothing is written there.
            let mut journal = Journal::in_dir(&journal::default_dir());
            let (wire_min_ns, translation) = (self.wire_min_ns, self.translation.take());
            *self = Setup::build(&self.spec, &self.settings, &self.faults, &mut journal)?;
            (self.wire_min_ns, self.translation) = (wire_min_ns, translation);
            self.renew_translation()?;
        }
        Ok(())
    }

    /// Builds bed, device and tester for `spec`.
    pub fn build(
        spec: &PointSpec,
        settings: &Settings,
        faults: &Faults,
        journal: &mut Journal,
    ) -> Result<Setup, RunError> {
        let cpus = cpu_plan(spec)?;
        let (mut bed, remote) = match (spec.dut, &settings.external) {
            (DutKind::EXTERNAL, Some(external)) => {
                let remote = Remote::open(external, spec.ip, spec.frame.max())?.map(Arc::new);
                let end = remote.clone().map(|remote| remote as Arc<dyn PortEnd>);
                (Bed::around(&bed_spec(spec, &cpus), external, end, journal)?, remote)
            }
            _ => (Bed::build(&bed_spec(spec, &cpus), journal)?, None),
        };
        let mut traffic = traffic(spec, &bed.ports(), settings.seed);
        if bed.external().is_some_and(|external| external.spec().is_hairpin()) {
            // What comes back is counted where it left.
            traffic.direction = Direction::Reflect;
        }
        let kind = tester_kind(&spec.frame, settings.tester);
        let mut notes = Vec::new();
        let tester = bed.tester().run(|| match bed.external() {
            Some(_) => outside::open_ends(&bed, remote, kind, &traffic, &mut notes),
            None => own_tester(&bed, kind, &traffic).map(Hosts::One),
        })?;
        let device = Device::start(&bed, faults)?;
        // Attached programs may have brought new NAPI instances.
        bed.place_receivers();
        notes.extend_from_slice(bed.notes());
        notes.extend(device.notes()?);
        if cpus.shared && spec.dut != DutKind::WIRE {
            notes.push(format!(
                "Tester and DUT share CPU {:?} and slow each other down: the result is a lower bound.",
                cpus.tester
            ));
        }
        if spec.dut == DutKind::NODE_NAT_FAST && !spec.keeps_whole {
            notes.push(
                "The fast path of the node's NAT forwards none of these frames, because they may be fragmented and need a new identification \
                 each: set `traffic.dont_fragment = true` to measure it."
                    .to_string(),
            );
        }
        if kind != settings.tester {
            notes.push(format!("Frames of {} bytes are sent through AF_PACKET sockets.", spec.frame));
        }
        let (spec, settings, faults) = (spec.clone(), settings.clone(), faults.clone());
        let (wire_min_ns, translation) = (None, None);
        let softirq_threads = softirq_threads(&cpus.dut);
        Ok(Setup {
            tester,
            device,
            bed,
            cpus,
            spec,
            settings,
            faults,
            notes,
            traffic,
            wire_min_ns,
            translation,
            softirq_threads,
            unsettled: false,
            idles: OnceCell::new(),
        })
    }

    /// Whether such a setup could be built, as far as can be known without building it.
    pub fn check(spec: &PointSpec, settings: &Settings) -> Result<(), RunError> {
        match (spec.dut, &settings.external) {
            (DutKind::EXTERNAL, Some(external)) => Ok(outside::check(external, spec)?),
            _ => Ok(Bed::check(&bed_spec(spec, &cpu_plan(spec)?))?),
        }
    }

    /// What a reader must know about this setup, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Where the trials take place, to look at its counters.
    pub fn bed(&self) -> &Bed {
        &self.bed
    }

    /// The CPUs of tester and DUT.
    pub fn cpus(&self) -> &CpuPlan {
        &self.cpus
    }

    /// Lets port b receive on a CPU of the DUT instead of that of the sender: for a wire, where that CPU is free.
    pub fn receive_apart(&mut self) {
        self.bed.receive_on(Side::B, &self.cpus.dut);
        self.notes.extend_from_slice(self.bed.notes());
    }

    /// Latency beyond this, that of the fastest frame on a wire, is the device's.
    pub fn compare_to_wire(&mut self, min_ns: u64) {
        self.wire_min_ns = Some(min_ns);
    }

    /// Makes a faulty device hold each frame exactly so long from now on.
    pub(crate) fn delay_frames(&self, time: Duration) {
        self.device.fault_switch().into_iter().for_each(|switch| switch.delay(time));
    }

    /// Forgets all connections of the DUT.
    pub fn reset(&self) -> Result<(), RunError> {
        self.bed.reset()?;
        Ok(self.device.reset()?)
    }

    /// One trial: sends, waits, completes the accounting, judges. Takes turns with other runs on this machine, unless it is
    /// stopped meanwhile.
    pub fn trial(&mut self, load: &Load, purpose: Purpose, control: &Control) -> Result<Trial, RunError> {
        self.disturbed(load, purpose, control, None)
    }

    /// A trial in which something is done to the device.
    pub fn disturbed(
        &mut self,
        load: &Load,
        purpose: Purpose,
        control: &Control,
        disturbance: Option<&Disturbance>,
    ) -> Result<Trial, RunError> {
        let _turn = measuring_lock(|| control.stopped())?;
        let at = Started { started: time::now(), begin: Instant::now() };
        // A faulty device has threads of its own on its CPUs.
        let is_watched = self.settings.limits.witness && self.spec.dut != DutKind::FAULTY;
        let idles = is_watched.then(|| self.idles()).flatten();
        let witness = idles.and_then(|idles| Witness::of(&idles, load, purpose));
        let measured = self.measure(load, control, Beside { disturbance, witness });
        let broken = self.bed.broken();
        match measured {
            Ok((counts, used)) => {
                let mut accounting = self.accounting(&counts, &used);
                self.unsettled = accounting.unexplained() > 0 || accounting.strays > 0;
                if disturbance.is_some_and(Disturbance::hides_frames) {
                    accounting
                        .explain_rest("links down", "sent meanwhile: all that no other counter explains");
                }
                let mut trial = self.record(accounting, &counts, load, purpose, &used, at);
                // What a disturbance does to interfaces it undoes.
                if disturbance.is_none() && !broken.is_empty() {
                    trial.verdict = Verdict::Invalid;
                    trial.reasons.insert(0, during(&broken));
                }
                Ok(trial)
            }
            Err(error) if broken.is_empty() => Err(error),
            Err(_) => Ok(self.nothing_known(load, purpose, &broken, at)),
        }
    }

    fn idles(&self) -> Option<Arc<Idles>> {
        self.idles.get_or_init(|| Idles::new(&self.cpus_used()).ok().map(Arc::new)).clone()
    }

    /// Sends and receives beside whatever others measure: it disturbs them, and they disturb it. Returns how many frames
    /// were received.
    pub(crate) fn out_of_turn(&mut self, load: &Load, control: &Control) -> Result<u64, RunError> {
        let (counts, _) = self.measure(load, control, Beside::default())?;
        Ok(counts.streams.iter().map(StreamCounts::received).sum())
    }

    /// Sends and receives, with all counters before and after.
    fn measure(
        &mut self,
        load: &Load,
        control: &Control,
        Beside { disturbance, witness }: Beside<'_>,
    ) -> Result<(Counts, Used), RunError> {
        if std::mem::take(&mut self.unsettled) {
            self.tester.drain(control);
        }
        let core_distance_before_ns =
            self.dut_cpu().and_then(|cpu| core_distance_ns(self.cpus.tester[0], cpu));
        let core_step_before_ns = self.dut_cpu().filter(|_| load.overload).and_then(core_step_ns);
        let before = self.sample()?;
        let updates = match self.route_changes_per_s() {
            0 => None,
            changes => Updates::start(&self.bed, changes)?,
        };
        let cpu = self.cpus.tester[0];
        let (tester, bed, switch) = (&mut self.tester, &self.bed, self.device.fault_switch());
        let ((counts, times, sending, sender), receivers) = std::thread::scope(|scope| {
            let acting = disturbance.map(|d| scope.spawn(|| d.act(bed, switch.as_ref())));
            let sent = bed.tester().run(|| {
                let placed = pin_to(cpu);
                debug_assert!(placed.is_ok(), "{placed:?}");
                let (own, sending) = (own_times(), Instant::now());
                let counts = tester.trial(load, control);
                (counts, own_times().since(&own), sending.elapsed(), weir_port::thread::number())
            });
            disturbance.into_iter().for_each(Disturbance::over);
            (sent, acting.map(|thread| thread.join().expect("no thread panics while it holds the lock")))
        });
        let (counts, elsewhere) = counts?;
        let seen = witness.and_then(Witness::seen);
        if let Some(receivers) = receivers.transpose()?.flatten() {
            self.bed.adopt(receivers);
        }
        let routes = updates.map(Updates::stop).transpose()?;
        let after = self.sample()?;
        let watched = self.dut_cpu().filter(|_| load.overload);
        let core_step_after_ns = watched.and_then(core_step_ns);
        let core_distance_after_ns = watched.and_then(|cpu| core_distance_ns(self.cpus.tester[0], cpu));
        let core_steps_ns = core_step_before_ns.zip(core_step_after_ns).map(<[f64; 2]>::from);
        let core_distances_ns = [core_distance_before_ns, core_distance_after_ns];
        let (elapsed, duration) = (sending, load.duration);
        let used = Used {
            before,
            after,
            tester: times,
            elsewhere,
            elapsed,
            duration,
            core_distances_ns,
            core_steps_ns,
            seen,
            sender,
            routes,
        };
        Ok((counts, used))
    }

    fn record(
        &self,
        accounting: Accounting,
        counts: &Counts,
        load: &Load,
        purpose: Purpose,
        used: &Used,
        at: Started,
    ) -> Trial {
        let mut noise = self.noise(counts, load, used);
        if purpose == Purpose::Pacing {
            noise.departures = counts.streams.first().map(counted::departures);
        }
        let streams = self.streams(counts);
        let witnessed = used.seen.as_ref().map(|seen| {
            witnessed(
                seen,
                counts,
                &streams,
                &Parties { testers: &self.cpus.tester, threads: &self.parties(used.sender) },
            )
        });
        let stops = witnessed.as_ref().map_or(&[][..], |seen| &seen.stops);
        let windows = if load.overload { arrived(counts, load, stops) } else { Vec::new() };
        // A single burst lasts as long as it takes.
        let duration = if load.max_frames.is_some() { counts.sending } else { load.duration };
        let duration_s = duration.as_secs_f64();
        let findings = diagnose(&Symptoms {
            streams: &streams,
            noise: &noise,
            tester_lost: accounting.dropped_by(Owner::Tester),
            duration_s,
            wire_min_ns: self.wire_min_ns,
        });
        let cost = self.cost(&accounting, used);
        let sent_fps = counted::sent_fps(counts, load.duration);
        let mut trial = Trial {
            purpose,
            started: at.started,
            duration_s,
            overhead_s: (at.begin.elapsed().as_secs_f64() - duration_s).max(0.0),
            rate_changed_ns: counted::rate_changed_ns(counts, load),
            streams,
            cost,
            windows,
            witnessed,
            findings,
            ..accounting.trial(load, sent_fps, noise, &self.settings.limits)
        };
        trial.reasons.extend(counted::remarks(counts));
        trial.reasons.extend(self.too_few_changes(used));
        if let Some(late) = used.late() {
            trial = late.judged(trial);
        }
        if let Some(said) = self.said().filter(|_| load.tcp.is_some()) {
            trial = trial.with_detail(&said);
        }
        match self.recorded_translation(used) {
            Some(translation) => {
                trial.reasons.extend(translation.mistakes());
                trial.with_detail(&translation)
            }
            None => trial,
        }
    }

    /// The record of a trial whose counters went with the interfaces.
    fn nothing_known(&self, load: &Load, purpose: Purpose, broken: &[String], at: Started) -> Trial {
        Trial {
            purpose,
            started: at.started,
            overhead_s: (at.begin.elapsed().as_secs_f64() - load.duration.as_secs_f64()).max(0.0),
            broadcasts: None,
            verdict: Verdict::Invalid,
            reasons: vec![format!("{}: the counts of its frames are unknown", during(broken))],
            ..Accounting::default().trial(load, 0.0, Noise::default(), &self.settings.limits)
        }
    }

    fn route_changes_per_s(&self) -> u32 {
        self.spec.routing.map_or(0, |routing| routing.changes_per_s)
    }

    /// A remark if the DUT's control plane fell behind.
    fn too_few_changes(&self, used: &Used) -> Option<String> {
        let wanted = f64::from(self.route_changes_per_s()) * used.duration.as_secs_f64();
        let made = used.routes.map(|routes| routes.changes).filter(|&made| (made as f64) < 0.95 * wanted)?;
        Some(format!("only {made} of {wanted:.0} route changes were made: the DUT's CPU was busy"))
    }

    fn accounting(&self, counts: &Counts, used: &Used) -> Accounting {
        let mut drop_counters: Vec<DropCounter> =
            used.delta().drops().into_iter().map(counted::drop_counter).collect();
        let mut line = |name: &str, owner, frames, source: &str| {
            if frames > 0 {
                drop_counters.push(DropCounter { name: name.into(), owner, frames, source: source.into() });
            }
        };
        let corrupted: u64 = counts.ports.iter().map(|p| p.corrupted).sum();
        line("corrupted", Owner::Dut, corrupted, "receiver: wrong checksum, length or signature");
        let wrong = self.translated().map_or(0, |seen| seen.wrong_frames());
        line("wrongly translated", Owner::Dut, wrong, "receiver: source, tuple, destination or subscriber");
        for (name, dropped) in used.device_drops() {
            line(name, Owner::Dut, dropped, "the device's own count");
        }
        for drop in &counts.drops {
            line(&drop.name, Owner::Tester, drop.frames, &drop.source);
        }
        if let Some((delta, spec)) = used.delta().0.external.as_ref().zip(self.settings.external.as_ref()) {
            drop_counters.extend(outside::drop_counters(delta, spec, counts, &self.traffic));
        }
        let dut = self.bed.spec().dut;
        // What an external DUT does with them is not known, and its drop counters have test frames only.
        let discarded = if dut == DutKind::EXTERNAL { u64::MAX } else { used.delta().discarded_unnamed() };
        let broadcasts = counted::broadcasts(counts, discarded);
        if dut.function() == Function::Bridge {
            counted::leave_out_copies(&mut drop_counters, broadcasts.sent);
        }
        Accounting {
            offered: counts.streams.iter().map(|s| s.offered).sum(),
            sent: counts.streams.iter().map(|s| s.sent).sum(),
            received: counts.streams.iter().map(|s| s.received()).sum(),
            drop_counters,
            broadcasts,
            strays: counts.ports.iter().map(|p| p.stale + p.misdelivered).sum(),
            clock_jump: used.clock_jump(),
        }
    }

    /// The threads of device and tester; the latter sent in `sender`.
    fn parties(&self, sender: u32) -> Vec<u32> {
        let kernel = self.bed.threads().iter().map(|thread| thread.pid);
        kernel.chain(self.device.threads()).chain([sender]).collect()
    }

    /// Does the device send frames back where they came in?
    fn is_hairpin(&self) -> bool {
        self.bed.external().is_some_and(|external| external.spec().is_hairpin())
    }

    /// The DUT's CPU, where it has one to itself.
    fn dut_cpu(&self) -> Option<usize> {
        self.bed.dut()?;
        (!self.cpus.shared).then_some(self.cpus.dut[0])
    }

    fn streams(&self, counts: &Counts) -> Vec<Stream> {
        let groups = counts.streams.iter().flat_map(|s| s.groups.iter().enumerate().map(move |g| (s, g)));
        let stream = |(s, (i, group)): (&StreamCounts, (usize, _))| {
            let name = if self.is_hairpin() { "a>a" } else { self.traffic.name(s.stream) };
            let port = self.traffic.arrival(s.stream);
            // A corrupted frame's group is not to be trusted: all are booked on the first.
            let corrupted = if i == 0 { counts.ports[port].corrupted } else { 0 };
            counted::stream_record(name, i as u32, corrupted, group)
        };
        groups.map(stream).collect()
    }
}

fn during(broken: &[String]) -> String {
    format!("{} during the trial", broken.join(", "))
}

/// The threads that run beside a trial.
#[derive(Default)]
struct Beside<'a> {
    disturbance: Option<&'a Disturbance>,
    witness: Option<Witness>,
}

/// When a trial began, for the record and for the stopwatch.
struct Started {
    started: String,
    begin: Instant,
}

/// A tester at the ports of a bed of ours.
fn own_tester(bed: &Bed, kind: TesterKind, traffic: &Traffic) -> Result<Tester, RunError> {
    let interface = |port: Port| Interface { ifindex: port.ifindex, mode: Mode::Native, pass: false };
    Ok(Tester::new(kind, bed.ports().map(interface), traffic.clone(), Some(IdleLoopback(1)))?)
}

pub(crate) fn cpu_plan(spec: &PointSpec) -> weir_testbed::error::Result<CpuPlan> {
    if spec.dut == DutKind::EXTERNAL {
        // All CPUs of this machine are the tester's.
        let CpuPlan { dut, .. } = CpuPlan::choose(DutCpus::All)?;
        return Ok(CpuPlan { tester: dut, dut: Vec::new(), shared: false });
    }
    CpuPlan::choose(match spec.cpus {
        Cpus::Count(n) => DutCpus::Count(n as usize),
        Cpus::All => DutCpus::All,
    })
}

/// The test bed that a point asks for, on these CPUs.
pub fn bed_spec(spec: &PointSpec, cpus: &CpuPlan) -> BedSpec {
    BedSpec {
        rules: spec.rules.unwrap_or(0),
        form: spec.form.unwrap_or(RuleForm::NftChain),
        networks: networks(spec),
        ip: spec.ip,
        mtu: u32::from(spec.frame.max()).saturating_sub(18).max(1500),
        spreading: spec.spreading.clone().unwrap_or_default(),
        sessions: spec.flows.max(SESSIONS),
        // Each flow has one in each direction, and finds it sooner where half of the room is free.
        fast_entries: spec.flows.saturating_mul(4).clamp(*FAST_ENTRIES.start(), *FAST_ENTRIES.end()),
        link: spec.link.clone().unwrap_or_default(),
        ..BedSpec::plain(spec.dut, cpus.dut.clone())
    }
}

fn tester_kind(sizes: &FrameSizes, wanted: TesterKind) -> TesterKind {
    if sizes.max() > MAX_FRAME_BYTES { TesterKind::Packet } else { wanted }
}
