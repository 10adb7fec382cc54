//! `weir list`, `weir show`, `weir report`, `weir export`, `weir trend`: looking at what was kept.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use weir_lab::export;
use weir_lab::run_data::RunData;
use weir_lab::store::{self, Store};
use weir_lab::trend::{self, Filter};

use crate::cli::ExportFormat;
use crate::{cli, run};

/// Opens the file that the user names, or the one in the data folder.
pub(crate) fn open(arguments: &cli::Store) -> Result<Store> {
    let path = match &arguments.store {
        Some(path) => path.clone(),
        None => {
            let variable = |name| std::env::var_os(name);
            store::default_path(variable("XDG_DATA_HOME").as_deref(), variable("HOME").as_deref())?
        }
    };
    Ok(Store::open(&path)?)
}

pub(crate) fn list(arguments: &cli::List, out: &mut impl Write) -> Result<()> {
    let runs = open(&arguments.store)?.runs()?;
    if arguments.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&runs)?)?);
    }
    Ok(write!(out, "{}", export::list(&runs))?)
}

pub(crate) fn show(arguments: &cli::Show, out: &mut impl Write) -> Result<()> {
    let data = find(&open(&arguments.store)?, arguments.run)?;
    let text = match (arguments.json, arguments.csv) {
        (true, _) => export::json(&data) + "\n",
        (_, true) => export::csv(&data),
        _ => export::show(&data),
    };
    Ok(write!(out, "{text}")?)
}

pub(crate) fn report(arguments: &cli::Report, out: &mut impl Write) -> Result<()> {
    let store = open(&arguments.store)?;
    let runs = arguments.runs.iter().map(|&id| find(&store, id)).collect::<Result<Vec<_>>>()?;
    let path = run::write_report(&runs, arguments.output.as_deref())?;
    Ok(writeln!(out, "{}", path.display())?)
}

pub(crate) fn export(arguments: &cli::Export, out: &mut impl Write) -> Result<()> {
    let data = find(&open(&arguments.store)?, arguments.run)?;
    let text = match arguments.format {
        ExportFormat::Csv => export::csv(&data),
        ExportFormat::Jsonl => export::jsonl(&data),
        ExportFormat::Prometheus => export::prometheus(&data),
        ExportFormat::Markdown => export::markdown(&data),
        ExportFormat::Latex => export::latex(&data),
    };
    match &arguments.output {
        Some(path) => replace(path, &text).with_context(|| format!("cannot write to {}", path.display())),
        None => Ok(out.write_all(text.as_bytes())?),
    }
}

/// Writes a file that others read at any time: under another name first, so that they never see half of it. What is
/// there and no plain file (a device, a pipe, a link) stays what it is.
fn replace(path: &Path, text: &str) -> Result<()> {
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Ok(std::fs::write(path, text)?);
    }
    let mut name = path.file_name().context("it is no name of a file")?.to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let draft = path.with_file_name(name);
    let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        // What is left of the draft is of no use; that it cannot be removed changes nothing.
        let _ = std::fs::remove_file(&draft);
    }
    Ok(written?)
}

pub(crate) fn trend(arguments: &cli::Trend, out: &mut impl Write) -> Result<()> {
    let store = open(&arguments.store)?;
    let filter = Filter { goals: arguments.goals.clone(), settings: arguments.settings.clone() };
    let runs = store.runs()?.into_iter().filter(|run| run.plan == arguments.plan);
    let with_points = runs.map(|run| store.points(run.id).map(|points| (run, points)));
    let runs = with_points.collect::<Result<Vec<_>, _>>()?;
    let Some(trend) = trend::trend(&arguments.plan, &runs, &filter) else {
        bail!("no complete run of `{}` was kept: see `weir list`", arguments.plan);
    };
    match &arguments.output {
        Some(path) => {
            std::fs::write(path, trend::html(&trend))
                .with_context(|| format!("cannot write the trend to {}", path.display()))?;
            Ok(writeln!(out, "{}", path.display())?)
        }
        None if arguments.json => Ok(writeln!(out, "{}", serde_json::to_string_pretty(&trend)?)?),
        None => Ok(write!(out, "{}", trend::text(&trend))?),
    }
}

/// The run that the user names.
pub(crate) fn find(store: &Store, run: cli::RunId) -> Result<RunData> {
    let id = match run {
        cli::RunId::Number(id) => id,
        cli::RunId::Last => match store.last_run_id()? {
            Some(id) => id,
            None => bail!("no run was kept yet: start with `weir run quick`"),
        },
    };
    Ok(store.run_data(id)?)
}
