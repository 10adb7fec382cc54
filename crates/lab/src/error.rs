//! Errors that end a run early or prevent its start. A run that cannot succeed leaves no record, and `weir doctor` reports
//! the error before `weir run` does.

use weir_load::LoadError;
use weir_port::capture::{CaptureError, Method};
use weir_testbed::device::DeviceError;

use weir_record::store::StoreError;

/// What ended a run before its time.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kernel refused something.
    #[error(transparent)]
    Linux(#[from] weir_linux::Error),
    /// A test bed cannot be built.
    #[error(transparent)]
    Testbed(#[from] weir_testbed::error::Error),
    /// Sending or receiving failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The device under test could not be started.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A method of the capture ladder could not be opened.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Capturing ended early.
    #[error("capturing by {method} ended early: {source}")]
    Reading {
        /// Which method.
        method: Method,
        /// Why.
        source: std::io::Error,
    },
    /// A device that was tried before the run.
    #[error("none of {0} frames came through it")]
    NothingPasses(u64),
    /// What the plan needs does not work here; nothing was recorded.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The record could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan asks for a search that cannot work.
    #[error("the search of the plan is invalid: {0}")]
    Search(String),
    /// The run cannot go on.
    #[error("run {id} cannot be resumed: {why}")]
    Resume {
        /// Its number.
        id: i64,
        /// Why not, and what to do.
        why: String,
    },
    /// Stopped by the user.
    #[error("interrupted; finished trials are kept in run {0}")]
    Interrupted(i64),
}

/// Why a plan cannot be run here.
#[derive(Debug, thiserror::Error)]
#[error("{what} here: {source}; remove it from {option}, or see `weir doctor`")]
pub struct Unfit {
    /// What cannot be done with whom: `kernel-nat cannot be measured`.
    pub what: String,
    /// The option of the plan that asks for it.
    pub option: &'static str,
    /// Why.
    pub source: Box<RunError>,
}
