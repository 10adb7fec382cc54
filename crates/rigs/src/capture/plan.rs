//! The experiment `capture`: which methods of the ladder, with which traffic, threads and buffers.

use std::fmt;
use std::time::Duration;

use weir_config::{Section, value};
use weir_packet::flow::{IpVersion, MAX_FLOWS};
use weir_packet::frame::min_frame_bytes;
use weir_packet::size::FrameSizes;
use weir_port::capture::{BufferSize, Fanout, Method};
use weir_testbed::spread::Spread;

use weir_lab::frames::Cpus;
use weir_lab::frames::mirror::BUFFERS_PER_TRIAL;

/// The methods, and what each is measured with. Lists are axes with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    /// From the bottom up.
    pub methods: Vec<Method>,
    /// Threads of the fan-outs; the other methods have one.
    pub threads: Vec<Cpus>,
    /// Where the kernel receives.
    pub receive: Vec<Receive>,
    /// CPUs that the capturing interface hands frames to.
    pub rps: Vec<Spread>,
    /// Whether readers have the driver receive; the methods that cannot be polled so are there once, without it.
    pub busy_poll: Vec<bool>,
    /// How fan-outs spread frames.
    pub fanout: Fanout,
    /// Kinds of traffic.
    pub traffic: Vec<Offered>,
    /// Frame sizes of UDP.
    pub frames: Vec<FrameSizes>,
    /// Numbers of flows of UDP.
    pub flows: Vec<u32>,
    /// Bytes kept of each frame.
    pub snap: u32,
    /// What every method may hold back.
    pub buffer: BufferSize,
    /// Rounds of overload before the searches, in each of which every step has a trial.
    pub overload_rounds: u32,
    /// How often each step is searched for its rate without loss, at least once.
    pub rounds: u32,
    /// Length of each trial, unless the buffer could hide its loss.
    pub trial: Duration,
    /// Lowest load of the search, frames/s.
    pub min_fps: f64,
    /// Highest load; `None`: what the generator sends at most.
    pub max_fps: Option<f64>,
    /// The search ends when its bounds are this close, relative to the upper one.
    pub resolution: f64,
}

/// Where the kernel receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    /// On the CPU of the capture threads and before them, as behind a network card: what is too much overflows.
    Apart,
    /// On the generator's CPU, which so never sends more than the kernel receives.
    WithSender,
}

impl Receive {
    /// All, with their names in plans.
    pub const ALL: [(Receive, &str); 2] = [(Receive::Apart, "apart"), (Receive::WithSender, "with-sender")];
}

/// What a method is to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// TCP segments that open connections, in the smallest frames, from many sources in no order.
    SynFlood,
    /// UDP, with the sizes and flows of the plan.
    Udp,
}

impl Offered {
    /// All kinds with their names in plans.
    pub const ALL: [(Offered, &str); 2] = [(Offered::SynFlood, "syn-flood"), (Offered::Udp, "udp")];
    /// Flows of a flood.
    const FLOOD_FLOWS: u32 = 1 << 18;
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Offered::ALL.iter().find(|(one, _)| one == self).expect("each has a name").1)
    }
}

/// One combination.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// How frames are captured.
    pub method: Method,
    /// By how many threads.
    pub threads: Cpus,
    /// Where the kernel receives.
    pub receive: Receive,
    /// CPUs that the capturing interface hands frames to.
    pub rps: Spread,
    /// Does the reader have the driver receive?
    pub busy_poll: bool,
    /// What frames carry.
    pub offered: Offered,
    /// Frame sizes.
    pub frame: FrameSizes,
    /// Flows.
    pub flows: u32,
}

impl Step {
    /// Are methods compared with each other in these two: do they get the same traffic in the same way?
    pub(super) fn is_compared_with(&self, other: &Step) -> bool {
        let traffic = |step: &Step| (step.offered, step.frame.clone(), step.flows, step.receive);
        traffic(self) == traffic(other)
    }
}

impl Ladder {
    /// A load counts as captured without loss after so many trials without one.
    pub const TRIALS: u32 = 3;
    /// Building a test bed and probing its CPUs take about so long in each round of overload.
    const AROUND_A_TRIAL: Duration = Duration::from_millis(400);
    /// Loads that a search looks at, beyond those that halve its bounds once they are found.
    const FIRST_LOADS: f64 = 6.0;

    /// All combinations, methods fastest; a method that is no fan-out is there once, and so are one that takes frames before
    /// RPS does, one that cannot be polled busily, and a flood.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (offered, frame, flows) in self.streams() {
            for (receive, i, rps) in self.places() {
                for &method in self.methods.iter().filter(|method| i == 0 || !method.steals()) {
                    let rps = if method.steals() { &Spread::AsIs } else { rps };
                    steps.extend(self.readers(method).into_iter().map(|(threads, busy_poll)| Step {
                        method,
                        threads,
                        receive,
                        rps: rps.clone(),
                        busy_poll,
                        offered,
                        frame: frame.clone(),
                        flows,
                    }));
                }
            }
        }
        steps
    }

    /// Where the kernel receives, and the CPUs that it hands frames to, with the number of these among all.
    fn places(&self) -> impl Iterator<Item = (Receive, usize, &Spread)> {
        let of = |receive| self.rps.iter().enumerate().map(move |(i, rps)| (receive, i, rps));
        self.receive.iter().copied().flat_map(of)
    }

    /// Numbers of threads of a method, and whether they have the driver receive.
    fn readers(&self, method: Method) -> Vec<(Cpus, bool)> {
        let alone = [Cpus::Count(1)];
        let threads = if method.fans_out() { &self.threads[..] } else { &alone[..] };
        let polls = if method.polls() { &self.busy_poll[..] } else { &[false] };
        threads.iter().flat_map(|&threads| polls.iter().map(move |&polls| (threads, polls))).collect()
    }

    /// What is sent, with its sizes and flows.
    fn streams(&self) -> Vec<(Offered, FrameSizes, u32)> {
        let of_udp = self
            .frames
            .iter()
            .flat_map(|frame| self.flows.iter().map(move |&flows| (Offered::Udp, frame.clone(), flows)));
        let of_udp: Vec<_> = of_udp.collect();
        let flood =
            (Offered::SynFlood, FrameSizes::Fixed(min_frame_bytes(IpVersion::V4)), Offered::FLOOD_FLOWS);
        let streams = self.traffic.iter().flat_map(|offered| match offered {
            Offered::SynFlood => vec![flood.clone()],
            Offered::Udp => of_udp.clone(),
        });
        streams.collect()
    }

    /// About as long as the trials take: a lossy load needs one, a good one all.
    pub(super) fn estimate(&self) -> Duration {
        let loads = Ladder::FIRST_LOADS + (1.0 / self.resolution).log2().max(0.0);
        let trials = 2.0 + loads * f64::from(1 + Ladder::TRIALS) / 2.0;
        let searches = self.trial.mul_f64(trials * f64::from(self.rounds));
        (searches + (self.trial + Ladder::AROUND_A_TRIAL) * self.overload_rounds) * self.steps().len() as u32
    }
}

/// Reads `[capture]`.
pub(super) fn read(section: Section<'_>) -> Option<Ladder> {
    // Plans of 0.1 call them rungs.
    let methods = if section.has("rungs") { "rungs" } else { "methods" };
    let methods = section.axis(methods, value::choice("method", &Method::ALL));
    let threads = section.axis("threads", value::parsed::<Cpus>);
    let receive = section.axis("receive", value::choice("place to receive", &Receive::ALL));
    let rps = section.axis("rps", value::parsed::<Spread>);
    let busy_poll = section.axis("busy_poll", value::flag);
    let fanout = section.one("fanout", value::choice("fan-out", &Fanout::ALL));
    let traffic = section.axis("traffic", value::choice("kind of traffic", &Offered::ALL));
    let frames = section.axis("frame_bytes", value::parsed::<FrameSizes>);
    let flows = section.axis("flows", value::count(1..=MAX_FLOWS));
    let snap = section.one("snap", value::count(14..=65_535));
    let overload_rounds = section.one("overload_rounds", value::count(0..=1000));
    let rounds = section.one("rounds", value::count(1..=1000));
    let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(1));
    let time = section.one("buffer_s", value::seconds).unwrap_or(Duration::from_millis(100));
    let rate = section.one("buffer_fps", value::fps).unwrap_or(300e3);
    let memory = section.one("buffer_bytes", value::buffer_bytes);
    for key in ["buffer_s", "buffer_fps"] {
        if memory.is_some() && section.has(key) {
            let text = "buffer_bytes gives every method the same memory: omit this or buffer_bytes";
            section.wrong(key, text.to_string());
        }
    }
    if memory.is_none() && trial.as_secs_f64() < BUFFERS_PER_TRIAL * time.as_secs_f64() {
        let text = "a trial must be at least twice as long as buffer_s, or the buffer hides losses";
        section.wrong(if section.has("trial_s") { "trial_s" } else { "buffer_s" }, text.to_string());
    }
    let min_fps = section.one("min_fps", value::fps).unwrap_or(20_000.0);
    let max_fps = section.one("max_fps", value::fps);
    if max_fps.is_some_and(|max_fps| max_fps <= min_fps) {
        section.wrong("max_fps", format!("use more than min_fps, {min_fps} frames/s"));
    }
    let resolution = section.one("resolution", value::width);
    section.finish();
    Some(Ladder {
        methods: methods.unwrap_or(Method::all().collect()),
        threads: threads.unwrap_or(vec![Cpus::Count(1), Cpus::All]),
        receive: receive.unwrap_or(vec![Receive::Apart]),
        rps: rps.unwrap_or(vec![Spread::AsIs]),
        busy_poll: busy_poll.unwrap_or(vec![false]),
        fanout: fanout.unwrap_or(Fanout::Hash),
        traffic: traffic.unwrap_or(vec![Offered::Udp]),
        frames: frames.unwrap_or(vec![FrameSizes::Fixed(64)]),
        flows: flows.unwrap_or(vec![10_000]),
        snap: snap.unwrap_or(65_535),
        buffer: memory.map_or(BufferSize::Time { rate, time }, BufferSize::Memory),
        overload_rounds: overload_rounds.unwrap_or(10),
        rounds: rounds.unwrap_or(1),
        trial,
        min_fps,
        max_fps,
        resolution: resolution.unwrap_or(0.05),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    fn ladder(sets: &[&str]) -> Result<Ladder, String> {
        // Of the places to receive, one is enough for what these tests look at.
        let one = std::iter::once(&"capture.receive=apart");
        let sets: Vec<String> = one.chain(sets).map(|set| set.to_string()).collect();
        let plan = PLANS.load("capture", &sets).map_err(|error| error.to_string())?;
        let ladder = plan.experiment.of::<Ladder>().expect("of this rig").clone();
        Ok(ladder)
    }

    #[test]
    fn only_fan_outs_have_more_than_one_thread() {
        let sets = [
            "capture.methods=[ring,ring-fanout]",
            "capture.traffic=udp",
            "capture.frame_bytes=64",
            "capture.flows=[1,9]",
        ];
        let steps = ladder(&sets).unwrap().steps();
        let list: Vec<_> = steps.iter().map(|s| format!("{} {} {}", s.method, s.threads, s.flows)).collect();
        let both = |n| [format!("ring 1 {n}"), format!("ring-fanout 1 {n}"), format!("ring-fanout all {n}")];
        assert_eq!(list, [both(1), both(9)].concat());
    }

    #[test]
    fn methods_that_take_frames_in_the_driver_are_there_once_for_all_rps() {
        let sets = ["capture.methods=[ring,count]", "capture.traffic=udp", "capture.rps=[default,0-1]"];
        let steps = ladder(&sets).unwrap().steps();
        let list: Vec<_> = steps.iter().map(|s| format!("{} {}", s.method, s.rps)).collect();
        assert_eq!(list, ["ring default", "count default", "ring 0-1"]);
    }

    #[test]
    fn every_method_is_there_for_each_place_to_receive() {
        let sets =
            ["capture.methods=[ring,count]", "capture.traffic=udp", "capture.receive=[apart,with-sender]"];
        let steps = ladder(&sets).unwrap().steps();
        let list: Vec<_> = steps.iter().map(|step| (step.method, step.receive)).collect();
        let of = |receive| [(Method::Ring, receive), (Method::Count, receive)];
        assert_eq!(list, [of(Receive::Apart), of(Receive::WithSender)].concat());
    }

    #[test]
    fn only_what_can_be_polled_is_there_twice() {
        let sets =
            ["capture.methods=[ring,xdp,count]", "capture.traffic=udp", "capture.busy_poll=[false,true]"];
        let steps = ladder(&sets).unwrap().steps();
        let list: Vec<_> = steps.iter().map(|step| (step.method, step.busy_poll)).collect();
        assert_eq!(
            list,
            [(Method::Ring, false), (Method::Xdp, false), (Method::Xdp, true), (Method::Count, false)]
        );
    }

    #[test]
    fn a_flood_is_there_once_for_each_method() {
        let sets = ["capture.methods=[ring,count]", "capture.traffic=[syn-flood,udp]", "capture.flows=[1,9]"];
        let steps = ladder(&sets).unwrap().steps();
        let of = |offered| steps.iter().filter(|step| step.offered == offered).count();
        assert_eq!((of(Offered::SynFlood), of(Offered::Udp)), (2, 4));
        assert_eq!((&steps[0].frame, steps[0].flows), (&FrameSizes::Fixed(64), 1 << 18));
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "capture.methods=rings",
            "capture.trial_s=0.1",
            "capture.buffer_bytes=64M --set capture.buffer_s=1",
            "capture.busy_poll=1",
            "capture.buffer_bytes=12",
            "capture.traffic=tcp",
            "capture.max_fps=1k",
            "capture.snap=3",
            "capture.receive=there",
            "capture.rps=some",
        ];
        golden!("src/capture/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("capture", sets)));
    }

    #[test]
    fn memory_takes_the_place_of_time() {
        let found = ladder(&["capture.buffer_bytes=64M"]).unwrap();
        assert_eq!(found.buffer, BufferSize::Memory(64_000_000));
    }

    #[test]
    fn the_short_form_is_short() {
        let short = PLANS.load_short("capture", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(150), "{:?}", short.estimate());
    }
}
