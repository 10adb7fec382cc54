//! `weir compare`: compares later runs with the first.

use std::io::Write;

use anyhow::{Result, ensure};
use weir_config::plain;
use weir_record::record::RunState;
use weir_record::run_data::RunData;
use weir_record::store::Archive;
use weir_report::compare::{self, Across, Compared, Verdict};

use crate::cli::{self, AcrossKind, FailOn, Side};
use crate::outcome::Outcome;
use crate::records;
use weir_service::say;

pub(crate) fn run(arguments: &cli::Compare, out: &mut impl Write) -> Result<Outcome> {
    let runs = records::sides(&arguments.runs, &arguments.source)?;
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
    let data = records::side(side, Some(archive), Some(plan))?;
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
