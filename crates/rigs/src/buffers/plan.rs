//! `[buffers]`: the grid of queues, buffers and flows.

use std::time::Duration;

use toml_edit::Value;
use weir_config::rate::line_bits_per_s;
use weir_config::{Section, shown, unit, value};
use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Rate, Scenario};

use super::mix::{Mix, Rtts, kernel_name};
use weir_report::view::format::list;

/// The experiment. Lists are axes with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffers {
    /// Names of queues, see [`Config::catalogue`].
    pub queues: Vec<&'static str>,
    /// Sizes of the buffer, in bandwidth-delay products of the longest path ..
    pub buffers_bdp: Vec<f64>,
    /// .. each divided by the square root of the number of flows.
    pub per_sqrt_flows: bool,
    /// Flows in all, shared by the groups of the mix by their weights.
    pub flows: Vec<u32>,
    /// Congestion controls.
    pub mixes: Vec<Mix>,
    /// Round trips without queues.
    pub rtts: Vec<Rtts>,
    /// Where flows are: simulated, real.
    pub beds: Vec<Bed>,
    /// Senders on a real bed hand large frames to their interface, as is usual; otherwise a segment at a time.
    pub offloads: bool,
    /// Flows that can use ECN do, where they are simulated.
    pub ecn: bool,
    /// Rate of the bottleneck, bits/s ..
    pub rate_bits_per_s: u64,
    /// .. and from when on it is another one.
    pub rate_changes: Vec<(Duration, u64)>,
    /// Time that is simulated.
    pub duration: Duration,
    /// Of which figures leave out the beginning.
    pub warm_up: Duration,
    /// Simulations of each point, each from its own seed.
    pub seeds: u32,
}

/// Where the flows of a point are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bed {
    /// In virtual time.
    Simulated,
    /// In namespaces: the kernel's TCP through a bottleneck with the same queue.
    Real,
}

/// Names of beds.
const BEDS: [(Bed, &str); 2] = [(Bed::Simulated, "simulated"), (Bed::Real, "real")];

/// A point of the grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell<'a> {
    pub(super) queue: &'static str,
    pub(super) buffer_bdp: f64,
    pub(super) flows: u32,
    pub(super) mix: &'a Mix,
    pub(super) rtts: &'a Rtts,
    pub(super) bed: Bed,
    /// See [`Buffers::offloads`].
    pub(super) offloads: bool,
}

/// CPU time that a packet costs the simulator: 0.12 us (Reno, fifo) to 0.31 us (BBRv3, cake) in release builds on an AMD EPYC.
const COST_OF_A_PACKET: Duration = Duration::from_nanos(200);
const PACKET_BITS: f64 = 1514.0 * 8.0;
/// A segment with its Ethernet header.
const SMALLEST_BUFFER: u64 = 1514;

impl Buffers {
    /// All points: buffers fastest, round trips slowest. Those with flows that their groups cannot share are left out.
    pub(super) fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells = Vec::new();
        for rtts in &self.rtts {
            for mix in &self.mixes {
                for &flows in self.flows.iter().filter(|&&flows| shares(flows, mix, rtts)) {
                    for &queue in &self.queues {
                        for &bed in &self.beds {
                            let offloads = self.offloads;
                            let cell =
                                |&buffer_bdp| Cell { queue, buffer_bdp, flows, mix, rtts, bed, offloads };
                            cells.extend(self.buffers_bdp.iter().map(cell));
                        }
                    }
                }
            }
        }
        cells
    }

    /// Combinations of the axes that are no points, one sentence.
    pub(super) fn left_out(&self) -> Vec<String> {
        let of = |mix, rtts| {
            let unshared = self.flows.iter().filter(move |&&flows| !shares(flows, mix, rtts));
            unshared.map(move |flows| format!("{flows} of {mix} at {rtts} ms"))
        };
        let all = self.mixes.iter().flat_map(|mix| self.rtts.iter().flat_map(move |rtts| of(mix, rtts)));
        let all: Vec<String> = all.collect();
        let sentence = || {
            format!("Numbers of flows that cannot be divided among the groups are omitted: {}.", list(&all))
        };
        (!all.is_empty()).then(sentence).into_iter().collect()
    }

    /// About how long it takes.
    pub(super) fn estimate(&self) -> Duration {
        let real = self.cells().iter().filter(|cell| cell.bed == Bed::Real).count() as u32 * self.seeds;
        COST_OF_A_PACKET.mul_f64(self.simulated_packets()) + self.duration * real
    }

    /// Packets that full links of all simulations send.
    fn simulated_packets(&self) -> f64 {
        let cells = self.cells();
        let simulated = cells.iter().filter(|cell| cell.bed == Bed::Simulated);
        let packets = simulated.map(|cell| {
            let scenario = self.scenario(cell, 0);
            scenario.rate.mean(Time::ZERO, scenario.duration) * scenario.duration.secs() / PACKET_BITS
        });
        packets.sum::<f64>() * f64::from(self.seeds)
    }

    /// The scenario of a point, from this seed.
    pub(super) fn scenario(&self, cell: &Cell<'_>, seed: u64) -> Scenario {
        let groups = cell.groups().into_iter().map(|(flows, cc, rtt_ms)| {
            // Starts within a round trip: a barrier is no more exact.
            let rtt = Time::from_secs(rtt_ms / 1e3);
            Group { spread: rtt, ecn: self.ecn, ..Group::new(flows, cc, rtt) }
        });
        let queue = Config::named(cell.queue).expect("plans have names of the catalogue");
        let duration = Time::from_secs(self.duration.as_secs_f64());
        let divisor = if self.per_sqrt_flows { f64::from(cell.flows).sqrt() } else { 1.0 };
        let buffer = Buffer::Bdp(cell.buffer_bdp / divisor);
        let mut scenario = Scenario::new(queue, self.rate_bits_per_s, buffer, groups.collect(), duration);
        if !self.rate_changes.is_empty() {
            let change = |(at, rate): &(Duration, u64)| (Time::from_secs(at.as_secs_f64()), *rate);
            let first = (Time::ZERO, self.rate_bits_per_s);
            let all = std::iter::once(first).chain(self.rate_changes.iter().map(change));
            scenario.rate = Rate::Trace(all.collect());
        }
        Scenario { warm_up: Time::from_secs(self.warm_up.as_secs_f64()), seed, ..scenario }
    }
}

/// Can so many flows be shared by all groups?
fn shares(flows: u32, mix: &Mix, rtts: &Rtts) -> bool {
    flows.is_multiple_of(parts(mix, rtts))
}

/// Parts into which the flows are divided: each group has as many as its weight.
fn parts(mix: &Mix, rtts: &Rtts) -> u32 {
    mix.0.iter().map(|(weight, _)| weight).sum::<u32>() * rtts.0.len() as u32
}

impl Cell<'_> {
    /// Flows, congestion control and round trip of each group. Where mix and round trips have several values, each of the one
    /// meets each of the other.
    pub(super) fn groups(&self) -> Vec<(u32, Name, f64)> {
        let part = self.flows / parts(self.mix, self.rtts);
        let pairs = self.mix.0.iter().flat_map(|&of| self.rtts.0.iter().map(move |&rtt| (of, rtt)));
        pairs.map(|((weight, cc), rtt)| (weight * part, cc, rtt)).collect()
    }
}

/// Reads `[buffers]`.
pub(super) fn read(section: Section<'_>) -> Option<Buffers> {
    let names: Vec<_> = Config::catalogue().into_iter().map(|(name, _)| (name, name)).collect();
    let queues = section.required_axis("queue", "[\"fifo\", \"pie\"]", value::choice("queue", &names));
    let duration = section.one("duration_s", value::seconds_up_to::<3600>).unwrap_or(Duration::from_secs(30));
    let grid = Buffers {
        queues: queues.clone().unwrap_or_default(),
        buffers_bdp: section.axis("buffer_bdp", buffer_bdp).unwrap_or(vec![1.0]),
        per_sqrt_flows: section.one("per_sqrt_flows", value::flag).unwrap_or(false),
        flows: section.axis("flows", value::count(1..=10_000)).unwrap_or(vec![2]),
        mixes: section.axis("mix", value::parsed::<Mix>).unwrap_or(vec![Mix(vec![(1, Name::Cubic)])]),
        rtts: section.axis("rtt_ms", value::parsed::<Rtts>).unwrap_or(vec![Rtts(vec![20.0])]),
        beds: section.axis("bed", value::choice("bed", &BEDS)).unwrap_or(vec![Bed::Simulated]),
        offloads: section.one("offloads", value::flag).unwrap_or(true),
        ecn: section.one("ecn", value::flag).unwrap_or(false),
        rate_bits_per_s: section.one("rate", rate).unwrap_or(100_000_000),
        rate_changes: section.axis("rate_changes", rate_change).unwrap_or_default(),
        duration,
        warm_up: section.one("warm_up_s", value::seconds_up_to::<3600>).unwrap_or(duration / 3),
        seeds: section.one("seeds", value::count(1..=1000)).unwrap_or(3),
    };
    grid.check(&section);
    section.finish();
    queues.map(|_| grid)
}

impl Buffers {
    /// Notes what does not go together.
    fn check(&self, section: &Section<'_>) {
        if self.warm_up >= self.duration {
            section
                .wrong("warm_up_s", "the measurement needs time after it: use less than duration_s".into());
        }
        let rising = self.rate_changes.is_sorted_by(|a, b| a.0 < b.0);
        if !rising || self.rate_changes.iter().any(|change| change.0 >= self.duration) {
            section.wrong("rate_changes", "use increasing times before duration_s".into());
        }
        check_shares(section, &self.flows, &self.mixes, &self.rtts);
        if self.beds.contains(&Bed::Real) {
            self.check_real(section);
        }
        let small = |cell: &Cell<'_>| self.scenario(cell, 0).buffer_bytes() < SMALLEST_BUFFER;
        if let Some(cell) = self.cells().iter().find(|cell| small(cell)) {
            let bytes = self.scenario(cell, 0).buffer_bytes();
            let text = format!(
                "{} with {} flows at {} ms is {bytes} bytes, less than a segment of {SMALLEST_BUFFER}: use more, or a higher rate",
                cell.buffer_bdp, cell.flows, cell.rtts
            );
            section.wrong("buffer_bdp", text);
        }
    }

    /// The same of a real bed.
    fn check_real(&self, section: &Section<'_>) {
        let unknown = |mix: &Mix| mix.0.iter().map(|(_, cc)| *cc).find(|cc| kernel_name(*cc).is_none());
        if let Some((i, cc)) = self.mixes.iter().enumerate().find_map(|(i, mix)| Some((i, unknown(mix)?))) {
            let text = format!(
                "{} does not exist in the kernel: use reno, cubic, bbr1, bbr2, bbr3 or dctcp on a real bed",
                cc.text()
            );
            section.wrong_entry("mix", i, text);
        }
        if self.ecn {
            let text =
                "is for simulated flows: on a real bed the kernel's setting tcp_ecn decides; omit this";
            section.wrong("ecn", text.into());
        }
    }
}

/// Each number of flows must have groups that share it, each pair of groups a number of flows.
fn check_shares(section: &Section<'_>, flows: &[u32], mixes: &[Mix], rtts: &[Rtts]) {
    let groups = || mixes.iter().flat_map(|mix| rtts.iter().map(move |rtts| (mix, rtts)));
    for (i, &n) in flows.iter().enumerate() {
        let least = groups().map(|(mix, rtts)| parts(mix, rtts)).min();
        if let Some(parts) = least.filter(|_| !groups().any(|(mix, rtts)| shares(n, mix, rtts))) {
            let text = format!(
                "{n} flows cannot be divided among the groups (mix x rtt_ms): use a multiple of {parts}"
            );
            section.wrong_entry("flows", i, text);
        }
    }
    for (i, mix) in mixes.iter().enumerate() {
        let any = flows.iter().any(|&n| rtts.iter().any(|rtts| shares(n, mix, rtts)));
        if let Some(least) = rtts.iter().map(|rtts| parts(mix, rtts)).min().filter(|_| !any) {
            let text = format!(
                "no value of `flows` can be divided among the groups of `{mix}`: add a multiple of {least}"
            );
            section.wrong_entry("mix", i, text);
        }
    }
}

fn buffer_bdp(value: &Value) -> Result<f64, String> {
    let times = shown(value).parse().ok().filter(|times| (0.001..=1000.0).contains(times));
    times
        .ok_or_else(|| format!("`{}` is no buffer: use 0.001 to 1000 bandwidth-delay products", shown(value)))
}

fn rate(value: &Value) -> Result<u64, String> {
    rate_of(&shown(value))
}

fn rate_of(text: &str) -> Result<u64, String> {
    let rate = line_bits_per_s(text).ok().filter(|rate| (1e5..=1e11).contains(rate));
    rate.map(|rate| rate as u64).ok_or_else(|| {
        format!("`{text}` is no rate: use 100k to 100G bit/s, such as \"100M\" or \"100Mbit\"")
    })
}

/// `10s: 20M`.
fn rate_change(value: &Value) -> Result<(Duration, u64), String> {
    let text = shown(value);
    let (at, rate) =
        text.split_once(':').ok_or_else(|| format!("`{text}` is no change: use \"10s: 20M\""))?;
    let at = unit::time(at, Duration::from_millis(1), Duration::from_secs(3600))?;
    Ok((at, rate_of(rate.trim())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    fn buffers(sets: &[&str]) -> Result<Buffers, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = PLANS.load("buffers", &sets).map_err(|error| error.to_string())?;
        Ok(plan.experiment.of::<Buffers>().expect("of this rig").clone())
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "buffers.queue=pye",
            "buffers.mix=cubic+bbr",
            "buffers.rtt_ms=10+",
            "buffers.buffer_bdp=0",
            "buffers.mix=cubic+0*reno",
            "buffers.mix=[cubic,cubic+48*reno]",
            "buffers.rate_changes=10",
            "buffers.rate_changes=40s: 20M",
            "shard=0/8",
            "buffers.rate=1",
            "buffers.warm_up_s=30",
            "buffers.bed=reel",
            "buffers.bed=real --set buffers.mix=prague",
            "buffers.bed=real --set buffers.ecn=true",
        ];
        golden!("src/buffers/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("buffers", sets)));
        assert!(buffers(&["buffers.bed=real"]).is_ok());
    }

    #[test]
    fn groups_share_the_flows() {
        let (mix, rtts) = ("cubic+bbr2".parse().unwrap(), "10+100".parse().unwrap());
        let cell = Cell {
            queue: "fifo",
            buffer_bdp: 1.0,
            flows: 20,
            mix: &mix,
            rtts: &rtts,
            bed: Bed::Simulated,
            offloads: true,
        };
        let of =
            |cc| cell.groups().into_iter().filter(|(_, own, _)| *own == cc).map(|(n, _, _)| n).sum::<u32>();
        assert_eq!((cell.groups().len(), of(Name::Cubic), of(Name::Bbr2)), (4, 10, 10));
        assert_eq!((mix.to_string(), rtts.to_string()), ("cubic+bbr2".into(), "10+100".into()));
    }

    #[test]
    fn the_short_form_is_short() {
        let short = PLANS.load_short("buffers", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(150), "{:?}", short.estimate());
        let grid = buffers(&[]).unwrap();
        assert!(grid.beds == [Bed::Simulated]);
        // Two flows and ten cannot be shared by two congestion controls at two round trips each.
        let groups = grid.mixes.len() * grid.rtts.len() * grid.flows.len() - 2;
        assert_eq!(grid.cells().len(), groups * grid.queues.len() * grid.buffers_bdp.len());
        assert_eq!(
            grid.left_out(),
            [
                "Numbers of flows that cannot be divided among the groups are omitted: 2 of cubic+bbr2 at 10+100 ms and 10 of cubic+bbr2 at 10+100 ms."
            ]
        );
    }

    /// The estimate counts the packets that the simulations then send, also where the rate changes.
    #[test]
    fn the_estimate_counts_the_packets_of_the_run() {
        let small = ["buffers.queue=[fifo,fq-codel]", "buffers.mix=cubic", "buffers.seeds=2"];
        let grid = ["buffers.rate=10M", "buffers.duration_s=6", "buffers.rtt_ms=20", "buffers.flows=[2,4]"];
        for changes in [&[][..], &["buffers.rate_changes=3s: 30M"]] {
            let sets: Vec<&str> = [&small[..], &grid, &["buffers.buffer_bdp=[1,2]"], changes].concat();
            let grid = buffers(&sets).unwrap();
            let seeds = || (1..=grid.seeds).map(u64::from);
            let cells = grid.cells();
            let runs = cells.iter().flat_map(|cell| seeds().map(|seed| grid.scenario(cell, seed)));
            let sent: u64 = runs.map(|scenario| scenario.run().unwrap().queue.taken.packets).sum();
            let ratio = grid.simulated_packets() / sent as f64;
            assert!((0.95..1.15).contains(&ratio), "{changes:?}: estimated by sent is {ratio}");
        }
    }

    #[test]
    fn shards_are_the_whole_grid() {
        let all = buffers(&[]).unwrap().cells().len();
        let numbers = |shard: &str| {
            let plan = PLANS.load("buffers", &[format!("shard={shard}")]).unwrap();
            plan.own().expect("it is a shard").into_iter().collect::<Vec<_>>()
        };
        let mut found: Vec<usize> = ["1/3", "2/3", "3/3"].into_iter().flat_map(numbers).collect();
        found.sort_unstable();
        assert_eq!(found, (0..all).collect::<Vec<_>>());
    }

    #[test]
    fn weights_divide_the_flows() {
        let (mix, rtts): (Mix, Rtts) = ("bbr1+49*cubic".parse().unwrap(), "20".parse().unwrap());
        let cell = Cell {
            queue: "fifo",
            buffer_bdp: 1.0,
            flows: 100,
            mix: &mix,
            rtts: &rtts,
            bed: Bed::Simulated,
            offloads: true,
        };
        assert_eq!(cell.groups(), [(2, Name::Bbr1, 20.0), (98, Name::Cubic, 20.0)]);
        assert!(shares(50, &mix, &rtts) && !shares(20, &mix, &rtts));
    }
}
