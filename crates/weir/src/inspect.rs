//! `weir inspect`: how a server is built.

use std::io::Write;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use weir_config::plain;
use weir_inspect::{
    Architecture, Confidence, InspectError, Target, Verdict, decide, find, from_inside, from_outside,
};

use crate::cli;
use crate::outcome::Outcome;
use weir_service::say;

pub(crate) fn run(arguments: &cli::Inspect, out: &mut impl Write) -> Result<Outcome> {
    let mut targets = targets(&arguments.target)?.into_iter().peekable();
    let (name, verdict, evidence) = loop {
        let Some(target) = targets.next() else { bail!("`{}` has no address", arguments.target) };
        let found = inspected(arguments, &target);
        match (&found, targets.peek()) {
            (Err(error), Some(_)) if is_unreachable(error) => say::say(&format!("note: {error:#}")),
            _ => break found?,
        }
    };
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&as_json(&name, &verdict, evidence)?)?)?;
    } else {
        let confidence = confidence(verdict.confidence);
        writeln!(out, "{name}: {}, confidence {confidence}", verdict.architecture.text())?;
        verdict.reasons.iter().try_for_each(|reason| writeln!(out, "  {reason}"))?;
    }
    Ok(match verdict.architecture {
        Architecture::Unknown => Outcome::Unfit,
        _ => Outcome::Done,
    })
}

/// Name of a server, the verdict, and the evidence.
fn inspected(arguments: &cli::Inspect, target: &Target) -> Result<(String, Verdict, Value)> {
    let connections = usize::from(arguments.connections);
    match (find(target, arguments.port)?, target) {
        (Some(listener), _) => {
            let evidence = from_inside(&listener, connections)?;
            let name = format!("{} ({}, process {})", plain(&listener.name), listener.address, listener.pid);
            Ok((name, decide(&evidence), serde_json::to_value(&evidence)?))
        }
        (None, Target::Address(address)) => {
            let (seen, verdict) = from_outside(*address, connections)?;
            Ok((address.to_string(), verdict, serde_json::to_value(seen)?))
        }
        (None, _) => bail!("{}: no process listens there", arguments.target),
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(InspectError::Connect(..)))
}

/// A process id, a name, or HOST:PORT with all its addresses.
fn targets(text: &str) -> Result<Vec<Target>> {
    if let Ok(pid) = text.parse() {
        return Ok(vec![Target::Pid(pid)]);
    }
    if !text.contains(':') {
        return Ok(vec![Target::Name(text.to_string())]);
    }
    let host = cli::Host::read(text).map_err(anyhow::Error::msg)?;
    let port =
        host.port.with_context(|| format!("`{text}` has no port: use HOST:PORT, or [ADDRESS]:PORT"))?;
    Ok(host.addresses(port).into_iter().map(Target::Address).collect())
}

fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}

fn as_json(name: &str, verdict: &Verdict, evidence: Value) -> Result<Value> {
    Ok(json!({
        "server": name,
        "text": verdict.architecture.text(),
        "architecture": serde_json::to_value(verdict.architecture)?,
        "confidence": confidence(verdict.confidence),
        "reasons": verdict.reasons,
        "evidence": evidence,
    }))
}
