//! `weir inspect`: how a server is built.

use std::io::Write;
use std::net::ToSocketAddrs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use weir_config::plain;
use weir_inspect::{Architecture, Confidence, Target, Verdict, decide, find, from_inside, from_outside};

use crate::{Outcome, cli};

pub(crate) fn run(arguments: &cli::Inspect, out: &mut impl Write) -> Result<Outcome> {
    let target = target(&arguments.target)?;
    let connections = usize::from(arguments.connections);
    let (name, verdict, evidence) = match (find(&target, arguments.port)?, target) {
        (Some(listener), _) => {
            let evidence = from_inside(&listener, connections)?;
            let name = format!("{} ({}, process {})", plain(&listener.name), listener.address, listener.pid);
            (name, decide(&evidence), serde_json::to_value(&evidence)?)
        }
        (None, Target::Address(address)) => {
            let (seen, verdict) = from_outside(address, connections)?;
            (address.to_string(), verdict, serde_json::to_value(seen)?)
        }
        (None, _) => bail!("{}: nobody listens there", arguments.target),
    };
    match arguments.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&as_json(&name, &verdict, evidence)?)?)?,
        false => {
            let confidence = confidence(verdict.confidence);
            writeln!(out, "{name}: {}, confidence {confidence}", verdict.architecture.text())?;
            verdict.reasons.iter().try_for_each(|reason| writeln!(out, "  {reason}"))?;
        }
    }
    Ok(match verdict.architecture {
        Architecture::Unknown => Outcome::Unfit,
        _ => Outcome::Done,
    })
}

/// A process id, HOST:PORT, or a name.
fn target(text: &str) -> Result<Target> {
    if let Ok(pid) = text.parse() {
        return Ok(Target::Pid(pid));
    }
    if !text.contains(':') {
        return Ok(Target::Name(text.to_string()));
    }
    let found = text.to_socket_addrs().with_context(|| format!("`{text}` is no HOST:PORT that can be found"));
    found?.next().map(Target::Address).with_context(|| format!("`{text}` has no address"))
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
