//! `weir list`, `weir show`, `weir report`: looking at what was kept.

use std::io::Write;

use anyhow::{Result, bail};
use weir_lab::export;
use weir_lab::run_data::RunData;
use weir_lab::store::{self, Store};

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
