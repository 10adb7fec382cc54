//! Shards of a run as the whole: each was measured by itself, anywhere, and wrote its part of the points.

use std::collections::BTreeSet;

use toml_edit::DocumentMut;

use crate::record::{Run, RunId, RunState};
use crate::run_data::{RunData, state_name};

/// The option of a plan that makes a run a shard, in the section of its experiment.
pub const OPTION: &str = "shard";

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
    /// There are no shards.
    #[error("there are no shards")]
    None,
}

/// A shard, and the plan without its number.
struct Shard<'a> {
    data: &'a RunData,
    text: String,
    number: usize,
    of: usize,
    plan: String,
}

impl<'a> Shard<'a> {
    fn of(data: &'a RunData) -> Result<Shard<'a>, ShardError> {
        let no_shard = || ShardError::NoShard(data.run.id, data.run.plan.clone());
        let mut plan: DocumentMut = data.run.plan_toml.parse().map_err(|_| no_shard())?;
        let sections = plan.iter_mut().filter_map(|(_, item)| item.as_table_like_mut());
        let option = sections.filter_map(|section| section.remove(OPTION)).next();
        let text = option.as_ref().and_then(|item| item.as_str()).ok_or_else(no_shard)?.to_string();
        let numbers =
            text.split_once('/').and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        let (number, of) = numbers.ok_or_else(no_shard)?;
        Ok(Shard { data, text, number, of, plan: plan.to_string() })
    }

    fn check(&self, first: &Shard<'_>) -> Result<(), ShardError> {
        let (own, other) = (&self.data.run, &first.data.run);
        if own.state != RunState::Complete {
            return Err(ShardError::Unfinished { shard: self.text.clone(), state: state_name(own.state) });
        }
        // What was computed is the same everywhere; what was measured belongs to its machine.
        let computed = own.tester.generator == own.tester.receiver && own.tester.cpus.is_empty();
        let same_machine =
            (&own.machine.cpu, &own.machine.kernel) == (&other.machine.cpu, &other.machine.kernel);
        let differs = [
            (self.of != first.of, "number of shards"),
            (self.plan != first.plan, "plan"),
            (own.seed != other.seed, "seed"),
            (own.version != other.version, "version of weir"),
            (!computed && !same_machine, "machine"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, what)) => {
                Err(ShardError::Differs { first: first.text.clone(), shard: self.text.clone(), what })
            }
            None => Ok(()),
        }
    }
}

/// The whole run, which has this UUID; its date and its machine are those of the first shard.
///
/// # Errors
/// See [`ShardError`].
pub fn merge(runs: &[RunData], uuid: RunId) -> Result<RunData, ShardError> {
    let shards = runs.iter().map(Shard::of).collect::<Result<Vec<_>, _>>()?;
    let first = shards.iter().min_by_key(|shard| shard.number).ok_or(ShardError::None)?;
    shards.iter().try_for_each(|shard| shard.check(first))?;
    let mut numbers = BTreeSet::new();
    if let Some(shard) = shards.iter().find(|shard| !numbers.insert(shard.number)) {
        return Err(ShardError::Twice(shard.text.clone()));
    }
    let missing: Vec<usize> = (1..=first.of).filter(|number| !numbers.contains(number)).collect();
    if !missing.is_empty() {
        return Err(ShardError::Missing { of: first.of, missing });
    }
    let mut points: Vec<_> = runs.iter().flat_map(|data| data.points.iter().cloned()).collect();
    points.sort_by_key(|data| data.point.index);
    let finished = runs.iter().filter_map(|data| data.run.finished.clone()).max();
    let run = Run { uuid, plan_toml: first.plan.clone(), finished, ..first.data.run.clone() };
    Ok(RunData { run, points })
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
            run.plan_toml = format!("[buffers]\nqueue = \"fifo\"\nshard = \"{number}/{of}\"\n");
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
        assert_eq!(merged.points, whole.points);
        let (run, plan_toml) = (&parts[0].run, "[buffers]\nqueue = \"fifo\"\n".to_string());
        assert_eq!(merged.run, Run { uuid, plan_toml, ..run.clone() }, "a run of its own");
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
}
