//! `weir conformance`: the requirements of the RFCs, and the targets that meet them.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::json;
use weir_conformance::{Finding, Verdict, examine};
use weir_rigs::PLANS;
use weir_testbed::bed::{Bed, BedSpec};
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::{self, Journal};

use crate::outcome::Outcome;
use crate::{cli, privilege};

pub(crate) fn run(arguments: &cli::Conformance, out: &mut impl Write) -> Result<Outcome> {
    let bed = arguments.against.as_deref().map(bed).transpose()?;
    let findings = examine(bed.as_ref())?;
    let targets: Vec<&str> = ["node"].into_iter().chain(arguments.against.as_deref()).collect();
    if arguments.json {
        for finding in &findings {
            writeln!(out, "{}", as_json(finding, &targets))?;
        }
    } else if arguments.markdown {
        write!(out, "{}", markdown(&findings, &targets))?;
    } else {
        write!(out, "{}", table(&findings, &targets))?;
    }
    let kept = findings.iter().all(|finding| !matches!(finding.verdicts[0], Verdict::Broken(_)));
    Ok(if kept { Outcome::Done } else { Outcome::NotAllValid })
}

/// The test bed: the kernel's NAT in its own namespaces, or the external device of a plan.
fn bed(name: &str) -> Result<Bed> {
    let external = match name {
        "kernel" => None,
        plan => {
            let plan = PLANS.load(plan, &[])?;
            let external = weir_rigs::throughput::Throughput::of(&plan)
                .and_then(|throughput| throughput.external.clone());
            Some(external.with_context(|| {
                format!("{name} has no external device: describe it in a section [external]")
            })?)
        }
    };
    privilege::obtain(cli::TesterKind::Packet)?;
    let dut = if external.is_some() { DutKind::EXTERNAL } else { DutKind::KERNEL_NAT };
    let spec = BedSpec::plain(dut, CpuPlan::choose(DutCpus::Count(1))?.dut);
    let mut journal = Journal::in_dir(&journal::default_dir());
    Ok(match external {
        Some(external) => Bed::around(&spec, &external, None, &journal)?,
        None => Bed::build(&spec, &mut journal)?,
    })
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Kept => "kept",
        Verdict::Broken(_) => "BROKEN",
        Verdict::Untried => "-",
    }
}

fn as_json(finding: &Finding, targets: &[&str]) -> serde_json::Value {
    let verdicts = targets.iter().zip(&finding.verdicts).map(|(target, verdict)| {
        let (verdict, why) = match verdict {
            Verdict::Kept => ("kept", None),
            Verdict::Broken(why) => ("broken", Some(why)),
            Verdict::Untried => ("untried", None),
        };
        (target.to_string(), json!({ "verdict": verdict, "why": why }))
    });
    json!({
        "reference": finding.reference,
        "title": finding.title,
        "scenario": finding.place,
        "verdicts": verdicts.collect::<serde_json::Map<_, _>>(),
    })
}

/// For a terminal: a line for each requirement, then what was broken.
fn table(findings: &[Finding], targets: &[&str]) -> String {
    let width = findings.iter().map(|finding| finding.reference.len()).max().unwrap_or_default();
    let mut text = format!("{:width$}", "");
    targets.iter().for_each(|target| text += &format!("  {target:8}"));
    text += "\n";
    for finding in findings {
        text += &format!("{:width$}", finding.reference);
        finding.verdicts.iter().for_each(|verdict| text += &format!("  {:8}", word(verdict)));
        text += &format!("  {}\n", finding.title);
    }
    for (finding, target, why) in broken(findings, targets) {
        text += &format!("\n{target}, {} ({}): {why}\n", finding.reference, finding.place);
    }
    text + "\n" + &summary(findings, targets)
}

fn broken<'a>(
    findings: &'a [Finding],
    targets: &'a [&str],
) -> impl Iterator<Item = (&'a Finding, &'a str, &'a str)> {
    findings.iter().flat_map(move |finding| {
        targets.iter().zip(&finding.verdicts).filter_map(move |(target, verdict)| match verdict {
            Verdict::Broken(why) => Some((finding, *target, why.as_str())),
            _ => None,
        })
    })
}

fn summary(findings: &[Finding], targets: &[&str]) -> String {
    let line = |(n, target): (usize, &&str)| {
        let count =
            |word_: &str| findings.iter().filter(|finding| word(&finding.verdicts[n]) == word_).count();
        format!("{target}: {} kept, {} broken, {} not tested\n", count("kept"), count("BROKEN"), count("-"))
    };
    targets.iter().enumerate().map(line).collect()
}

/// For the documentation.
fn markdown(findings: &[Finding], targets: &[&str]) -> String {
    let command = match targets {
        [_, against] => format!("weir conformance --against {against} --markdown"),
        _ => "weir conformance --markdown".to_string(),
    };
    let kernel = weir_disk::kernel_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut text = format!(
        "# Conformance: requirements of the RFCs, and which are met\n\n\
         Written by `{command}`, version {}, on Linux {}.\n\n\
         A requirement is kept if its scenario in `tests/` passes, packet by packet, with every checksum right. `-`: it\n\
         cannot be tried from outside: time, options or counters are missing. A kernel's NAT is `masquerade` of nftables\n\
         towards the outside, as most users configure it: another configuration may keep what this one breaks.\n\n",
        env!("CARGO_PKG_VERSION"),
        kernel.trim(),
    );
    text += &format!("| requirement | {} | expected behaviour |\n", targets.join(" | "));
    text += &format!("|---|{}---|\n", "---|".repeat(targets.len()));
    for finding in findings {
        let verdicts: Vec<_> = finding.verdicts.iter().map(word).collect();
        text += &format!("| {} | {} | {} |\n", finding.reference, verdicts.join(" | "), finding.title);
    }
    for (finding, target, why) in broken(findings, targets) {
        text += &format!("\n{target}, {} ({}): `{why}`\n", finding.reference, finding.place);
    }
    text
}
