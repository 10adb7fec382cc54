//! `weir compare`: compares later runs with the first.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use weir_config::plain;
use weir_record::record::{Run, RunState};
use weir_record::run_data::RunData;
use weir_record::store::Archive;
use weir_report::compare::{self, Across, Compared, Verdict};

use crate::cli::{self, AcrossKind, FailOn, Side};
use crate::outcome::Outcome;
use crate::records;
use weir_service::say;

pub(crate) fn run(arguments: &cli::Compare, out: &mut impl Write) -> Result<Outcome> {
    let runs = sides(arguments)?;
    if !arguments.fail_on.is_empty() {
        // A verdict needs complete runs.
        runs.iter().try_for_each(check_complete)?;
    }
    let across: Vec<Across> = arguments.across.iter().map(|&kind| across(kind)).collect();
    let (base, others) = runs.split_first().expect("clap requires two");
    let compared: Vec<_> = others.iter().map(|other| compare::compare(base, other, &across)).collect();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&compared)?)?;
    } else {
        let texts: Vec<_> = compared.iter().map(compare::text).collect();
        write!(out, "{}", plain(&texts.join("\n")))?;
    }
    // No short circuit: each failed comparison prints its reason.
    let fails = compared.iter().filter(|compared| fails(compared, &arguments.fail_on)).count() > 0;
    Ok(if fails { Outcome::Differs } else { Outcome::Done })
}

/// The baseline for a new run of this plan.
pub(crate) fn baseline(side: &Side, archive: &dyn Archive, plan: &str) -> Result<RunData> {
    let data = one(side, Some(archive), Some(plan))?;
    check_complete(&data)?;
    Ok(data)
}

/// Compares a new run with the baseline; a file may be from another processor and kernel.
pub(crate) fn with_baseline(base: &RunData, data: &RunData, side: Option<&Side>) -> Compared {
    match side {
        Some(Side::File(_)) => compare::compare(base, data, &[Across::Machine, Across::Kernel]),
        _ => compare::compare(base, data, &[]),
    }
}

/// Compares the second run with the first.
pub(crate) fn sides_of([base, other]: &[RunData; 2]) -> Compared {
    compare::compare(base, other, &[])
}

/// For a terminal.
pub(crate) fn shown(compared: &Compared) -> String {
    plain(&compare::text(compared)).into_owned()
}

/// Whether a comparison fails: a point has one of these verdicts, or no point was compared at all.
pub(crate) fn fails(compared: &Compared, on: &[FailOn]) -> bool {
    if !on.is_empty() && compared.rows.is_empty() {
        say::say(&format!(
            "weir: --fail-on fails: no point has a result in both run {} and run {}",
            compared.base, compared.other
        ));
        return true;
    }
    on.iter().any(|on| has(compared, *on))
}

/// The requested runs. `last` is the last complete run of the plan of the first run, or of any plan if it is the first.
fn sides(arguments: &cli::Compare) -> Result<Vec<RunData>> {
    let needs_archive = arguments.runs.iter().any(|side| !matches!(side, Side::File(_)));
    let archive = needs_archive.then(|| records::open_to_read(&arguments.store)).transpose()?;
    let mut runs: Vec<RunData> = Vec::new();
    for side in &arguments.runs {
        let plan = runs.first().map(|base| base.run.plan.as_str());
        let run = one(side, archive.as_deref(), plan)?;
        runs.push(run);
    }
    Ok(runs)
}

fn one(side: &Side, archive: Option<&dyn Archive>, plan: Option<&str>) -> Result<RunData> {
    match (side, archive) {
        (Side::File(path), _) => records::exported(path),
        (Side::Number(id), Some(archive)) => records::find(archive, cli::RunName::Number(*id)),
        (Side::Last, Some(archive)) => {
            records::find(archive, cli::RunName::Number(last_complete(archive, plan)?))
        }
        (_, None) => unreachable!("opened for these"),
    }
}

/// Number of the last complete run of this plan, or of any.
fn last_complete(archive: &dyn Archive, plan: Option<&str>) -> Result<i64> {
    let is_it = |run: &&Run| run.state == RunState::Complete && plan.is_none_or(|plan| run.plan == plan);
    let runs = archive.runs()?;
    let of = plan.map_or_else(String::new, |plan| format!(" of `{plan}`"));
    let found = runs.iter().rev().find(is_it);
    found.map(|run| run.id).with_context(|| format!("there is no complete run{of}: see `weir list`"))
}

fn check_complete(data: &RunData) -> Result<()> {
    let (id, state) = (data.run.id, data.run.state);
    ensure!(
        state == RunState::Complete,
        "run {id} is {}: --fail-on needs complete runs; complete it with `weir run --resume {id}`",
        weir_record::run_data::state_name(state)
    );
    Ok(())
}

fn across(kind: AcrossKind) -> Across {
    match kind {
        AcrossKind::Machine => Across::Machine,
        AcrossKind::Kernel => Across::Kernel,
        AcrossKind::Placement => Across::Placement,
    }
}

fn has(compared: &Compared, on: FailOn) -> bool {
    let verdict = |verdict| compared.rows.iter().any(|row| row.verdict == verdict);
    match on {
        FailOn::Slower => verdict(Verdict::Slower) || verdict(Verdict::Worse),
        FailOn::Faster => verdict(Verdict::Faster) || verdict(Verdict::Better),
        FailOn::CannotTell => verdict(Verdict::CannotTell),
        FailOn::Unmatched => !compared.unmatched.is_empty(),
    }
}
