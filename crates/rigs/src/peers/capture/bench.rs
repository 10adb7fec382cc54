//! The test bed of a program: a generator, a wire, and the program at its other end.
//!
//! ```text
//! generator > [t0] ---- veth ---- [t1] > receive softirq > the program's buffer > the program > file
//!  together: all of this on one CPU;   apart: up to the buffer on one CPU, the program on another
//!  receiver: the generator on one CPU; all else on another, the kernel alternately with the program
//! ```
//! The frames are addressed to another host, as at a mirror port: programs that tap the interface get them, and the kernel does
//! nothing else with them. On a wire where the kernel receives on the generator's CPU, never more is sent than the
//! kernel receives, and at full speed that CPU does nothing else: the rate is what receiving costs. The cost of the
//! same generator without a program, where XDP drops all frames, is measured beside it and subtracted from each cost.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::mirror::{Mirror, Sent};
use weir_lab::run::folder::Folder;
use weir_lab::run::process::Failed;
use weir_lab::run::tree::ProgramTime;
use weir_linux::cpu::ThreadTimes;
use weir_load::Control;
use weir_load::counts::{Load, StreamCounts};
use weir_testbed::cpu::CostSample;
use weir_testbed::journal::Journal;

use super::program::{Order, Statement, Tool};
use super::written::{frames, prepare};
use super::{CapturePeers, Job, Place};
use crate::peers::contest;

/// A generator that waited for due times would take the CPU from the program that shares it: it sends what has become due
/// once in this time, and sleeps.
const TURN: Duration = Duration::from_millis(1);

/// The wire, and room for files.
pub(super) struct Bench {
    mirror: Mirror,
    folder: Folder,
    place: Place,
    buffer_mib: u64,
    /// The kernel's thread that receives: apart from the generator always, on its CPU when there is too much of it.
    softirqs: Option<u32>,
}

/// What a trial gave.
pub(super) struct Outcome {
    pub(super) sent: StreamCounts,
    /// What the program said.
    pub(super) said: Statement,
    /// Frames in its file, if it wrote one.
    pub(super) in_file: Option<u64>,
    /// Frames that found the interface's ring full.
    pub(super) ring_full: u64,
    /// How long the program was at work after the last frame.
    pub(super) drain: Duration,
    /// The thread that sends, and the kernel as it receives in it.
    pub(super) generator: ThreadTimes,
    /// The kernel as it receives in a separate thread.
    pub(super) softirqs: ThreadTimes,
    pub(super) program: ProgramTime,
    /// Share of the time that the hypervisor took, 0..1.
    pub(super) steal: f64,
}

impl Bench {
    pub(super) fn build(
        peers: &CapturePeers,
        spec: &PointSpec,
        seed: u64,
        journal: &mut Journal,
    ) -> Result<Bench, RunError> {
        let mut mirror = Mirror::build(spec, seed, journal)?;
        let folder = contest::folder(&peers.folder, "`--set capture_peers.folder=...`")?;
        let buffer_mib = (peers.buffer_bytes >> 20).max(1);
        let softirqs = match peers.place {
            Place::Receiver => mirror.receive_apart().first().copied(),
            _ => thread_named(&format!("ksoftirqd/{}", mirror.sending_cpu())),
        };
        Ok(Bench { mirror, folder, place: peers.place, buffer_mib, softirqs })
    }

    /// The CPU of the program.
    pub(super) fn cpu(&self) -> usize {
        match self.place {
            Place::Together => self.sending_cpu(),
            Place::Apart | Place::Receiver => self.mirror.other_cpu(),
        }
    }

    /// The CPU that sends.
    pub(super) fn sending_cpu(&self) -> usize {
        self.mirror.sending_cpu()
    }

    /// The CPU of each program, for the record.
    pub(super) fn placement(&self) -> String {
        let sending = self.sending_cpu();
        match self.place {
            Place::Together => {
                format!("Generator, the kernel's receive work and the programs share CPU {sending}.")
            }
            Place::Apart => format!(
                "Generator and the kernel's receive work have CPU {sending}, the programs CPU {}.",
                self.cpu()
            ),
            Place::Receiver => format!(
                "The generator has CPU {sending}; the kernel's receive work, which comes first, and the programs share CPU {}.",
                self.cpu()
            ),
        }
    }

    /// Memory of each program's buffer.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.buffer_mib << 20
    }

    /// The command line of a program, for people.
    pub(super) fn command_line(&self, (tool, job): (Tool, Job)) -> String {
        let command = tool.command(&self.order(job, Path::new("FILE")));
        let name = Path::new(command.get_program()).file_name().unwrap_or_default();
        let words: Vec<_> =
            std::iter::once(name).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
        words.join(" ")
    }

    fn order<'a>(&'a self, job: Job, file: &'a Path) -> Order<'a> {
        Order { job, device: self.mirror.wire()[1], buffer_mib: self.buffer_mib, file }
    }

    /// Starts the program, sends, waits until all is written, ends it, and counts.
    pub(super) fn trial(
        &self,
        (tool, job): (Tool, Job),
        load: &Load,
        control: &Control,
        journal: &mut Journal,
    ) -> Result<Outcome, Failed> {
        let (file, said) = (self.folder.path().join("frames"), self.folder.path().join("said"));
        let program = tool.program;
        prepare(program, &file)
            .map_err(|error| Failed::Program(format!("no room for its files: {error}")))?;
        let start = (&mut tool.command(&self.order(job, &file)), program.ready);
        let process = contest::started(&self.mirror, self.cpu(), start, &said, journal)?;
        let (before, idle) = (self.sample()?, process.time());
        let sending = self.send(load, control);
        let drain = process.await_quiet(Duration::from_millis(program.holds_back_ms), || control.stopped());
        let after = self.sample()?;
        let time = process.time().since(&idle);
        let ended =
            if program.writes_blocks { process.kill(journal)? } else { process.interrupt(journal)? };
        let Sent { stream: sent, times: generator, .. } = sending?;
        let words = ended.map_err(Failed::Program)?;
        let no_count = || Failed::Program(format!("its output has no captured count: {}", words.trim()));
        let said = (program.statement)(&words).ok_or_else(no_count)?;
        let in_file =
            (job == Job::File).then(|| frames(program, &file)).transpose().map_err(Failed::Program)?;
        let elapsed_ns = (after.at - before.at).as_nanos() as f64;
        let cpus = after.cost.since(&before.cost).cpus;
        let steal = cpus.values().map(|cpu| cpu.steal_ns).max().unwrap_or(0) as f64 / elapsed_ns;
        let ring_full = after.ring_full - before.ring_full;
        let softirqs = after.softirqs.since(&before.softirqs);
        Ok(Outcome { sent, said, in_file, ring_full, drain, generator, softirqs, program: time, steal })
    }

    /// The same without a program: an XDP program drops the frames. What is left is the generator and the wire.
    pub(super) fn nothing(&self, load: &Load, control: &Control) -> Result<Outcome, RunError> {
        let _dropping = contest::drop_all(self.mirror.bed())?;
        let before = self.sample()?;
        let Sent { stream: sent, times: generator, .. } = self.send(load, control)?;
        let after = self.sample()?;
        let ring_full = after.ring_full - before.ring_full;
        let said = Statement { captured: sent.sent.saturating_sub(ring_full), ..Statement::default() };
        let softirqs = after.softirqs.since(&before.softirqs);
        let (drain, program, steal) = (Duration::ZERO, ProgramTime::default(), 0.0);
        Ok(Outcome { sent, said, in_file: None, ring_full, drain, generator, softirqs, program, steal })
    }

    fn send(&self, load: &Load, control: &Control) -> Result<Sent, RunError> {
        self.mirror.send(load, (self.place == Place::Together).then_some(TURN), control)
    }

    fn sample(&self) -> Result<Sample, RunError> {
        let ring_full = self.mirror.ring_full()?;
        let softirqs = self.softirqs.and_then(ThreadTimes::of).unwrap_or_default();
        Ok(Sample { ring_full, softirqs, cost: CostSample::take(&[]), at: Instant::now() })
    }
}

struct Sample {
    ring_full: u64,
    softirqs: ThreadTimes,
    cost: CostSample,
    at: Instant,
}

fn thread_named(name: &str) -> Option<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let mut pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| weir_disk::kernel_text(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name))
}

#[cfg(test)]
mod tests {
    use weir_testbed::dut::DutKind;
    use weir_testkit::{Folder, need_root};

    use super::*;
    use crate::PLANS;

    #[test]
    fn what_is_sent_in_turns_is_what_was_wanted() {
        need_root!();
        let folder = Folder::new();
        let set = format!("capture_peers.folder={}", folder.display());
        let plan = PLANS.load("peers-capture", &[set]).unwrap();
        let peers = plan.experiment.of::<CapturePeers>().expect("of this rig");
        let mut journal = Journal::in_dir(&folder.join("journal"));
        let spec = PointSpec::plain(DutKind::WIRE, 64, 10);
        let bench = Bench::build(peers, &spec, 1, &mut journal).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let rate = Load::steady(20_000.0, Duration::from_millis(50));
        let outcome = bench.nothing(&rate, &Control::new(&stop, &|_, _| ())).unwrap();
        // A machine that is busy elsewhere may let turns pass.
        assert!(
            outcome.sent.offered == 1000 && (1..=1000).contains(&outcome.sent.sent),
            "{:?}",
            outcome.sent
        );
        assert_eq!(outcome.said.captured + outcome.ring_full, outcome.sent.sent);
        assert!(bench.softirqs.is_some());
    }
}
