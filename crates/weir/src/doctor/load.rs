//! `weir doctor --for ROLE`: the limits of this machine under load, and how to raise them.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use weir_config::did_you_mean;
use weir_host::{Ceiling, Effect, Fix, Host, Load, Role, Undo, Undone};
use weir_report::view::format::wrapped;
use weir_testbed::journal;

use crate::cli;
use crate::outcome::Outcome;

/// Columns of a line.
const WIDTH: usize = 80;
/// Columns before the text of a setting.
const INDENT: usize = 8;

pub(super) fn run(role: Role, arguments: &cli::Doctor, out: &mut impl Write) -> Result<Outcome> {
    let load = Load {
        connections: arguments.connections,
        flows: arguments.flows,
        frames_per_s: arguments.fps,
        bits_per_s: arguments.rate,
        rtt_s: arguments.rtt.as_secs_f64(),
    };
    let host = Host::here();
    let ceilings = weir_host::examine(&host, role, &load);
    let fits = !ceilings.iter().any(Ceiling::is_short);
    check_names(&arguments.only, &ceilings)?;
    if arguments.json {
        let list: Vec<_> = ceilings.iter().map(as_json).collect();
        let document =
            json!({ "role": role.name(), "load": load_json(&load), "fits": fits, "ceilings": list });
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        write!(out, "{}", text(role, &ceilings))?;
    }
    if arguments.fix {
        fix(&host, &ceilings, arguments, out)?;
        return Ok(Outcome::Done);
    }
    Ok(if fits { Outcome::Done } else { Outcome::Unfit })
}

fn load_json(load: &Load) -> Value {
    json!({
        "connections": load.connections,
        "flows": load.flows,
        "frames_per_s": load.frames_per_s,
        "bits_per_s": load.bits_per_s,
        "rtt_s": load.rtt_s,
    })
}

fn as_json(ceiling: &Ceiling) -> Value {
    json!({
        "setting": ceiling.setting,
        "effect": ceiling.effect.name(),
        "fits": ceiling.fits,
        "now": ceiling.now,
        "wanted": ceiling.wanted,
        "why": ceiling.why,
        "cost": ceiling.cost,
        "commands": ceiling.fixes.iter().map(Fix::command).collect::<Vec<_>>(),
    })
}

/// The answer, then a paragraph for each ceiling, the worst first, then what fits.
fn text(role: Role, ceilings: &[Ceiling]) -> String {
    let (short, fitting): (Vec<_>, Vec<_>) = ceilings.iter().partition(|one| one.effect != Effect::Fits);
    let below: Vec<_> = short.iter().filter(|one| one.is_short()).collect();
    let role = role.name();
    let mut text = match (below.as_slice(), below.first()) {
        (_, None) => format!("{role}: no setting is below the load\n"),
        ([_], Some(one)) => format!("{role}: one setting is below the load: {}\n", one.setting),
        (all, Some(first)) => {
            format!("{role}: {} settings are below the load, first {}\n", all.len(), first.setting)
        }
    };
    for one in short {
        let wanted = one.wanted.as_ref().map_or(String::new(), |wanted| format!(" -> {wanted}"));
        text.push_str(&format!(
            "\n{:6} {:3.0} %  {}: {}{wanted}\n",
            one.effect.name(),
            one.fits * 100.0,
            one.setting,
            one.now
        ));
        text.push_str(&indented(&one.why));
        text.push_str(&indented(&one.cost));
        let commands = one.fixes.iter().map(|fix| format!("{:INDENT$}{}\n", "", fix.command()));
        text.extend(commands);
    }
    let names: Vec<_> = fitting.iter().map(|one| format!("{} {}", one.setting, one.now)).collect();
    if !names.is_empty() {
        text.push_str(&format!("\nfits\n{}", indented(&names.join(", "))));
    }
    text
}

/// A text in lines with an indent.
fn indented(text: &str) -> String {
    wrapped(text, WIDTH - INDENT).lines().map(|line| format!("{:INDENT$}{line}\n", "")).collect()
}

/// Names of `--only` must be settings that weir would change.
fn check_names(only: &[String], ceilings: &[Ceiling]) -> Result<()> {
    let names: Vec<&str> =
        ceilings.iter().filter(|one| !one.fixes.is_empty()).map(|one| one.setting.as_str()).collect();
    match only.iter().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) if names.is_empty() => {
            bail!("--only {name}: weir can raise no setting that is below the load: omit --fix")
        }
        Some(name) => {
            bail!("--only {name}: weir has no change for this setting: {}", did_you_mean(name, &names))
        }
    }
}

/// Makes the requested changes after confirmation.
fn fix(host: &Host, ceilings: &[Ceiling], arguments: &cli::Doctor, out: &mut impl Write) -> Result<()> {
    let is_wanted = |one: &&Ceiling| arguments.only.is_empty() || arguments.only.contains(&one.setting);
    let fixes: Vec<Fix> = ceilings.iter().filter(is_wanted).flat_map(|one| one.fixes.clone()).collect();
    if fixes.is_empty() {
        writeln!(out, "\nweir can raise no setting that is below the load while the machine runs.")?;
        return Ok(());
    }
    writeln!(out, "\nThese commands change the machine:")?;
    fixes.iter().try_for_each(|fix| writeln!(out, "  {}", fix.command()))?;
    out.flush()?;
    if !arguments.yes && !agreed(out)? {
        bail!("nothing changed: answer y, or use --yes");
    }
    let undo = undo_file()?;
    weir_host::apply(host, &fixes, &undo)?;
    writeln!(out, "Changed; `weir doctor --undo` restores the old values ({}).", undo.path().display())?;
    if arguments.persist {
        let written = weir_host::persist(host, &fixes)?;
        written.iter().try_for_each(|path| writeln!(out, "Written: {}", path.display()))?;
        if written.iter().any(|path| path.extension().is_some_and(|kind| kind == "service")) {
            writeln!(out, "To apply the settings at boot: systemctl enable weir-settings")?;
        }
    }
    Ok(())
}

/// Asks on the terminal; no where there is none.
fn agreed(out: &mut impl Write) -> Result<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(false);
    }
    write!(out, "Run them? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Beside the journals of runs.
fn undo_file() -> Result<Undo> {
    let journals = journal::default_dir();
    let folder = journals.parent().context("the folder of the journals has no parent")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    Ok(Undo::in_file(folder.join("doctor-undo.json")))
}

/// Restores the old values.
pub(super) fn undo(out: &mut impl Write) -> Result<Outcome> {
    let host = Host::here();
    let mut is_all = true;
    let undone = weir_host::undo(&host, &undo_file()?)?;
    if undone.is_empty() {
        writeln!(out, "There is no change of `weir doctor --fix` to undo.")?;
    }
    for one in undone {
        match one {
            Undone::Restored(command) => writeln!(out, "restored  {command}")?,
            Undone::Already(command) => writeln!(out, "already   {command}")?,
            Undone::Changed { command, now } => {
                is_all = false;
                writeln!(
                    out,
                    "left      {now}: changed since by another program; to restore the value before weir: {command}"
                )?;
            }
        }
    }
    for path in weir_host::forget(&host)? {
        writeln!(out, "removed   {}", path.display())?;
    }
    Ok(if is_all { Outcome::Done } else { Outcome::Unfit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_only_is_one_that_weir_would_change() {
        let none = check_names(&["net.core.somaxconn".into()], &[]).unwrap_err().to_string();
        assert!(none.contains("omit --fix"), "{none}");
        let setting = |name: &str, fixes: Vec<Fix>| Ceiling {
            setting: name.into(),
            now: "1".into(),
            wanted: Some("2".into()),
            effect: Effect::Loses,
            fits: 0.5,
            why: String::new(),
            cost: String::new(),
            fixes,
        };
        let fix = Fix::File { path: "/proc/sys/net/core/somaxconn".into(), value: "2".into() };
        let all = [setting("net.core.somaxconn", vec![fix]), setting("open files of a process", Vec::new())];
        assert!(check_names(&["net.core.somaxconn".into()], &all).is_ok());
        let error = |name: &str| check_names(&[name.to_string()], &all).unwrap_err().to_string();
        assert!(error("net.core.somaxcon").ends_with("did you mean `net.core.somaxconn`?"));
        assert!(error("open files of a process").contains("weir has no change for this setting"));
    }

    #[test]
    fn lines_end_at_80_columns() {
        let text = indented(&"some words that go on ".repeat(20));
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("        ")), "{text}");
        assert!(text.lines().count() > 4);
        let long = "x".repeat(100);
        assert_eq!(indented(&long), format!("        {long}\n"), "a long word stays whole");
    }
}
