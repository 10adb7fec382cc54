//! The rig `peers-capture`: `weir capture` and programs of other projects that capture, in the same rounds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{Section, value};
use weir_lab::error::RunError;
use weir_lab::rig::{Experiment, first_alike};
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_packet::flow::MAX_FLOWS;
use weir_packet::size::FrameSizes;
use weir_port::capture::Method;

use super::{PeersRig, contest};
use program::{PEERS, Program};

mod answer;
mod bench;
mod program;
mod report;
mod run;
mod written;

const PROGRAMS: Programs = Programs(include_str!("../../../../../plans/peers-capture.programs"));

/// The rig.
pub(in crate::peers) const RIG: PeersRig = PeersRig {
    plans: &[("peers-capture", include_str!("../../../../../plans/peers-capture.toml"))],
    options: include_str!("options.toml"),
    programs: PROGRAMS,
    read: |root| read(root.section("capture_peers")).map(|experiment| Arc::new(experiment) as _),
    answer: answer::answer,
    findings: report::findings,
    parts: report::parts,
};

/// The experiment. Lists have at least one value.
#[derive(Debug)]
struct CapturePeers {
    /// Programs to compare with.
    names: Vec<&'static Program>,
    /// Methods of `weir capture`.
    methods: Vec<Method>,
    /// Tasks of all programs.
    jobs: Vec<Job>,
    /// Rounds, at least 1.
    rounds: u32,
    /// Length of each trial, unless a buffer could hide its loss.
    trial: Duration,
    /// A load is captured without loss after so many trials without one.
    trials: u32,
    /// Frame sizes.
    frames: Vec<FrameSizes>,
    /// Number of flows.
    flows: u32,
    /// Memory of the kernel's buffer, the same for all programs that accept a size, bytes.
    buffer_bytes: u64,
    /// Where the files of [`Job::File`] go.
    folder: PathBuf,
    /// Which CPUs the programs have.
    place: Place,
    /// A search ends when its bounds are this close, relative to the upper one.
    resolution: f64,
}

/// The task of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    /// It counts the frames, at the least cost that it offers.
    Count,
    /// It writes the first [`Job::HEADERS`] bytes of each frame to /dev/null.
    Headers,
    /// It writes whole frames to a file.
    File,
}

impl Job {
    /// All of them with the names in plans and records.
    const ALL: [(Job, &'static str); 3] =
        [(Job::Count, "count"), (Job::Headers, "headers"), (Job::File, "file")];
    /// Bytes of a header.
    const HEADERS: u32 = 96;

    /// The name in plans and records.
    fn name(self) -> &'static str {
        contest::name_of(&Job::ALL, self)
    }
}

/// Which CPUs the generator, the kernel's receive work and a capturing program have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// One CPU for all three.
    Together,
    /// The kernel receives where the generator sends; the program has another one.
    Apart,
    /// The kernel receives on the program's CPU and before it, as behind a network card; the generator has another one.
    Receiver,
}

impl Place {
    /// All with their names in plans and records.
    const ALL: [(Place, &'static str); 3] =
        [(Place::Together, "together"), (Place::Apart, "apart"), (Place::Receiver, "receiver")];

    /// The name in plans and records.
    fn name(self) -> &'static str {
        contest::name_of(&Place::ALL, self)
    }
}

/// About the time to start a program, to wait for its last frames and to end it.
const AROUND_A_TRIAL: Duration = Duration::from_millis(300);
/// Loads that a search looks at, beyond those that halve its bounds.
const FIRST_LOADS: f64 = 1.0;

impl Experiment for CapturePeers {
    /// If every second program loses frames at full speed.
    fn estimate(&self) -> Duration {
        let loads = FIRST_LOADS + (1.0 / self.resolution).log2().max(0.0);
        let trials = 1.0 + loads * f64::from(1 + self.trials) / 2.0 / 2.0;
        let peers = |job: &Job| self.names.iter().filter(|peer| peer.does(*job)).count();
        let programs = self.jobs.iter().map(|job| peers(job) + self.methods.len()).sum::<usize>() + 1;
        let all = trials * (programs * self.frames.len()) as f64 * f64::from(self.rounds);
        (self.trial + AROUND_A_TRIAL).mul_f64(all)
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        let of_a_frame = run::works(self).len();
        let frames: Vec<usize> = (0..self.frames.len() * of_a_frame).map(|n| n / of_a_frame).collect();
        first_alike(&frames, |a, b| a == b)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        contest::run(run.of(self), self.rounds)
    }
}

/// Reads `[capture_peers]`.
fn read(section: Section<'_>) -> Option<CapturePeers> {
    let peers = PEERS.map(|peer| (peer, peer.name));
    let names = contest::read_names(&section, "[\"tcpdump\", \"dumpcap\"]", "capturing peer", &peers);
    // Plans of 0.1 call them rungs.
    let methods = if section.has("rungs") { "rungs" } else { "methods" };
    let methods = section.axis(methods, value::choice("method", &Method::ALL));
    if methods.as_ref().is_some_and(|methods| methods.contains(&Method::Count)) {
        let text = "the method count captures nothing, and no program offers it: remove it";
        section.wrong("methods", text.to_string());
    }
    let jobs = section.axis("jobs", value::choice("job", &Job::ALL));
    let rounds = section.one("rounds", value::count(1..=1000)).unwrap_or(6);
    let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(1));
    let trials = section.one("trials", value::count(1..=100)).unwrap_or(3);
    let frames = section.axis("frame_bytes", value::parsed).unwrap_or(vec![FrameSizes::Fixed(64)]);
    let flows = section.one("flows", value::count(1..=MAX_FLOWS)).unwrap_or(10_000);
    let buffer_bytes = section.one("buffer_bytes", value::buffer_bytes).unwrap_or(64 << 20);
    let folder = section.one("folder", value::text).unwrap_or("/dev/shm".into()).into();
    let place = section.one("place", value::choice("place", &Place::ALL)).unwrap_or(Place::Together);
    let resolution = section.one("resolution", value::width).unwrap_or(0.05);
    section.finish();
    let methods = methods.unwrap_or(vec![Method::Ring, Method::Xdp]);
    let jobs = jobs.unwrap_or(Job::ALL.map(|(job, _)| job).to_vec());
    Some(CapturePeers {
        names: names?,
        methods,
        jobs,
        rounds,
        trial,
        trials,
        frames,
        flows,
        buffer_bytes,
        folder,
        place,
        resolution,
    })
}

#[cfg(test)]
mod report_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "capture_peers.names=tcpdumb",
            "capture_peers.methods=[ring,count]",
            "capture_peers.jobs=header",
            "capture_peers.place=appart",
            "capture_peers.buffer_bytes=1",
            "capture_peers.trials=0",
        ];
        golden!(
            "src/peers/capture/mistakes.txt",
            &set_mistakes(&sets, |sets| PLANS.load("peers-capture", sets))
        );
    }

    #[test]
    fn the_short_form_is_short_and_has_rounds_enough_for_an_interval() {
        let short = PLANS.load_short("peers-capture", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(240), "{:?}", short.estimate());
        let short = short.experiment.of::<CapturePeers>().expect("of this rig");
        assert!(short.rounds as usize >= weir_measure::stats::FEWEST_FOR_INTERVAL);
    }
}
