//! Shards of a run as the whole: each was measured by itself, anywhere, and wrote its part of the points.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use toml_edit::DocumentMut;

use crate::merged;
use crate::record::{Point, Run, RunId, RunState};
use crate::run_data::{PointData, RunData, state_name};

/// The option of a plan that makes a run a shard.
pub const OPTION: &str = "shard";
/// How points are measured that are computed: such shards may come from different machines.
pub const COMPUTED: &str = "simulated";

/// A part of the points of a plan: the third of eight is `3/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1 on.
    number: usize,
    of: usize,
}

impl Shard {
    /// The most shards of a plan.
    const MOST: usize = 100_000;

    /// Numbers of the points that it measures. `bases` has for each point of the plan the points that it is compared with. Points that
    /// are compared with each other are a group, and each shard has every `of`-th group. If there are fewer groups than shards, it has
    /// every `of`-th point, and the bases of these points, which then several shards measure.
    pub fn own(self, bases: &[Vec<usize>]) -> BTreeSet<usize> {
        let is_own = |number: usize| number % self.of == self.number - 1;
        let groups = groups(bases);
        let count = groups.iter().max().map_or(0, |last| last + 1);
        if count >= self.of {
            return (0..bases.len()).filter(|&point| is_own(groups[point])).collect();
        }
        let points = (0..bases.len()).filter(|&point| is_own(point));
        points.flat_map(|point| std::iter::once(point).chain(bases[point].iter().copied())).collect()
    }
}

/// The group of each point; groups are numbered in the order of their first points.
fn groups(bases: &[Vec<usize>]) -> Vec<usize> {
    let mut first: Vec<usize> = (0..bases.len()).collect();
    for (own, others) in bases.iter().enumerate() {
        for &other in others {
            let (low, high) = (first[own].min(first[other]), first[own].max(first[other]));
            first.iter_mut().filter(|group| **group == high).for_each(|group| *group = low);
        }
    }
    let numbers: BTreeSet<usize> = first.iter().copied().collect();
    first.iter().map(|group| numbers.range(..group).count()).collect()
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers =
            text.split_once('/').and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) && of <= Shard::MOST => Ok(Shard { number, of }),
            Some((_, of @ 1..=Shard::MOST)) => Err(format!("`{text}` is no shard: use 1/{of} to {of}/{of}")),
            _ => Err(format!("`{text}` is no shard: use 3/8 for the third of eight")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Why shards are no whole run.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// None of the runs is a shard.
    #[error("run {0} of `{1}` is no shard: measure one with `weir run {1} --shard 1/8 --seed 7 --json`")]
    NoShard(i64, String),
    /// Something that must be the same in all.
    #[error(
        "shard {shard} has a different {what} than shard {first}: run it again with the {what} of the others"
    )]
    Differs {
        /// The first of all.
        first: String,
        /// The other one.
        shard: String,
        /// What.
        what: &'static str,
    },
    /// Not complete.
    #[error(
        "shard {shard} is {state}: complete it with `weir run --resume ID`, and write it with `weir show ID --json`"
    )]
    Unfinished {
        /// Which.
        shard: String,
        /// State in which its run ended.
        state: String,
    },
    /// The same one twice.
    #[error("shard {0} is given twice: omit one")]
    Twice(String),
    /// Some are not there.
    #[error("of {of} shards, these are missing: {}", missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Missing {
        /// Shards in all.
        of: usize,
        /// Numbers, from 1 on.
        missing: Vec<usize>,
    },
    /// Two shards have a point of the same number and mean different ones.
    #[error(
        "point {point} of shard {shard} has other settings than in another shard: run all shards with the same weir and plan"
    )]
    OtherPoint {
        /// Its number.
        point: usize,
        /// In which shard.
        shard: String,
    },
    /// There are no shards.
    #[error("there are no shards")]
    None,
}

/// The run of a shard, and its plan without the shard.
struct Part<'a> {
    data: &'a RunData,
    shard: Shard,
    plan: String,
}

/// Which shard a run is, and its plan without the shard.
fn split(run: &Run) -> Result<(Shard, String), ShardError> {
    let no_shard = || ShardError::NoShard(run.id, run.plan.clone());
    let mut plan: DocumentMut = run.plan_toml.parse().map_err(|_| no_shard())?;
    let option = plan.remove(OPTION).or_else(|| {
        // Earlier plans had it in the section of their experiment.
        let sections = plan.iter_mut().filter_map(|(_, item)| item.as_table_like_mut());
        sections.filter_map(|section| section.remove(OPTION)).next()
    });
    let shard = option.as_ref().and_then(|item| item.as_str()?.parse().ok()).ok_or_else(no_shard)?;
    Ok((shard, plan.to_string()))
}

/// The other shards of the grid of which these are shards: of each number the newest run that is complete. `runs` are those of the
/// plan, oldest first.
pub fn others(given: &[&Run], runs: &[Run]) -> Vec<RunId> {
    let grid = |run: &Run| {
        let (shard, plan) = split(run).ok()?;
        Some((shard.number, (shard.of, plan, run.seed, run.version.clone())))
    };
    let mut known: BTreeSet<usize> = given.iter().filter_map(|run| Some(grid(run)?.0)).collect();
    let Some((_, wanted)) = given.first().and_then(|run| grid(run)) else { return Vec::new() };
    let complete = runs.iter().rev().filter(|run| run.state == RunState::Complete);
    let found =
        complete.filter(|run| grid(run).is_some_and(|(number, of)| of == wanted && known.insert(number)));
    found.map(|run| run.uuid).collect()
}

impl<'a> Part<'a> {
    fn of(data: &'a RunData) -> Result<Part<'a>, ShardError> {
        let (shard, plan) = split(&data.run)?;
        Ok(Part { data, shard, plan })
    }

    fn check(&self, first: &Part<'_>) -> Result<(), ShardError> {
        let (own, other) = (&self.data.run, &first.data.run);
        if own.state != RunState::Complete {
            let (shard, state) = (self.shard.to_string(), state_name(own.state));
            return Err(ShardError::Unfinished { shard, state });
        }
        // What was computed is the same everywhere; what was measured belongs to its machine.
        let computed = own.tester.generator == COMPUTED;
        let same_machine =
            (&own.machine.cpu, &own.machine.kernel) == (&other.machine.cpu, &other.machine.kernel);
        let differs = [
            (self.shard.of != first.shard.of, "number of shards"),
            (self.plan != first.plan, "plan"),
            (own.seed != other.seed, "seed"),
            (own.version != other.version, "version of weir"),
            (!computed && !same_machine, "machine"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, what)) => {
                let [first, shard] = [first, self].map(|part| part.shard.to_string());
                Err(ShardError::Differs { first, shard, what })
            }
            None => Ok(()),
        }
    }
}

/// The whole run, which has this UUID; its date and its machine are those of the first shard. A point that several shards have
/// measured, such as a trial of the wire alone, has the repetitions of all.
///
/// # Errors
/// See [`ShardError`].
pub fn merge(runs: &[RunData], uuid: RunId) -> Result<RunData, ShardError> {
    let mut parts = runs.iter().map(Part::of).collect::<Result<Vec<_>, _>>()?;
    parts.sort_by_key(|part| part.shard.number);
    let first = parts.first().ok_or(ShardError::None)?;
    parts.iter().try_for_each(|part| part.check(first))?;
    let mut numbers = BTreeSet::new();
    if let Some(part) = parts.iter().find(|part| !numbers.insert(part.shard.number)) {
        return Err(ShardError::Twice(part.shard.to_string()));
    }
    let missing: Vec<usize> = (1..=first.shard.of).filter(|number| !numbers.contains(number)).collect();
    if !missing.is_empty() {
        return Err(ShardError::Missing { of: first.shard.of, missing });
    }
    let computed = first.data.run.tester.generator == COMPUTED;
    let mut points: Vec<PointData> = Vec::new();
    for part in &parts {
        for mut point in part.data.points.iter().cloned() {
            point.point.shards.extend((!computed).then_some(part.shard.number));
            match points.iter_mut().find(|own| own.point.index == point.point.index) {
                Some(own) if merged::is_same(own, &point) => {
                    merged::add_shard(own, &point);
                    own.point.shards.extend(point.point.shards);
                }
                Some(_) => {
                    let (point, shard) = (point.point.index, part.shard.to_string());
                    return Err(ShardError::OtherPoint { point, shard });
                }
                None => points.push(point),
            }
        }
    }
    points.sort_by_key(|data| data.point.index);
    let finished = runs.iter().filter_map(|data| data.run.finished.clone()).max();
    let mut run = Run { uuid, plan_toml: first.plan.clone(), finished, ..first.data.run.clone() };
    run.deviations.extend(deviation(&parts, &points));
    Ok(RunData { run, points })
}

/// What a reader of the merged run must know of its ratios; `None` where one shard has measured all, or points are computed.
fn deviation(parts: &[Part<'_>], points: &[PointData]) -> Option<String> {
    let (first, others) = points.split_first()?;
    others.iter().find_map(|other| apart(&first.point, &other.point))?;
    let mut hosts: Vec<&str> = parts.iter().map(|part| &*part.data.run.machine.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let hosts = if hosts.len() > 1 { format!(" on the hosts {}", hosts.join(", ")) } else { String::new() };
    Some(format!(
        "Points were measured in {} shards{hosts}: points of different shards were not interleaved, so there is no ratio of their \
         rounds. Two of their rates differ, too, by what changed between the shards.",
        parts.len()
    ))
}

/// Why two points of a merged run cannot be compared: no shard measured both.
pub fn apart(a: &Point, b: &Point) -> Option<String> {
    let of = |point: &Point| {
        let numbers: Vec<String> = point.shards.iter().map(ToString::to_string).collect();
        format!("shard{} {}", if numbers.len() > 1 { "s" } else { "" }, numbers.join(", "))
    };
    let is_apart =
        !a.shards.is_empty() && !b.shards.is_empty() && !a.shards.iter().any(|own| b.shards.contains(own));
    is_apart.then(|| format!("they were not interleaved: one is of {}, the other of {}", of(a), of(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::run_data::PointData;

    /// The run of the fixture in so many shards.
    fn shards(of: usize) -> Vec<RunData> {
        let whole = fixture::quick();
        let part = |number: usize| {
            let own = |data: &&PointData| data.point.index % of == number - 1;
            let mut run = whole.run.clone();
            run.plan_toml = format!("shard = \"{number}/{of}\"\n[buffers]\nqueue = \"fifo\"\n");
            RunData { run, points: whole.points.iter().filter(own).cloned().collect() }
        };
        (1..=of).map(part).collect()
    }

    #[test]
    fn shards_in_any_order_are_the_whole() {
        let mut parts = shards(3);
        parts.rotate_left(1);
        let uuid = RunId::random();
        let merged = merge(&parts, uuid).unwrap();
        let mut whole = fixture::quick();
        whole.points.sort_by_key(|data| data.point.index);
        let sum = |data: &PointData| data.point.index % 3 + 1;
        whole.points.iter_mut().for_each(|data| data.point.shards = vec![sum(data)]);
        assert_eq!(merged.points, whole.points);
        let mut run = parts[0].run.clone();
        run.deviations.push(
            "Points were measured in 3 shards: points of different shards were not interleaved, so there is no ratio of their rounds. \
             Two of their rates differ, too, by what changed between the shards."
                .into(),
        );
        let plan_toml = "[buffers]\nqueue = \"fifo\"\n".to_string();
        assert_eq!(merged.run, Run { uuid, plan_toml, ..run }, "a run of its own");
    }

    #[test]
    fn points_that_no_shard_has_both_of_are_apart() {
        let merged = |change: fn(&mut Vec<RunData>)| {
            let mut parts = shards(2);
            change(&mut parts);
            let merged = merge(&parts, RunId::random()).unwrap();
            let apart = apart(&merged.points[0].point, &merged.points[1].point);
            (apart.unwrap_or_default(), merged.run.deviations.last().cloned().unwrap_or_default())
        };
        let (why, deviation) = merged(|parts| parts[1].run.machine.host = "b".into());
        assert_eq!(why, "they were not interleaved: one is of shard 1, the other of shard 2");
        assert!(deviation.starts_with("Points were measured in 2 shards on the hosts "), "{deviation}");
        // The base is in both shards.
        let (why, _) = merged(|parts| {
            let base = parts[0].points[0].clone();
            parts[1].points.push(base);
        });
        assert_eq!(why, "");
        // Computed points are the same wherever they are computed.
        let computed: fn(&mut Vec<RunData>) =
            |parts| parts.iter_mut().for_each(|part| part.run.tester.generator = COMPUTED.into());
        let own = fixture::quick().run.deviations.last().cloned().unwrap_or_default();
        assert_eq!(merged(computed), (String::new(), own));
    }

    #[test]
    fn what_is_no_whole_run_is_refused() {
        let check = |change: fn(&mut Vec<RunData>), text: &str| {
            let mut parts = shards(3);
            change(&mut parts);
            let error = merge(&parts, RunId::random()).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        check(|parts| drop(parts.remove(1)), "of 3 shards, these are missing: 2");
        check(|parts| parts.push(parts[0].clone()), "shard 1/3 is given twice");
        check(|parts| parts[2].run.seed += 1, "shard 3/3 has a different seed than shard 1/3");
        check(|parts| parts[1].run.plan_toml += "rate = 1\n", "a different plan");
        check(|parts| parts[1].run.state = RunState::Interrupted, "shard 2/3 is interrupted");
        check(|parts| parts[1].run.plan_toml.clear(), "is no shard");
        check(Vec::clear, "there are no shards");
    }

    #[test]
    fn each_point_is_in_one_shard_with_all_that_it_is_compared_with() {
        // Two devices that are compared at each of four frame sizes.
        let pairs: Vec<Vec<usize>> = (0..8).map(|i| if i % 2 == 0 { vec![] } else { vec![i - 1] }).collect();
        let own = |bases: &[Vec<usize>], shard: &str| {
            shard.parse::<Shard>().unwrap().own(bases).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(own(&pairs, "1/1"), (0..8).collect::<Vec<_>>());
        assert_eq!(own(&pairs, "1/4"), [0, 1]);
        assert_eq!(own(&pairs, "2/3"), [2, 3]);
        assert_eq!(own(&pairs, "1/3"), [0, 1, 6, 7]);
        // Fewer groups than shards: the base is measured again.
        assert_eq!(own(&pairs, "4/8"), [2, 3]);
        assert_eq!(own(&pairs, "3/8"), [2]);
        let (all_with_first, alone) = (vec![vec![], vec![0], vec![0], vec![0]], vec![vec![]; 5]);
        assert_eq!(own(&all_with_first, "2/2"), [0, 1, 3]);
        assert_eq!(own(&alone, "2/2"), [1, 3]);
        assert_eq!(own(&alone, "7/8"), [0; 0]);
        for (bases, of) in [(&pairs, 3), (&pairs, 8), (&all_with_first, 3), (&alone, 4)] {
            let all: BTreeSet<usize> =
                (1..=of).flat_map(|number| own(bases, &format!("{number}/{of}"))).collect();
            assert_eq!(all.len(), bases.len(), "{of} shards are the whole");
        }
        assert!(["0/8", "9/8", "3", "a/b", "1/1000000"].iter().all(|text| text.parse::<Shard>().is_err()));
    }

    #[test]
    fn the_newest_complete_run_of_each_other_shard_is_found() {
        let mut runs: Vec<Run> = shards(3).into_iter().chain(shards(3)).map(|data| data.run).collect();
        runs.iter_mut().for_each(|run| run.uuid = RunId::random());
        runs[4].state = RunState::Interrupted;
        runs.push(Run { seed: 1, uuid: RunId::random(), ..runs[5].clone() });
        runs.push(shards(2).remove(1).run);
        let given = runs[0].clone();
        assert_eq!(others(&[&given], &runs), [runs[5].uuid, runs[1].uuid]);
        assert_eq!(others(&[&given, &runs[2].clone()], &runs), [runs[1].uuid]);
        assert_eq!(others(&[], &runs), []);
    }

    #[test]
    fn a_point_of_several_shards_has_the_repetitions_of_all() {
        let mut parts = shards(2);
        let base = parts[0].points[0].clone();
        parts[1].points.insert(0, base.clone());
        let merged = merge(&parts, RunId::random()).unwrap();
        assert_eq!(merged.points.len(), fixture::quick().points.len());
        assert_eq!(merged.points[0].trials.len(), 2 * base.trials.len());
        let repetitions = |data: &PointData| data.goals().iter().map(|g| g.repetitions.len()).sum::<usize>();
        assert_eq!(repetitions(&merged.points[0]), 2 * repetitions(&base));
        parts[1].points[0].point.dut = "other".into();
        let error = merge(&parts, RunId::random()).unwrap_err().to_string();
        assert!(error.contains("point 0 of shard 2/2 has other settings"), "{error}");
    }
}
