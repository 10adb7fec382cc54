//! Where a report is written; a file that is no report of weir is not overwritten.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use weir_record::run_data::RunData;
use weir_report::report;

use crate::cli;
use weir_service::say;

/// Mode of a report.
pub(crate) const REPORT: u32 = 0o644;
/// The folder of reports, beside the records.
const FOLDER: &str = "reports";
/// The mark of a report; only the first bytes are searched for it.
const MARK: &str = "<title>weir:";
const HEAD_BYTES: u64 = 4096;

/// Where the report of some runs is written.
#[derive(Debug)]
pub(crate) enum Place {
    /// To this file.
    File(PathBuf),
    /// A file in this folder, named after the runs.
    Folder(PathBuf),
}

impl Place {
    /// The place that the user gave: a file, or an existing folder. Otherwise the folder of reports beside the records, or the
    /// current folder if the user may not write there, as under sudo.
    pub(crate) fn of(named: Option<&Path>, store: &cli::Store) -> Result<Place> {
        match named {
            Some(path) if path.is_dir() => Ok(Place::Folder(path.into())),
            Some(path) => Ok(Place::File(path.into())),
            None => {
                let records = store.path()?;
                let beside = records.parent().unwrap_or(Path::new("")).join(FOLDER);
                let made = weir_disk::as_caller(|| std::fs::create_dir_all(&beside));
                let usable = made.is_ok() && weir_disk::check_writable(&beside).is_ok();
                Ok(Place::Folder(if usable { beside } else { PathBuf::from(".") }))
            }
        }
    }

    /// Refuses a missing or read-only folder, and a file that is no report, before anything is measured.
    pub(crate) fn check(&self) -> Result<()> {
        let folder = match self {
            // A pipe, or a device.
            Place::File(path) if path.symlink_metadata().is_ok_and(|there| !there.is_file()) => return Ok(()),
            Place::File(path) => {
                check_replaceable(path)?;
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
            }
            Place::Folder(folder) => folder,
        };
        let name = folder.display();
        ensure!(folder.is_dir(), "there is no folder {name} for the report: create it, or change --report");
        weir_disk::check_writable(folder).with_context(|| {
            format!("no report can be written to the folder {name}: change --report, or use --no-report")
        })
    }

    /// Writes one report of these runs and returns its path. An earlier report is replaced, with a note.
    pub(crate) fn write(&self, runs: &[RunData]) -> Result<PathBuf> {
        let path = match self {
            Place::File(path) => path.clone(),
            Place::Folder(folder) => {
                let ids: Vec<String> = runs.iter().map(|data| data.run.id.to_string()).collect();
                let plan = runs.first().map_or("", |data| &data.run.plan);
                folder.join(format!("weir-{plan}-{}.html", ids.join("-")))
            }
        };
        if check_replaceable(&path)? {
            say::notes(&[format!("replaced {}", path.display())]);
        }
        weir_disk::replace(&path, report::html(runs, weir_rigs::sections()).as_bytes(), REPORT)
            .with_context(|| format!("cannot write the report to {}", path.display()))?;
        Ok(path)
    }
}

/// Whether the path is a report of weir; an error if it is another file.
fn check_replaceable(path: &Path) -> Result<bool> {
    // Links and devices are checked when they are opened.
    if !path.symlink_metadata().is_ok_and(|there| there.is_file()) {
        return Ok(false);
    }
    let mut head = Vec::new();
    // A user who may not read it may not replace it either: writing reports that.
    let _ = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    if head.is_empty() || String::from_utf8_lossy(&head).contains(MARK) {
        return Ok(!head.is_empty());
    }
    bail!(
        "{} exists and is not a weir report: not overwritten; move it away, or use another file",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_is_not_overwritten() {
        let folder = weir_testkit::Folder::new();
        let path = folder.join("x.html");
        assert!(!check_replaceable(&path).unwrap(), "nothing is there");
        std::fs::write(&path, "my diary").unwrap();
        assert!(check_replaceable(&path).unwrap_err().to_string().contains("is not a weir report"));
        assert!(Place::File(path.clone()).check().is_err(), "before anything is measured");
        std::fs::write(&path, report::html(&[], weir_rigs::sections())).unwrap();
        assert!(check_replaceable(&path).unwrap());
    }
}
