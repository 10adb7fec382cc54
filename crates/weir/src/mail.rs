//! `weir mail`: load for a mail server, with an outcome for each recipient.

use std::io::Write;

use anyhow::Result;
use weir_config::plain;
use weir_mail::engine::{Report, deliver};

use crate::cli;
use crate::outcome::Outcome;
use weir_service::say;

pub(crate) fn run_one(arguments: &cli::Mail, out: &mut impl Write) -> Result<Outcome> {
    let (stop, order) = (crate::run::stop_flag()?, arguments.order());
    say::say(&format!(
        "{}: {} recipients over {} connections{}",
        arguments.to.text,
        order.job.recipients,
        order.connections,
        order.rate.map_or_else(String::new, |rate| format!(", {rate} per second")),
    ));
    let report = deliver(&order, &stop)?;
    let text = if arguments.json { serde_json::to_string(&report)? + "\n" } else { text(&report) };
    out.write_all(text.as_bytes()).and_then(|()| out.flush())?;
    Ok(match (report.unfinished, has_taken_all(&report)) {
        (1.., _) => Outcome::Interrupted,
        (0, true) => Outcome::Done,
        (0, false) => Outcome::NotAllValid,
    })
}

fn outcome(report: &Report, name: &str) -> u64 {
    report.outcomes.get(name).copied().unwrap_or(0)
}

fn has_taken_all(report: &Report) -> bool {
    outcome(report, "failed") + outcome(report, "expired") == 0
}

fn text(report: &Report) -> String {
    let delivered = outcome(report, "delivered");
    let mut text = format!(
        "{delivered} recipients accepted by the server in {:.3} s, {:.1}/s; {} failed, {} expired{}\n",
        report.elapsed_s,
        delivered as f64 / report.elapsed_s.max(1e-9),
        outcome(report, "failed"),
        outcome(report, "expired"),
        if report.unfinished > 0 {
            format!(", {} without an outcome", report.unfinished)
        } else {
            String::new()
        },
    );
    if report.before > 0 {
        text += &format!("{} have an outcome in the log from an earlier run\n", report.before);
    }
    text += &format!(
        "{} transactions, {} connections, at most {} at the same time\n",
        report.transactions, report.connections, report.open_max
    );
    for (trouble, recipients) in &report.troubles {
        text += &format!("  {}: {recipients} times\n", plain(trouble));
    }
    if !report.latency.is_empty() {
        text +=
            &format!("  {:<10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "ms", "count", "p50", "p90", "p99", "max");
    }
    for (step, latency) in &report.latency {
        let [p50, p90, p99, max] =
            [latency.p50_s, latency.p90_s, latency.p99_s, latency.max_s].map(|s| s * 1e3);
        text += &format!("  {step:<10}{:>10}{p50:>10.3}{p90:>10.3}{p99:>10.3}{max:>10.3}\n", latency.count);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_answers_what_was_asked() {
        let outcomes = [("delivered", 98), ("failed", 2), ("expired", 0)];
        let report = Report {
            outcomes: outcomes.map(|(name, n)| (name.to_string(), n)).into(),
            elapsed_s: 2.0,
            troubles: [("550 to RCPT".to_string(), 2)].into(),
            ..Report::default()
        };
        let said = text(&report);
        assert_eq!(
            said.lines().next(),
            Some("98 recipients accepted by the server in 2.000 s, 49.0/s; 2 failed, 0 expired")
        );
        assert!(said.contains("  550 to RCPT: 2 times") && !has_taken_all(&report), "{said}");
    }
}
