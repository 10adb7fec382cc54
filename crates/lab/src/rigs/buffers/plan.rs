//! `[buffers]`: the grid of queues, buffers and flows.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use toml_edit::Value;
use weir_config::rate::line_bits_per_s;
use weir_config::{Section, shown, value};
use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Scenario};

use super::real::kernel_name;

/// The experiment. Lists are axes with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffers {
    /// Names of queues, see [`Config::catalogue`].
    pub queues: Vec<&'static str>,
    /// Sizes of the buffer, in bandwidth-delay products of the longest path.
    pub buffers_bdp: Vec<f64>,
    /// Flows in all, shared equally by the groups of the mix.
    pub flows: Vec<u32>,
    /// Congestion controls.
    pub mixes: Vec<Mix>,
    /// Round trips without queues.
    pub rtts: Vec<Rtts>,
    /// Where flows are: simulated, real.
    pub beds: Vec<Bed>,
    /// Rate of the bottleneck, bits/s.
    pub rate_bits_per_s: u64,
    /// Time that is simulated.
    pub duration: Duration,
    /// Of which figures leave out the beginning.
    pub warm_up: Duration,
    /// Simulations of each point, each from a seed of its own.
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

/// Congestion controls of the groups: `cubic+bbr2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(pub Vec<Name>);

/// Round trips of the groups, ms: `10+100`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rtts(pub Vec<f64>);

/// A point of the grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell<'a> {
    pub(super) queue: &'static str,
    pub(super) buffer_bdp: f64,
    pub(super) flows: u32,
    pub(super) mix: &'a Mix,
    pub(super) rtts: &'a Rtts,
    pub(super) bed: Bed,
}

/// What a packet costs the simulator, roughly.
const COST_OF_A_PACKET: Duration = Duration::from_micros(4);
const PACKET_BITS: f64 = 1514.0 * 8.0;

impl Buffers {
    /// All points: buffers fastest, round trips slowest.
    pub(super) fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells = Vec::new();
        for rtts in &self.rtts {
            for mix in &self.mixes {
                for &flows in &self.flows {
                    for &queue in &self.queues {
                        for &bed in &self.beds {
                            let cell = |&buffer_bdp| Cell { queue, buffer_bdp, flows, mix, rtts, bed };
                            cells.extend(self.buffers_bdp.iter().map(cell));
                        }
                    }
                }
            }
        }
        cells
    }

    /// About how long it takes.
    pub(super) fn estimate(&self) -> Duration {
        let packets = self.rate_bits_per_s as f64 / PACKET_BITS * self.duration.as_secs_f64();
        let of = |bed| self.cells().iter().filter(|cell| cell.bed == bed).count() as u32 * self.seeds;
        COST_OF_A_PACKET.mul_f64(packets) * of(Bed::Simulated) + self.duration * of(Bed::Real)
    }

    /// The scenario of a point, from this seed.
    pub(super) fn scenario(&self, cell: &Cell<'_>, seed: u64) -> Scenario {
        let groups = cell.groups().into_iter().map(|(flows, cc, rtt_ms)| {
            // Starts within a round trip: a barrier is no more exact.
            let rtt = Time::from_secs(rtt_ms / 1e3);
            Group { spread: rtt, ..Group::new(flows, cc, rtt) }
        });
        let queue = Config::named(cell.queue).expect("plans have names of the catalogue");
        let duration = Time::from_secs(self.duration.as_secs_f64());
        let buffer = Buffer::Bdp(cell.buffer_bdp);
        let scenario = Scenario::new(queue, self.rate_bits_per_s, buffer, groups.collect(), duration);
        Scenario { warm_up: Time::from_secs(self.warm_up.as_secs_f64()), seed, ..scenario }
    }
}

impl Cell<'_> {
    /// Flows, congestion control and round trip of each group. Where mix and round trips have several values, each of the one
    /// meets each of the other.
    pub(super) fn groups(&self) -> Vec<(u32, Name, f64)> {
        let pairs: Vec<_> =
            self.mix.0.iter().flat_map(|&cc| self.rtts.0.iter().map(move |&rtt| (cc, rtt))).collect();
        let share = self.flows / pairs.len() as u32;
        pairs.into_iter().map(|(cc, rtt)| (share, cc, rtt)).collect()
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let known = Name::ALL.map(Name::text);
        let name = |word: &str| {
            let found = Name::ALL.into_iter().find(|name| name.text() == word.trim());
            found.ok_or_else(|| {
                let remedy = weir_config::did_you_mean(word.trim(), &known);
                format!("`{}` is no congestion control: {remedy}", word.trim())
            })
        };
        text.split('+').map(name).collect::<Result<_, _>>().map(Mix)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|name| name.text()).collect::<Vec<_>>().join("+"))
    }
}

impl FromStr for Rtts {
    type Err = String;

    fn from_str(text: &str) -> Result<Rtts, String> {
        let rtt = |word: &str| word.trim().parse().ok().filter(|ms| (0.1..=10_000.0).contains(ms));
        let wrong =
            || format!("`{text}` is no round trip: use 0.1 to 10000 ms, or several such as \"10+100\"");
        text.split('+').map(rtt).collect::<Option<_>>().map(Rtts).ok_or_else(wrong)
    }
}

impl fmt::Display for Rtts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(f64::to_string).collect::<Vec<_>>().join("+"))
    }
}

/// Reads `[buffers]`.
pub(super) fn read(section: Section<'_>) -> Option<Buffers> {
    let names: Vec<_> = Config::catalogue().into_iter().map(|(name, _)| (name, name)).collect();
    let queues = section.required_axis("queue", "[\"fifo\", \"pie\"]", value::choice("queue", &names));
    let buffers_bdp = section.axis("buffer_bdp", buffer_bdp);
    let flows = section.axis("flows", value::count(1..=10_000));
    let mixes = section.axis("mix", value::parsed::<Mix>);
    let rtts = section.axis("rtt_ms", value::parsed::<Rtts>);
    let beds = section.axis("bed", value::choice("bed", &BEDS)).unwrap_or(vec![Bed::Simulated]);
    let rate_bits_per_s = section.one("rate", rate);
    let duration = section.one("duration_s", value::seconds_up_to::<3600>);
    let warm_up = section.one("warm_up_s", value::seconds_up_to::<3600>);
    let seeds = section.one("seeds", value::count(1..=1000));
    let duration = duration.unwrap_or(Duration::from_secs(30));
    let warm_up = warm_up.unwrap_or(duration / 3);
    if warm_up >= duration {
        section.wrong("warm_up_s", "figures need time after it: use less than duration_s".into());
    }
    let flows = flows.unwrap_or(vec![2]);
    let (mixes, rtts) =
        (mixes.unwrap_or(vec![Mix(vec![Name::Cubic])]), rtts.unwrap_or(vec![Rtts(vec![20.0])]));
    for (i, &n) in flows.iter().enumerate() {
        let groups = mixes.iter().flat_map(|mix| rtts.iter().map(|rtts| mix.0.len() * rtts.0.len()));
        if let Some(groups) = groups.max().filter(|&groups| !(n as usize).is_multiple_of(groups)) {
            let text =
                format!("{n} flows cannot be shared by {groups} groups (mix x rtt_ms): use a multiple");
            section.wrong_entry("flows", i, text);
        }
    }
    let unknown = |mix: &Mix| mix.0.iter().find(|cc| kernel_name(**cc).is_none()).copied();
    if beds.contains(&Bed::Real)
        && let Some((i, cc)) = mixes.iter().enumerate().find_map(|(i, mix)| Some((i, unknown(mix)?)))
    {
        let text =
            format!("the kernel has no {} by itself: use reno, cubic or bbr1 on a real bed", cc.text());
        section.wrong_entry("mix", i, text);
    }
    section.finish();
    Some(Buffers {
        queues: queues?,
        buffers_bdp: buffers_bdp.unwrap_or(vec![1.0]),
        flows,
        mixes,
        rtts,
        beds,
        rate_bits_per_s: rate_bits_per_s.unwrap_or(100_000_000),
        duration,
        warm_up,
        seeds: seeds.unwrap_or(3),
    })
}

fn buffer_bdp(value: &Value) -> Result<f64, String> {
    let times = shown(value).parse().ok().filter(|times| (0.001..=1000.0).contains(times));
    times
        .ok_or_else(|| format!("`{}` is no buffer: use 0.001 to 1000 bandwidth-delay products", shown(value)))
}

fn rate(value: &Value) -> Result<u64, String> {
    let rate = line_bits_per_s(&shown(value)).ok().filter(|rate| (1e5..=1e11).contains(rate));
    rate.map(|rate| rate as u64).ok_or_else(|| {
        format!("`{}` is no rate: use 100k to 100G bit/s, such as \"100M\" or \"100Mbit\"", shown(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{load, load_short};

    fn buffers(sets: &[&str]) -> Result<Buffers, String> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let plan = load("buffers", &sets).map_err(|error| error.to_string())?;
        Ok(plan.experiment.of::<Buffers>().expect("of this rig").clone())
    }

    #[test]
    fn mistakes_have_remedies() {
        for (set, text) in [
            ("buffers.queue=pye", "did you mean `pie`"),
            ("buffers.mix=cubic+bbr", "`bbr` is no congestion control: did you mean `bbr1`"),
            ("buffers.rtt_ms=10+", "use 0.1 to 10000 ms"),
            ("buffers.buffer_bdp=0", "use 0.001 to 1000"),
            ("buffers.flows=3", "3 flows cannot be shared by 4 groups"),
            ("buffers.rate=1", "use 100k to 100G bit/s"),
            ("buffers.warm_up_s=30", "less than duration_s"),
            ("buffers.bed=reel", "did you mean `real`"),
            ("buffers.bed=real", "the kernel has no bbr2 by itself"),
        ] {
            let error = buffers(&[set]).unwrap_err();
            assert!(error.contains(text), "{set}: {error}");
        }
    }

    #[test]
    fn groups_share_the_flows() {
        let (mix, rtts) = ("cubic+bbr2".parse().unwrap(), "10+100".parse().unwrap());
        let cell =
            Cell { queue: "fifo", buffer_bdp: 1.0, flows: 20, mix: &mix, rtts: &rtts, bed: Bed::Simulated };
        let of =
            |cc| cell.groups().into_iter().filter(|(_, own, _)| *own == cc).map(|(n, _, _)| n).sum::<u32>();
        assert_eq!((cell.groups().len(), of(Name::Cubic), of(Name::Bbr2)), (4, 10, 10));
        assert_eq!((mix.to_string(), rtts.to_string()), ("cubic+bbr2".into(), "10+100".into()));
    }

    #[test]
    fn the_short_form_is_short() {
        let short = load_short("buffers", &[]).unwrap();
        assert!(short.estimate() <= Duration::from_secs(150), "{:?}", short.estimate());
        let grid = buffers(&[]).unwrap();
        let cells = grid.cells();
        assert!(grid.beds == [Bed::Simulated]);
        let axes =
            [grid.queues.len(), grid.buffers_bdp.len(), grid.flows.len(), grid.mixes.len(), grid.rtts.len()];
        assert_eq!(cells.len(), axes.iter().product::<usize>());
    }
}
