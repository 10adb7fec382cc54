//! `weir list`, `weir show`, `weir report`, `weir export`, `weir merge`, `weir trend`: commands for recorded runs.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use weir_config::plain;
use weir_record::record::{Point, Run, RunId, RunState, RunSummary};
use weir_record::run_data::RunData;
use weir_record::store::{Archive, RunLog, SqliteArchive, StoreError};
use weir_report::export;
use weir_report::trend::{self, Filter};

use crate::cli::{ExportFormat, Side, TrendOrder};
use crate::place::{Place, REPORT};
use crate::{archive, cli};
use weir_service::say;

/// Opens the run log of this machine, and creates it if it does not exist.
pub(crate) fn open(arguments: &cli::Store) -> Result<RunLog> {
    Ok(RunLog::open(&arguments.path()?)?)
}

/// Opens the run log to change records: a file of --store must exist.
pub(crate) fn open_existing(arguments: &cli::Store) -> Result<RunLog> {
    match &arguments.store {
        Some(path) => Ok(RunLog::open_existing(path)?),
        None => open(arguments),
    }
}

/// Opens the archive to read, and creates no file: a file of --store must exist.
pub(crate) fn open_to_read(arguments: &cli::Source) -> Result<Box<dyn Archive>> {
    if let Some(address) = &arguments.from {
        return archive::open(address);
    }
    let arguments = &arguments.store;
    let path = arguments.path()?;
    match SqliteArchive::open_to_read(&path) {
        Err(StoreError::NoFile(_)) if arguments.store.is_none() => Ok(Box::new(SqliteArchive::empty(&path)?)),
        opened => Ok(Box::new(opened?)),
    }
}

pub(crate) fn list(arguments: &cli::List, out: &mut impl Write) -> Result<()> {
    let archive = open_to_read(&arguments.source)?;
    if arguments.json {
        let runs = archive.runs()?;
        say::notes(&archive.damaged());
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&runs)?)?);
    }
    let runs = archive.list()?;
    say::notes(&archive.damaged());
    Ok(write!(out, "{}", plain(&export::list(&runs)))?)
}

pub(crate) fn show(arguments: &cli::Show, out: &mut impl Write) -> Result<()> {
    let data = find(&*open_to_read(&arguments.source)?, arguments.run)?;
    let text = match (arguments.json, arguments.csv) {
        (true, _) => export::json(&data) + "\n",
        (_, true) => export::csv(&data),
        _ => plain(&export::show(&data, weir_rigs::sections())).into_owned(),
    };
    Ok(write!(out, "{text}")?)
}

pub(crate) fn report(arguments: &cli::Report, out: &mut impl Write) -> Result<()> {
    let archive = open_to_read(&arguments.source)?;
    let runs = arguments.runs.iter().map(|&run| find(&*archive, run)).collect::<Result<Vec<_>>>()?;
    let path = Place::of(arguments.output.as_deref(), &arguments.source.store)?.write(&runs)?;
    Ok(writeln!(out, "{}", path.display())?)
}

/// Merges shards into one run, and stores it.
pub(crate) fn merge(arguments: &cli::Merge, out: &mut impl Write) -> Result<()> {
    let mut shards = sides(&arguments.shards, &arguments.source)?;
    if arguments.others {
        shards.extend(others(&shards, &arguments.source)?);
    }
    let whole = weir_record::shards::merge(&shards, RunId::random())?;
    let log = open(&arguments.source.store)?;
    let archive = log.archive();
    let id = archive.put(&whole)?;
    let data = archive.run_data(whole.run.uuid)?;
    let text = if arguments.json {
        export::json(&data) + "\n"
    } else {
        plain(&export::answer(&data, weir_rigs::sections(), say::columns())).into_owned()
    };
    out.write_all(text.as_bytes())?;
    say::say(&format!("merged {} shards into run {id}: `weir report {id}` writes its report", shards.len()));
    Ok(())
}

/// The other shards of the same grid that are recorded.
fn others(shards: &[RunData], source: &cli::Source) -> Result<Vec<RunData>> {
    let archive = open_to_read(source)?;
    let given: Vec<&Run> = shards.iter().map(|data| &data.run).collect();
    let plan = given.first().map_or("", |run| &run.plan);
    let runs: Vec<Run> = archive.of_plan(plan)?.into_iter().map(|(run, _)| run).collect();
    let found = weir_record::shards::others(&given, &runs);
    let found = found.into_iter().map(|run| Ok(archive.run_data(run)?)).collect();
    say::notes(&archive.damaged());
    found
}

/// A run as `weir show --json` writes it.
pub(crate) fn exported(path: &Path) -> Result<RunData> {
    let name = path.display();
    let text = std::fs::read(path)
        .with_context(|| format!("cannot read {name} (write one with `weir show ID --json > {name}`)"))?;
    serde_json::from_slice(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text))
        .with_context(|| format!("{name} contains no run: write it with `weir show ID --json > {name}`"))
}

pub(crate) fn export(arguments: &cli::Export, out: &mut impl Write) -> Result<()> {
    let data = find(&*open_to_read(&arguments.source)?, arguments.run)?;
    if let ExportFormat::Svg = arguments.format {
        return drawings(&data, arguments.output.as_deref(), out);
    }
    let text = match arguments.format {
        ExportFormat::Csv => export::csv(&data),
        ExportFormat::Figures => export::figures(&data),
        ExportFormat::Jsonl => export::jsonl(&data),
        ExportFormat::Prometheus => export::prometheus(&data),
        ExportFormat::Markdown => export::markdown(&data, weir_rigs::sections()),
        ExportFormat::Latex => export::latex(&data, weir_rigs::sections()),
        ExportFormat::Tabular => export::tabular(&data, weir_rigs::sections()),
        ExportFormat::Svg => unreachable!("see above"),
    };
    match &arguments.output {
        Some(path) => weir_disk::replace(path, text.as_bytes(), REPORT)
            .with_context(|| format!("cannot write to {}", path.display())),
        None => Ok(out.write_all(text.as_bytes())?),
    }
}

/// Writes a file for each chart, and prints their paths.
fn drawings(data: &RunData, folder: Option<&Path>, out: &mut impl Write) -> Result<()> {
    let folder = folder.context("the charts are several files: give a folder for them with -o")?;
    weir_disk::as_caller(|| std::fs::create_dir_all(folder))
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    for (name, text) in export::svg(data, weir_rigs::sections()) {
        let path = folder.join(name);
        weir_disk::replace(&path, text.as_bytes(), REPORT)
            .with_context(|| format!("cannot write to {}", path.display()))?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

pub(crate) fn trend(arguments: &cli::Trend, out: &mut impl Write) -> Result<()> {
    let archive = open_to_read(&arguments.source)?;
    let filter = Filter { goals: arguments.goals.clone(), settings: arguments.settings.clone() };
    let runs = archive.of_plan(&arguments.plan)?;
    say::notes(&archive.damaged());
    if arguments.by == TrendOrder::Kernel {
        return kernels(arguments, &runs, &filter, out);
    }
    let Some(trend) = trend::trend(&arguments.plan, &runs, &filter) else {
        bail!("there is no complete run of `{}`: see `weir list`", arguments.plan);
    };
    match &arguments.output {
        Some(path) => {
            weir_disk::replace(path, trend::html(&trend).as_bytes(), REPORT)
                .with_context(|| format!("cannot write the trend to {}", path.display()))?;
            Ok(writeln!(out, "{}", path.display())?)
        }
        None if arguments.json => Ok(writeln!(out, "{}", serde_json::to_string_pretty(&trend)?)?),
        None => Ok(write!(out, "{}", plain(&trend::text(&trend)))?),
    }
}

/// The table of kernels.
fn kernels(
    arguments: &cli::Trend,
    runs: &[(Run, Vec<Point>)],
    filter: &Filter,
    out: &mut impl Write,
) -> Result<()> {
    if arguments.output.is_some() {
        bail!("a table of kernels has no charts: omit --output, or --by kernel");
    }
    let Some(kernels) = trend::kernels(&arguments.plan, runs, filter) else {
        bail!("there is no complete run of `{}`: see `weir list`", arguments.plan);
    };
    match arguments.json {
        true => Ok(writeln!(out, "{}", serde_json::to_string_pretty(&kernels)?)?),
        false => Ok(write!(out, "{}", plain(&kernels.text()))?),
    }
}

/// The requested runs. `last` is the last complete run of the plan of the first run, or of any plan if it is the first.
pub(crate) fn sides(sides: &[Side], source: &cli::Source) -> Result<Vec<RunData>> {
    let needs_archive = sides.iter().any(|side| !matches!(side, Side::File(_)));
    let archive = needs_archive.then(|| open_to_read(source)).transpose()?;
    let mut runs: Vec<RunData> = Vec::new();
    for side in sides {
        let plan = runs.first().map(|base| base.run.plan.as_str());
        let run = self::side(side, archive.as_deref(), plan)?;
        runs.push(run);
    }
    Ok(runs)
}

/// One of them; a file needs no archive.
pub(crate) fn side(side: &Side, archive: Option<&dyn Archive>, plan: Option<&str>) -> Result<RunData> {
    match (side, archive) {
        (Side::File(path), _) => exported(path),
        (Side::Number(id), Some(archive)) => find(archive, cli::RunName::Number(*id)),
        (Side::Last, Some(archive)) => find(archive, cli::RunName::Number(last_complete(archive, plan)?)),
        (_, None) => unreachable!("opened for these"),
    }
}

/// Number of the last complete run of this plan, or of any.
fn last_complete(archive: &dyn Archive, plan: Option<&str>) -> Result<i64> {
    let is_it =
        |run: &&RunSummary| run.state == RunState::Complete && plan.is_none_or(|plan| run.plan == plan);
    let runs = archive.list()?;
    let of = plan.map_or_else(String::new, |plan| format!(" of `{plan}`"));
    let found = runs.iter().rev().find(is_it);
    found.map(|run| run.id).with_context(|| format!("there is no complete run{of}: see `weir list`"))
}

/// The requested run, as far as it is readable.
pub(crate) fn find(archive: &dyn Archive, run: cli::RunName) -> Result<RunData> {
    let data = archive.run_data(id(archive, run)?)?;
    say::notes(&archive.damaged());
    Ok(data)
}

/// The requested run, to which trials are to be added.
pub(crate) fn find_whole(archive: &dyn Archive, run: cli::RunName) -> Result<RunData> {
    let data = archive.run_data(id(archive, run)?)?;
    match archive.damaged().first() {
        Some(damaged) => bail!("run {} cannot continue: {damaged}", data.run.id),
        None => Ok(data),
    }
}

fn id(archive: &dyn Archive, run: cli::RunName) -> Result<RunId> {
    match run {
        cli::RunName::Number(number) => Ok(archive.numbered(number)?),
        cli::RunName::Last => {
            archive.newest()?.context("there is no recorded run yet: start with `weir run quick`")
        }
    }
}
