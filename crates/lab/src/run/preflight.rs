//! What a run needs is tried before it begins. A run that cannot succeed leaves no record, and `weir doctor` says beforehand
//! what `weir run` will say.

use super::RunError;

/// Why a plan cannot be run here.
#[derive(Debug, thiserror::Error)]
#[error("{what} here: {source}; leave it out of {option}, or see `weir doctor`")]
pub struct Unfit {
    /// What cannot be done with whom: `kernel-nat cannot be measured`.
    pub what: String,
    /// The option of the plan that asks for it.
    pub option: &'static str,
    /// Why.
    pub source: Box<RunError>,
}
