//! `weir check --capture`: does a capture account for every frame, with each method?

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use weir_lab::check::{CaptureChecker, CaptureProof, Way};
use weir_port::capture::Method;

use crate::outcome::Outcome;
use crate::{capture, cli, run};
use weir_service::say;

/// Runs all tests with each method.
pub(super) fn check(arguments: &cli::Check, out: &mut impl Write) -> Result<Outcome> {
    capture::check_permission()?;
    let stop = run::stop_flag()?;
    let methods: Vec<Method> = match arguments.method {
        Some(method) => vec![method],
        None => Method::all().filter(|method| method.hands_on()).collect(),
    };
    let folder = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let checker = CaptureChecker::new(&folder)?;
    writeln!(out, "{HEAD}")?;
    let mut good = true;
    for method in methods {
        for (way, name) in Way::ALL {
            let proof = checker.prove(method, way, arguments.frames)?;
            writeln!(out, "{}", row(method, name, &proof))?;
            out.flush()?;
            proof.wrong.iter().for_each(|wrong| say::say(&format!("{method}, {name}: {wrong}")));
            good &= proof.wrong.is_empty();
            if is_set(&stop) {
                return Ok(Outcome::Interrupted);
            }
        }
    }
    writeln!(out, "{NOTE}")?;
    Ok(if good { Outcome::Done } else { Outcome::Unfit })
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

const HEAD: &str = "method         what                           sent   in files    dropped  after end  files  stamps, us: least  median    most  where dropped";

const NOTE: &str = "\nEach frame in the files was compared with the sent one, bit for bit. Sent = in files + dropped; if the capture \
    ended while frames arrived, up to the last frame of each flow in the files. Stamps are the time stamps in the files, relative \
    to the departure by the sender's clock; the two clocks agree within 1 ms.";

fn row(method: Method, name: &str, proof: &CaptureProof) -> String {
    let [least, median, most] = proof.lag_ns.unwrap_or_default().map(|ns| ns as f64 / 1e3);
    let places: Vec<String> = proof.drops.iter().map(|(name, frames)| format!("{name} {frames}")).collect();
    format!(
        "{method:12} {name:22} {:>12} {:>10} {:>10} {:>10} {:>6} {least:>18.1} {median:>7.1} {most:>7.0}  {}{}",
        proof.sent,
        proof.captured,
        proof.dropped(),
        proof.after,
        proof.files,
        places.join(", "),
        if proof.wrong.is_empty() { "" } else { "  WRONG" },
    )
}
