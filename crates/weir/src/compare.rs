//! `weir compare`: later runs against the first.

use std::io::Write;

use anyhow::Result;
use weir_config::plain;
use weir_lab::compare::{self, Across, Compared, Verdict};

use crate::cli::{self, AcrossKind, FailOn};
use crate::{Outcome, records};

pub(crate) fn run(arguments: &cli::Compare, out: &mut impl Write) -> Result<Outcome> {
    let store = records::open(&arguments.store)?;
    let runs = arguments.runs.iter().map(|&id| records::find(&store, id)).collect::<Result<Vec<_>>>()?;
    let across: Vec<Across> = arguments.across.iter().map(|&kind| across(kind)).collect();
    let (base, others) = runs.split_first().expect("clap asks for two");
    let compared: Vec<_> = others.iter().map(|other| compare::compare(base, other, &across)).collect();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&compared)?)?;
    } else {
        let texts: Vec<_> = compared.iter().map(compare::text).collect();
        write!(out, "{}", plain(&texts.join("\n")))?;
    }
    let fails = arguments.fail_on.iter().any(|on| compared.iter().any(|c| has(c, *on)));
    Ok(if fails { Outcome::Differs } else { Outcome::Done })
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
        FailOn::Slower => verdict(Verdict::Slower),
        FailOn::Faster => verdict(Verdict::Faster),
        FailOn::CannotTell => verdict(Verdict::CannotTell),
        FailOn::Unmatched => compared.rows.is_empty() || !compared.unmatched.is_empty(),
    }
}
