//! The experiment `peers-capture`: which programs capture the same traffic alternately, what they do with it, and with how
//! much memory.

use std::path::PathBuf;
use std::time::Duration;

use weir_config::{Section, value};
use weir_packet::flow::MAX_FLOWS;
use weir_packet::size::FrameSizes;
use weir_port::capture::Method;

/// The experiment. Lists have at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturePeers {
    /// Programs to compare with.
    pub names: Vec<CapturePeer>,
    /// Methods of `weir capture`.
    pub methods: Vec<Method>,
    /// What all programs do.
    pub jobs: Vec<Job>,
    /// Rounds, at least 1.
    pub rounds: u32,
    /// Length of each trial, unless a buffer could hide its loss.
    pub trial: Duration,
    /// A load is captured without loss after so many trials without one.
    pub trials: u32,
    /// Frame sizes.
    pub frames: Vec<FrameSizes>,
    /// Number of flows.
    pub flows: u32,
    /// Memory of the kernel's buffer, the same for all programs that accept a size, bytes.
    pub buffer_bytes: u64,
    /// Where the files of [`Job::File`] go.
    pub folder: PathBuf,
    /// Which CPUs the programs have.
    pub place: CapturePlace,
    /// A search ends when its bounds are this close, relative to the upper one.
    pub resolution: f64,
}

/// Another program that captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturePeer {
    /// tcpdump.
    Tcpdump,
    /// Wireshark's dumpcap.
    Dumpcap,
    /// netsniff-ng.
    NetsniffNg,
    /// The writing part of stenographer.
    Stenotype,
}

impl CapturePeer {
    /// All of them with the names of their programs.
    pub const ALL: [(CapturePeer, &'static str); 4] = [
        (CapturePeer::Tcpdump, "tcpdump"),
        (CapturePeer::Dumpcap, "dumpcap"),
        (CapturePeer::NetsniffNg, "netsniff-ng"),
        (CapturePeer::Stenotype, "stenotype"),
    ];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        CapturePeer::ALL.iter().find(|(peer, _)| *peer == self).expect("every peer is in ALL").1
    }

    /// Does it have a way to do nothing but this?
    pub fn does(self, job: Job) -> bool {
        self != CapturePeer::Stenotype || job == Job::File
    }
}

/// What a program does with the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// It counts them, at the least cost that it offers.
    Count,
    /// It writes the first [`Job::HEADERS`] bytes of each to /dev/null.
    Headers,
    /// It writes all of them to a file.
    File,
}

impl Job {
    /// All of them with the names in plans.
    pub const ALL: [(Job, &'static str); 3] =
        [(Job::Count, "count"), (Job::Headers, "headers"), (Job::File, "file")];
    /// Bytes of a header.
    pub const HEADERS: u32 = 96;

    /// The name in plans and records.
    pub fn name(self) -> &'static str {
        Job::ALL.iter().find(|(job, _)| *job == self).expect("every job is in ALL").1
    }
}

/// Which CPUs the generator, the kernel's receive work and a capturing program have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturePlace {
    /// One CPU for all three.
    Together,
    /// The kernel receives where the generator sends; the program has another one.
    Apart,
    /// The kernel receives on the program's CPU and before it, as behind a network card; the generator has another one.
    Receiver,
}

impl CapturePlace {
    /// All with their names in plans.
    pub const ALL: [(CapturePlace, &'static str); 3] = [
        (CapturePlace::Together, "together"),
        (CapturePlace::Apart, "apart"),
        (CapturePlace::Receiver, "receiver"),
    ];

    /// The name in plans and records.
    pub fn name(self) -> &'static str {
        CapturePlace::ALL.iter().find(|(place, _)| *place == self).expect("each is in ALL").1
    }
}

impl CapturePeers {
    /// About what starting a program, waiting for its last frames and ending it takes.
    const AROUND_A_TRIAL: Duration = Duration::from_millis(300);
    /// Loads that a search looks at, beyond those that halve its bounds.
    const FIRST_LOADS: f64 = 1.0;

    /// About as long as it takes when every second program loses frames at full speed.
    pub(super) fn estimate(&self) -> Duration {
        let loads = CapturePeers::FIRST_LOADS + (1.0 / self.resolution).log2().max(0.0);
        let trials = 1.0 + loads * f64::from(1 + self.trials) / 2.0 / 2.0;
        let peers = |job: &Job| self.names.iter().filter(|peer| peer.does(*job)).count();
        let programs = self.jobs.iter().map(|job| peers(job) + self.methods.len()).sum::<usize>() + 1;
        let all = trials * (programs * self.frames.len()) as f64 * f64::from(self.rounds);
        (self.trial + CapturePeers::AROUND_A_TRIAL).mul_f64(all)
    }
}

/// Reads `[capture_peers]`.
pub(super) fn read(section: Section<'_>) -> Option<CapturePeers> {
    let names = section.required_axis(
        "names",
        "[\"tcpdump\", \"dumpcap\"]",
        value::choice("capturing peer", &CapturePeer::ALL),
    );
    // Plans of 0.1 call them rungs.
    let methods = if section.has("rungs") { "rungs" } else { "methods" };
    let methods = section.axis(methods, value::choice("method", &Method::ALL));
    if methods.as_ref().is_some_and(|methods| methods.contains(&Method::Count)) {
        let text = "the method count captures nothing, and no program offers it: remove it";
        section.wrong("methods", text.to_string());
    }
    let jobs = section.axis("jobs", value::choice("job", &Job::ALL));
    let rounds = section.one("rounds", value::count(1..=1000));
    let trial = section.one("trial_s", value::seconds);
    let trials = section.one("trials", value::count(1..=100));
    let frames = section.axis("frame_bytes", value::parsed::<FrameSizes>);
    let flows = section.one("flows", value::count(1..=MAX_FLOWS));
    let buffer_bytes = section.one("buffer_bytes", value::buffer_bytes);
    let folder = section.one("folder", value::text);
    let place = section.one("place", value::choice("place", &CapturePlace::ALL));
    let resolution = section.one("resolution", value::width);
    section.finish();
    Some(CapturePeers {
        names: names?,
        methods: methods.unwrap_or(vec![Method::Ring, Method::Xdp]),
        jobs: jobs.unwrap_or(Job::ALL.map(|(job, _)| job).to_vec()),
        rounds: rounds.unwrap_or(6),
        trial: trial.unwrap_or(Duration::from_secs(1)),
        trials: trials.unwrap_or(3),
        frames: frames.unwrap_or(vec![FrameSizes::Fixed(64)]),
        flows: flows.unwrap_or(10_000),
        buffer_bytes: buffer_bytes.unwrap_or(64 << 20),
        folder: folder.unwrap_or("/dev/shm".into()).into(),
        place: place.unwrap_or(CapturePlace::Together),
        resolution: resolution.unwrap_or(0.05),
    })
}

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
            "src/capture_peers/mistakes.txt",
            &set_mistakes(&sets, |sets| PLANS.load("peers-capture", sets))
        );
    }

    #[test]
    fn the_short_form_is_short_and_has_rounds_enough_for_an_interval() {
        let short = PLANS.load_short("peers-capture", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(240), "{:?}", short.estimate());
        let short = short.experiment.of::<CapturePeers>().expect("of this rig").clone();
        assert!(short.rounds as usize >= weir_measure::stats::FEWEST_FOR_INTERVAL);
    }
}
